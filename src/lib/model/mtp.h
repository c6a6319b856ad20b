/* The block after the layers that proposes tokens (multi-token prediction; NUMERICS.md, section 18).
 *
 * Owns: its program, and its keys and values of what the layers have computed. Its rows are pairs: a
 * token and the normed state of the position before. Works on the batch of the pass; threads as
 * forward.h. */
#ifndef KT_MODEL_MTP_H
#define KT_MODEL_MTP_H

#include "model/fwd_steps.h"

/* Of a batch of the layers, after its head: the normed states of its rows. */
void kt__mtp_states_make(kt__fwd *fwd);
/* After these: the keys and values of its rows. What is not finite there
 * spoils proposals alone. */
void kt__mtp_fill(kt__fwd *fwd);
/* A batch of the block's own: logits and hidden states of the wanted rows. */
kt_status kt__mtp_run(kt__fwd *fwd, kt_error *err) KT_CHECKED;
/* [n_tok][d_model] where these states are. */
float *kt__mtp_states(const kt__fwd *fwd);

#endif
