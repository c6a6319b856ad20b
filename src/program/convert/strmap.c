#include "convert/strmap.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/le.h"

/* ---- SipHash-1-3 (Aumasson and Bernstein 2012): of few bytes, with a key that a file does not know ---- */

typedef struct sip_state {
    uint64_t a, b, c, d;
} sip_state;

static uint64_t rotate_left(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static inline void sip_round(sip_state *s) {
    s->a += s->b;
    s->c += s->d;
    s->b = rotate_left(s->b, 13) ^ s->a;
    s->d = rotate_left(s->d, 16) ^ s->c;
    s->a = rotate_left(s->a, 32) + s->d;
    s->c += s->b;
    s->d = rotate_left(s->d, 21) ^ s->a;
    s->b = rotate_left(s->b, 17) ^ s->c;
    s->c = rotate_left(s->c, 32);
}

static inline void sip_word(sip_state *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

static uint32_t hash_key(uint64_t seed, kt__str key) {
    sip_state s = {seed ^ 0x736f6d6570736575u, ~seed ^ 0x646f72616e646f6du,
                   seed ^ 0x6c7967656e657261u, ~seed ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)key.len << 56;
    size_t whole = key.len / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) sip_word(&s, kt__le_get64((const uint8_t *)key.s + i));
    for (size_t i = whole; i < key.len; i++) last |= (uint64_t)(uint8_t)key.s[i] << 8 * (i - whole);
    sip_word(&s, last);
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(&s);
    uint64_t sum = s.a ^ s.b ^ s.c ^ s.d;
    return (uint32_t)(sum ^ sum >> 32);
}

/* ---- the table ---- */

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
