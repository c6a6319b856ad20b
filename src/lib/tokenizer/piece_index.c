#include "tokenizer/piece_index.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static size_t length_of(const kt__piece_index *index, uint32_t id) {
    return index->offset[id + 1] - index->offset[id];
}

static int compare_bytes(const kt__piece_index *index, uint32_t a, uint32_t b) {
    size_t len_a = length_of(index, a), len_b = length_of(index, b);
    int order = memcmp(index->bytes + index->offset[a], index->bytes + index->offset[b],
                       len_a < len_b ? len_a : len_b);
    if (order != 0) return order;
    return len_a < len_b ? -1 : len_a > len_b;
}

static int compare_pieces(const void *a, const void *b, void *user) {
    uint32_t id_a = *(const uint32_t *)a, id_b = *(const uint32_t *)b;
    int order = compare_bytes(user, id_a, id_b);
    if (order != 0) return order;
    return id_a < id_b ? -1 : id_a > id_b;
}

void kt__piece_index_sort(kt__piece_index *index) {
    size_t kept = 0, at = 0;
    qsort_r(index->ids, index->n, sizeof *index->ids, compare_pieces, index);
    for (size_t i = 0; i < index->n; i++) {
        bool last = i + 1 == index->n ||
                    compare_bytes(index, index->ids[i], index->ids[i + 1]) != 0;
        if (last) index->ids[kept++] = index->ids[i];
    }
    index->n = kept;
    for (unsigned b = 0; b < 256; b++) {
        index->first[b] = (uint32_t)at;
        while (at < kept && (unsigned char)index->bytes[index->offset[index->ids[at]]] == b) at++;
    }
    index->first[256] = (uint32_t)kept;
}

/* Of the pieces low .. high, which are longer than depth, the first whose byte there is at least
 * `byte`. */
static size_t lower_bound(const kt__piece_walk *w, size_t low, size_t high, unsigned byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *piece = w->index->bytes + w->index->offset[w->index->ids[middle]];
        if ((unsigned char)piece[w->depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool kt__piece_index_step(kt__piece_walk *w, unsigned char byte) {
    if (w->depth == 0) {
        w->low = w->index->first[byte];
        w->high = w->index->first[byte + 1];
    } else {
        size_t low = w->low + (kt__piece_index_at(w) >= 0); /* the one that ends here comes first */
        w->low = lower_bound(w, low, w->high, byte);
        w->high = lower_bound(w, w->low, w->high, byte + 1u);
    }
    w->depth++;
    return w->low < w->high;
}

int32_t kt__piece_index_at(const kt__piece_walk *w) {
    if (w->depth == 0 || w->low >= w->high) return -1;
    uint32_t id = w->index->ids[w->low];
    return length_of(w->index, id) == w->depth ? (int32_t)id : -1;
}

/* ---- special tokens ---- */

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
static size_t first_item_from(const kt__special_item *items, size_t lo, size_t hi, size_t depth,
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
        lo = first_item_from(items, lo, hi, depth, c);
        hi = first_item_from(items, lo, hi, depth, c + 1);
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

/* ---- normalisation ---- */

/* A unit of the trie (darts-clone): a label in bits 0-7, whether a value hangs below in bit 8, and
 * the distance of the children in bits 10-30, times 256 with bit 9. A value has bit 31. */
static uint32_t label_of(uint32_t unit) {
    return unit & (0x80000000u | 0xff);
}

static uint32_t distance_of(uint32_t unit) {
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static kt_status broken_map(const char *path, kt_error *err, const char *what, size_t len) {
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                       "tokenizer.ggml.precompiled_charsmap, of %zu bytes, %s", len, what);
}

kt_status kt__charsmap_init(kt__charsmap *map, kt__str data, const char *path, kt_error *err) {
    uint32_t trie_bytes = 0;
    *map = (kt__charsmap){0};
    if (data.len == 0) return KT_OK;
    if (data.len < sizeof trie_bytes)
        return broken_map(path, err, "has no size of its trie", data.len);
    memcpy(&trie_bytes, data.s, sizeof trie_bytes);
    size_t rest = data.len - sizeof trie_bytes;
    if (trie_bytes == 0 || trie_bytes % sizeof *map->units || trie_bytes > rest)
        return broken_map(path, err, "has a trie of another size than it says", data.len);
    if (rest > trie_bytes && data.s[data.len - 1] != '\0')
        return broken_map(path, err, "does not end with the end of a replacement", data.len);
    map->units = kt__malloc(rest);
    if (!map->units) return kt__fail_nomem(err, "normalisation", rest);
    memcpy(map->units, data.s + sizeof trie_bytes, rest);
    map->n_units = trie_bytes / sizeof *map->units;
    map->texts = (const char *)map->units + trie_bytes;
    map->texts_len = rest - trie_bytes;
    return KT_OK;
}

void kt__charsmap_free(kt__charsmap *map) {
    kt__free(map->units);
    *map = (kt__charsmap){0};
}

size_t kt__charsmap_match(const kt__charsmap *map, const char *s, size_t len, kt__str *out) {
    size_t found = 0;
    if (map->n_units == 0) return 0;
    uint32_t at = distance_of(map->units[0]);
    for (size_t i = 0; i < len && s[i] != '\0'; i++) {
        at ^= (unsigned char)s[i];
        if (at >= map->n_units || label_of(map->units[at]) != (unsigned char)s[i]) break;
        uint32_t unit = map->units[at];
        at ^= distance_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= map->n_units) break;
        size_t text = map->units[at] & 0x7fffffffu;
        if (text >= map->texts_len) break;
        *out = (kt__str){map->texts + text, strlen(map->texts + text)};
        found = i + 1;
    }
    return found;
}
