#include "grammar/schema_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/schema_reader.h"

enum {
    EMPTY = KT__GPOOL_EMPTY,
    ANY = KT__GPOOL_ANY,
    MEMO_SLOTS = 8192,
    MAX_DEPTH = 400 /* of formulas and of schemas applied in place */
};

typedef enum memo_op {
    OP_EXPAND = 1,
    OP_ITEM,
    OP_MEMBER,
    OP_NAMES,
    OP_PATTERNS,
    OP_END,
    OP_POSSIBLE
} memo_op;

static kt__gkind kind_at(const kt__svalue_ctx *v, kt__gid id) {
    return kt__g_kind(&v->t->pool, id);
}

static kt__gid make_atom(kt__svalue_ctx *v, kt__gkind kind, const uint32_t *data, uint32_t n) {
    return kt__gpool_intern(&v->t->pool, kind, data, n);
}

static kt__svmemo *memo_slot(kt__svalue_ctx *v, memo_op op, uint32_t a, uint32_t b) {
    uint32_t h = (a * 0x9E3779B1u ^ (b + (uint32_t)op) * 0x85EBCA77u) >> 13;
    return &v->memo[h % MEMO_SLOTS];
}

static const kt__svmemo *memo_find(kt__svalue_ctx *v, memo_op op, uint32_t a, uint32_t b) {
    const kt__svmemo *m = memo_slot(v, op, a, b);
    return m->op == op && m->a == a && m->b == b && m->stamp == v->stamp ? m : NULL;
}

static void memo_keep(kt__svalue_ctx *v, memo_op op, uint32_t a, uint32_t b, uint32_t out,
                      uint32_t out2) {
    if (!v->t->pool.failed) *memo_slot(v, op, a, b) = (kt__svmemo){op, a, b, out, out2, v->stamp};
}

/* ---- mapping ---- */

typedef kt__gid map_fn(kt__svalue_ctx *v, void *arg, kt__gid id);

/* The formula with its atoms replaced. */
static kt__gid map_atoms(kt__svalue_ctx *v, kt__gid id, map_fn *fn, void *arg) {
    kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    bool is_set = kind == KT__G_AND || kind == KT__G_OR || kind == KT__G_ONE || kind == KT__G_VEC;
    if (!kt__gpool_step(p) || v->t->depth > MAX_DEPTH) {
        p->failed = KT_E_LIMIT;
        return EMPTY;
    }
    if (!is_set && kind != KT__G_NOT) return fn(v, arg, id);
    uint32_t from = p->n_scratch, n = kt__g_n(p, id);
    v->t->depth++;
    for (uint32_t i = 0; i < n; i++) {
        kt__gid kid = map_atoms(v, kt__g_arg(p, id, i), fn, arg);
        kt__gpool_push(p, kid);
        if (kid == EMPTY && (kind == KT__G_AND || (kind == KT__G_VEC && i == 0))) break;
    }
    v->t->depth--;
    switch (kind) {
    case KT__G_AND: return kt__term_and(v->t, from);
    case KT__G_OR: return kt__term_or(v->t, from);
    case KT__G_ONE: return kt__term_one(v->t, from);
    case KT__G_VEC: return kt__term_vec(v->t, from);
    default: {
        kt__gid kid = p->scratch[from];
        p->n_scratch = from;
        return kt__term_not(v->t, kid);
    }
    }
}

/* ---- nodes to formulas ---- */

static bool is_trivial(const kt__snode *n) {
    const kt__snode plain = {.types = (1 << KT__V_N) - 1};
    return !n->never && n->types == plain.types && !n->integer && !n->values && !n->constant &&
           !n->n_numbers && n->text == ANY && !n->n_props && !n->n_patterns && !n->additional &&
           !n->property_names && !n->min_props && n->max_props == UINT32_MAX && !n->n_required &&
           !n->n_dep_required && !n->n_dep_schemas && !n->prefix.n && !n->items && !n->contains &&
           !n->min_items && n->max_items == UINT32_MAX && !n->unique && !n->all_of.ids &&
           !n->any_of.ids && !n->one_of.ids && !n->not_ && !n->if_ && !n->ref;
}

kt__gid kt__svalue_node(kt__svalue_ctx *v, kt__snode_id id) {
    if (id == 0) return ANY;
    const kt__snode *n = &v->s->nodes[id];
    if (n->never) return EMPTY;
    if (is_trivial(n)) return ANY;
    return make_atom(v, KT__G_NODE, &id, 1);
}

static kt__gid expand_node(kt__svalue_ctx *v, kt__snode_id id, kt__vtype type);

static void push_term(kt__svalue_ctx *v, kt__gid id) {
    kt__gpool_push(&v->t->pool, id);
}

static kt__gid has_name(kt__svalue_ctx *v, uint32_t name) {
    return make_atom(v, KT__G_HAS, &name, 1);
}

/* The kids are pushed on the scratch stack: they hold together. */
static void push_object(kt__svalue_ctx *v, const kt__snode *n, kt__snode_id id) {
    if (n->n_props || n->n_patterns || n->additional) push_term(v, make_atom(v, KT__G_OBJ, &id, 1));
    for (uint32_t i = 0; i < n->n_required; i++) push_term(v, has_name(v, n->required[i]));
    if (n->min_props) push_term(v, make_atom(v, KT__G_PROPS_GE, &n->min_props, 1));
    if (n->max_props != UINT32_MAX) push_term(v, make_atom(v, KT__G_PROPS_LE, &n->max_props, 1));
    if (n->property_names) {
        kt__gid term = kt__svalue_expand(v, kt__svalue_node(v, n->property_names), KT__V_STRING);
        if (term == EMPTY)
            push_term(v, make_atom(v, KT__G_PROPS_LE, &(uint32_t){0}, 1));
        else if (term != ANY)
            push_term(v, make_atom(v, KT__G_PNAMES, &term, 1));
    }
    for (uint32_t i = 0; i < n->n_dep_required; i++) {
        const kt__sdep *dep = &n->dep_required[i];
        uint32_t from = v->t->pool.n_scratch;
        for (uint32_t k = 0; k < dep->n; k++) push_term(v, has_name(v, dep->names[k]));
        kt__gid all = kt__term_and(v->t, from);
        push_term(v, kt__term_or2(v->t, kt__term_not(v->t, has_name(v, dep->name)), all));
    }
    for (uint32_t i = 0; i < n->n_dep_schemas; i++) {
        kt__gid then = expand_node(v, n->dep_schemas[i].node, KT__V_OBJECT);
        kt__gid not_there = kt__term_not(v->t, has_name(v, n->dep_schemas[i].name));
        push_term(v, kt__term_or2(v->t, not_there, then));
    }
}

static void push_array(kt__svalue_ctx *v, const kt__snode *n, kt__snode_id id) {
    if (n->prefix.n || n->items) push_term(v, make_atom(v, KT__G_ARR, (uint32_t[]){id, 0}, 2));
    if (n->min_items) push_term(v, make_atom(v, KT__G_ITEMS_GE, &n->min_items, 1));
    if (n->max_items != UINT32_MAX) push_term(v, make_atom(v, KT__G_ITEMS_LE, &n->max_items, 1));
    bool counts = n->min_contains > 0 || n->max_contains != UINT32_MAX;
    if (n->contains && counts)
        push_term(v, make_atom(v, KT__G_CONTAINS,
                               (uint32_t[]){n->contains, n->min_contains, n->max_contains}, 3));
    if (n->unique) push_term(v, v->track);
}

static void push_number(kt__svalue_ctx *v, const kt__snode *n) {
    if (n->integer) push_term(v, make_atom(v, KT__G_NUM, (uint32_t[]){KT__NUM_INT, 0}, 2));
    for (uint32_t i = 0; i < n->n_numbers; i++) {
        uint32_t at = n->numbers[i];
        push_term(v, make_atom(v, KT__G_NUM, (uint32_t[]){v->s->numbers[at].op, at}, 2));
    }
}

static kt__gid expand_any(kt__svalue_ctx *v, const kt__slist *list, kt__vtype type) {
    uint32_t from = v->t->pool.n_scratch;
    for (uint32_t i = 0; i < list->n; i++) push_term(v, expand_node(v, list->ids[i], type));
    return kt__term_or(v->t, from);
}

static kt__gid expand_values(kt__svalue_ctx *v, const kt__svalues *values, kt__vtype type) {
    switch (type) {
    case KT__V_NULL: return values->null ? ANY : EMPTY;
    case KT__V_FALSE: return values->no ? ANY : EMPTY;
    case KT__V_TRUE: return values->yes ? ANY : EMPTY;
    case KT__V_STRING: return values->strings;
    case KT__V_ARRAY: return expand_any(v, &values->arrays, type);
    case KT__V_OBJECT: return expand_any(v, &values->objects, type);
    default: break;
    }
    uint32_t from = v->t->pool.n_scratch;
    for (uint32_t i = 0; i < values->n_numbers; i++)
        push_term(v, make_atom(v, KT__G_NUM, (uint32_t[]){KT__NUM_EQ, values->numbers[i]}, 2));
    return kt__term_or(v->t, from);
}

static void push_applicators(kt__svalue_ctx *v, const kt__snode *n, kt__vtype type) {
    uint32_t from = v->t->pool.n_scratch;
    if (n->ref) push_term(v, expand_node(v, n->ref, type));
    for (uint32_t i = 0; i < n->all_of.n; i++) push_term(v, expand_node(v, n->all_of.ids[i], type));
    if (n->any_of.ids) push_term(v, expand_any(v, &n->any_of, type));
    if (n->one_of.ids) {
        from = v->t->pool.n_scratch;
        for (uint32_t i = 0; i < n->one_of.n; i++)
            push_term(v, expand_node(v, n->one_of.ids[i], type));
        push_term(v, kt__term_one(v->t, from));
    }
    if (n->not_) push_term(v, kt__term_not(v->t, expand_node(v, n->not_, type)));
    if (!n->if_ || (!n->then_ && !n->else_)) return;
    kt__gid cond = expand_node(v, n->if_, type);
    kt__gid then = n->then_ ? expand_node(v, n->then_, type) : ANY;
    kt__gid other = n->else_ ? expand_node(v, n->else_, type) : ANY;
    kt__gid yes = kt__term_and2(v->t, cond, then);
    push_term(v, kt__term_or2(v->t, yes, kt__term_and2(v->t, kt__term_not(v->t, cond), other)));
}

static kt__gid build_node(kt__svalue_ctx *v, kt__snode_id id, kt__vtype type) {
    const kt__snode *n = &v->s->nodes[id];
    uint32_t from = v->t->pool.n_scratch;
    if (n->never || !(n->types >> type & 1)) return EMPTY;
    if (n->values) push_term(v, expand_values(v, n->values, type));
    if (n->constant) push_term(v, expand_values(v, n->constant, type));
    if (type == KT__V_STRING) push_term(v, n->text);
    if (type == KT__V_NUMBER) push_number(v, n);
    if (type == KT__V_OBJECT) push_object(v, n, id);
    if (type == KT__V_ARRAY) push_array(v, n, id);
    push_applicators(v, n, type);
    return kt__term_and(v->t, from);
}

static kt__gid expand_node(kt__svalue_ctx *v, kt__snode_id id, kt__vtype type) {
    if (id == 0) return ANY;
    kt__gid *known = &v->expanded[(size_t)id * KT__V_N + type];
    if (*known) return *known;
    if (!kt__gpool_step(&v->t->pool) || v->t->depth > MAX_DEPTH) {
        v->t->pool.failed = KT_E_LIMIT;
        return EMPTY;
    }
    v->t->depth++;
    kt__gid formula = build_node(v, id, type);
    v->t->depth--;
    if (!v->t->pool.failed && formula < v->keep_below) *known = formula;
    return formula;
}

static kt__gid expand_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    if (kind_at(v, id) != KT__G_NODE) return id;
    return expand_node(v, kt__g_arg(&v->t->pool, id, 0), *(const kt__vtype *)arg);
}

kt__gid kt__svalue_expand(kt__svalue_ctx *v, kt__gid formula, kt__vtype type) {
    if (formula == ANY || formula == EMPTY) return formula;
    const kt__svmemo *m = memo_find(v, OP_EXPAND, formula, type);
    if (m) return m->out;
    kt__gid out = map_atoms(v, formula, expand_atom, &type);
    memo_keep(v, OP_EXPAND, formula, type, out, 0);
    return out;
}

bool kt__svalue_possible(kt__svalue_ctx *v, kt__gid formula) {
    formula = kt__svalue_must(v, formula);
    if (formula == ANY || formula == EMPTY) return formula == ANY;
    const kt__svmemo *m = memo_find(v, OP_POSSIBLE, formula, 0);
    if (m) return m->out;
    bool possible = false;
    for (int type = KT__V_N; type-- > 0 && !possible;) {
        kt__gid of = kt__svalue_must(v, kt__svalue_expand(v, formula, (kt__vtype)type));
        possible = type == KT__V_STRING ? kt__term_live(v->t, of) : of != EMPTY;
    }
    memo_keep(v, OP_POSSIBLE, formula, 0, possible, 0);
    return possible;
}

/* ---- what the value inside must be ---- */

/* Nothing but KT__G_SUB within. */
static bool is_pure(const kt__svalue_ctx *v, kt__gid id) {
    const kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    if (kind != KT__G_AND && kind != KT__G_OR && kind != KT__G_ONE && kind != KT__G_NOT)
        return kind == KT__G_SUB || id == ANY || id == EMPTY;
    for (uint32_t i = 0; i < kt__g_n(p, id); i++)
        if (!is_pure(v, kt__g_arg(p, id, i))) return false;
    return true;
}

/* What the value inside has to be for the formula to stay possible, whatever comes later. */
static kt__gid project_term(kt__svalue_ctx *v, kt__gid id, bool wanted) {
    kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    bool all = kind == KT__G_AND ? wanted : kind == KT__G_OR && !wanted;
    uint32_t from = p->n_scratch, n = kt__g_n(p, id);
    if (id == ANY || id == EMPTY) return (id == ANY) == wanted ? ANY : EMPTY;
    if (kind == KT__G_SUB) {
        kt__gid inner = kt__g_arg(p, id, 0);
        return wanted ? inner : kt__term_not(v->t, inner);
    }
    if (kind == KT__G_NOT) return project_term(v, kt__g_arg(p, id, 0), !wanted);
    if (kind == KT__G_ONE && (!wanted || is_pure(v, id))) {
        if (!is_pure(v, id)) return ANY;
        for (uint32_t i = 0; i < n; i++) push_term(v, project_term(v, kt__g_arg(p, id, i), true));
        kt__gid one = kt__term_one(v->t, from);
        return wanted ? one : kt__term_not(v->t, one);
    }
    if (kind != KT__G_AND && kind != KT__G_OR && kind != KT__G_ONE) return ANY;
    for (uint32_t i = 0; i < n; i++) push_term(v, project_term(v, kt__g_arg(p, id, i), wanted));
    return all ? kt__term_and(v->t, from) : kt__term_or(v->t, from);
}

/* A SUB that must hold is no question. */
static kt__gid drop_sure(kt__svalue_ctx *v, void *arg, kt__gid id) {
    const kt__gpool *p = &v->t->pool;
    kt__gid must = *(const kt__gid *)arg;
    if (kt__g_kind(p, id) != KT__G_SUB) return id;
    if (must == id) return ANY;
    if (kt__g_kind(p, must) == KT__G_AND)
        for (uint32_t i = 0; i < kt__g_n(p, must); i++)
            if (kt__g_arg(p, must, i) == id) return ANY;
    return id;
}

/* Puts each SUB on the scratch stack once, from *arg on. */
static kt__gid collect_sub(kt__svalue_ctx *v, void *arg, kt__gid id) {
    const kt__gpool *p = &v->t->pool;
    uint32_t from = *(const uint32_t *)arg;
    if (kt__g_kind(p, id) != KT__G_SUB) return id;
    for (uint32_t i = from; i < p->n_scratch; i++)
        if (p->scratch[i] == id) return id;
    kt__gpool_push(&v->t->pool, id);
    return id;
}

static void collect_subs(kt__svalue_ctx *v, kt__gid id, uint32_t from) {
    const kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    bool inner = kind == KT__G_AND || kind == KT__G_OR || kind == KT__G_ONE || kind == KT__G_VEC ||
                 kind == KT__G_NOT;
    if (!inner) (void)collect_sub(v, &from, id);
    for (uint32_t i = 0; inner && i < kt__g_n(p, id); i++)
        collect_subs(v, kt__g_arg(p, id, i), from);
}

static kt__svalue_step split_formula(kt__svalue_ctx *v, kt__gid formula) {
    kt__gpool *p = &v->t->pool;
    const kt__svalue_step dead = {EMPTY, EMPTY, 0};
    kt__gid must = kt__svalue_must(v, formula);
    if (must == EMPTY) return dead;
    kt__gid inner = project_term(v, must, true);
    kt__gid outer = map_atoms(v, formula, drop_sure, &must);
    if (inner == EMPTY || kt__svalue_must(v, outer) == EMPTY) return dead;
    uint32_t from = p->n_scratch;
    collect_subs(v, outer, from);
    uint32_t n = p->n_scratch - from;
    if (n == 0) return (kt__svalue_step){outer, inner, 0};
    uint32_t vec = p->n_scratch;
    push_term(v, inner);
    for (uint32_t i = 0; i < n; i++) push_term(v, kt__g_arg(p, p->scratch[from + i], 0));
    inner = kt__term_vec(v->t, vec);
    push_term(v, ANY);
    for (uint32_t i = 0; i < n; i++) push_term(v, p->scratch[from + i]);
    kt__gid subs = kt__term_vec(v->t, vec);
    p->n_scratch = from;
    return (kt__svalue_step){outer, inner, subs};
}

static kt__svalue_step keep_step(kt__svalue_ctx *v, memo_op op, kt__gid a, kt__gid b,
                                 kt__svalue_step step) {
    if (step.subs == 0) memo_keep(v, op, a, b, step.outer, step.inner);
    return step;
}

static kt__gid sub_value(kt__svalue_ctx *v, kt__gid inner) {
    if (inner == ANY || inner == EMPTY) return inner;
    return make_atom(v, KT__G_SUB, &inner, 1);
}

/* ---- items ---- */

static kt__gid count_down(kt__svalue_ctx *v, kt__gid id, bool at_least) {
    kt__gkind kind = kind_at(v, id);
    uint32_t n = kt__g_arg(&v->t->pool, id, 0);
    if (n == 0) return at_least ? ANY : EMPTY;
    if (n == 1 && at_least) return ANY;
    n--;
    return make_atom(v, kind, &n, 1);
}

static kt__gid next_item(kt__svalue_ctx *v, kt__gid id) {
    kt__snode_id node = kt__g_arg(&v->t->pool, id, 0);
    uint32_t at = kt__g_arg(&v->t->pool, id, 1);
    const kt__snode *n = &v->s->nodes[node];
    bool in_prefix = at < n->prefix.n;
    kt__gid inner = kt__svalue_node(v, in_prefix ? n->prefix.ids[at] : n->items);
    uint32_t next[] = {node, in_prefix ? at + 1 : at};
    bool more = next[1] < n->prefix.n || n->items;
    return kt__term_and2(v->t, more ? make_atom(v, KT__G_ARR, next, 2) : ANY, sub_value(v, inner));
}

static kt__gid contains_atom(kt__svalue_ctx *v, uint32_t node, uint32_t need, uint32_t room) {
    if (need == 0 && room == UINT32_MAX) return ANY;
    if (need > room) return EMPTY;
    return make_atom(v, KT__G_CONTAINS, (uint32_t[]){node, need, room}, 3);
}

/* The item is one of those that are counted, or it is not. */
static kt__gid next_contains(kt__svalue_ctx *v, kt__gid id) {
    const uint32_t *a = kt__g_data(&v->t->pool, id);
    uint32_t node = a[0], need = a[1], room = a[2];
    kt__gid is_one = sub_value(v, kt__svalue_node(v, node));
    kt__gid counted = EMPTY;
    if (room > 0)
        counted = contains_atom(v, node, need ? need - 1 : 0, room == UINT32_MAX ? room : room - 1);
    kt__gid yes = kt__term_and2(v->t, is_one, counted);
    return kt__term_or2(v->t, yes, kt__term_and2(v->t, kt__term_not(v->t, is_one), id));
}

static kt__gid item_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    (void)arg;
    switch (kind_at(v, id)) {
    case KT__G_ARR: return next_item(v, id);
    case KT__G_ITEMS_GE: return count_down(v, id, true);
    case KT__G_ITEMS_LE: return count_down(v, id, false);
    case KT__G_CONTAINS: return next_contains(v, id);
    default: return id;
    }
}

kt__svalue_step kt__svalue_item(kt__svalue_ctx *v, kt__gid formula) {
    if (formula == ANY) return (kt__svalue_step){ANY, ANY, 0};
    const kt__svmemo *m = memo_find(v, OP_ITEM, formula, 0);
    if (m) return (kt__svalue_step){m->out, m->out2, 0};
    return keep_step(v, OP_ITEM, formula, 0,
                     split_formula(v, map_atoms(v, formula, item_atom, NULL)));
}

/* ---- members ---- */

static bool key_matches(const kt__svalue_ctx *v, kt__gid key, kt__gid pattern) {
    const kt__gpool *p = &v->t->pool;
    for (uint32_t i = 1; i < kt__g_n(p, key); i++)
        if (kt__g_arg(p, key, i) == pattern) return true;
    return false;
}

static kt__snode_id prop_named(const kt__snode *n, uint32_t name, bool *found) {
    uint32_t low = 0, high = n->n_props;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (n->props[mid].name < name)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < n->n_props && n->props[low].name == name;
    return *found ? n->props[low].node : 0;
}

static kt__gid member_of(kt__svalue_ctx *v, kt__gid id, kt__gid key) {
    const kt__snode *n = &v->s->nodes[kt__g_arg(&v->t->pool, id, 0)];
    uint32_t from = v->t->pool.n_scratch, name = kt__g_arg(&v->t->pool, key, 0);
    bool found = false;
    kt__snode_id node = name ? prop_named(n, name, &found) : 0;
    if (found) push_term(v, kt__svalue_node(v, node));
    for (uint32_t i = 0; i < n->n_patterns; i++) {
        if (!key_matches(v, key, n->patterns[i].name)) continue;
        push_term(v, kt__svalue_node(v, n->patterns[i].node));
        found = true;
    }
    if (!found) push_term(v, kt__svalue_node(v, n->additional));
    kt__gid inner = kt__term_and(v->t, from);
    return kt__term_and2(v->t, id, sub_value(v, inner));
}

static kt__gid member_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    kt__gid key = *(const kt__gid *)arg;
    const kt__gpool *p = &v->t->pool;
    uint32_t name = kt__g_arg(p, key, 0);
    switch (kind_at(v, id)) {
    case KT__G_OBJ: return member_of(v, id, key);
    case KT__G_HAS: return name && kt__g_arg(p, id, 0) == name ? ANY : id;
    case KT__G_PROPS_GE: return count_down(v, id, true);
    case KT__G_PROPS_LE: return count_down(v, id, false);
    case KT__G_PNAMES: return key_matches(v, key, kt__g_arg(p, id, 0)) ? id : EMPTY;
    default: return id;
    }
}

kt__svalue_step kt__svalue_member(kt__svalue_ctx *v, kt__gid formula, kt__gid key) {
    if (formula == ANY) return (kt__svalue_step){ANY, ANY, 0};
    const kt__svmemo *m = memo_find(v, OP_MEMBER, formula, key);
    if (m) return (kt__svalue_step){m->out, m->out2, 0};
    kt__gid next = map_atoms(v, formula, member_atom, &key);
    return keep_step(v, OP_MEMBER, formula, key, split_formula(v, next));
}

/* ---- outcomes ---- */

typedef struct outcomes {
    kt__gid subs, outcome;
} outcomes;

static kt__gid settle_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    const outcomes *o = arg;
    const kt__gpool *p = &v->t->pool;
    if (kt__g_kind(p, id) != KT__G_SUB) return id;
    for (uint32_t i = 1; i < kt__g_n(p, o->subs); i++)
        if (kt__g_arg(p, o->subs, i) == id) {
            kt__gid out = kt__g_arg(p, o->outcome, i);
            return out == ANY || out == EMPTY ? out : id;
        }
    return id;
}

kt__gid kt__svalue_settle(kt__svalue_ctx *v, kt__gid formula, kt__gid subs, kt__gid outcome) {
    outcomes o = {subs, outcome};
    return map_atoms(v, formula, settle_atom, &o);
}

static kt__gid end_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    const kt__gpool *p = &v->t->pool;
    (void)arg;
    switch (kt__g_kind(p, id)) {
    case KT__G_HAS: return EMPTY;
    case KT__G_PROPS_GE:
    case KT__G_ITEMS_GE: return kt__g_arg(p, id, 0) > 0 ? EMPTY : ANY;
    case KT__G_CONTAINS: return kt__g_arg(p, id, 1) > 0 ? EMPTY : ANY;
    case KT__G_EMPTY: return EMPTY;
    default: return ANY;
    }
}

kt__gid kt__svalue_end(kt__svalue_ctx *v, kt__gid formula) {
    if (formula == ANY) return ANY;
    const kt__svmemo *m = memo_find(v, OP_END, formula, 0);
    if (m) return m->out;
    kt__gid out = map_atoms(v, formula, end_atom, NULL);
    memo_keep(v, OP_END, formula, 0, out, 0);
    return out;
}

static kt__gid not_unique_atom(kt__svalue_ctx *v, void *arg, kt__gid id) {
    (void)arg;
    return id == v->track ? EMPTY : id;
}

kt__gid kt__svalue_not_unique(kt__svalue_ctx *v, kt__gid formula) {
    return map_atoms(v, formula, not_unique_atom, NULL);
}

bool kt__svalue_wants_unique(kt__svalue_ctx *v, kt__gid formula) {
    const kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, formula);
    if (formula == v->track) return true;
    if (kind != KT__G_AND && kind != KT__G_OR && kind != KT__G_ONE && kind != KT__G_VEC &&
        kind != KT__G_NOT)
        return false;
    for (uint32_t i = 0; i < kt__g_n(p, formula); i++)
        if (kt__svalue_wants_unique(v, kt__g_arg(p, formula, i))) return true;
    return false;
}

/* ---- life ---- */

/* Subschemas applied to the same value, in a circle: 1 under way, 2 done. */
typedef struct circle {
    const kt__schema *s;
    uint8_t *mark;
    kt__snode_id found;
    uint32_t depth;
} circle;

/* Searches depth first, from node id, for references that lead back to themselves without a value in between
 * ({"$ref": "#"}), and sets c->found to such a node. mark: 1 on the way, 2 done. */
static void follow_circle(circle *c, kt__snode_id id);

static void follow_list(circle *c, const kt__slist *list) {
    for (uint32_t i = 0; i < list->n; i++) follow_circle(c, list->ids[i]);
}

static void follow_circle(circle *c, kt__snode_id id) {
    if (id == 0 || c->found || c->mark[id] == 2) return;
    if (c->mark[id] == 1 || c->depth > MAX_DEPTH) {
        c->found = id;
        return;
    }
    const kt__snode *n = &c->s->nodes[id];
    c->mark[id] = 1;
    c->depth++;
    follow_circle(c, n->ref);
    follow_list(c, &n->all_of);
    follow_list(c, &n->any_of);
    follow_list(c, &n->one_of);
    follow_circle(c, n->not_);
    follow_circle(c, n->if_);
    follow_circle(c, n->then_);
    follow_circle(c, n->else_);
    for (uint32_t i = 0; i < n->n_dep_schemas; i++) follow_circle(c, n->dep_schemas[i].node);
    c->depth--;
    c->mark[id] = 2;
}

static kt_status check_circles(const kt__schema *s, kt__refusal *why, kt_error *err) {
    circle c = {.s = s, .mark = kt__calloc(s->n_nodes, 1)};
    if (!c.mark) return kt__fail_nomem(err, "a schema", s->n_nodes);
    for (kt__snode_id id = 1; id < s->n_nodes && !c.found; id++) follow_circle(&c, id);
    kt__free(c.mark);
    if (!c.found) return KT_OK;
    kt__sreader r = {.why = why, .err = err};
    return kt__sreader_fail(&r, KT_E_UNSUPPORTED, s->nodes[c.found].json, "$ref",
                            "refers to itself in a circle, or through more than %d others",
                            MAX_DEPTH);
}

static uint32_t most_props(const kt__schema *s) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++)
        if (s->nodes[i].n_props > most) most = s->nodes[i].n_props;
    return most;
}

kt_status kt__svalue_init(kt__svalue_ctx *v, kt__schema *s, kt__terms *t, kt__refusal *why,
                          kt_error *err) {
    *v = (kt__svalue_ctx){.t = t, .s = s, .stamp = 1, .keep_below = UINT32_MAX};
    kt_status status = check_circles(s, why, err);
    if (status != KT_OK) return status;
    v->expanded = kt__calloc((size_t)s->n_nodes * KT__V_N, sizeof *v->expanded);
    v->closed = kt__calloc(s->n_nodes, sizeof *v->closed);
    v->memo = kt__calloc(MEMO_SLOTS, sizeof *v->memo);
    v->texts = kt__calloc(most_props(s) + 1u, sizeof *v->texts);
    if (!v->expanded || !v->closed || !v->memo || !v->texts) {
        kt__svalue_free(v);
        return kt__fail_nomem(err, "a schema", (size_t)s->n_nodes * KT__V_N * 4);
    }
    v->track = make_atom(v, KT__G_UNIQUE, &(uint32_t){0}, 1);
    return KT_OK;
}

void kt__svalue_free(kt__svalue_ctx *v) {
    kt__free(v->expanded);
    kt__free(v->closed);
    kt__free(v->memo);
    kt__free(v->texts);
    *v = (kt__svalue_ctx){0};
}
