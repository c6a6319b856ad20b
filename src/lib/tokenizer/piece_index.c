#include "tokenizer/piece_index.h"

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
