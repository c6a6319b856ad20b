/* Schemas that no value fits, found before anything is written: an object that must have a member
 * whose name or value it forbids, an array that must have an item that cannot be, and what consists
 * of such. Clients that close the schemas of others make them. An answer would end in an error
 * where nothing can follow, so the place is refused by name, or, where a value may do without it,
 * it is never begun. What is not found here is no error: only what is certain counts. */
#include <string.h>

#include "grammar/schema_reader.h"

enum { MOST_TOGETHER = 64, MAX_STEPS = 4000000 };

/* Why a value of a node is impossible. */
typedef struct cause {
    const kt__json_node *json;
    const char *keyword, *why;
} cause;

typedef struct search {
    kt__sreader *r;
    cause *causes;                   /* [n_nodes], of nodes that are `never` */
    kt__snode_id ids[MOST_TOGETHER]; /* schemas of the value that is looked at */
    uint32_t n;
    uint64_t steps;
} search;

static kt__snode *node_at(const search *s, kt__snode_id id) {
    return &s->r->s->nodes[id];
}

static bool is_never(const search *s, kt__snode_id id) {
    return id && node_at(s, id)->never;
}

static bool all_never(search *s, const kt__slist *list) {
    s->steps += list->n;
    for (uint32_t i = 0; i < list->n; i++)
        if (!is_never(s, list->ids[i])) return false;
    return list->n > 0;
}

static void meet(search *s, kt__snode_id id) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->ids[i] == id) return;
    if (id && s->n < MOST_TOGETHER) s->ids[s->n++] = id;
}

/* The schemas that a value of this node fits in any case. */
static void find_together(search *s, kt__snode_id id) {
    s->n = 0;
    meet(s, id);
    for (uint32_t i = 0; i < s->n; i++) {
        const kt__snode *n = node_at(s, s->ids[i]);
        meet(s, n->ref);
        for (uint32_t k = 0; k < n->all_of.n; k++) meet(s, n->all_of.ids[k]);
        s->steps += n->all_of.n;
    }
}

/* The schema of a member by one schema of its object: *found if it has one. */
static kt__snode_id member_of(search *s, const kt__snode *n, uint32_t name, bool *found) {
    s->steps += n->n_props;
    for (uint32_t i = 0; i < n->n_props; i++) {
        *found = n->props[i].name == name;
        if (*found) return n->props[i].node;
    }
    *found = n->n_patterns > 0; /* perhaps */
    return *found ? 0 : n->additional;
}

/* Of s->ids: a member that must be there and cannot. */
static bool lacks_member(search *s, cause *out) {
    for (uint32_t i = 0; i < s->n; i++) {
        const kt__snode *asks = node_at(s, s->ids[i]);
        for (uint32_t k = 0; k < asks->n_required; k++) {
            for (uint32_t m = 0; m < s->n; m++) {
                bool found;
                kt__snode_id member = member_of(s, node_at(s, s->ids[m]), asks->required[k],
                                                &found);
                if (!is_never(s, member)) continue;
                *out = (cause){asks->json, "required",
                               found ? "a name whose schema is false"
                                     : "a name that additionalProperties forbids"};
                if (found && s->causes[member].json) *out = s->causes[member];
                return true;
            }
        }
    }
    return false;
}

static bool lacks_item(search *s, const kt__snode *n, cause *out) {
    uint32_t n_prefix = n->prefix.n < n->min_items ? n->prefix.n : n->min_items;
    kt__snode_id bad = n->min_items > n->prefix.n && is_never(s, n->items) ? n->items : 0;
    s->steps += n_prefix;
    for (uint32_t i = 0; i < n_prefix && !bad; i++)
        if (is_never(s, n->prefix.ids[i])) bad = n->prefix.ids[i];
    if (!bad) return false;
    *out = s->causes[bad].json ? s->causes[bad]
                               : (cause){n->json, "minItems", "an item that items forbids"};
    return true;
}

static cause cause_of_parts(const search *s, const kt__snode *n) {
    kt__snode_id first = n->ref && is_never(s, n->ref) ? n->ref : 0;
    for (uint32_t i = 0; i < n->all_of.n && !first; i++)
        if (is_never(s, n->all_of.ids[i])) first = n->all_of.ids[i];
    if (!first && n->any_of.n) first = n->any_of.ids[0];
    if (!first && n->one_of.n) first = n->one_of.ids[0];
    return first && s->causes[first].json ? s->causes[first]
                                          : (cause){n->json, NULL, "no value fits it"};
}

/* Marks the node where no value fits it, and takes types away of which none does. */
static bool judge_node(search *s, kt__snode_id id) {
    kt__snode *n = node_at(s, id);
    const uint8_t object = 1u << KT__V_OBJECT, array = 1u << KT__V_ARRAY;
    uint8_t types = n->types;
    cause why = {0};
    if (n->never) return false;
    bool part = is_never(s, n->ref) || all_never(s, &n->any_of) || all_never(s, &n->one_of);
    for (uint32_t i = 0; i < n->all_of.n && !part; i++) part = is_never(s, n->all_of.ids[i]);
    find_together(s, id);
    if (part)
        n->never = true;
    else if (types & object && lacks_member(s, &why))
        n->types &= (uint8_t)~object;
    else if (types & array && lacks_item(s, n, &why))
        n->types &= (uint8_t)~array;
    if (n->types == 0) n->never = true;
    if (n->never) s->causes[id] = part ? cause_of_parts(s, n) : why;
    return n->never || n->types != types;
}

static kt_status refuse(search *s, kt__snode_id id) {
    if (!is_never(s, id) || !s->causes[id].json) return s->r->status;
    const cause *c = &s->causes[id];
    return kt__sreader_fail(s->r, KT_E_UNSUPPORTED, c->json, c->keyword, "%s", c->why);
}

kt_status kt__sreader_refuse_impossible(kt__sreader *r, bool parts) {
    search s = {.r = r, .causes = kt__sreader_alloc(r, r->s->n_nodes, sizeof(cause))};
    bool again = r->status == KT_OK;
    while (again && s.steps < MAX_STEPS) {
        again = false;
        for (kt__snode_id id = r->s->n_nodes - 1; id > 0 && s.steps < MAX_STEPS; id--)
            again |= judge_node(&s, id);
        s.steps += r->s->n_nodes;
    }
    if (r->status != KT_OK || r->s->n_nodes < 2) return r->status;
    const kt__slist *all = &node_at(&s, 1)->prefix;
    for (uint32_t i = 0; parts && i < all->n && r->status == KT_OK; i++)
        (void)refuse(&s, all->ids[i]);
    return parts ? r->status : refuse(&s, 1);
}
