/* Items that must differ: of what they can be, what was used is taken away before one begins, where
 * that is a list of strings, null, false or true; of numbers, whether one is left is looked for. Others are
 * found equal at their end. */
#include "grammar/grammar_impl.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, MAX_DEPTH = 500 };

static kt__gid without_used(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth);

static kt__gid last_bytes(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash) {
    kt__gpool *p = &g->t.pool;
    uint32_t set[8];
    for (uint32_t i = 0; i < 8; i++) set[i] = kt__g_arg(p, term, i);
    for (uint32_t b = 0; b < 256; b++)
        if (set[b / 32] >> b % 32 & 1 && kt__hashes_have(p, used, kt__ghash_mix(hash, b) | 1))
            set[b / 32] &= ~((uint32_t)1 << b % 32);
    return kt__term_bytes(&g->t, set);
}

/* The only byte of a set; -1: there are more. */
static int only_byte(const kt__gpool *p, kt__gid term) {
    int found = -1;
    if (kt__g_kind(p, term) != KT__G_BYTES) return -1;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t word = kt__g_arg(p, term, i);
        if (word == 0) continue;
        if (found >= 0 || (word & (word - 1)) != 0) return -1;
        found = (int)(i * 32) + __builtin_ctz(word);
    }
    return found;
}

static kt__gid rest_of(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth) {
    kt__gpool *p = &g->t.pool;
    kt__gid first = kt__g_arg(p, term, 0), rest = kt__g_arg(p, term, 1);
    int b = only_byte(p, first);
    if (b < 0) return term;
    rest = without_used(g, rest, used, kt__ghash_mix(hash, (uint64_t)b) | 1, depth + 1);
    return kt__term_cat(&g->t, first, rest);
}

static kt__gid without_used(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth) {
    kt__gpool *p = &g->t.pool;
    uint32_t from = p->n_scratch;
    if (depth > MAX_DEPTH) return term;
    switch (kt__g_kind(p, term)) {
    case KT__G_EPS: return kt__hashes_have(p, used, hash) ? EMPTY : term;
    case KT__G_BYTES: return last_bytes(g, term, used, hash);
    case KT__G_CAT: return rest_of(g, term, used, hash, depth);
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, term); i++)
            kt__gpool_push(p, without_used(g, kt__g_arg(p, term, i), used, hash, depth + 1));
        return kt__term_or(&g->t, from);
    default: return term;
    }
}

/* The same is asked at every place of a mask where an item may begin. */
kt__gid kt__json_strings_left(kt__grammar *g, const kt__gstate *s, kt__gid term) {
    kt__gid used = kt__json_items_used(g, s);
    kt__gleft *known = &g->left[(term ^ used) % KT__GRAMMAR_LEFT];
    if (!used) return term;
    if (known->term == term && known->used == used && known->stamp == g->v.stamp)
        return known->left;
    kt__gid left = without_used(g, term, used, KT__STRING_HASH, 0);
    if (!g->t.pool.failed) *known = (kt__gleft){term, used, g->v.stamp, left};
    return left;
}

bool kt__json_literal_left(kt__grammar *g, const kt__gstate *s, uint32_t which) {
    kt__gid used = kt__json_items_used(g, s);
    return !used || !kt__hashes_have(&g->t.pool, used, KT__LITERAL_HASH + which);
}

static bool type_left(kt__grammar *g, const kt__gstate *s, kt__gid inner, kt__vtype type) {
    kt__gid formula = kt__svalue_expand(&g->v, inner, type);
    if (kt__svalue_must(&g->v, formula) == EMPTY) return false;
    if (type == KT__V_STRING) return kt__json_strings_left(g, s, formula) != EMPTY;
    if (type == KT__V_NUMBER) return kt__json_number_left(g, s, formula);
    return type > KT__V_TRUE || kt__json_literal_left(g, s, (uint32_t)type - KT__V_NULL);
}

bool kt__json_item_left(kt__grammar *g, const kt__gstate *s, kt__gid inner) {
    if (!kt__json_items_used(g, s)) return true;
    for (int type = 0; type < KT__V_N; type++)
        if (type_left(g, s, inner, (kt__vtype)type)) return true;
    return false;
}
