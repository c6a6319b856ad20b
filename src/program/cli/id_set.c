#include "cli/id_set.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

static size_t id_slot(const kt__id_set *set, const char *id, uint64_t key[2]) {
    kt__digest d = kt__hash_bytes(0, id, strlen(id));
    key[0] = d.w[0] | 1; /* not the mark of a free one */
    key[1] = d.w[1];
    size_t i = (size_t)key[1] & (set->cap - 1);
    while (set->slots[i][0] && (set->slots[i][0] != key[0] || set->slots[i][1] != key[1]))
        i = (i + 1) & (set->cap - 1);
    return i;
}

bool kt__id_set_has(const kt__id_set *set, const char *id) {
    uint64_t key[2];
    return set->cap && set->slots[id_slot(set, id, key)][0];
}

static bool id_set_grow(kt__id_set *set) {
    kt__id_set more = {.n = set->n, .cap = set->cap ? set->cap * 2 : 1024};
    more.slots = kt__calloc(more.cap, sizeof *more.slots);
    if (!more.slots) return false;
    for (size_t i = 0; i < set->cap; i++) {
        if (!set->slots[i][0]) continue;
        size_t at = (size_t)set->slots[i][1] & (more.cap - 1);
        while (more.slots[at][0]) at = (at + 1) & (more.cap - 1);
        memcpy(more.slots[at], set->slots[i], sizeof *more.slots);
    }
    kt__free(set->slots);
    *set = more;
    return true;
}

bool kt__id_set_add(kt__id_set *set, const char *id, bool *was_there) {
    uint64_t key[2];
    if (set->n * 2 >= set->cap && !id_set_grow(set)) return false;
    size_t i = id_slot(set, id, key);
    if (was_there) *was_there = set->slots[i][0] != 0;
    if (!set->slots[i][0]) set->n++;
    memcpy(set->slots[i], key, sizeof key);
    return true;
}

void kt__id_set_free(kt__id_set *set) {
    kt__free(set->slots);
    *set = (kt__id_set){0};
}
