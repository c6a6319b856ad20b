/* Reading of hyper-parameters, part by part (hparams.c calls them in this order).
 *
 * Owns: which keys belong to layers of two kinds, to experts, to recurrent layers and to attention
 * over latent vectors. */
#ifndef KT_MODEL_HPARAMS_PARTS_H
#define KT_MODEL_HPARAMS_PARTS_H

#include "model/hparams_types.h"
#include "model/key_reader.h"

/* Positions of Llama 4's chunks, and of a step of its temperature: its files do not say them. */
enum { KT__LLAMA4_CHUNK = 8192 };

/* The feed-forward's width and the heads of keys, which say of each layer what it is made of: needs
 * n_layer and n_head. */
void kt__hparams_read_layers(kt__key_reader *r, kt__hparams *hp);
/* Which layers have the sliding window. */
void kt__hparams_read_window(kt__key_reader *r, int period, kt__hparams *hp);
/* Heads of keys and widths of feed-forward parts that differ between layers; then, once the others'
 * sizes are known, the sizes of heads in layers with a sliding window, and which layers have keys
 * and values of their own. */
void kt__hparams_read_kinds(kt__key_reader *r, kt__hparams *hp);
void kt__hparams_read_local(kt__key_reader *r, kt__hparams *hp);
/* Of an assistant, the width of the model that it serves: needs n_layer. */
void kt__hparams_read_assistant(kt__key_reader *r, kt__hparams *hp);
/* Several residual streams: needs n_layer and d_model. */
void kt__hparams_read_streams(kt__key_reader *r, kt__hparams *hp);
void kt__hparams_read_experts(kt__key_reader *r, kt__hparams *hp);
void kt__hparams_read_latent(kt__key_reader *r, kt__hparams *hp);
/* The factor of queries, once it is known how far their rotation is stretched. */
void kt__hparams_scale_latent(kt__key_reader *r, kt__hparams *hp);
void kt__hparams_read_recurrent(kt__key_reader *r, kt__hparams *hp);

#endif
