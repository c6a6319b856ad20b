/* Prompts' batches: who is in one, how many rows it has, and for how long a slice of it runs.
 *
 * Owns: the batch in flight. One thread at a time. */
#ifndef KT_SCHED_SCHED_BATCH_H
#define KT_SCHED_SCHED_BATCH_H

#include "sched/sched_state.h"

/* A slice beside n_decoding answers; false: there is nothing to do. */
bool kt__sched_prefill_slice(kt__sched *s, int n_decoding);

#endif
