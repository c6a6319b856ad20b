/* Embeddings that each layer has of its own (Gemma 3n and 4): a row of a table for every token, of which
 * every layer takes its part.
 *
 * Owns: their place in the layer program. The table is read by rows alone, where the file's pages
 * lie; nothing asks for the whole. Threads as forward.h. */
#ifndef KT_MODEL_LAYER_INPUTS_H
#define KT_MODEL_LAYER_INPUTS_H

#include "model/fwd_steps.h"

/* Those of a batch, for all layers: x holds its embeddings. */
kt_status kt__layer_inputs_make(kt__fwd *fwd, kt_error *err) KT_CHECKED;
/* What the layer makes of x and its own, before its norm: rows of d_model. */
void kt__layer_inputs_rows(kt__fwd *fwd, const kt__layer *layer, float *made);
/* x += what the layer makes of x and its own. */
kt_status kt__layer_inputs_add(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;

#endif
