/* The prefix index: finding K/V blocks again by their content.
 *
 * Owns: which pages hold which 16 tokens after which prefix; pages kept after their sequences end, given up least
 * recently used first when the store needs room; and, for explanations, the tokens of blocks given up; and ends, what
 * a sequence needs besides whole pages to continue after them. A block is one full page. Its key is a hash chain:
 * root (everything the numbers depend on besides the tokens, and the scope), then 16 tokens a link. Tokens and parent
 * are compared at each link from the root on, so that a collision is a miss.
 *
 * Does not know what goes into a root, nor requests. Not thread-safe: the engine that owns it serialises. No
 * allocation after creation.
 *
 * A second place for blocks (a disk) is attached as a kt__kv_store: it is asked for blocks that the index does not
 * have, and handed every block that becomes known. */
#ifndef KT_KV_PREFIX_H
#define KT_KV_PREFIX_H

#include "kv/kv.h"

/* Ends: what a sequence needs to continue after whole pages, besides what these hold for good.
 *
 * That as one piece of bytes: the f16 copies that a query there reads (kt__kv_end_page), as kt__kv_f16_copy_read
 * gives them, then the state of the recurrent layers. Stores that outlive the process keep it next to the blocks.
 * Threads as kv/kv.h, whose public functions it uses. n_pos is a multiple of KT__PAGE_POS, and not 0. */

/* Whether blocks alone are not enough to continue after them. */
static inline bool kt__kv_needs_ends(const kt__kv_shape *shape) {
    return kt__kv_reads_f16_ends(shape) || shape->state_bytes > 0;
}

size_t kt__kv_end_bytes(const kt__kv_shape *shape, int64_t n_pos);
size_t kt__kv_end_bytes_most(const kt__kv_shape *shape); /* of any n_pos */

/* Whether all of the end after the table's first n_pos positions is in memory. */
bool kt__kv_has_end(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);

/* Where it lies. */
typedef struct kt__kv_end {
    int64_t n_pos;
    const int32_t *pages; /* of these positions */
    int32_t state;        /* a piece, or KT__NO_STATE */
} kt__kv_end;
/* All of it is in memory. */
kt__kv_end kt__kv_end_of(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
void kt__kv_end_read(const kt__kv *kv, const kt__kv_end *end, void *out);

/* The table was grown from nothing to n_pos positions (KT__GROW_QUANTISED) and holds its end: where f16 copies and state are
 * to be written. Then it has them, and the last page keeps the state as its snapshot, too. */
kt__kv_end kt__kv_end_new(const kt__kv_table *table, int64_t n_pos);
void kt__kv_end_write(kt__kv *kv, const kt__kv_end *end, const void *bytes);
void kt__kv_end_take(kt__kv *kv, kt__kv_table *table, const kt__kv_end *end);

typedef struct kt__kv_key {
    uint64_t w[2];
} kt__kv_key;

static inline bool kt__kv_key_equal(kt__kv_key a, kt__kv_key b) {
    return a.w[0] == b.w[0] && a.w[1] == b.w[1];
}

/* The root of what `bytes` says. */
kt__kv_key kt__kv_key_root(const void *bytes, size_t n);
/* ids[KT__PAGE_POS], the block's tokens */
kt__kv_key kt__kv_key_next(kt__kv_key parent, const int32_t *ids);

/* One block, as the index and its stores name it. */
typedef struct kt__kv_block {
    kt__kv_key key, parent;
    const int32_t *ids; /* [KT__PAGE_POS] */
    int32_t index;      /* its positions are KT__PAGE_POS * index and on */
} kt__kv_block;

/* Another place for blocks. Calls come from the thread that drives the engine, one at a time, with
 * the engine's lock held: running answers wait for them. */
typedef struct kt__kv_store {
    void *user;
    /* Reads the block into page (kt__kv_block_write, or part by part); false: it is not there, or
     * damaged, or would take too long. Called for consecutive blocks from the first that memory
     * does not have, between looks at the clock. */
    bool (*get)(void *user, const kt__kv_block *block, kt__kv *kv, int32_t page);
    /* The block is complete in page: copies it if it wants to keep it (kt__kv_block_read). Must not
     * wait for a disk. */
    void (*put)(void *user, const kt__kv_block *block, const kt__kv *kv, int32_t page);
    /* True if get would probably succeed; a look at a table, not at a disk. NULL: unknown. */
    bool (*has)(void *user, const kt__kv_block *block);
    /* The same of the end after a block (kv/prefix.h), whose parent is here the key of the last block
     * that is read quantised there, or zeros. NULL: the store keeps none. */
    bool (*get_end)(void *user, const kt__kv_block *block, kt__kv *kv, const kt__kv_end *end);
    void (*put_end)(void *user, const kt__kv_block *block, const kt__kv *kv, const kt__kv_end *end);
    bool (*has_end)(void *user, const kt__kv_block *block);
    /* Whether put, or put_end, would write something; a look at a table as well. */
    bool (*lacks)(void *user, const kt__kv_block *block, bool end);
} kt__kv_store;

typedef struct kt__prefix kt__prefix;

/* max_blocks: entries at most, those without a page (given up, remembered for explanations)
 * included; 0: a default for the store. Becomes the store's way to make room
 * (kt__kv_set_reclaim). */
kt_status kt__prefix_create(kt__kv *kv, size_t max_blocks, kt__prefix **out,
                            kt_error *err) KT_CHECKED;
/* Gives its pages back. */
void kt__prefix_destroy(kt__prefix *prefix);
/* store (copied) outlives the index, or is taken away with NULL. */
void kt__prefix_set_store(kt__prefix *prefix, const kt__kv_store *store);
const kt__kv_store *kt__prefix_store(const kt__prefix *prefix); /* or NULL */

/* Where a sequence is in the index. */
typedef struct kt__prefix_cursor {
    kt__kv_key key;  /* of the last block, or the root */
    int32_t n_block; /* blocks up to here */
} kt__prefix_cursor;

/* The cursor after the first n_block blocks of ids. */
kt__prefix_cursor kt__prefix_cursor_at(kt__kv_key root, const int32_t *ids, int32_t n_block);
/* Appends to table (n_block pages, all full) the pages of the blocks of ids[n] that follow the
 * cursor and are in memory, sharing them, and moves the cursor. altered: such pages, too (kt__kv_page_is_altered). */
void kt__prefix_match(kt__prefix *prefix, kt__prefix_cursor *cursor, const int32_t *ids, size_t n,
                      bool altered, kt__kv_table *table);
/* Appends the page whose block begins as ids[n] continue after the cursor, for as many positions as possible, and returns
 * how many: 0 to KT__PAGE_POS - 1. The cursor stays. The page is shared: who appends to those positions copies it. */
int32_t kt__prefix_match_part(kt__prefix *prefix, const kt__prefix_cursor *cursor,
                              const int32_t *ids, size_t n, bool altered, kt__kv_table *table);
/* Gives up the pages of the blocks of ids[n] after the root, as far as the index has them; how many. */
int32_t kt__prefix_forget(kt__prefix *prefix, kt__kv_key root, const int32_t *ids, size_t n);
/* The one block after the cursor from the store, if there is one: takes a page, fills it, indexes
 * it. false: not there, or no page left. */
bool kt__prefix_load(kt__prefix *prefix, kt__prefix_cursor *cursor, const int32_t *ids, size_t n,
                     kt__kv_table *table);
/* Makes the full blocks of table up to n_pos known, from the cursor on; a block that is known
 * already keeps its page, and table gets that one in place of its own (whose snapshot goes over to
 * it). */
void kt__prefix_insert(kt__prefix *prefix, kt__prefix_cursor *cursor, const int32_t *ids,
                       int64_t n_pos, kt__kv_table *table);

/* ---- a store with ends, where these are needed (kt__kv_needs_ends) ----
 *
 * Blocks in forms that tails have are handed to the store once they are quantised, not when they
 * become known. */

/* How many blocks of ids[n] the store can continue after, if more than `least`: the most; else 0. */
int32_t kt__prefix_find_end(const kt__prefix *prefix, kt__kv_key root, const int32_t *ids, size_t n,
                            int32_t least);
/* Loads the block after the cursor of the n_block that were found into the table's page, or shares
 * one in memory, and moves the cursor; with the last ones that are read quantised, the end, too.
 * The table was grown to n_block blocks and holds its end. false: something is not there after all,
 * and the table is of no use. */
bool kt__prefix_load_part(kt__prefix *prefix, kt__kv_key root, kt__prefix_cursor *cursor,
                          const int32_t *ids, int32_t n_block, kt__kv_table *table);
/* Hands the store the blocks of the table's first n_pos positions that it lacks, from the cursor
 * on, as far as they are quantised, and moves the cursor. */
void kt__prefix_put_blocks(kt__prefix *prefix, kt__prefix_cursor *cursor, const int32_t *ids,
                           int64_t n_pos, const kt__kv_table *table);
/* Hands it the end after the first n_block blocks, if it is in memory and the store lacks it. */
void kt__prefix_put_end(kt__prefix *prefix, kt__kv_key root, const int32_t *ids, int32_t n_block,
                        const kt__kv_table *table);

/* Where a prompt departs from one that was seen. */
typedef struct kt__prefix_miss {
    bool known;
    bool evicted;              /* it does not depart: the blocks were given up */
    int64_t at;                /* first token that differs (or is not there any more) */
    int32_t was[KT__PAGE_POS]; /* earlier tokens from there to the end of their block */
    int n_was;
    int64_t n_lost; /* tokens of the earlier prompt beyond `at` that would have been used */
} kt__prefix_miss;
/* After a match that ended at the cursor. */
void kt__prefix_explain(const kt__prefix *prefix, const kt__prefix_cursor *cursor,
                        const int32_t *ids, size_t n, kt__prefix_miss *out);

int64_t kt__prefix_n_evicted(const kt__prefix *prefix); /* pages given up so far */

#endif
