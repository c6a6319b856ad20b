#include "convert/safetensors.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"

/* With a key that a file does not know. */
static uint32_t hash_key(uint64_t seed, kt__str text) {
    const uint64_t key[2] = {seed, ~seed};
    uint64_t sum = kt__siphash_quick(key, text.s, text.len);
    return (uint32_t)(sum ^ sum >> 32);
}

bool kt__strmap_init(kt__strmap *map, size_t n_max) {
    size_t cap = 16;
    while (cap < 2 * n_max) cap *= 2;
    /* another order each time, so that no file is built to collide */
    *map = (kt__strmap){.cap = cap, .seed = (uint64_t)kt__now_ns() * 0x9e3779b97f4a7c15u};
    map->slots = kt__calloc(cap, sizeof *map->slots);
    return map->slots != NULL;
}

void kt__strmap_free(kt__strmap *map) {
    kt__free(map->slots);
    *map = (kt__strmap){0};
}

static kt__strmap_slot *slot_of(const kt__strmap *map, kt__str key, uint32_t hash) {
    for (size_t at = hash & (map->cap - 1);; at = (at + 1) & (map->cap - 1)) {
        kt__strmap_slot *slot = &map->slots[at];
        if (!slot->s) return slot;
        if (slot->hash == hash && slot->len == key.len && memcmp(slot->s, key.s, key.len) == 0)
            return slot;
    }
}

bool kt__strmap_put(kt__strmap *map, kt__str key, int64_t value) {
    uint32_t hash = hash_key(map->seed, key);
    assert(key.len <= UINT32_MAX);
    kt__strmap_slot *slot = slot_of(map, key, hash);
    if (slot->s) return false;
    assert(2 * (map->n + 1) <= map->cap);
    *slot = (kt__strmap_slot){key.s, (uint32_t)key.len, hash, value};
    map->n++;
    return true;
}

int64_t kt__strmap_get(const kt__strmap *map, kt__str key) {
    const kt__strmap_slot *slot = slot_of(map, key, hash_key(map->seed, key));
    return slot->s ? slot->value : -1;
}
