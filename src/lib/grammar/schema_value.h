/* What a schema asks of a value, as a formula that shrinks while the value is read.
 *
 * Owns: the formulas of schema nodes for each type of value (atoms are conditions still open; AND,
 * OR, NOT, ONE are terms'), what an item, a member or the end of a container makes of them, and the
 * formulas that the value inside is read under. A formula that is KT__GPOOL_EMPTY cannot be met any
 * more. Where a formula's outcome matters without being required (in oneOf, not, if ...), a vector
 * (KT__G_VEC) is read: its first member must hold, the others are found out. One user at a time. */
#ifndef KT_GRAMMAR_SCHEMA_VALUE_H
#define KT_GRAMMAR_SCHEMA_VALUE_H

#include "grammar/schema.h"

typedef struct kt__svmemo { /* of what was found out last; lost when another takes its slot */
    uint32_t op, a, b, out, out2, stamp;
} kt__svmemo;

typedef struct kt__svalue_ctx {
    kt__terms *t;
    kt__schema *s;
    kt__gid *expanded; /* [n_nodes][KT__V_N], 0: not yet */
    uint32_t *closed;  /* [n_nodes] term of the names that a closed object may have */
    kt__svmemo *memo;
    kt__gtext *texts;   /* scratch: names of the object that has most */
    uint32_t stamp;     /* memo entries of another stamp know of ids that are gone */
    kt__gid track;      /* the atom KT__G_UNIQUE */
    kt__gid keep_below; /* formulas from here on are not kept in the tables by node */
} kt__svalue_ctx;

/* Builds tables, and refuses references that go round in a circle without reading anything. */
kt_status KT_CHECKED kt__svalue_init(kt__svalue_ctx *v, kt__schema *s, kt__terms *t,
                                     kt__refusal *why, kt_error *err);
void kt__svalue_free(kt__svalue_ctx *v);

/* The formula of a value that has not begun, now that its type is known. */
kt__gid kt__svalue_expand(kt__svalue_ctx *v, kt__gid formula, kt__vtype type);
kt__gid kt__svalue_node(kt__svalue_ctx *v, kt__snode_id id); /* of a value that has not begun */
/* Whether some type of value is left to what has not begun. */
bool kt__svalue_possible(kt__svalue_ctx *v, kt__gid formula);

/* An item or a member comes: what is left of the container's formula, what the value inside is read
 * under, and the KT__G_SUB atoms (a VEC after KT__GPOOL_ANY; 0: none) whose outcome it waits for,
 * in the order of the inner vector. */
typedef struct kt__svalue_step {
    kt__gid outer, inner, subs;
} kt__svalue_step;
kt__svalue_step kt__svalue_item(kt__svalue_ctx *v, kt__gid formula);
kt__svalue_step kt__svalue_member(kt__svalue_ctx *v, kt__gid formula, kt__gid key);
/* outcome: ANY or EMPTY, or a VEC of them, as subs. */
kt__gid kt__svalue_settle(kt__svalue_ctx *v, kt__gid formula, kt__gid subs, kt__gid outcome);
/* What the formula comes to when the container ends here: ANY, EMPTY, or a VEC of them. */
kt__gid kt__svalue_end(kt__svalue_ctx *v, kt__gid formula);
/* An array has two equal items. */
kt__gid kt__svalue_not_unique(kt__svalue_ctx *v, kt__gid formula);
bool kt__svalue_wants_unique(kt__svalue_ctx *v, kt__gid formula);

/* The names a member may have, as far as they are limited; used: names it has (KT__G_TRIE). */
kt__gid kt__svalue_names(kt__svalue_ctx *v, kt__gid formula, kt__gid used);
/* The same, but properties come in the order of the schema, where one schema alone has them. */
kt__gid kt__svalue_names_in_order(kt__svalue_ctx *v, kt__gid formula, kt__gid used);
/* Names that members may be wanted for, as indices of the schema's, onto the scratch stack: those
 * that some condition still asks for, then properties. */
void kt__svalue_wanted(kt__svalue_ctx *v, kt__gid formula);
bool kt__svalue_is_integer(const kt__svalue_ctx *v, kt__gid formula); /* a number must be one */
/* The patterns whose match with a member's name matters: a VEC after ANY, or 0. */
kt__gid kt__svalue_patterns(kt__svalue_ctx *v, kt__gid formula);

/* svalue_number.c: text is what was read of a number. */
bool kt__svalue_number_live(const kt__svalue_ctx *v, kt__gid formula, const char *text, size_t len);
/* ANY, EMPTY or a VEC of them. */
/* The whole text is a number that the formula takes. */
bool kt__svalue_number_fits(const kt__svalue_ctx *v, kt__gid formula, const char *text, size_t len);
/* The digits of a fraction after which more make no difference: most, or more where the formula's
 * own numbers have more; those of its values where it has nothing but values. */
int32_t kt__svalue_number_digits(const kt__svalue_ctx *v, kt__gid formula, int32_t most);
kt__gid kt__svalue_number_end(kt__svalue_ctx *v, kt__gid formula, const char *text, size_t len);

static inline kt__gid kt__svalue_must(const kt__svalue_ctx *v, kt__gid formula) {
    const kt__gpool *p = &v->t->pool;
    return kt__g_kind(p, formula) == KT__G_VEC ? kt__g_arg(p, formula, 0) : formula;
}

/* KT__G_TRIE: persistent sets of names. 0 is the empty set, and off the trie. */
kt__gid kt__names_add(kt__gpool *pool, kt__gid set, const uint8_t *name, size_t len);
kt__gid kt__names_step(const kt__gpool *pool, kt__gid at, uint8_t byte);
static inline bool kt__names_ends(const kt__gpool *pool, kt__gid at) {
    return at && kt__g_arg(pool, at, 1);
}

#endif
