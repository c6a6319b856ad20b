/* Sequences: their tokens, pages and logits. With the engine's turn. */
#ifndef KT_ENGINE_SEQ_H
#define KT_ENGINE_SEQ_H

#include "engine/types.h"

void kt__seq_truncate_locked(kt_seq *seq, size_t n_keep);
/* Appends ids[0] and computes it, and what would come of ids[1..n) behind it; n is at most
 * engine->step_rows. On an error seq is as it was. */
kt_status kt__seq_step_locked(kt_seq *seq, const int32_t *ids, int n, const atomic_bool *cancel,
                              kt_error *err) KT_CHECKED;
/* Appends id if it was computed already, as the next of those. */
bool kt__seq_take_ahead_locked(kt_seq *seq, int32_t id);
void kt__seq_drop_ahead_locked(kt_seq *seq);
/* The engine's forward pass is needed: a sequence's logits that lie in it move to the sequence. */
void kt__engine_return_logits(kt_engine *engine);

#endif
