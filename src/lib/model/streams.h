/* Several residual streams (Gemma 3n; Baykal et al. 2023): a layer computes with the first, and what it
 * makes of that is passed on to the others by factors of each token.
 *
 * Owns: the streams' place in the layer program, the low-rank part besides attention, and gates of
 * which few count. Threads as forward.h. */
#ifndef KT_MODEL_STREAMS_H
#define KT_MODEL_STREAMS_H

#include "model/fwd_steps.h"

/* Those of a batch: x holds its embeddings. */
void kt__streams_make(kt__fwd *fwd);
/* Before a layer: what the streams are expected to become; x is the first. */
kt_status kt__streams_begin(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;
/* After its mixer: x and the low-rank part together. */
void kt__streams_join(kt__fwd *fwd);
/* up[n_tok][n] is times the gate of a layer whose gate is cut. */
void kt__streams_gate(kt__fwd *fwd, float *gate, int n, float *up);
/* After the layer, whose result is x: the streams are corrected by it. */
kt_status kt__streams_end(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;
/* Before the head: x is the mean of all. */
void kt__streams_merge(kt__fwd *fwd);

/* Embeddings that each layer has of its own (Gemma 3n and 4): a row of a table for every token, of which
 * every layer takes its part.
 *
 * Owns: their place in the layer program. The table is read by rows alone, where the file's pages
 * lie; nothing asks for the whole. Threads as forward.h. */

/* Those of a batch, for all layers: x holds its embeddings. */
kt_status kt__layer_inputs_make(kt__fwd *fwd, kt_error *err) KT_CHECKED;
/* What the layer makes of x and its own, before its norm: rows of d_model. */
void kt__layer_inputs_rows(kt__fwd *fwd, const kt__layer *layer, float *made);
/* x += what the layer makes of x and its own. */
kt_status kt__layer_inputs_add(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;

#endif
