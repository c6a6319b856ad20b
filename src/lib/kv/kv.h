/* The paged key/value store.
 *
 * Owns: pages of 16 positions (all layers of these positions), their reference counts, the f16 forms of those that
 * are written (kv/f16_copies.h), and block tables that grow, shrink, share and copy on write; with recurrent layers,
 * each table's state and the snapshots that pages have. Knows layers, heads and positions only. Not thread-safe: the
 * engine that owns it serialises; while a batch runs, kernels write disjoint parts of pages that no other table
 * shares.
 *
 * Keys and values have a form each. In the form f16 a page is written and read in its place. In another one the page
 * is quantised (base/geometry.h has the layout) when queries come that read it so; before that it has an f16 copy,
 * which a page keeps while positions of it are written, or may be written again. Its own parts have a place only once
 * it is quantised, or begins to be.
 *
 * Layers with a sliding window (kt__kv_is_local) have parts apart from the others' (kv/slabs.h, as many as running
 * sequences need, and some): a page keeps them while a query may come that reads it, and then until another page
 * needs their place. Together these are a ring for each sequence.
 *
 * Memory is laid out as kv/slabs.h says: a sequence that grows undisturbed takes consecutive pages, so that a split's
 * keys are one linear stream, and its values another. Layers may have heads of two numbers and sizes. */
#ifndef KT_KV_KV_H
#define KT_KV_KV_H

#include "base/geometry.h"
#include "base/math.h"
#include "host/affinity.h"
#include "kv/shape.h"

#include <kentang.h>

/* States of recurrent layers: what a sequence has besides keys and values, and cannot be cut.
 *
 * Pieces of memory of one size, each the state after a number of positions, their reference counts, and which pages
 * of K/V have one (a snapshot: the state after the page's last position). A piece is written once, by the batch that
 * computes its positions, and only read from then on, so that the caller that continues from it shares it. Where no
 * piece is free, the snapshot that was used least recently and has no other holder is given up. Threads as kv/kv.h,
 * its user. */

enum { KT__NO_STATE = 0 }; /* no piece's number */

typedef struct kt__states kt__states;

kt_status kt__states_create(size_t piece_bytes, int64_t n_pages, int32_t n_pieces, kt__states **out,
                            kt_error *err) KT_CHECKED;
void kt__states_destroy(kt__states *states);

/* With one reference and undefined content; KT__NO_STATE: every piece is in use. */
int32_t kt__states_take(kt__states *states);
void kt__states_ref(kt__states *states, int32_t piece);
void kt__states_drop(kt__states *states, int32_t piece); /* KT__NO_STATE allowed */
int32_t kt__states_n(const kt__states *states);          /* pieces: 1 to this */
int32_t kt__states_used(const kt__states *states);       /* the highest that was ever taken */
float *kt__states_data(const kt__states *states, int32_t piece);

/* ---- snapshots ---- */
typedef enum kt__snapshot {
    KT__SNAPSHOT_NONE,
    KT__SNAPSHOT_ROLLING, /* the last one of an answer that continues */
    KT__SNAPSHOT_MARK     /* where conversations branch */
} kt__snapshot;

kt__snapshot kt__states_kind(const kt__states *states, int32_t page);
/* The page's piece, used now; KT__NO_STATE: it has none. */
int32_t kt__states_of(kt__states *states, int32_t page);
/* The page gets a reference of its own; what it had before is forgotten. */
void kt__states_keep(kt__states *states, int32_t page, int32_t piece, kt__snapshot kind);
void kt__states_forget(kt__states *states, int32_t page);
/* What the one page has becomes the other's, where that has none. */
void kt__states_move(kt__states *states, int32_t from, int32_t to);

/* ---- the store ---- */

typedef struct kt__kv kt__kv;

/* n_pages pages at most (1 <= n_pages <= 2^30), of which all may be f16, and as many states. In
 * forms other than f16 it is places for quantised ones, and the f16 copies are apart. */
kt_status kt__kv_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv **out,
                        kt_error *err) KT_CHECKED;
/* The same with room for so many f16 pages (no matter in the form f16) and so many states (no
 * matter without recurrent layers). */
kt_status kt__kv_create_with(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                             kt__kv **out, kt_error *err) KT_CHECKED;
void kt__kv_destroy(kt__kv *kv);
/* Before anything is stored: the pages will lie on the NUMA nodes of the place's threads in turn.
 */
void kt__kv_spread(kt__kv *kv, const kt__affinity *place);

/* The memory that pages and their f16 copies lie in; KT__KV_MEMORY stretches, of 0 bytes where there is none. */
enum { KT__KV_MEMORY = 4 };
typedef struct kt__kv_stretch {
    void *data;
    size_t bytes;
} kt__kv_stretch;
void kt__kv_get_memory(const kt__kv *kv, kt__kv_stretch out[KT__KV_MEMORY]);

size_t kt__kv_page_bytes(const kt__kv_shape *shape); /* of a page with all its parts */
/* Of so many pages of which so many have parts in layers with a window, without f16 copies. */
uint64_t kt__kv_bytes(const kt__kv_shape *shape, int64_t n_pages, int64_t n_local);
int64_t kt__kv_n_pages(const kt__kv *kv);
int64_t kt__kv_n_local(const kt__kv *kv); /* that may have parts in layers with a window at once */
int64_t kt__kv_n_used(const kt__kv *kv);
/* Pages that one sequence may have at most: those of its tail need no place. */
int64_t kt__kv_n_pages_most(const kt__kv *kv);

/* One head's part of a page in a layer, as it is written: f16. NULL: the page has no f16 copy. */
kt__f16 *kt__kv_k(const kt__kv *kv, int32_t page, int layer, int head);
kt__f16 *kt__kv_v(const kt__kv *kv, int32_t page, int layer, int head);
/* The same in its place, quantised, or where a layer's keys are f16, as it is; NULL where all is
 * f16, and where the page has no place yet. */
uint8_t *kt__kv_quantised_k(const kt__kv *kv, int32_t page, int layer, int head);
uint8_t *kt__kv_quantised_v(const kt__kv *kv, int32_t page, int layer, int head);
/* Keys in the form that the layer has them in: kt__slabs_k_bytes, or NULL where the page has no place yet. */
uint8_t *kt__kv_own_k(const kt__kv *kv, int32_t page, int layer, int head);
/* Whether a table's batch has to quantise its index-th page in the layer, before anybody reads it
 * so. */
struct kt__kv_table;
bool kt__kv_is_due(const kt__kv *kv, const struct kt__kv_table *table, int32_t index, int layer);

/* A block: one page's content in one piece, for files, without its f16 copy. For each layer and
 * head: K, f16 [head_dim_k][16 positions] or quantised, then V, f16 [16 positions][head_dim_v] or
 * quantised (zeros, where the page has no place), little-endian, without padding. A page that is
 * not f16 is quantised once its block is written. What layers with a window have no longer of a page
 * is zeros, too. */
const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv);
size_t kt__kv_block_bytes(const kt__kv_shape *shape);
void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out);
void kt__kv_block_read_global(const kt__kv *kv, int32_t page, void *out); /* zeros in others */
void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block);
/* A page's f16 copy as a block, of what is not f16 anyway. */
size_t kt__kv_f16_copy_bytes(const kt__kv_shape *shape);
bool kt__kv_page_has_f16(const kt__kv *kv, int32_t page);
bool kt__kv_page_has_place(const kt__kv *kv, int32_t page);
/* Whether it has its parts in layers with a window, where such have places at all. */
bool kt__kv_page_has_local(const kt__kv *kv, int32_t page);
/* Whether its block is all that a query reads which does not read it in f16. */
bool kt__kv_page_is_quantised(const kt__kv *kv, int32_t page);
void kt__kv_f16_copy_read(const kt__kv *kv, int32_t page, void *out);
void kt__kv_f16_copy_write(kt__kv *kv, int32_t page, const void *f16);
void kt__kv_f16_copy_drop(kt__kv *kv, int32_t page);

/* ---- a store with other heads of the same positions, in another process, which this one leads ---- */
typedef struct kt__kv_where {
    /* of its own parts, of its f16 copy and in layers with a window, -1: none; its quantised layers */
    int32_t place, slot, local, quantised;
} kt__kv_where;
kt__kv_where kt__kv_page_where(const kt__kv *kv, int32_t page);
/* The store that is led; false: a number is out of range. */
bool kt__kv_page_put(kt__kv *kv, int32_t page, kt__kv_where where);
void kt__kv_page_copy(kt__kv *kv, int32_t from, int32_t to);
int64_t kt__kv_n_ids(const kt__kv *kv);    /* pages are 0 to this - 1 */
int32_t kt__kv_n_states(const kt__kv *kv); /* pieces are 1 to this */
/* Those up to this have been in use; the memory of others is new. */
int32_t kt__kv_states_used(const kt__kv *kv);
/* Called when one page's content was copied to another. */
typedef void kt__kv_copied_fn(void *user, int32_t from, int32_t to);
void kt__kv_set_copied(kt__kv *kv, kt__kv_copied_fn *copied, void *user);

/* ---- pages, for those who keep them outside tables ---- */
int32_t kt__kv_page_take(kt__kv *kv); /* with a place; -1: none left; one reference */
void kt__kv_page_ref(kt__kv *kv, int32_t page);
void kt__kv_page_drop(kt__kv *kv, int32_t page);
int32_t kt__kv_page_refs(const kt__kv *kv, int32_t page);
/* A page marked as kept is one that reclaim may give back when it has no other holder. */
void kt__kv_page_set_kept(kt__kv *kv, int32_t page, bool kept);
int64_t kt__kv_n_kept(const kt__kv *kv); /* of these with a place, now */
/* Called when n more places are needed than are free, before anything is refused: gives back what
 * it can. */
typedef void kt__kv_reclaim_fn(void *user, int64_t n_pages);
void kt__kv_set_reclaim(kt__kv *kv, kt__kv_reclaim_fn *reclaim, void *user);
/* Called, with reclaim's user, when a page lost its f16 copy that was not quantised. */
typedef void kt__kv_lost_fn(void *user, int32_t page);
void kt__kv_set_lost(kt__kv *kv, kt__kv_lost_fn *lost);

/* ---- block tables: position p lies in pages[p / 16], slot p % 16 ---- */
typedef struct kt__kv_table {
    int32_t *pages;
    int32_t n_pages, cap;
    int32_t f16_from, f16_to;       /* pages whose f16 copies it holds: nobody may take them */
    bool holds_first;               /* and page 0's */
    int32_t window_from, window_to; /* the same of parts in layers with a window */
    int32_t cuts[2];                /* see kt__kv_table_cut */
    /* the batch at hand quantises pages quantise_from..quantise_due-1, and quantise_layers layers
     * of those up to quantise_to */
    int32_t quantise_from, quantise_due, quantise_to, quantise_layers;
    /* with recurrent layers: pieces of kv/kv.h, each a reference of the table's own */
    int32_t
        state; /* after n_state positions; KT__NO_STATE: none is there, or needed at position 0 */
    int32_t next; /* where the batch to come writes; KT__NO_STATE: none is taken */
    int64_t n_state;
} kt__kv_table;

/* Room for at most max_pos positions; no page is taken yet. */
kt_status kt__kv_table_init(kt__kv_table *table, int64_t max_pos, kt_error *err) KT_CHECKED;
void kt__kv_table_free(kt__kv *kv, kt__kv_table *table);
/* Makes positions [n_old, n_new) writable: takes pages, copies the one that holds n_old - 1 if it
 * is shared, and takes the piece that their state goes into. KT_E_NOMEM when no page or piece is
 * left: the table is then as it was. No heap allocation. */
kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) KT_CHECKED;
/* What the pages of new positions are given besides their place, where they are not f16. */
typedef enum kt__kv_growth {
    KT__GROW_KEPT,   /* f16 copies in all layers: positions may be taken back */
    KT__GROW_STAGED, /* those that are filled: in the layer at hand alone, for a batch that stays */
    KT__GROW_QUANTISED /* those that are filled: none, since blocks will be written there */
} kt__kv_growth;
/* kt__kv_table_grow is with KT__GROW_KEPT. KT_E_STATE where a page that a query at n_old reads in
 * f16 is not: see kt__kv_table_own_end. The table holds what such queries read, and what it grows
 * by. */
kt_status kt__kv_table_grow_as(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                               kt__kv_growth how, kt_error *err) KT_CHECKED;
/* The first n_pos positions stay: drops the f16 copies that no query after them reads, but those
 * before its cuts, which it only holds no longer. */
void kt__kv_table_settle(kt__kv *kv, kt__kv_table *table, int64_t n_pos);
/* Others will continue after these positions: the f16 copies that they read will be kept where
 * there is room. Of the last two such cuts. */
void kt__kv_table_cut(kt__kv_table *table, int64_t n_pos);
/* Nothing is appended for now: f16 copies and windows stay where there is room. */
void kt__kv_table_rest(kt__kv *kv, kt__kv_table *table);
/* A page was appended whose content is known, and more may be: what only the window that ends there
 * had, and nobody else has, is dropped. */
void kt__kv_table_pass(kt__kv *kv, const kt__kv_table *table);
/* Whether all that a query after the first n_pos positions reads in f16 is there; the table holds
 * it then. */
bool kt__kv_table_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos);
bool kt__kv_table_holds_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
/* Of that, what lies in layers with a window; only where these have parts of their own. */
bool kt__kv_table_holds_window(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
/* The batch is lost: drops the f16 copies of one layer. */
void kt__kv_table_unstage(kt__kv *kv, kt__kv_table *table);
/* Where positions can be appended to the first n_pos: there, or, where an f16 copy that a query
 * there reads is gone (or that of the last page cannot be copied from who shares it), at the next
 * page's begin before it where all is there; with recurrent layers, where the last state up to
 * there is known, too. The table ends there then. From then on nobody else holds the last page, and
 * the table holds what is read. A caller that continues counting those positions may share such a
 * table and save it: they are computed again by the thread that appends. */
int64_t kt__kv_table_own_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos);
/* Returns the pages beyond those that hold the first n_pos positions, and a state beyond them. */
void kt__kv_table_truncate(kt__kv *kv, kt__kv_table *table, int64_t n_pos);
/* Puts page in place of table's index-th, or after its last one; the table holds a reference of its
 * own. */
void kt__kv_table_set(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page);
/* The same of a page that holds what table's has there. It gets the f16 copy if it has none; where
 * others need that, the table keeps its page. */
void kt__kv_table_adopt(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page);
/* dst (initialised, empty) shares the pages of src's first n_pos positions, and their state. */
void kt__kv_table_share(kt__kv *kv, const kt__kv_table *src, int64_t n_pos, kt__kv_table *dst);

/* ---- pages that are pressed ----
 *
 * Where memory runs out, a page in f16 may be pressed: quantised to q8 in all layers that see every position, where it lies
 * from then on; all that hold it read it so. What is computed after such a page is altered by it, and those pages
 * are, too. In a split, pressed pages are of one form and come before those in f16; whole splits in q8 but the first
 * may be pressed to q4. A store that presses has slabs
 * that hold pages of one form each. */
typedef void kt__kv_quantise_fn(void *user, kt__kv_form from, kt__kv_form form, bool key,
                                int head_dim, const uint8_t *part, uint8_t *out);
bool kt__kv_presses(const kt__kv *kv);
void kt__kv_set_quantise(kt__kv *kv, kt__kv_quantise_fn *quantise, void *user); /* before any is */
bool kt__kv_has_quantised(const kt__kv *kv); /* a query may read a page so, now */
kt__kv_form kt__kv_page_form(const kt__kv *kv, int32_t page);
bool kt__kv_page_is_altered(const kt__kv *kv, int32_t page); /* pressed, or computed after such */
bool kt__kv_table_is_altered(const kt__kv *kv, const kt__kv_table *table);
/* Pages that are pressed; where none is, those that were computed after such. 0: all is as in f16. */
int32_t kt__kv_table_n_pressed(const kt__kv *kv, const kt__kv_table *table);
/* A split's first pages that are pressed, as a layer has them. */
typedef struct kt__kv_pressed {
    int n;
    kt__kv_form k_form, v_form;
} kt__kv_pressed;
kt__kv_pressed kt__kv_pressed_of(const kt__kv *kv, const kt__kv_table *table, int64_t split,
                                 int layer);
/* Places for pages in f16, those of given up and of pressed pages among them. */
int64_t kt__kv_n_free(kt__kv *kv);
/* Of `most` pages, how many have to be pressed so that `wanted` places become free, or as many as
 * can; 0: none would. */
int64_t kt__kv_press_how_many(const kt__kv *kv, kt__kv_form form, int64_t most, int64_t wanted);
int64_t kt__kv_press_gain(const kt__kv *kv, kt__kv_form form,
                          int64_t n); /* such places of n pages */
/* To q8: the page is in f16, and none before it in its split is. To q4: it is in q8, and so are the others of its split,
 * which are pressed as well. */
void kt__kv_page_press(kt__kv *kv, int32_t page, kt__kv_form form);
/* Then, of pages that tables hold: begin; all tables that allow it; and of one of them at most `most` of the pages of
 * its first n_pos positions that nobody else holds, or how many these are. */
void kt__kv_press_begin(kt__kv *kv);
void kt__kv_press_allow(kt__kv *kv, const kt__kv_table *table);
int32_t kt__kv_table_press(kt__kv *kv, const kt__kv_table *table, int64_t n_pos, kt__kv_form form,
                           int64_t most, bool only_count);
/* Where neither form alone makes room: some pages to q8 complete splits, which go to q4, as far as is best. false: no
 * place becomes free so. */
bool kt__kv_table_press_both(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
/* Pages that a table may come to have which is pressed so as it grows, but for its last n_wide, and has the store
 * alone; and of a store of n_pages that is still to be made. */
int64_t kt__kv_n_pages_pressed(const kt__kv *kv, int32_t n_wide);
int64_t kt__kv_plan_pressed(const kt__kv_shape *shape, const kt__kv_room *room, int64_t n_pages,
                            int32_t n_wide);
/* By form: pages now, and that were pressed so far. */
typedef struct kt__kv_forms {
    int64_t n_pages[KT__KV_FORMS];
    uint64_t n_pressed[KT__KV_FORMS];
} kt__kv_forms;
void kt__kv_get_forms(const kt__kv *kv, kt__kv_forms *out);

/* ---- states of recurrent layers ---- */
bool kt__kv_has_states(const kt__kv *kv);
float *kt__kv_state_data(const kt__kv *kv, int32_t piece);
/* The piece with the state after n_pos positions, a multiple of a page's: the table's own, or the
 * snapshot of the last page before; KT__NO_STATE: neither is known. */
int32_t kt__kv_table_state_at(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
/* A further piece, for a state within a batch; KT__NO_STATE: none is left. The caller's until it is
 * set or dropped. */
int32_t kt__kv_state_take(kt__kv *kv);
void kt__kv_state_ref(kt__kv *kv, int32_t piece);
void kt__kv_state_drop(kt__kv *kv, int32_t piece);
/* The table's state after n_pos positions is piece, whose reference the table takes over. */
void kt__kv_table_set_state(kt__kv *kv, kt__kv_table *table, int32_t piece, int64_t n_pos);
/* piece is the state after n_pos positions, a multiple of a page's: their last page keeps it. A
 * rolling snapshot takes the place of the one a page before. */
void kt__kv_table_keep(kt__kv *kv, const kt__kv_table *table, int32_t piece, int64_t n_pos,
                       kt__snapshot kind);
/* The page that takes another's place takes its snapshot, too, if it has none. */
void kt__kv_snapshot_move(kt__kv *kv, int32_t from, int32_t to);

#endif
