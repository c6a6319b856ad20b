/* The mixers: one file each (mix_*.c), with the parts of the layer program that are their own.
 *
 * Owns: what such a file exports, and the list of them (mixers.def). The parts work on the batch of
 * the pass; threads as forward.h. */
#ifndef KT_MODEL_MIXERS_H
#define KT_MODEL_MIXERS_H

#include "model/fwd_steps.h"

typedef struct kt__mixer {
    /* the norm of x, and what is projected from it */
    kt_status (*input)(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
    /* rows see each other */
    void (*mix)(kt__fwd *fwd, const kt__layer *layer);
    /* x += the projection of what came out */
    kt_status (*out)(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
} kt__mixer;

#define X(kind, row) extern const kt__mixer kt__mix_##row;
#include "model/mixers.def"
#undef X

/* A layer's parts, whatever its mixer.
 *
 * Owns: the order of what the mixers and the feed-forward do. Works on the batch of the pass; threads
 * as forward.h. */

kt_status kt__layer_step(kt__fwd *fwd, const kt__layer *layer, kt__layer_part part,
                         kt_error *err) KT_CHECKED;

#endif
