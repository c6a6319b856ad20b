/* Hash-consed nodes: the memory of one compiled constraint.
 *
 * Owns: immutable nodes (terms, formulas, frames, tries), each of which exists once: equal content
 * is the same id. All memory is taken at creation and never grows, so that nothing is allocated
 * while a batch runs; what does not fit any more is remembered in `failed` and gives the id of
 * KT__G_EMPTY. Does not know what nodes mean. One user at a time. */
#ifndef KT_GRAMMAR_POOL_H
#define KT_GRAMMAR_POOL_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t kt__gid; /* 0: none */

typedef enum kt__gkind {
    KT__G_EMPTY, /* no text; false */
    KT__G_ANY,   /* every text; true */
    KT__G_EPS,   /* the empty text */
    /* Boolean combinations of terms, and of what is known of a value */
    KT__G_AND, /* kids[n], ascending */
    KT__G_OR,
    KT__G_NOT, /* kid */
    KT__G_ONE, /* kids[n]: exactly one of them */
    KT__G_VEC, /* kids[n]: read side by side; the first must hold */
    /* texts */
    KT__G_BYTES, /* uint32_t set[8]: one byte of it */
    KT__G_CAT,   /* first, rest */
    KT__G_STAR,  /* kid */
    KT__G_REP,   /* kid, min, max (UINT32_MAX: none) */
    KT__G_CALL,  /* rule */
    KT__G_JSON,  /* schema node: a JSON value, read by itself */
    KT__G_EACH, /* separator, 1 if it is still the first, then kid and whether it must be, each once */
    /* values */
    KT__G_NODE, /* schema node, of a value that has not begun */
    KT__G_SUB,  /* formula of the value that is being read inside */
    /* objects */
    KT__G_OBJ,      /* schema node: its properties, patternProperties, additionalProperties */
    KT__G_HAS,      /* name */
    KT__G_PROPS_GE, /* so many more members at least */
    KT__G_PROPS_LE,
    KT__G_PNAMES, /* term that every member's name fits */
    /* arrays */
    KT__G_ARR, /* schema node, index */
    KT__G_ITEMS_GE,
    KT__G_ITEMS_LE,
    KT__G_CONTAINS, /* schema node, how many are needed, how many more may be */
    KT__G_UNIQUE,
    /* numbers */
    KT__G_NUM, /* kt__num_op, index of a decimal */
    /* what a text's state refers to */
    KT__G_FRAME,   /* kt__gframe */
    KT__G_TEXT,    /* length, bytes */
    KT__G_CHUNK,   /* chunk before, bytes */
    KT__G_TRIE,    /* byte, ends here, first child, next sibling */
    KT__G_HASHSET, /* bit, left, right; or UINT32_MAX, low, high */
    KT__G_KEY,     /* name, pattern terms that the member's name fits */
    KT__G_N_KINDS
} kt__gkind;

/* Bits of a node that are no part of what it is. */
enum {
    KT__GF_NULL_KNOWN = 1, /* KT__GF_NULLABLE is right */
    KT__GF_NULLABLE = 2,
    KT__GF_LIVE = 4,     /* some text fits */
    KT__GF_DEAD = 8,     /* none does */
    KT__GF_BOOLEAN = 16, /* has AND, NOT or ONE within: may be empty without looking so */
    KT__GF_SEEN = 32     /* by the search under way */
};

typedef struct kt__gpool {
    uint32_t *words; /* [cap] */
    uint32_t n, cap;
    uint32_t *table; /* [table_cap] ids by their hash, 0: free; table_mask + 1 of them in use */
    uint32_t table_mask, table_cap, n_nodes;
    uint32_t *scratch; /* [scratch_cap], a stack */
    uint32_t n_scratch, scratch_cap;
    kt_status failed; /* KT_E_LIMIT: out of memory or of steps */
    int64_t steps;    /* left before failed is set */
} kt__gpool;

enum { KT__GPOOL_EMPTY = 2, KT__GPOOL_ANY = 5, KT__GPOOL_EPS = 8 }; /* ids in every pool */

/* bytes: for nodes; the whole is about a third more. */
kt_status KT_CHECKED kt__gpool_init(kt__gpool *pool, size_t bytes, kt_error *err);
void kt__gpool_free(kt__gpool *pool);
size_t kt__gpool_bytes(const kt__gpool *pool);   /* reserved, all in all */
bool kt__gpool_is_scarce(const kt__gpool *pool); /* half of the nodes' memory is in use */

/* The node of this content. data may lie in the scratch stack, not among the nodes. */
kt__gid kt__gpool_intern(kt__gpool *pool, kt__gkind kind, const uint32_t *data, uint32_t n);
/* Forgets every node from mark (an earlier pool->n) on. */
void kt__gpool_rollback(kt__gpool *pool, uint32_t mark);

/* The scratch stack: push, and pop by setting n_scratch. False: full (failed is set). */
bool kt__gpool_push(kt__gpool *pool, uint32_t word);

/* Counts one step of work; false when the budget is spent. */
static inline bool kt__gpool_step(kt__gpool *pool) {
    if (--pool->steps >= 0) return true;
    pool->failed = KT_E_LIMIT;
    return false;
}

/* A node: kind in 8 bits, flags in 6, the number of words in 18; a word for the term's row
 * (term.h); the content. */
static inline kt__gkind kt__g_kind(const kt__gpool *pool, kt__gid id) {
    return (kt__gkind)(pool->words[id] & 0xff);
}
static inline uint32_t kt__g_n(const kt__gpool *pool, kt__gid id) {
    return pool->words[id] >> 14;
}
static inline const uint32_t *kt__g_data(const kt__gpool *pool, kt__gid id) {
    return pool->words + id + 2;
}
static inline uint32_t kt__g_arg(const kt__gpool *pool, kt__gid id, uint32_t i) {
    return pool->words[id + 2 + i];
}
static inline uint32_t *kt__g_row(kt__gpool *pool, kt__gid id) {
    return pool->words + id + 1;
}
static inline uint32_t kt__g_flags(const kt__gpool *pool, kt__gid id) {
    return pool->words[id] >> 8 & 63;
}
static inline void kt__g_set_flags(kt__gpool *pool, kt__gid id, uint32_t flags) {
    pool->words[id] |= flags << 8;
}
static inline void kt__g_clear_flags(kt__gpool *pool, kt__gid id, uint32_t flags) {
    pool->words[id] &= ~(flags << 8);
}

/* Sets of 64-bit hashes (KT__G_HASHSET; 0 is the empty set): a set to which a hash is added leaves the old one as it was. */
bool kt__hashes_have(const kt__gpool *pool, kt__gid set, uint64_t hash);
kt__gid kt__hashes_add(kt__gpool *pool, kt__gid set, uint64_t hash);

#endif
