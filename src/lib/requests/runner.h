/* The scheduler's operations on a real model.
 *
 * Owns: the batch lists of prompts' batches and of decode steps; turns slices and steps into rows, K/V pages and
 * logits, and hands these to the works they belong to (work.h); the parts of prompts that the disk cache has
 * (stored.c). With the engine's turn. No allocation after creation (see answer/answer.h for the exception). */
#ifndef KT_REQUESTS_RUNNER_H
#define KT_REQUESTS_RUNNER_H

#include "context/work.h"
#include "sched/sched_ops.h"

typedef struct kt__runner kt__runner;

kt_status kt__runner_create(kt_engine *engine, kt__runner **out, kt_error *err) KT_CHECKED;
void kt__runner_destroy(kt__runner *runner);
const kt__sched_ops *kt__runner_ops(void); /* user: the kt__runner */
/* kt__fwd_params.on_hidden: a wanted row of a prompts' batch (embeddings). user: the kt_engine. */
void kt__runner_on_hidden(void *user, int row, float *hidden);

/* Prompts and a store of blocks with ends: the part of a prompt that can be continued without being computed, after
 * the process or its memory has lost it.
 *
 * When the store is asked for an end, how what it has comes into the table, and which ends it is handed: where the
 * first message ends, where the prompt does and where it departed from an earlier one, and where the answer does.
 * With the engine's turn. */

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
