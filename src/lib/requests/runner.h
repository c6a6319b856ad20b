/* The scheduler's operations on a real model.
 *
 * Owns: the batch lists of prompts' batches and of decode steps; turns slices and steps into rows, K/V pages and
 * logits, and hands these to the works they belong to (work.h); the parts of prompts that the disk cache has
 * (pages.c). With the engine's turn. No allocation after creation (see answer/answer.h for the exception). */
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

/* The pages of a task (pages.c): what of a prompt is found in the index, loaded from a store or shared, and so not
 * computed. A store of blocks with ends gives the part of a prompt that can be continued after the process or its memory
 * has lost it: all of it or nothing. With the engine's turn. */

/* Operations of the scheduler (sched_ops.h); user: not looked at. */
void kt__pages_start(void *user, kt__task *task);
void kt__pages_load(void *user, kt__task *task, int64_t until_us);
void kt__pages_fork(void *user, const kt__task *src, kt__task *dst);
bool kt__pages_reserve(void *user, kt__task *task, int32_t n_pos);
void kt__pages_drop(void *user, kt__task *task);
/* The same, with the engine. */
int64_t kt__pages_press(kt_engine *engine, const kt__task_list *running,
                        const kt__task_list *waiting, int64_t wanted);
/* Pages that a task may come to have which has the store alone; narrow: its older ones may be pressed, if the engine
 * does that. Any thread. */
int64_t kt__pages_most(const kt_engine *engine, bool narrow, bool has_pictures);

/* n positions more are computed: they become known to the index, and blocks that are quantised now to the store. */
void kt__pages_computed(kt__work *w, int32_t n);
/* The caller hears how far the prompt is, unless it is still loaded. */
void kt__pages_tell_progress(kt__work *w);
/* The store gets the ends within positions from+1..n_done of the prompt that are kept: where the first message ends, where
 * the prompt does, and where it departed from an earlier one. */
void kt__pages_put_ends(kt__work *w, int32_t from);
/* Takes the tokens that a full context loses out of it. */
void kt__pages_drop_tokens(kt__work *w);
/* The task is over: the store gets the end of all that was computed. */
void kt__pages_end(kt__work *w);

#endif
