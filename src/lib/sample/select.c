#include "sample/chain.h"

#include <float.h>
#include <math.h> /* INFINITY only */
#include <string.h>

/* ---- maxima ---- */

/* Of 128 bits, which every processor has: compilers make scalar code of loops over lanes here. */
typedef float four_floats __attribute__((vector_size(16)));
typedef int32_t four_masks __attribute__((vector_size(16)));

static inline four_floats greater_of(four_floats a, four_floats b) {
    four_masks is_a = a > b;
    return (four_floats)(((four_masks)a & is_a) | ((four_masks)b & ~is_a));
}

/* The greatest of one whole block; clears lanes of *fine on NaN and +infinity. */
static inline float block_maximum(const float *key, four_masks *fine) {
    four_floats most = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int j = 0; j < KT__BLOCK; j += 4) {
        four_floats x;
        memcpy(&x, key + j, sizeof x);
        *fine &= x <= FLT_MAX;
        most = greater_of(x, most);
    }
    float a = most[0] > most[1] ? most[0] : most[1], b = most[2] > most[3] ? most[2] : most[3];
    return a > b ? a : b;
}

bool kt__select_maxima(const float *key, size_t n, float *block_max, float *max) {
    four_masks all_fine = {-1, -1, -1, -1};
    float greatest = -INFINITY;
    size_t i = 0, b = 0;
    for (; i + KT__BLOCK <= n; i += KT__BLOCK, b++) {
        block_max[b] = block_maximum(key + i, &all_fine);
        greatest = block_max[b] > greatest ? block_max[b] : greatest;
    }
    bool fine = all_fine[0] & all_fine[1] & all_fine[2] & all_fine[3];
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

static void heap_push(heap *h, kt__entry e) {
    size_t at = h->n++;
    while (at && is_less(e, h->entry[(at - 1) / 2])) {
        h->entry[at] = h->entry[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->entry[at] = e;
}

/* key[first..end), which come after all that the heap has seen: an equal key is less. */
static void heap_offer(heap *h, const float *key, size_t first, size_t end) {
    float floor = h->n == h->k ? h->entry[0].key : -INFINITY;
    for (size_t i = first; i < end; i++) {
        if (!(key[i] > floor)) continue;
        kt__entry e = {key[i], (uint32_t)i};
        if (h->n < h->k) {
            heap_push(h, e);
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
        heap_offer(&h, key, 0, n);
        sort_falling(&h);
        return h.n;
    }
    /* k blocks have a maximum >= the k-th greatest maximum: blocks below it hold none of the k
     * greatest */
    size_t n_blocks = (n + KT__BLOCK - 1) / KT__BLOCK;
    heap_offer(&h, block_max, 0, n_blocks);
    float least_max = h.n == k ? out[0].key : -INFINITY;
    h.n = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        if (block_max[b] < least_max) continue;
        size_t first = b * KT__BLOCK, end = first + KT__BLOCK < n ? first + KT__BLOCK : n;
        heap_offer(&h, key, first, end);
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

static bool is_reached(double sum, double target, bool inclusive) {
    return inclusive ? sum >= target : sum > target;
}

typedef struct search {
    const float *key, *weight;
    uint32_t *index; /* [n] keys still in question, in order; all of them while first */
    size_t n;
    bool first;
    double target, above; /* above: weights of the keys greater than those in question */
    bool inclusive;
} search;

static inline size_t search_index(const search *s, size_t i) {
    return s->first ? i : s->index[i];
}

static inline double weight_at(const search *s, size_t i) {
    return s->weight ? (double)s->weight[i] : 1.0;
}

/* Of the keys in question keeps those of one digit: the one in which the target is reached. False
 * when it is not reached. */
static bool narrow_search(search *s, int shift) {
    double mass[RADIX_SIZE];
    memset(mass, 0, sizeof mass);
    for (size_t i = 0; i < s->n; i++) {
        size_t j = search_index(s, i);
        if (s->key[j] == -INFINITY) continue;
        mass[ordered_bits(s->key[j]) >> shift & (RADIX_SIZE - 1)] += weight_at(s, j);
    }
    uint32_t digit = RADIX_SIZE;
    while (digit-- > 0) {
        if (mass[digit] > 0.0 && is_reached(s->above + mass[digit], s->target, s->inclusive)) break;
        s->above += mass[digit];
    }
    if (digit == UINT32_MAX) return false;
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t j = search_index(s, i);
        s->index[kept] = (uint32_t)j;
        kept += (ordered_bits(s->key[j]) >> shift & (RADIX_SIZE - 1)) == digit;
    }
    s->n = kept;
    s->first = false;
    return true;
}

/* The keys in question are all equal: the first whose weights reach the target. */
static uint32_t count_equal(const search *s) {
    double sum = s->above;
    for (size_t i = 0; i < s->n; i++) {
        sum += weight_at(s, s->index[i]);
        if (is_reached(sum, s->target, s->inclusive)) return (uint32_t)(i + 1);
    }
    return (uint32_t)s->n;
}

kt__cut kt__select_cut(const float *key, const float *weight, size_t n, double target,
                       bool inclusive, uint32_t *index) {
    static const int shifts[RADIX_LEVELS] = {21, 10, 0};
    search s = {key, weight, index, n, true, target, 0.0, inclusive};
    for (int level = 0; level < RADIX_LEVELS; level++) {
        if (narrow_search(&s, shifts[level])) continue;
        /* Not reached: by all keys together, or, further down, by a rounding of the sums. */
        if (!level) return (kt__cut){-FLT_MAX, UINT32_MAX};
        float least = key[s.index[0]];
        for (size_t i = 1; i < s.n; i++) least = key[s.index[i]] < least ? key[s.index[i]] : least;
        return (kt__cut){least, UINT32_MAX};
    }
    return (kt__cut){key[s.index[0]], count_equal(&s)};
}
