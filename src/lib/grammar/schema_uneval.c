/* unevaluatedProperties and unevaluatedItems, where what is evaluated does not depend on the value:
 * besides $ref and allOf. They are then additionalProperties and items of one more schema. */
#include <string.h>

#include "grammar/schema_reader.h"

enum { MAX_MEMBERS = 2000 };

/* The subschemas that apply to the same value whatever it is. */
typedef struct closure {
    kt__sreader *r;
    kt__snode_id ids[MAX_MEMBERS];
    uint32_t n;
    bool depends; /* on the value */
} closure;

static void add_member(closure *c, kt__snode_id id) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ids[i] == id) return;
    if (id == 0) return;
    if (c->n == MAX_MEMBERS)
        c->depends = true; /* or so: it is refused */
    else
        c->ids[c->n++] = id;
}

static void find_closure(closure *c, kt__snode_id id) {
    c->n = 0;
    c->depends = false;
    add_member(c, id);
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = &c->r->s->nodes[c->ids[i]];
        c->depends |= n->any_of.ids || n->one_of.ids || n->if_ || n->n_dep_schemas;
        add_member(c, n->ref);
        for (uint32_t k = 0; k < n->all_of.n; k++) add_member(c, n->all_of.ids[k]);
    }
}

static kt__snode_id any_value(kt__sreader *r) {
    return kt__sreader_new_node(r, NULL);
}

void kt__sreader_apply_also(kt__sreader *r, kt__snode_id id, const kt__snode *more) {
    kt__snode_id added = kt__sreader_new_node(r, NULL);
    if (!added) return;
    r->s->nodes[added] = *more;
    kt__snode *n = &r->s->nodes[id];
    kt__snode_id *ids = kt__sreader_alloc(r, n->all_of.n + 1u, sizeof *ids);
    if (!ids) return;
    if (n->all_of.n > 0) memcpy(ids, n->all_of.ids, n->all_of.n * sizeof *ids);
    ids[n->all_of.n] = added;
    n->all_of = (kt__slist){ids, n->all_of.n + 1};
}

static void collect_properties(closure *c, kt__snode *more, kt__snode_id any) {
    uint32_t n_props = 0, n_patterns = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        n_props += c->r->s->nodes[c->ids[i]].n_props;
        n_patterns += c->r->s->nodes[c->ids[i]].n_patterns;
    }
    more->props = kt__sreader_alloc(c->r, n_props, sizeof *more->props);
    more->patterns = kt__sreader_alloc(c->r, n_patterns, sizeof *more->patterns);
    for (uint32_t i = 0; i < c->n && c->r->status == KT_OK; i++) {
        const kt__snode *n = &c->r->s->nodes[c->ids[i]];
        for (uint32_t k = 0; k < n->n_props; k++)
            more->props[more->n_props++] = (kt__sprop){n->props[k].name, any};
        for (uint32_t k = 0; k < n->n_patterns; k++)
            more->patterns[more->n_patterns++] = (kt__sprop){n->patterns[k].name, any};
    }
    if (c->r->status != KT_OK) return;
    uint32_t n = 0;
    kt__sprops_sort(more->props, more->n_props);
    for (uint32_t i = 0; i < more->n_props; i++)
        if (n == 0 || more->props[n - 1].name != more->props[i].name)
            more->props[n++] = more->props[i];
    more->n_props = n;
}

static void settle_properties(closure *c, kt__snode_id id) {
    kt__sreader *r = c->r;
    kt__snode_id rest = r->s->nodes[id].uneval_props, any = any_value(r);
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = &r->s->nodes[c->ids[i]];
        if (n->additional || (n->uneval_props && c->ids[i] != id)) return; /* all is evaluated */
    }
    if (!any) return;
    kt__snode more = r->s->nodes[any]; /* a fresh one */
    collect_properties(c, &more, any);
    more.additional = rest;
    kt__sreader_apply_also(r, id, &more);
}

static void settle_items(closure *c, kt__snode_id id) {
    kt__sreader *r = c->r;
    kt__snode_id rest = r->s->nodes[id].uneval_items, any = any_value(r);
    uint32_t n_prefix = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const kt__snode *n = &r->s->nodes[c->ids[i]];
        if (n->items || (n->uneval_items && c->ids[i] != id)) return;
        if (n->prefix.n > n_prefix) n_prefix = n->prefix.n;
    }
    if (!any) return;
    kt__snode more = r->s->nodes[any];
    more.prefix.ids = kt__sreader_alloc(r, n_prefix, sizeof *more.prefix.ids);
    while (more.prefix.ids && more.prefix.n < n_prefix) more.prefix.ids[more.prefix.n++] = any;
    more.items = rest;
    kt__sreader_apply_also(r, id, &more);
}

static void settle_node(closure *c, kt__snode_id id) {
    kt__sreader *r = c->r;
    const kt__snode *n = &r->s->nodes[id];
    bool props = n->uneval_props, items = n->uneval_items, contains = false;
    const char *keyword = props ? "unevaluatedProperties" : "unevaluatedItems";
    find_closure(c, id);
    for (uint32_t i = 0; i < c->n; i++) contains |= r->s->nodes[c->ids[i]].contains != 0;
    if (c->depends || (items && contains)) {
        kt__sreader_fail(r, KT_E_UNSUPPORTED, n->json, keyword,
                         "what is evaluated depends on the value");
        return;
    }
    if (props) settle_properties(c, id);
    if (items && r->status == KT_OK) settle_items(c, id);
}

kt_status kt__sreader_settle_unevaluated(kt__sreader *r) {
    closure *c = NULL;
    uint32_t n = r->s->n_nodes;
    for (kt__snode_id id = 1; id < n && r->status == KT_OK; id++) {
        if (!r->s->nodes[id].uneval_props && !r->s->nodes[id].uneval_items) continue;
        if (!c) c = kt__sreader_alloc(r, 1, sizeof *c);
        if (!c) return r->status;
        c->r = r;
        settle_node(c, id);
    }
    return r->status;
}
