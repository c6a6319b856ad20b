/* The evaluation of sequences: their tokens in batches, between the scheduler's steps. */
#ifndef KT_ENGINE_EVAL_H
#define KT_ENGINE_EVAL_H

#include "engine/types.h"

/* The engine's turn is the caller's; others get it between slices of long batches. Appends and
 * computes as kt_engine_eval; cancel (may be NULL) is a second flag. */
kt_status kt__engine_eval_locked(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                                 const atomic_bool *cancel, kt_error *err) KT_CHECKED;

#endif
