/* The store's inside: what its files share.
 *
 * Owns: the structure of kv/kv.h. kv_pages.c makes it, and takes and gives back pages, their places
 * and their f16 copies; kv_pages.c copies pages from and to one piece of memory; kv_table.c has what
 * tables hold of pages; kv_table.c what they are given for positions to come, and what their batches
 * quantise; kv_table.c the rest of tables, and their recurrent states; kv_press.c places where pages
 * may be pressed. Threads as kv/kv.h. */
#ifndef KT_KV_KV_STORE_H
#define KT_KV_KV_STORE_H

#include "kv/f16_copies.h"
#include "kv/kv.h"
#include "kv/slabs.h"

enum { KT__NO_PLACE = KT__NO_SLOT };

typedef struct kt__pressing kt__pressing;

struct kt__kv {
    kt__kv_shape shape;
    kt__slabs *slabs;
    int32_t n_local;        /* pages that may have parts in layers with a window, */
    kt__slabs *local_slabs; /* where these lie, and which pages have them; NULL: none has, see */
    kt__slots *local_slots; /* kt__kv_has_local_parts */
    int64_t n_pages;        /* places for pages' own parts; as many pages, where they are f16 */
    _Atomic int64_t n_used; /* such places; read from any thread, at any time */
    int64_t n_ids;          /* pages there may be: more than places, if f16 ones need none */
    int64_t n_taken;
    int32_t *refs;        /* [n_ids] holders of the page */
    bool *kept;           /* [n_ids] reclaim can give it back */
    int64_t n_kept;       /* such pages with a place and no other holder */
    int32_t *free_ids;    /* stack of free pages; the lowest numbers on top */
    int32_t *place_of;    /* [n_ids] where the page's own parts lie, or NO_PLACE; NULL: by number */
    int32_t *free_places; /* stack; the same way */
    uint16_t *quantised;  /* [n_ids] layers, from the first on, that are quantised */
    kt__kv_reclaim_fn *reclaim;
    kt__kv_lost_fn *lost;
    void *reclaim_user;
    kt__kv_copied_fn *copied;
    void *copied_user;
    kt__f16_copies *copies; /* NULL: keys and values are f16 */
    kt__states *states;     /* NULL: no layer is recurrent */
    kt__pressing *pressing; /* NULL: no page is pressed */
};

static inline int32_t kt__store_place_of(const kt__kv *kv, int32_t page) {
    return kv->place_of ? kv->place_of[page] : page;
}

static inline bool kt__store_is_quantised(const kt__kv *kv, int32_t page) {
    return !kv->copies || kv->quantised[page] == kv->shape.n_layer;
}

static inline bool kt__store_has_local(const kt__kv *kv, int32_t page) {
    return kv->local_slots && kt__slot_of(kv->local_slots, page) != KT__NO_SLOT;
}

/* Whether other tables may continue after the page. */
static inline bool kt__store_is_shared(const kt__kv *kv, int32_t page) {
    return kv->refs[page] - kv->kept[page] > 1;
}

/* ---- kv_pages.c ---- */

/* A page, without a place but in the form f16. */
int32_t kt__store_page_take(kt__kv *kv);
/* Whether n places are free, after asking for them if they are not. */
bool kt__store_have_places(kt__kv *kv, int64_t n);
void kt__store_give_place(kt__kv *kv, int32_t page); /* not in the form f16 */
/* A place for what layers with a window have of the page; another one may lose its own. */
void kt__store_give_local(kt__kv *kv, int32_t page);
/* What is quantised of one page becomes another's. */
void kt__store_move_place(kt__kv *kv, int32_t from, int32_t to);
/* An f16 copy for the page; another one may lose its own, and with it what was not quantised. */
void kt__store_take_f16(kt__kv *kv, int32_t page, kt__f16_copy_kind kind);

/* ---- kv_table.c ---- */

/* The f16 copies of pages from..to-1, which may be none, and of page 0 if it is read in f16, instead
 * of those so far. */
void kt__store_hold_f16(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to);
/* The same of their parts in layers with a window. */
void kt__store_hold_window(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to);
/* kt__kv_table_hold_end; keep: and all that it holds after that, for a batch that was begun. */
bool kt__store_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos, bool keep);
/* What the table holds of its index-th page, it holds of another one, which takes its place. */
void kt__store_move_holds(kt__kv *kv, const kt__kv_table *table, int32_t index, int32_t page);
/* Whether a sequence that continues at one of the table's cuts will read the page in f16. */
bool kt__store_is_before_cut(const kt__kv *kv, const kt__kv_table *table, int32_t index);
/* Of the first n_pos positions, the last page that a query after them reads quantised and that is
 * not, that it reads in f16 and that has no copy, or that it reads in layers with a window and that
 * has no part there; -1: there is none. */
int32_t kt__store_last_gone(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos);

/* ---- kv_table.c ---- */

/* Gives the table its own copy of the page that its next position will share with earlier ones. */
void kt__store_unshare_last(kt__kv *kv, kt__kv_table *table, int32_t index);

/* ---- kv_press.c ---- */

/* The store's slabs and lists, and n_ids, where pages may be pressed; of n_pages it keeps a slab, and what is no whole
 * one. */
kt_status kt__press_create(kt__kv *kv, const kt__kv_room *room, kt_error *err) KT_CHECKED;
void kt__press_destroy(kt__pressing *pressing);
kt__kv_form kt__press_form_at(const kt__kv *kv, int32_t place); /* f16 where nothing is pressed */
/* One is free. */
void kt__press_give_place(kt__kv *kv, int32_t page);
void kt__press_take_place_back(kt__kv *kv, int32_t page);
void kt__press_count_kept(kt__kv *kv, int32_t page, int by);
int64_t kt__press_n_kept(const kt__kv *kv);
/* The table's pages from a position on are written: altered, where one before is. */
void kt__press_note_written(kt__kv *kv, const kt__kv_table *table, int64_t from);
/* The first page that no query can read with those before it in its split: pressed after one in f16, or in another
 * form; -1: there is none. */
int32_t kt__press_first_mixed(const kt__kv *kv, const kt__kv_table *table);

#endif
