/* Names of members: which may come, and which were there. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema_value.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, EPS = KT__GPOOL_EPS, MAX_DEPTH = 40 };

/* ---- persistent sets: a trie whose siblings ascend ---- */

static kt__gid trie_node(kt__gpool *p, uint32_t byte, bool ends, kt__gid first, kt__gid next) {
    return kt__gpool_intern(p, KT__G_TRIE, (uint32_t[]){byte, ends, first, next}, 4);
}

/* Among the siblings from head on. */
static kt__gid add_below(kt__gpool *p, kt__gid head, const uint8_t *name, size_t len) {
    bool ends = len == 1;
    if (p->failed) return 0;
    if (!head || kt__g_arg(p, head, 0) > name[0])
        return trie_node(p, name[0], ends, ends ? 0 : add_below(p, 0, name + 1, len - 1), head);
    uint32_t byte = kt__g_arg(p, head, 0), was_end = kt__g_arg(p, head, 1);
    kt__gid first = kt__g_arg(p, head, 2), next = kt__g_arg(p, head, 3);
    if (byte < name[0]) return trie_node(p, byte, was_end, first, add_below(p, next, name, len));
    if (!ends) first = add_below(p, first, name + 1, len - 1);
    return trie_node(p, byte, was_end || ends, first, next);
}

kt__gid kt__names_add(kt__gpool *p, kt__gid set, const uint8_t *name, size_t len) {
    bool ends = (set && kt__g_arg(p, set, 1)) || len == 0;
    kt__gid first = set ? kt__g_arg(p, set, 2) : 0;
    if (len > 0) first = add_below(p, first, name, len);
    return trie_node(p, 0, ends, first, 0);
}

kt__gid kt__names_step(const kt__gpool *p, kt__gid at, uint8_t byte) {
    if (!at) return 0;
    kt__gid kid = kt__g_arg(p, at, 2);
    while (kid && kt__g_arg(p, kid, 0) < byte) kid = kt__g_arg(p, kid, 3);
    return kid && kt__g_arg(p, kid, 0) == byte ? kid : 0;
}

/* ---- what a closed object may still have ---- */

/* A term as kt__term_one_of makes it, without the names at a trie's node. */
static kt__gid without_term(kt__svalue_ctx *v, kt__gid term, kt__gid at);

static kt__gid without_byte(kt__svalue_ctx *v, kt__gid term, kt__gid at) {
    const kt__gpool *p = &v->t->pool;
    uint32_t set[8];
    memcpy(set, kt__g_data(p, term), sizeof set);
    for (kt__gid kid = kt__g_arg(p, at, 2); kid; kid = kt__g_arg(p, kid, 3)) {
        uint32_t b = kt__g_arg(p, kid, 0);
        if (kt__g_arg(p, kid, 1)) set[b / 32] &= ~((uint32_t)1 << b % 32);
    }
    return kt__term_bytes(v->t, set);
}

static kt__gid without_rest(kt__svalue_ctx *v, kt__gid term, kt__gid at) {
    const kt__gpool *p = &v->t->pool;
    kt__gid first = kt__g_arg(p, term, 0), rest = kt__g_arg(p, term, 1);
    for (kt__gid kid = kt__g_arg(p, at, 2); kid; kid = kt__g_arg(p, kid, 3)) {
        uint32_t b = kt__g_arg(p, kid, 0);
        if (kt__g_kind(p, first) == KT__G_BYTES && kt__g_arg(p, first, b / 32) >> b % 32 & 1)
            return kt__term_cat(v->t, first, without_term(v, rest, kid));
    }
    return term;
}

static kt__gid without_term(kt__svalue_ctx *v, kt__gid term, kt__gid at) {
    kt__gpool *p = &v->t->pool;
    switch (kt__g_kind(p, term)) {
    case KT__G_EPS: return kt__g_arg(p, at, 1) ? EMPTY : term;
    case KT__G_BYTES: return without_byte(v, term, at);
    case KT__G_CAT: return without_rest(v, term, at);
    case KT__G_OR: {
        uint32_t from = p->n_scratch;
        for (uint32_t i = 0; i < kt__g_n(p, term); i++)
            kt__gpool_push(p, without_term(v, kt__g_arg(p, term, i), at));
        return kt__term_or(v->t, from);
    }
    default: return term;
    }
}

static int by_bytes(const void *a, const void *b) {
    const kt__gtext *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* The names of properties that have a schema that something fits. */
static kt__gid property_names(kt__svalue_ctx *v, const kt__snode *n) {
    kt__gtext *texts = v->texts;
    size_t n_texts = 0;
    for (uint32_t i = 0; i < n->n_props; i++)
        if (kt__svalue_possible(v, kt__svalue_node(v, n->props[i].node)))
            texts[n_texts++] = v->s->names[n->props[i].name];
    qsort(texts, n_texts, sizeof *texts, by_bytes);
    return kt__term_one_of(v->t, texts, n_texts);
}

static kt__gid closed_names(kt__svalue_ctx *v, kt__snode_id id, kt__gid used) {
    const kt__snode *n = &v->s->nodes[id];
    if (!n->additional || kt__svalue_possible(v, kt__svalue_node(v, n->additional))) return ANY;
    kt__gid names = v->closed[id] ? v->closed[id] : property_names(v, n);
    if (names < v->keep_below) v->closed[id] = names;
    uint32_t from = v->t->pool.n_scratch;
    kt__gpool_push(&v->t->pool, used ? without_term(v, names, used) : names);
    for (uint32_t i = 0; i < n->n_patterns; i++)
        if (kt__svalue_possible(v, kt__svalue_node(v, n->patterns[i].node)))
            kt__gpool_push(&v->t->pool, n->patterns[i].name);
    return kt__term_or(v->t, from);
}

/* As many names are required as there is room for: none but those. */
static kt__gid required_names(kt__svalue_ctx *v, kt__gid must) {
    kt__gpool *p = &v->t->pool;
    uint32_t n_required = 0, room = UINT32_MAX, from = p->n_scratch;
    for (uint32_t i = 0; i < kt__g_n(p, must); i++) {
        kt__gid id = kt__g_arg(p, must, i);
        if (kt__g_kind(p, id) == KT__G_PROPS_LE && kt__g_arg(p, id, 0) < room)
            room = kt__g_arg(p, id, 0);
        n_required += kt__g_kind(p, id) == KT__G_HAS;
    }
    if (room == UINT32_MAX || n_required < room) return ANY;
    if (room == 0 || n_required > room) return EMPTY;
    for (uint32_t i = 0; i < kt__g_n(p, must); i++) {
        kt__gid id = kt__g_arg(p, must, i);
        if (kt__g_kind(p, id) != KT__G_HAS) continue;
        const kt__gtext *name = &v->s->names[kt__g_arg(p, id, 0)];
        kt__gpool_push(p, kt__term_literal(v->t, name->s, name->len, EPS));
    }
    return kt__term_or(v->t, from);
}

static kt__gid names_of(kt__svalue_ctx *v, kt__gid id, kt__gid used, int depth);

static void push_kids(kt__svalue_ctx *v, kt__gid id, kt__gid used, int depth) {
    kt__gpool *p = &v->t->pool;
    for (uint32_t i = 0; i < kt__g_n(p, id); i++)
        kt__gpool_push(p, names_of(v, kt__g_arg(p, id, i), used, depth + 1));
}

/* Where one of several formulas must hold: what any of them leaves. */
static kt__gid names_of(kt__svalue_ctx *v, kt__gid id, kt__gid used, int depth) {
    kt__gpool *p = &v->t->pool;
    uint32_t from = p->n_scratch;
    if (depth > MAX_DEPTH) return ANY;
    switch (kt__g_kind(p, id)) {
    case KT__G_EMPTY: return EMPTY;
    case KT__G_OBJ: return closed_names(v, kt__g_arg(p, id, 0), used);
    case KT__G_PNAMES: return kt__g_arg(p, id, 0);
    case KT__G_PROPS_LE: return kt__g_arg(p, id, 0) == 0 ? EMPTY : ANY;
    case KT__G_AND:
        push_kids(v, id, used, depth);
        kt__gpool_push(p, required_names(v, id));
        return kt__term_and(v->t, from);
    case KT__G_OR:
    case KT__G_ONE: push_kids(v, id, used, depth); return kt__term_or(v->t, from);
    default: return ANY;
    }
}

kt__gid kt__svalue_names(kt__svalue_ctx *v, kt__gid formula, kt__gid used) {
    kt__gid names = names_of(v, kt__svalue_must(v, formula), used, 0);
    return kt__term_live(v->t, names) ? names : EMPTY;
}

static void push_wanted(kt__svalue_ctx *v, kt__gid id, bool props, int depth) {
    kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    bool is_set = kind == KT__G_AND || kind == KT__G_OR || kind == KT__G_ONE;
    if (kind == KT__G_HAS && !props) kt__gpool_push(p, kt__g_arg(p, id, 0));
    if (kind == KT__G_OBJ && props) {
        const kt__snode *n = &v->s->nodes[kt__g_arg(p, id, 0)];
        for (uint32_t i = 0; i < n->n_props; i++) kt__gpool_push(p, n->props[i].name);
    }
    for (uint32_t i = 0; i < kt__g_n(p, id) && is_set && depth < MAX_DEPTH; i++)
        push_wanted(v, kt__g_arg(p, id, i), props, depth + 1);
}

void kt__svalue_wanted(kt__svalue_ctx *v, kt__gid formula) {
    push_wanted(v, kt__svalue_must(v, formula), false, 0);
    push_wanted(v, kt__svalue_must(v, formula), true, 0);
}

/* ---- patterns ---- */

static void push_pattern(kt__svalue_ctx *v, kt__gid term, uint32_t from) {
    kt__gpool *p = &v->t->pool;
    for (uint32_t i = from; i < p->n_scratch; i++)
        if (p->scratch[i] == term) return;
    kt__gpool_push(p, term);
}

static void push_patterns(kt__svalue_ctx *v, kt__gid id, uint32_t from) {
    kt__gpool *p = &v->t->pool;
    switch (kt__g_kind(p, id)) {
    case KT__G_OBJ: {
        const kt__snode *n = &v->s->nodes[kt__g_arg(p, id, 0)];
        for (uint32_t i = 0; i < n->n_patterns; i++) push_pattern(v, n->patterns[i].name, from);
        return;
    }
    case KT__G_PNAMES: push_pattern(v, kt__g_arg(p, id, 0), from); return;
    case KT__G_AND:
    case KT__G_OR:
    case KT__G_ONE:
    case KT__G_VEC:
    case KT__G_NOT:
        for (uint32_t i = 0; i < kt__g_n(p, id); i++) push_patterns(v, kt__g_arg(p, id, i), from);
        return;
    default: return;
    }
}

kt__gid kt__svalue_patterns(kt__svalue_ctx *v, kt__gid formula) {
    kt__gpool *p = &v->t->pool;
    uint32_t from = p->n_scratch;
    kt__gpool_push(p, ANY);
    push_patterns(v, formula, from + 1);
    if (p->n_scratch == from + 1) {
        p->n_scratch = from;
        return 0;
    }
    return kt__term_vec(v->t, from);
}
