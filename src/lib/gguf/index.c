#include "gguf/reader.h"

#include <string.h>

int kt__str_compare(kt__str a, kt__str b) {
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.s, b.s, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static kt__str name_of(const kt__name_index *index, uint32_t item) {
    kt__str name;
    memcpy(&name, index->items + index->stride * item, sizeof name);
    return name;
}

static int compare_names(const kt__name_index *index, uint32_t a, uint32_t b) {
    return kt__str_compare(name_of(index, a), name_of(index, b));
}

/* Restores the heap order (largest name first) below `at`. */
static void sift_down(const kt__name_index *index, uint32_t at, uint32_t n) {
    uint32_t *order = index->order;
    uint32_t item = order[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && compare_names(index, order[child], order[child + 1]) < 0) child++;
        if (compare_names(index, item, order[child]) >= 0) break;
        order[at] = order[child];
        at = child;
    }
    order[at] = item;
}

/* Heap sort: n log n whatever the file holds, in place, without recursion. */
static void sort_names(const kt__name_index *index) {
    uint32_t *order = index->order;
    for (uint32_t i = 0; i < index->n; i++) order[i] = i;
    for (uint32_t i = index->n / 2; i-- > 0;) sift_down(index, i, index->n);
    for (uint32_t last = index->n; last-- > 1;) {
        uint32_t largest = order[0];
        order[0] = order[last];
        order[last] = largest;
        sift_down(index, 0, last);
    }
}

bool kt__name_index_build(kt__name_index *index, const void *items, size_t stride, uint32_t n,
                          uint32_t *order, uint32_t dup[2]) {
    *index = (kt__name_index){.items = items, .stride = stride, .n = n, .order = order};
    sort_names(index);
    for (uint32_t i = 1; i < n; i++) {
        if (compare_names(index, order[i - 1], order[i]) != 0) continue;
        dup[0] = order[i - 1] < order[i] ? order[i - 1] : order[i];
        dup[1] = order[i - 1] < order[i] ? order[i] : order[i - 1];
        return false;
    }
    return true;
}

const void *kt__name_index_find(const kt__name_index *index, kt__str name) {
    uint32_t low = 0, high = index->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = kt__str_compare(name_of(index, index->order[mid]), name);
        if (c == 0) return index->items + index->stride * index->order[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}
