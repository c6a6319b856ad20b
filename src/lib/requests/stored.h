/* Prompts and a store of blocks with ends: the part of a prompt that can be continued without being
 * computed, after the process or its memory has lost it.
 *
 * Owns: when the store is asked for an end, how what it has comes into the table, and which ends it
 * is handed: where the first message ends, where the prompt does and where it departed from an
 * earlier one, and where the answer does. With the engine's turn. */
#ifndef KT_REQUESTS_STORED_H
#define KT_REQUESTS_STORED_H

#include "context/work.h"

/* Whether the engine's store and shape are of this kind. */
bool kt__stored_is_used(const kt_engine *engine);

/* The index was asked, and task.n_done positions can be continued after. If the store can continue
 * later, the table is emptied and grown for that, n_load says how far, and the task is loading.
 * false: it could not be grown; the index has to be asked again. */
bool kt__stored_begin(kt__work *w, size_t n_findable);
/* Loads a part; the task is loading no longer when all is there (n_done says how far) or something
 * is not, and then the table is empty. */
void kt__stored_load(kt__work *w);

/* task.n_done positions are computed: blocks that have become quantised. */
void kt__stored_put_blocks(kt__work *w);
/* The ends within positions from+1..n_done of the prompt, of those that are kept. */
void kt__stored_put_ends(kt__work *w, int32_t from);
/* The end of all that was computed. */
void kt__stored_put_last(kt__work *w);

#endif
