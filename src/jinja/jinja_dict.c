/* Dictionaries: insertion order, hashed once they are more than a handful. */
#include <math.h>
#include <string.h>

#include "jinja/jinja_value.h"

enum { SMALL = 8 }; /* up to here a linear search is quicker than a hash */

kt__jdict *kt__jdict_new(kt__arena *arena) {
    return kt__arena_calloc(arena, 1, sizeof(kt__jdict));
}

static uint64_t rotl(uint64_t x, int b) {
    return (x << b) | (x >> (64 - b));
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
    v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 (Aumasson & Bernstein 2012): keys come from outside, so the hash is keyed, by an
 * address the sender cannot know. The order of a dictionary does not depend on it. */
static uint64_t hash_bytes(const void *key, const char *data, size_t len) {
    uint64_t k0 = (uint64_t)(uintptr_t)key, k1 = k0 * 0x9E3779B97F4A7C15u;
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t m;
        memcpy(&m, data + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t tail = (uint64_t)len << 56;
    if (len > i) memcpy(&tail, data + i, len - i);
    tail ^= (uint64_t)len << 56;
    v[3] ^= tail;
    sip_round(v);
    v[0] ^= tail;
    v[2] ^= 0xff;
    for (int r = 0; r < 3; r++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Equal keys hash equally: whole floats as integers. */
static uint64_t hash_number(const void *key, kt__jv v) {
    int64_t i = v.type == KT__J_BOOL ? v.u.b : v.u.i;
    if (v.type == KT__J_FLOAT) {
        double f = v.u.f;
        if (!(f >= -0x1p63 && f < 0x1p63) || floor(f) != f)
            return hash_bytes(key, (const char *)&f, sizeof f);
        i = (int64_t)f;
    }
    return hash_bytes(key, (const char *)&i, sizeof i);
}

static bool hash_value(const void *key, kt__jv v, int depth, uint64_t *out, uint64_t *steps) {
    *out = (uint64_t)v.type;
    switch (v.type) {
    case KT__J_STR:
    case KT__J_BIGINT: *out = hash_bytes(key, v.u.s->data, v.u.s->len); return true;
    case KT__J_BOOL:
    case KT__J_INT:
    case KT__J_FLOAT: *out = hash_number(key, v); return true;
    case KT__J_DICT: return false;
    case KT__J_LIST:
        if (v.u.l->kind > KT__JL_TUPLE)
            return v.u.l->kind != KT__JL_KEYS && v.u.l->kind != KT__JL_ITEMS;
        if (v.u.l->kind == KT__JL_LIST || depth > KT__J_MAX_NEST || *steps == 0) return false;
        --*steps;
        for (size_t i = 0; i < v.u.l->n; i++) {
            uint64_t h;
            if (!hash_value(key, v.u.l->items[i], depth + 1, &h, steps)) return false;
            *out = rotl(*out, 7) * 0x9E3779B97F4A7C15u ^ h;
        }
        return true;
    default: return true;
    }
}

static void index_put(kt__jdict *dict, uint64_t hash, size_t pos) {
    size_t at = hash & (dict->n_index - 1);
    while (dict->index[at]) at = (at + 1) & (dict->n_index - 1);
    dict->index[at] = (uint32_t)pos + 1;
}

static void index_fill(kt__jdict *dict) {
    memset(dict->index, 0, dict->n_index * sizeof *dict->index);
    for (size_t i = 0; i < dict->n; i++) {
        uint64_t h, steps = UINT64_MAX;
        (void)hash_value(dict, dict->items[i].key, 0, &h,
                         &steps); /* was hashed when it was stored */
        index_put(dict, h, i);
    }
}

/* Position of key, or n. */
static size_t lookup(const kt__jdict *dict, kt__jv key, uint64_t hash, uint64_t *steps) {
    if (!dict->index) {
        for (size_t i = 0; i < dict->n; i++) {
            if (kt__j_equal(dict->items[i].key, key, steps)) return i;
        }
        return dict->n;
    }
    for (size_t at = hash & (dict->n_index - 1); dict->index[at];
         at = (at + 1) & (dict->n_index - 1)) {
        size_t pos = dict->index[at] - 1;
        if (kt__j_equal(dict->items[pos].key, key, steps)) return pos;
    }
    return dict->n;
}

kt__jkey_result kt__jdict_get(const kt__jdict *dict, kt__jv key, kt__jv *out, uint64_t *steps) {
    uint64_t hash;
    if (!hash_value(dict, key, 0, &hash, steps)) return KT__JKEY_BAD;
    size_t pos = lookup(dict, key, hash, steps);
    if (pos == dict->n) return KT__JKEY_NONE;
    *out = dict->items[pos].val;
    return KT__JKEY_FOUND;
}

static bool grow(kt__arena *arena, kt__jdict *dict) {
    size_t cap = dict->cap ? dict->cap * 2 : 4;
    if (cap > UINT32_MAX / 4) return false;
    kt__jpair *items = kt__arena_calloc(arena, cap, sizeof *items);
    if (!items) return false;
    if (dict->n) memcpy(items, dict->items, dict->n * sizeof *items);
    dict->items = items;
    dict->cap = cap;
    if (cap <= SMALL) return true;
    uint32_t *index = kt__arena_calloc(arena, cap * 2, sizeof *index);
    if (!index) return false;
    dict->index = index;
    dict->n_index = cap * 2;
    index_fill(dict);
    return true;
}

kt__jkey_result kt__jdict_set(kt__arena *arena, kt__jdict *dict, kt__jv key, kt__jv value,
                              uint64_t *steps) {
    uint64_t hash;
    if (!hash_value(dict, key, 0, &hash, steps)) return KT__JKEY_BAD;
    size_t pos = lookup(dict, key, hash, steps);
    if (pos < dict->n) {
        dict->items[pos].val = value;
        return KT__JKEY_FOUND;
    }
    if (dict->n == dict->cap && !grow(arena, dict)) return KT__JKEY_NOMEM;
    dict->items[dict->n] = (kt__jpair){key, value};
    if (dict->index) index_put(dict, hash, dict->n);
    dict->n++;
    return KT__JKEY_NONE;
}

kt__jkey_result kt__jdict_remove(kt__jdict *dict, kt__jv key, kt__jv *out, uint64_t *steps) {
    uint64_t hash;
    if (!hash_value(dict, key, 0, &hash, steps)) return KT__JKEY_BAD;
    size_t pos = lookup(dict, key, hash, steps);
    if (pos == dict->n) return KT__JKEY_NONE;
    *out = dict->items[pos].val;
    memmove(&dict->items[pos], &dict->items[pos + 1], (dict->n - pos - 1) * sizeof *dict->items);
    dict->n--;
    if (dict->index) index_fill(dict);
    return KT__JKEY_FOUND;
}

const kt__jv *kt__jdict_find(const kt__jdict *dict, const char *key) {
    const kt__jstr s = {.data = key, .len = strlen(key)};
    uint64_t hash, steps = UINT64_MAX;
    (void)hash_value(dict, kt__j_str(&s), 0, &hash, &steps);
    size_t pos = lookup(dict, kt__j_str(&s), hash, &steps);
    return pos < dict->n ? &dict->items[pos].val : NULL;
}
