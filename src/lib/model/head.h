/* The end of a pass: the wanted rows, normed, against the head.
 *
 * Owns: what happens between the last layer and the logits. Works on the batch of the pass; threads as
 * forward.h. */
#ifndef KT_MODEL_HEAD_H
#define KT_MODEL_HEAD_H

#include "model/fwd_steps.h"

/* Which head. */
typedef struct kt__head {
    const float *norm; /* or NULL */
    const kt__weight *w;
    const float *bias; /* or NULL */
} kt__head;

kt_status kt__head_run(kt__fwd *fwd, const kt__head *head, kt_error *err) KT_CHECKED;

#endif
