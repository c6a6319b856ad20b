#include "tokenizer/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* The items lie in byte order, so those that share a prefix are adjacent: walking down the trie
 * narrows an interval. */
struct kt__special {
    kt__special_item *items; /* sorted, distinct; texts in `text` */
    char *text;
    size_t n;
    uint32_t first[257]; /* items that begin with byte b: first[b] .. first[b + 1] */
};

static int compare_items(const void *a, const void *b) {
    const kt__special_item *x = a, *y = b;
    int order = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);
    if (order != 0) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static size_t drop_duplicates(kt__special_item *items, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool same_as_next = i + 1 < n && items[i].len == items[i + 1].len &&
                            memcmp(items[i].s, items[i + 1].s, items[i].len) == 0;
        if (!same_as_next) items[kept++] = items[i];
    }
    return kept;
}

static void index_first_bytes(kt__special *special) {
    size_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        special->first[b] = (uint32_t)i;
        while (i < special->n && (unsigned char)special->items[i].s[0] == b) i++;
    }
    special->first[256] = (uint32_t)special->n;
}

kt_status kt__special_new(kt__special_item *items, size_t n, kt__special **out, kt_error *err) {
    qsort(items, n, sizeof *items, compare_items);
    n = drop_duplicates(items, n);
    size_t text_len = 0;
    for (size_t i = 0; i < n; i++) text_len += items[i].len;

    kt__special *special = kt__calloc(1, sizeof *special);
    if (special) {
        special->n = n;
        special->items = kt__calloc(n, sizeof *items);
        special->text = kt__malloc(text_len);
    }
    if (!special || !special->items || !special->text) {
        kt__special_free(special);
        return kt__fail_nomem(err, "special tokens", n * sizeof *items + text_len);
    }
    char *at = special->text;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, items[i].s, items[i].len);
        special->items[i] = items[i];
        special->items[i].s = at;
        at += items[i].len;
    }
    index_first_bytes(special);
    *out = special;
    return KT_OK;
}

void kt__special_free(kt__special *special) {
    if (!special) return;
    kt__free(special->items);
    kt__free(special->text);
    kt__free(special);
}

/* The first of items[lo..hi) whose byte at depth is >= c; all are longer than depth. */
static size_t lower_bound(const kt__special_item *items, size_t lo, size_t hi, size_t depth,
                          unsigned c) {
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)items[mid].s[depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest item at s[0] that is allowed: an `always` one, or one not longer than max_control. */
static const kt__special_item *longest_at(const kt__special *special, const char *s, size_t len,
                                          size_t max_control) {
    const kt__special_item *items = special->items, *best = NULL;
    unsigned c = (unsigned char)s[0];
    size_t lo = special->first[c], hi = special->first[c + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        if (items[lo].len == depth) {
            if (items[lo].always || depth <= max_control) best = &items[lo];
            lo++;
        }
        if (depth == len) break;
        c = (unsigned char)s[depth];
        lo = lower_bound(items, lo, hi, depth, c);
        hi = lower_bound(items, lo, hi, depth, c + 1);
    }
    return best;
}

bool kt__special_find(const kt__special *special, const char *s, size_t len, size_t from,
                      const kt__special_range *ranges, size_t n_ranges, size_t *range,
                      kt__special_match *out) {
    if (!special || special->n == 0) return false;
    const uint32_t *first = special->first;
    for (size_t i = from; i < len; i++) {
        unsigned c = (unsigned char)s[i];
        if (first[c] == first[c + 1]) continue;
        while (*range < n_ranges && ranges[*range].end <= i) ++*range;
        bool inside = *range < n_ranges && ranges[*range].begin <= i;
        const kt__special_item *item = longest_at(special, s + i, len - i,
                                                  inside ? ranges[*range].end - i : 0);
        if (item) {
            *out = (kt__special_match){i, i + item->len, item->id, item->always, item->strips};
            return true;
        }
    }
    return false;
}
