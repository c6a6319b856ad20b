/* An assistant: a small model that proposes another one's tokens (NUMERICS.md, section 18).
 *
 * Owns: its program. Its rows are pairs of a token and a state of its host; it reads the host's keys
 * and values and has none of its own. Works on the batch of the
 * pass; threads as forward.h. */
#ifndef KT_MODEL_ASSISTANT_H
#define KT_MODEL_ASSISTANT_H

#include "model/fwd_steps.h"

/* Logits of the wanted rows, and the states that continue them. Each row sees the positions before
 * its own. */
kt_status kt__assistant_run(kt__fwd *fwd, kt_error *err) KT_CHECKED;

#endif
