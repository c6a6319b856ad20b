/* Hyper-parameters: a GGUF file's metadata as checked numbers.
 *
 * Owns: the architecture table and every bound that later code relies on (a kt__hparams that was
 * read without error cannot make an index or a size overflow). Does not look at tensors. Any
 * thread; immutable. */
#ifndef KT_MODEL_HPARAMS_H
#define KT_MODEL_HPARAMS_H

#include <kentang.h>

#include "gguf/gguf.h"
#include "model/hparams_types.h"

/* params gives the RoPE overrides (NULL: none). n_vocab is the tokenizer's count when the file has
 * no vocab_size key. */
kt_status kt__hparams_read(const kt__gguf *gguf, const kt_model_params *params, kt__hparams *out,
                           kt_error *err) KT_CHECKED;
/* What a layer's program does: as the features, but that a layer may be without experts. */
kt__features kt__hparams_features_of(const kt__hparams *hp, int layer);
kt__layer_sizes kt__hparams_sizes(const kt__hparams *hp, int layer);
/* Whether a layer attends through the sliding window. */
bool kt__hparams_is_local(const kt__hparams *hp, int layer);
/* The layer whose keys and values it reads: itself, or the last one before of its kind that has any. */
int kt__hparams_kv_source(const kt__hparams *hp, int layer);
/* Whether a layer's queries and keys are rotated. */
bool kt__hparams_is_rotated(const kt__hparams *hp, int layer);
/* What arch.def says of an architecture, without what a file adds; 0 for one that it does not have. */
kt__features kt__arch_features(const char *arch);

#endif
