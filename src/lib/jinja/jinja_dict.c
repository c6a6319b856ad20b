/* Dictionaries, and the comparison of values, which they need: insertion order, hashed once they are
 * more than a handful. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "jinja/jinja_value.h"

/* Work done; at 0 the caller ends with its step limit. */
static void spend_steps(uint64_t *steps, uint64_t n) {
    *steps -= n < *steps ? n : *steps;
}

/* ---- numbers ---- */

bool kt__j_is_number(kt__jv v) {
    return v.type == KT__J_BOOL || v.type == KT__J_INT || v.type == KT__J_FLOAT ||
           v.type == KT__J_BIGINT;
}

static int64_t as_int(kt__jv v) {
    return v.type == KT__J_BOOL ? v.u.b : v.u.i;
}

/* Exact comparison of an integer with a finite float. */
static int order_int_float(int64_t i, double f) {
    if (f >= 0x1p63) return -1;
    if (f < -0x1p63) return 1;
    double whole = floor(f);
    int64_t w = (int64_t)whole;
    if (i != w) return i < w ? -1 : 1;
    return f > whole ? -1 : 0;
}

static int order_digits(const kt__jstr *a, const kt__jstr *b) {
    bool neg_a = a->len && a->data[0] == '-', neg_b = b->len && b->data[0] == '-';
    if (neg_a != neg_b) return neg_a ? -1 : 1;
    int c = a->len != b->len ? (a->len < b->len ? -1 : 1) : kt__jstr_cmp(a, b);
    return neg_a ? -c : c;
}

/* A big integer lies outside every 64-bit one; against a float its sign decides well enough. */
static int order_big(kt__jv a, kt__jv b) {
    if (a.type == KT__J_BIGINT && b.type == KT__J_BIGINT) return order_digits(a.u.s, b.u.s);
    const kt__jstr *big = a.type == KT__J_BIGINT ? a.u.s : b.u.s;
    int sign = big->len && big->data[0] == '-' ? -1 : 1;
    return a.type == KT__J_BIGINT ? sign : -sign;
}

static int order_numbers(kt__jv a, kt__jv b) {
    if (a.type == KT__J_FLOAT && isnan(a.u.f)) return 2;
    if (b.type == KT__J_FLOAT && isnan(b.u.f)) return 2;
    if (a.type == KT__J_BIGINT || b.type == KT__J_BIGINT) return order_big(a, b);
    if (a.type == KT__J_FLOAT && b.type == KT__J_FLOAT) return (a.u.f > b.u.f) - (a.u.f < b.u.f);
    if (a.type == KT__J_FLOAT) return -order_int_float(as_int(b), a.u.f);
    if (b.type == KT__J_FLOAT) return order_int_float(as_int(a), b.u.f);
    int64_t x = as_int(a), y = as_int(b);
    return (x > y) - (x < y);
}

/* ---- equality and order ---- */

static bool equal_at(kt__jv a, kt__jv b, int depth, uint64_t *steps);

static bool equal_lists(const kt__jlist *a, const kt__jlist *b, int depth, uint64_t *steps) {
    if (a == b) return true;
    if (a->kind != b->kind || a->kind == KT__JL_ITER || a->n != b->n) return false;
    if (a->kind == KT__JL_VALUES) return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!equal_at(a->items[i], b->items[i], depth + 1, steps)) return false;
    }
    return true;
}

static bool equal_dicts(const kt__jdict *a, const kt__jdict *b, int depth, uint64_t *steps) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        kt__jv other;
        if (kt__jdict_get(b, a->items[i].key, &other, steps) != KT__JKEY_FOUND) return false;
        if (!equal_at(a->items[i].val, other, depth + 1, steps)) return false;
    }
    return true;
}

static bool equal_at(kt__jv a, kt__jv b, int depth, uint64_t *steps) {
    if (depth > KT__J_MAX_NEST || *steps == 0) return false;
    --*steps;
    if (kt__j_is_number(a) && kt__j_is_number(b)) return order_numbers(a, b) == 0;
    if (a.type != b.type) return false;
    switch (a.type) {
    case KT__J_STR:
        if (a.u.s->len == b.u.s->len) spend_steps(steps, a.u.s->len / 64);
        return kt__jstr_eq(a.u.s, b.u.s);
    case KT__J_LIST: return equal_lists(a.u.l, b.u.l, depth, steps);
    case KT__J_DICT: return equal_dicts(a.u.d, b.u.d, depth, steps);
    case KT__J_NAMESPACE: return a.u.d == b.u.d;
    case KT__J_MACRO: return a.u.macro == b.u.macro;
    case KT__J_METHOD: return a.u.method == b.u.method;
    case KT__J_LOOP: return a.u.loop == b.u.loop;
    case KT__J_BUILTIN: return a.u.i == b.u.i;
    default: return true; /* none, undefined */
    }
}

bool kt__j_equal(kt__jv a, kt__jv b, uint64_t *steps) {
    return equal_at(a, b, 0, steps);
}

static bool order_at(kt__jv a, kt__jv b, int depth, int *out, uint64_t *steps) {
    if (depth > KT__J_MAX_NEST || *steps == 0) return false;
    --*steps;
    if (kt__j_is_number(a) && kt__j_is_number(b)) {
        *out = order_numbers(a, b);
        return true;
    }
    if (a.type == KT__J_STR && b.type == KT__J_STR) {
        spend_steps(steps, (a.u.s->len < b.u.s->len ? a.u.s->len : b.u.s->len) / 64);
        *out = kt__jstr_cmp(a.u.s, b.u.s);
        return true;
    }
    if (a.type != KT__J_LIST || b.type != KT__J_LIST) return false;
    const kt__jlist *x = a.u.l, *y = b.u.l;
    if (x->kind != y->kind || x->kind > KT__JL_TUPLE) return false;
    size_t n = x->n < y->n ? x->n : y->n;
    for (size_t i = 0; i < n; i++) {
        if (equal_at(x->items[i], y->items[i], depth + 1, steps)) continue;
        return order_at(x->items[i], y->items[i], depth + 1, out, steps);
    }
    *out = (x->n > y->n) - (x->n < y->n);
    return true;
}

bool kt__j_order(kt__jv a, kt__jv b, int *out, uint64_t *steps) {
    return order_at(a, b, 0, out, steps);
}

/* ---- dictionaries ---- */

enum { SMALL = 8 }; /* up to here a linear search is quicker than a hash */

kt__jdict *kt__jdict_new(kt__arena *arena) {
    return kt__arena_calloc(arena, 1, sizeof(kt__jdict));
}

/* Keys come from outside, so their hash is keyed, by an address that the sender cannot know. The
 * order of a dictionary does not depend on it. */
static uint64_t hash_bytes(const void *key, const void *data, size_t len) {
    const uint64_t secret[2] = {(uintptr_t)key, (uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15)};
    uint64_t out[2];
    kt__siphash128(secret, data, len, out);
    return out[0];
}

/* Equal keys hash equally: whole floats as integers. */
static uint64_t hash_number(const void *key, kt__jv v) {
    int64_t i = v.type == KT__J_BOOL ? v.u.b : v.u.i;
    if (v.type == KT__J_FLOAT) {
        double f = v.u.f;
        if (!(f >= -0x1p63 && f < 0x1p63) || floor(f) != f) return hash_bytes(key, &f, sizeof f);
        i = (int64_t)f;
    }
    return hash_bytes(key, &i, sizeof i);
}

static bool hash_value(const void *key, kt__jv v, int depth, uint64_t *out, uint64_t *steps) {
    *out = (uint64_t)v.type;
    switch (v.type) {
    case KT__J_STR:
    case KT__J_BIGINT:
        spend_steps(steps, v.u.s->len / 64);
        *out = hash_bytes(key, v.u.s->data, v.u.s->len);
        return true;
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
            *out = (*out << 7 | *out >> 57) * 0x9E3779B97F4A7C15u ^ h;
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
    for (size_t i = 0; i < dict->n; i++) index_put(dict, dict->items[i].hash, i);
}

/* Position of key, or n. */
static size_t dict_position(const kt__jdict *dict, kt__jv key, uint64_t hash, uint64_t *steps) {
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
    size_t pos = dict_position(dict, key, hash, steps);
    if (pos == dict->n) return KT__JKEY_NONE;
    *out = dict->items[pos].val;
    return KT__JKEY_FOUND;
}

static bool grow_dict(kt__arena *arena, kt__jdict *dict) {
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
    size_t pos = dict_position(dict, key, hash, steps);
    if (pos < dict->n) {
        dict->items[pos].val = value;
        return KT__JKEY_FOUND;
    }
    if (dict->n == dict->cap && !grow_dict(arena, dict)) return KT__JKEY_NOMEM;
    dict->items[dict->n] = (kt__jpair){key, value, hash};
    if (dict->index) index_put(dict, hash, dict->n);
    dict->n++;
    return KT__JKEY_NONE;
}

kt__jkey_result kt__jdict_remove(kt__jdict *dict, kt__jv key, kt__jv *out, uint64_t *steps) {
    uint64_t hash;
    if (!hash_value(dict, key, 0, &hash, steps)) return KT__JKEY_BAD;
    size_t pos = dict_position(dict, key, hash, steps);
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
    size_t pos = dict_position(dict, kt__j_str(&s), hash, &steps);
    return pos < dict->n ? &dict->items[pos].val : NULL;
}
