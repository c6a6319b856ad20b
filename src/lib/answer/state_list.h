/* The states that a batch writes, of recurrent layers.
 *
 * Owns: their pieces (kv/states.h) from the moment a batch is listed until each is a table's or
 * given back, and which of them the pages after them keep. With the engine's turn; no allocation
 * after init. */
#ifndef KT_ANSWER_STATE_LIST_H
#define KT_ANSWER_STATE_LIST_H

#include "ops/ops.h"

typedef struct kt__state_list {
    kt__kv *kv;
    kt__seg_state *list; /* [cap]; KT__NO_STATE where it was taken */
    bool *keep;          /* [cap] */
    int n, cap;
} kt__state_list;

/* false: no memory. Without recurrent layers the list stays empty. */
bool kt__state_list_init(kt__state_list *list, kt__kv *kv, size_t cap);
void kt__state_list_free(kt__state_list *list);
/* Gives back what is left; the list is empty. */
void kt__state_list_release(kt__state_list *list);

/* A segment's states follow. */
void kt__state_list_begin(const kt__state_list *list, kt__seg *seg);
/* The state after the segment's first n_tok rows goes into piece, which is the list's; false: there
 * is none, or no place. */
bool kt__state_list_add(kt__state_list *list, kt__seg *seg, int n_tok, int32_t piece, bool keep);
/* That after its last row goes into the piece that was taken with the table's pages. */
void kt__state_list_add_last(kt__state_list *list, kt__seg *seg, kt__kv_table *table, bool keep);
/* The i-th of the segment's states becomes the table's, and is kept as a snapshot unless kind is
 * NONE; false: there is none. */
bool kt__state_list_take(kt__state_list *list, const kt__seg *seg, int i, kt__kv_table *table,
                         kt__snapshot kind);

#endif
