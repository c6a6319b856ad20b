/* The end of a forward pass: logits of the rows that want them.
 *
 * Owns: the last norm, the hook that sees the hidden state, the head's product. Threads as
 * forward.h. */
#ifndef KT_MODEL_HEAD_H
#define KT_MODEL_HEAD_H

#include "model/fwd_steps.h"

kt_status kt__head_run(kt__fwd *fwd, kt_error *err);

#endif
