/* The scheduler's operations on a real model.
 *
 * Owns: the batch lists of prompts' batches and of decode steps; turns slices and steps into rows,
 * K/V pages and logits, and hands these to the works they belong to (work.h). With the engine's
 * turn. No allocation after creation (see answer.h for the exception). */
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

#endif
