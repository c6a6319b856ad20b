/* A layer's parts, whatever its mixer.
 *
 * Owns: the order of what the mixers and the feed-forward do. Works on the batch of the pass; threads
 * as forward.h. */
#ifndef KT_MODEL_LAYER_STEP_H
#define KT_MODEL_LAYER_STEP_H

#include "model/fwd_steps.h"

kt_status kt__layer_step(kt__fwd *fwd, const kt__layer *layer, kt__layer_part part,
                         kt_error *err) KT_CHECKED;

#endif
