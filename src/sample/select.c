#include "sample/select.h"

#include <float.h>
#include <math.h> /* INFINITY only */
#include <string.h>

#include "sample/chain.h"

/* ---- maxima ---- */

/* The greatest of one whole block, in 16 lanes; clears *fine on NaN and +infinity. */
static inline float block_maximum(const float *key, int32_t *fine) {
    float lane[16];
    int32_t ok[16];
    for (int j = 0; j < 16; j++) {
        float a = key[j], b = key[j + 16];
        lane[j] = a > b ? a : b;
        ok[j] = (a <= FLT_MAX) & (b <= FLT_MAX);
    }
    for (int step = 8; step; step /= 2) {
        for (int j = 0; j < step; j++) {
            lane[j] = lane[j] > lane[j + step] ? lane[j] : lane[j + step];
            ok[j] &= ok[j + step];
        }
    }
    *fine &= ok[0];
    return lane[0];
}

bool kt__select_maxima(const float *key, size_t n, float *block_max, float *max) {
    int32_t fine = 1;
    float greatest = -INFINITY;
    size_t i = 0, b = 0;
    for (; i + KT__BLOCK <= n; i += KT__BLOCK, b++) {
        block_max[b] = block_maximum(key + i, &fine);
        greatest = block_max[b] > greatest ? block_max[b] : greatest;
    }
    if (i < n) {
        float last = -INFINITY;
        for (; i < n; i++) {
            last = key[i] > last ? key[i] : last;
            fine &= key[i] <= FLT_MAX;
        }
        block_max[b] = last;
        greatest = last > greatest ? last : greatest;
    }
    *max = greatest;
    return fine;
}

/* ---- the greatest few: a heap whose root is the least of the kept ---- */

typedef struct heap {
    kt__entry *entry;
    size_t n, k;
} heap;

static bool is_less(kt__entry a, kt__entry b) {
    return a.key < b.key || (a.key == b.key && a.index > b.index);
}

static void sift_down(kt__entry *entry, size_t n, size_t at) {
    kt__entry moved = entry[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && is_less(entry[child + 1], entry[child])) child++;
        if (!is_less(entry[child], moved)) break;
        entry[at] = entry[child];
        at = child;
    }
    entry[at] = moved;
}

static void push(heap *h, kt__entry e) {
    size_t at = h->n++;
    while (at && is_less(e, h->entry[(at - 1) / 2])) {
        h->entry[at] = h->entry[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->entry[at] = e;
}

/* key[first..end), which come after all that the heap has seen: an equal key is less. */
static void offer(heap *h, const float *key, size_t first, size_t end) {
    float floor = h->n == h->k ? h->entry[0].key : -INFINITY;
    for (size_t i = first; i < end; i++) {
        if (!(key[i] > floor)) continue;
        kt__entry e = {key[i], (uint32_t)i};
        if (h->n < h->k) {
            push(h, e);
        } else {
            h->entry[0] = e;
            sift_down(h->entry, h->n, 0);
        }
        if (h->n == h->k) floor = h->entry[0].key;
    }
}

static void sort_falling(heap *h) {
    for (size_t n = h->n; n > 1; n--) {
        kt__entry least = h->entry[0];
        h->entry[0] = h->entry[n - 1];
        h->entry[n - 1] = least;
        sift_down(h->entry, n - 1, 0);
    }
}

size_t kt__select_top(const float *key, size_t n, size_t k, const float *block_max,
                      kt__entry *out) {
    heap h = {out, 0, k};
    if (!block_max || n < 4096) {
        offer(&h, key, 0, n);
        sort_falling(&h);
        return h.n;
    }
    /* k blocks have a maximum >= the k-th greatest maximum: blocks below it hold none of the k
     * greatest */
    size_t n_blocks = (n + KT__BLOCK - 1) / KT__BLOCK;
    offer(&h, block_max, 0, n_blocks);
    float least_max = h.n == k ? out[0].key : -INFINITY;
    h.n = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        if (block_max[b] < least_max) continue;
        size_t first = b * KT__BLOCK, end = first + KT__BLOCK < n ? first + KT__BLOCK : n;
        offer(&h, key, first, end);
    }
    sort_falling(&h);
    return h.n;
}

/* ---- the threshold of many: three digits of the key as an ordered integer ---- */

enum { RADIX_LEVELS = 3, RADIX_SIZE = 2048 };

static uint32_t ordered_bits(float key) {
    uint32_t bits;
    key += 0.0f; /* -0 and +0 are equal */
    memcpy(&bits, &key, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float key_of_ordered(uint32_t ordered) {
    uint32_t bits = ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered;
    float key;
    memcpy(&key, &bits, sizeof key);
    return key;
}

static bool is_reached(double sum, double target, bool inclusive) {
    return inclusive ? sum >= target : sum > target;
}

typedef struct radix {
    uint32_t prefix,
        mask;     /* keys whose ordered bits under mask equal prefix are still in question */
    double above; /* weights of the keys above them */
} radix;

/* Narrows to the digit in which the target is reached; false when it is not. */
static bool narrow(radix *r, int shift, const float *key, const float *weight, size_t n,
                   double target, bool inclusive) {
    double mass[RADIX_SIZE];
    memset(mass, 0, sizeof mass);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = ordered_bits(key[i]);
        if ((bits & r->mask) != r->prefix || key[i] == -INFINITY) continue;
        mass[bits >> shift & (RADIX_SIZE - 1)] += weight ? (double)weight[i] : 1.0;
    }
    for (int digit = RADIX_SIZE - 1; digit >= 0; digit--) {
        if (mass[digit] > 0.0 && is_reached(r->above + mass[digit], target, inclusive)) {
            r->prefix |= (uint32_t)digit << shift;
            r->mask |= (uint32_t)(RADIX_SIZE - 1) << shift;
            return true;
        }
        r->above += mass[digit];
    }
    return false;
}

/* Of the keys equal to the threshold, the first whose weights reach the target. */
static uint32_t count_equal(const radix *r, float threshold, const float *key, const float *weight,
                            size_t n, double target, bool inclusive) {
    double sum = r->above;
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (key[i] != threshold) continue;
        sum += weight ? (double)weight[i] : 1.0;
        count++;
        if (is_reached(sum, target, inclusive)) return count;
    }
    return count;
}

kt__cut kt__select_cut(const float *key, const float *weight, size_t n, double target,
                       bool inclusive) {
    static const int shifts[RADIX_LEVELS] = {21, 10, 0};
    radix r = {0, 0, 0.0};
    for (int level = 0; level < RADIX_LEVELS; level++) {
        if (narrow(&r, shifts[level], key, weight, n, target, inclusive)) continue;
        /* Not reached: at the first level by all keys together; further down only by rounding. */
        return (kt__cut){level ? key_of_ordered(r.prefix) : -FLT_MAX, UINT32_MAX};
    }
    float threshold = key_of_ordered(r.prefix);
    return (kt__cut){threshold, count_equal(&r, threshold, key, weight, n, target, inclusive)};
}
