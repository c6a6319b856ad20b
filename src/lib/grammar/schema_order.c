/* Members in the order of the schema: what a name may be, after those that were used. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema_value.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, NOWHERE = UINT32_MAX, MAX_DEPTH = 40 };

/* Place of a property in the text of the schema; NOWHERE: it has none. */
static uint32_t place_of(const kt__svalue_ctx *v, const kt__sprop *prop) {
    const kt__json_node *json = v->s->nodes[prop->node].json;
    return json ? json->index : NOWHERE;
}

static bool is_used(const kt__gpool *p, kt__gid used, const kt__gtext *name) {
    for (size_t i = 0; used && i < name->len; i++)
        used = kt__names_step(p, used, (uint8_t)name->s[i]);
    return used && kt__names_ends(p, used);
}

/* The properties that all names are looked for among: those of the only schema that the value must
 * be valid by; 0: there is none, or several. */
static kt__snode_id only_object(const kt__gpool *p, kt__gid must) {
    kt__snode_id found = 0;
    if (kt__g_kind(p, must) == KT__G_OBJ) return kt__g_arg(p, must, 0);
    if (kt__g_kind(p, must) != KT__G_AND) return 0;
    for (uint32_t i = 0; i < kt__g_n(p, must); i++) {
        kt__gid id = kt__g_arg(p, must, i);
        if (kt__g_kind(p, id) != KT__G_OBJ) continue;
        if (found) return 0;
        found = kt__g_arg(p, id, 0);
    }
    return found;
}

static bool is_required(const kt__gpool *p, kt__gid must, uint32_t name) {
    bool all = kt__g_kind(p, must) == KT__G_AND;
    uint32_t n = all ? kt__g_n(p, must) : 1;
    for (uint32_t i = 0; i < n; i++) {
        kt__gid id = all ? kt__g_arg(p, must, i) : must;
        if (kt__g_kind(p, id) == KT__G_HAS && kt__g_arg(p, id, 0) == name) return true;
    }
    return false;
}

/* Some condition among others asks for the member: its place in the order does not hold, since what
 * comes first decides whether it is needed. */
static bool is_asked_for(const kt__gpool *p, kt__gid id, uint32_t name, int depth) {
    kt__gkind kind = kt__g_kind(p, id);
    bool is_set = kind == KT__G_AND || kind == KT__G_OR || kind == KT__G_ONE;
    if (kind == KT__G_HAS) return depth > 0 && kt__g_arg(p, id, 0) == name;
    for (uint32_t i = 0; i < kt__g_n(p, id) && is_set && depth < MAX_DEPTH; i++)
        if (is_asked_for(p, kt__g_arg(p, id, i), name, depth + (kind != KT__G_AND || depth > 0)))
            return true;
    return false;
}

static int by_text(const void *a, const void *b) {
    const kt__gtext *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* The properties that a name is looked for among. */
typedef struct order {
    const kt__snode *node;
    kt__gid must, used;
    bool conditions; /* some kid of must is no plain condition */
} order;

static bool has_conditions(const kt__gpool *p, kt__gid must) {
    for (uint32_t i = 0; kt__g_kind(p, must) == KT__G_AND && i < kt__g_n(p, must); i++) {
        kt__gkind kind = kt__g_kind(p, kt__g_arg(p, must, i));
        if (kind == KT__G_OR || kind == KT__G_ONE) return true;
    }
    return false;
}

/* Names of the properties at places from..to; loose: those whose place does not hold, wherever they
 * are and as far as they are not used, else without them. */
static kt__gid names_between(kt__svalue_ctx *v, const order *o, uint32_t from, uint32_t to,
                             bool loose) {
    const kt__gpool *p = &v->t->pool;
    size_t n_texts = 0;
    for (uint32_t i = 0; i < o->node->n_props; i++) {
        const kt__sprop *prop = &o->node->props[i];
        const kt__gtext *name = &v->s->names[prop->name];
        uint32_t at = place_of(v, prop);
        bool asked = o->conditions && is_asked_for(p, o->must, prop->name, 0);
        bool in = asked ? loose && !is_used(p, o->used, name) : at >= from && at <= to;
        if (in) v->texts[n_texts++] = *name;
    }
    qsort(v->texts, n_texts, sizeof *v->texts, by_text);
    return kt__term_one_of(v->t, v->texts, n_texts);
}

/* Until the next required property none after it may come; without one, any but those that are
 * past. */
static kt__gid names_behind(kt__svalue_ctx *v, const order *o) {
    const kt__gpool *p = &v->t->pool;
    uint32_t next = 0, required = NOWHERE;
    for (uint32_t i = 0; i < o->node->n_props; i++) {
        const kt__sprop *prop = &o->node->props[i];
        uint32_t at = place_of(v, prop);
        if (at == NOWHERE) return ANY;
        if (is_used(p, o->used, &v->s->names[prop->name]) && at >= next) next = at + 1;
        if (at < required && is_required(p, o->must, prop->name)) required = at;
    }
    if (required != NOWHERE && required < next) return ANY;
    if (required != NOWHERE) return names_between(v, o, next, required, true);
    return next ? kt__term_not(v->t, names_between(v, o, 0, next - 1, false)) : ANY;
}

kt__gid kt__svalue_names_in_order(kt__svalue_ctx *v, kt__gid formula, kt__gid used) {
    kt__gid all = kt__svalue_names(v, formula, used), must = kt__svalue_must(v, formula);
    kt__snode_id node = only_object(&v->t->pool, must);
    if (all == EMPTY || !node || v->s->nodes[node].n_props == 0) return all;
    const order o = {&v->s->nodes[node], must, used, has_conditions(&v->t->pool, must)};
    kt__gid behind = names_behind(v, &o);
    kt__gid names = behind == ANY ? all : kt__term_and2(v->t, all, behind);
    if (kt__term_live(v->t, names)) return names;
    /* the object may end here: what was left out stays out */
    return kt__svalue_must(v, kt__svalue_end(v, formula)) == ANY ? EMPTY : all;
}
