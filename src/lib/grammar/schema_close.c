/* Objects closed for generation: where "properties" are given and nothing is said of others, only
 * declared ones are written.
 *
 * By the specification such an object may have members of any name, and a small model invents some.
 * A value that is written under a closed schema is valid by the schema as it is: only what the
 * value must be is narrowed, never what it must not be ("not", "if", "contains", and "oneOf", where
 * a narrower alternative could make two that fit into one). */
#include <string.h>

#include "grammar/schema_reader.h"

enum { MAX_STEPS = 2000000 };

/* What a node is, of those that were reached. */
enum {
    WHOLE = 1,    /* it describes a value by itself, not with others */
    REACHED = 2,  /* from the root, through what the value must be */
    FIXED = 4,    /* through something else: it stays as it is */
    EMBEDDED = 8, /* others that declare members apply to the same value */
    DONE = 16
};

typedef struct closing {
    kt__sreader *r;
    uint8_t *flags;    /* [n_nodes] */
    uint32_t *seen;    /* [n_nodes] number of the search that met the node last */
    kt__snode_id *ids; /* [n_nodes] those that it met */
    uint32_t n, n_nodes, search;
    uint64_t steps;
    kt__snode_id any, never;
} closing;

typedef void visit_fn(closing *c, kt__snode_id id);

static const kt__snode *node_at(const closing *c, kt__snode_id id) {
    return &c->r->s->nodes[id];
}

static void visit_list(closing *c, const kt__slist *list, visit_fn *visit) {
    for (uint32_t i = 0; i < list->n; i++) visit(c, list->ids[i]);
}

static void visit_props(closing *c, const kt__sprop *props, uint32_t n, visit_fn *visit) {
    for (uint32_t i = 0; i < n; i++) visit(c, props[i].node);
}

/* Schemas of parts of the value. */
static void visit_parts(closing *c, const kt__snode *n, visit_fn *visit) {
    visit_props(c, n->props, n->n_props, visit);
    visit_props(c, n->patterns, n->n_patterns, visit);
    visit_list(c, &n->prefix, visit);
    visit(c, n->additional);
    visit(c, n->items);
}

/* Schemas that apply to the same value, and hold the more of it the narrower they are. */
static void visit_same(closing *c, const kt__snode *n, visit_fn *visit) {
    visit(c, n->ref);
    visit_list(c, &n->all_of, visit);
    visit_list(c, &n->any_of, visit);
    visit(c, n->then_);
    visit(c, n->else_);
    visit_props(c, n->dep_schemas, n->n_dep_schemas, visit);
}

static void visit_others(closing *c, const kt__snode *n, visit_fn *visit) {
    visit_list(c, &n->one_of, visit);
    visit(c, n->not_);
    visit(c, n->if_);
    visit(c, n->contains);
    visit(c, n->property_names);
    for (int i = 0; i < 2; i++) {
        const kt__svalues *values = i ? n->constant : n->values;
        if (!values) continue;
        visit_list(c, &values->arrays, visit);
        visit_list(c, &values->objects, visit);
    }
}

/* ---- searches: each node that is met once ---- */

static void begin_search(closing *c) {
    c->search++;
    c->n = 0;
}

static void meet_node(closing *c, kt__snode_id id) {
    c->steps++;
    if (id == 0 || c->seen[id] == c->search) return;
    c->seen[id] = c->search;
    c->ids[c->n++] = id;
}

static void meet_fixed(closing *c, kt__snode_id id) {
    if (id) c->flags[id] |= FIXED;
    meet_node(c, id);
}

static void meet_whole(closing *c, kt__snode_id id) {
    if (id) c->flags[id] |= WHOLE;
    meet_node(c, id);
}

static void find_fixed(closing *c) {
    begin_search(c);
    for (kt__snode_id id = 1; id < c->n_nodes; id++) visit_others(c, node_at(c, id), meet_fixed);
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = node_at(c, c->ids[i]);
        visit_parts(c, n, meet_fixed);
        visit_same(c, n, meet_fixed);
        visit_others(c, n, meet_fixed);
    }
}

static void find_whole(closing *c) {
    begin_search(c);
    meet_whole(c, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = node_at(c, c->ids[i]);
        c->flags[c->ids[i]] |= REACHED;
        visit_parts(c, n, meet_whole);
        visit_same(c, n, meet_node);
    }
}

/* The schemas that may apply to the value of a node: into c->ids[c->n]. */
static void find_same(closing *c, kt__snode_id id) {
    begin_search(c);
    meet_node(c, id);
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = node_at(c, c->ids[i]);
        visit_same(c, n, meet_node);
        visit_list(c, &n->one_of, meet_node);
        meet_node(c, n->if_);
    }
}

/* ---- what is declared ---- */

static bool declares_members(const kt__snode *n) {
    return n->n_props > 0 || (n->json && kt__jdoc_member(n->json, "properties", 10));
}

static bool has_same(const kt__snode *n) {
    return n->ref || n->all_of.n || n->any_of.n || n->one_of.n || n->if_ || n->n_dep_schemas;
}

/* The only schema that says something of the value in the node's place, or the node itself. */
static kt__snode_id behind_refs(closing *c, kt__snode_id id) {
    for (int i = 0; i < 64; i++) {
        const kt__snode *n = node_at(c, id);
        bool one = n->all_of.n == 1 && !n->ref, ref = n->ref && n->all_of.n == 0;
        bool more = declares_members(n) || n->any_of.n || n->one_of.n || n->if_ ||
                    n->n_dep_schemas || n->n_required || n->n_patterns || n->additional;
        c->steps++;
        if (more || (!one && !ref)) return id;
        id = one ? n->all_of.ids[0] : n->ref;
    }
    return id;
}

/* Alternatives and nothing else: each describes the whole value. */
static bool is_union(const kt__snode *n) {
    return n->any_of.n && !declares_members(n) && !n->ref && !n->all_of.n && !n->one_of.n &&
           !n->if_ && !n->n_dep_schemas && !n->n_required && !n->n_patterns && !n->additional;
}

/* Where a node declares members next to schemas of the same value, these do not know of all. */
static void find_embedded(closing *c) {
    for (kt__snode_id id = 1; id < c->n_nodes && c->steps < MAX_STEPS; id++) {
        const kt__snode *n = node_at(c, id);
        if (!has_same(n) || is_union(n) || behind_refs(c, id) != id) continue;
        find_same(c, id);
        for (uint32_t i = 1; i < c->n; i++) c->flags[c->ids[i]] |= EMBEDDED;
    }
}

/* Names that the schemas of c->ids declare or ask for, with what is said of them there. */
static void collect_names(closing *c, kt__snode *more) {
    uint32_t n_props = 0, n_patterns = 0, n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *m = node_at(c, c->ids[i]);
        c->steps += m->n_props + m->n_required;
        n_props += m->n_props + m->n_required + m->n_dep_schemas;
        for (uint32_t k = 0; k < m->n_dep_required; k++) n_props += m->dep_required[k].n;
        n_patterns += m->n_patterns;
    }
    more->props = kt__sreader_alloc(c->r, n_props, sizeof *more->props);
    more->patterns = kt__sreader_alloc(c->r, n_patterns, sizeof *more->patterns);
    for (uint32_t i = 0; i < c->n && c->r->status == KT_OK; i++) {
        const kt__snode *m = node_at(c, c->ids[i]);
        kt__sprop *props = more->props;
        for (uint32_t k = 0; k < m->n_props; k++)
            props[n++] = (kt__sprop){m->props[k].name, c->any};
        for (uint32_t k = 0; k < m->n_required; k++)
            props[n++] = (kt__sprop){m->required[k], c->any};
        for (uint32_t k = 0; k < m->n_dep_schemas; k++)
            props[n++] = (kt__sprop){m->dep_schemas[k].name, c->any};
        for (uint32_t k = 0; k < m->n_dep_required; k++)
            for (uint32_t j = 0; j < m->dep_required[k].n; j++)
                props[n++] = (kt__sprop){m->dep_required[k].names[j], c->any};
        for (uint32_t k = 0; k < m->n_patterns; k++)
            more->patterns[more->n_patterns++] = (kt__sprop){m->patterns[k].name, c->any};
    }
    kt__sprops_sort(more->props, n);
    for (uint32_t i = 0; i < n && c->r->status == KT_OK; i++)
        if (more->n_props == 0 || more->props[more->n_props - 1].name != more->props[i].name)
            more->props[more->n_props++] = more->props[i];
}

/* Of c->ids: members are declared, and nothing is said of those that are not. */
static bool may_close(closing *c) {
    bool declared = false;
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = node_at(c, c->ids[i]);
        if (n->additional || n->uneval_props || n->values || n->constant) return false;
        declared |= declares_members(n);
    }
    return declared;
}

/* Fewer names than there must be members: others are needed. */
static bool has_room(closing *c, const kt__snode *more) {
    for (uint32_t i = 0; i < c->n; i++)
        if (node_at(c, c->ids[i])->min_props > more->n_props && !more->n_patterns) return false;
    return true;
}

/* ---- closing ---- */

static void close_node(closing *c, kt__snode_id id) {
    find_same(c, id);
    if (!may_close(c)) return;
    kt__snode more = *node_at(c, c->any); /* a fresh one */
    collect_names(c, &more);
    if (c->r->status != KT_OK || !has_room(c, &more)) return;
    kt__snode *n = &c->r->s->nodes[id];
    if (c->n == 1 && n->n_props == more.n_props) {
        n->additional = c->never;
        return;
    }
    more.additional = c->never;
    kt__sreader_apply_also(c->r, id, &more);
}

static void close_whole(closing *c, kt__snode_id id, int depth) {
    kt__snode_id at = behind_refs(c, id);
    const kt__snode *n = node_at(c, at);
    if (c->flags[at] & EMBEDDED && !(c->flags[id] & EMBEDDED)) at = id;
    if (c->flags[at] & (EMBEDDED | FIXED | DONE) || !(c->flags[at] & REACHED)) return;
    c->flags[at] |= DONE;
    if (!is_union(n)) {
        close_node(c, at);
        return;
    }
    for (uint32_t i = 0; i < n->any_of.n && depth < 64 && c->r->status == KT_OK; i++) {
        close_whole(c, n->any_of.ids[i], depth + 1);
        n = node_at(c, at);
    }
}

static bool begin_closing(closing *c, kt__sreader *r) {
    *c = (closing){.r = r};
    c->any = kt__sreader_new_node(r, NULL);
    c->never = kt__sreader_new_node(r, NULL);
    if (!c->never) return false;
    r->s->nodes[c->never].never = true;
    c->n_nodes = r->s->n_nodes;
    c->flags = kt__sreader_alloc(r, c->n_nodes, sizeof *c->flags);
    c->seen = kt__sreader_alloc(r, c->n_nodes, sizeof *c->seen);
    c->ids = kt__sreader_alloc(r, c->n_nodes, sizeof *c->ids);
    return r->status == KT_OK;
}

kt_status kt__sreader_close_objects(kt__sreader *r) {
    closing c;
    if (!begin_closing(&c, r)) return r->status;
    find_fixed(&c);
    find_whole(&c);
    find_embedded(&c);
    for (kt__snode_id id = 1; id < c.n_nodes && r->status == KT_OK; id++) {
        if (c.steps > MAX_STEPS) break;
        if (c.flags[id] & WHOLE) close_whole(&c, id, 0);
    }
    if (c.steps > MAX_STEPS)
        kt__sreader_note(r, r->root, "properties", "too many to keep others out of all objects");
    return r->status;
}
