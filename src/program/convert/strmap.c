#include "convert/strmap.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"

bool kt__strmap_init(kt__strmap *map, size_t n_max) {
    size_t cap = 16;
    while (cap < 2 * n_max) cap *= 2;
    /* another order each time, so that no file is built to collide */
    *map = (kt__strmap){.cap = cap, .seed = (uint64_t)kt__now_ns()};
    map->slots = kt__calloc(cap, sizeof *map->slots);
    return map->slots != NULL;
}

void kt__strmap_free(kt__strmap *map) {
    kt__free(map->slots);
    *map = (kt__strmap){0};
}

static kt__strmap_slot *slot_of(const kt__strmap *map, kt__str key, uint64_t hash) {
    for (size_t at = hash & (map->cap - 1);; at = (at + 1) & (map->cap - 1)) {
        kt__strmap_slot *slot = &map->slots[at];
        if (!slot->key.s) return slot;
        if (slot->hash == hash && slot->key.len == key.len &&
            memcmp(slot->key.s, key.s, key.len) == 0)
            return slot;
    }
}

bool kt__strmap_put(kt__strmap *map, kt__str key, int64_t value) {
    uint64_t hash = kt__hash_bytes(map->seed, key.s, key.len).w[0];
    kt__strmap_slot *slot = slot_of(map, key, hash);
    if (slot->key.s) return false;
    assert(2 * (map->n + 1) <= map->cap);
    *slot = (kt__strmap_slot){key, hash, value};
    map->n++;
    return true;
}

int64_t kt__strmap_get(const kt__strmap *map, kt__str key) {
    const kt__strmap_slot *slot = slot_of(map, key, kt__hash_bytes(map->seed, key.s, key.len).w[0]);
    return slot->key.s ? slot->value : -1;
}
