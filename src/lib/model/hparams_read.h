/* Reading hyper-parameters: the keys of one architecture in a GGUF file's metadata, and the parts that they are read
 * in.
 *
 * Owns: reading PREFIX.suffix keys with their checks and errors; which keys belong to layers of two kinds, to
 * experts, to recurrent layers and to attention over latent vectors. One thread. */
#ifndef KT_MODEL_HPARAMS_READ_H
#define KT_MODEL_HPARAMS_READ_H

#include "gguf/gguf.h"
#include "model/hparams.h"

#include <kentang.h>

/* The first failure sticks, so that a run of reads is checked once, and later reads give harmless values. Knows no
 * architecture. */

typedef struct kt__key_reader {
    const kt__gguf *gguf;
    const char *prefix;
    kt_error *err;
    kt_status status;
    char key[128];
} kt__key_reader;

/* PREFIX.suffix, valid until the next call. */
const char *kt__key_of(kt__key_reader *r, const char *suffix);
float kt__key_f32(kt__key_reader *r, const char *suffix, bool required, float fallback);
bool kt__key_bool(kt__key_reader *r, const char *suffix, bool fallback);
/* An integer in [low, high]; a per-layer array is taken when all its elements are equal. */
int64_t kt__key_int(kt__key_reader *r, const char *suffix, bool required, int64_t fallback,
                    int64_t low, int64_t high);
/* The layer's integer, of an array with one for each of n_layer or of one for all. fallback 0: the
 * key is required. */
int64_t kt__key_at(kt__key_reader *r, const char *suffix, int layer, int n_layer, int64_t fallback,
                   int64_t low, int64_t high);
/* An integer for each layer, or one for all: 0 (zero[i] is set), or everywhere the same one up to high,
 * which is returned. KT_E_FORMAT for others and where all are 0. */
int kt__key_layers(kt__key_reader *r, const char *suffix, int n_layer, int64_t high, bool *zero);
/* Factors that would make a model's numbers nothing but zeros or infinities are no factors. */
void kt__key_positive(kt__key_reader *r, const char *suffix, float value);
/* KT_E_FORMAT: the key `what`. */
void kt__key_fail(kt__key_reader *r, const char *suffix, const char *what);
/* KT_E_UNSUPPORTED: this value of the key. */
void kt__key_refuse(kt__key_reader *r, const char *suffix, int64_t value);

/* The parts, in the order in which hparams_read.c calls them. */

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
