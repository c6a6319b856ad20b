/* The feed-forward part of a layer: gate and up, with experts or without, then down.
 *
 * Owns: that half of the layer program (docs/NUMERICS.md, section 10). Works on the batch of the
 * pass; threads as forward.h. */
#ifndef KT_MODEL_FEED_FORWARD_H
#define KT_MODEL_FEED_FORWARD_H

#include "model/fwd_steps.h"

/* Gate and up of an input that is there. */
void kt__ff_gate_and_up(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts);
/* The norm of x, gate and up; experts are chosen. */
kt_status kt__ff_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
/* x += the product with down. */
kt_status kt__ff_down(kt__fwd *fwd, const kt__layer *layer, kt_error *err);

#endif
