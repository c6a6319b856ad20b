/* What the engine's modules ask of a model. Any thread.
 *
 * Owns: kt_model; it is immutable once open, but for its hash and fingerprint, which are made when
 * they are asked for. */
#ifndef KT_CONTEXT_MODEL_H
#define KT_CONTEXT_MODEL_H

#include <stddef.h>

#include "context/types.h"

/* KT_E_STATE where the model was opened without its network. */
kt_status kt__model_needs_net(const kt_model *model, kt_error *err) KT_CHECKED;
/* Bytes of weights that computing keeps in memory: all but tables that stay in a mapped file, where
 * each token reads a row, and experts that are read as they are needed. */
uint64_t kt__model_resident_bytes(const kt_model *model);
/* The shape of its K/V; it has a network. */
kt__kv_shape kt__model_kv_shape(const kt_model *model);
/* Whether it only proposes tokens of another model. */
bool kt__model_is_assistant(const kt_model *model);
/* Whether an engine with these parameters (n_draft and draft resolved) has the model's own block propose
 * tokens: nobody else does, and all of it is here. */
bool kt__engine_uses_mtp(const kt_model *model, const kt_engine_params *params);
/* Whether its answers' last states are kept, which such a block or an assistant continues from. */
bool kt__engine_keeps_states(const kt_model *model, const kt_engine_params *params);
/* With the forms of checked parameters, and the tail of resolved ones. */
kt__kv_shape kt__engine_kv_shape(const kt_model *model, const kt_engine_params *params);
/* KT_E_UNSUPPORTED: it is an encoder, which makes embeddings. */
kt_status kt__model_generates(const kt_model *model, kt_error *err) KT_CHECKED;
/* What pooling comes to for this model: KT_POOLING_MODEL is resolved; KT_E_UNSUPPORTED: RANK of a
 * model that is no reranker. */
kt_status kt__model_pooling(const kt_model *model, kt_pooling asked, kt_pooling *out,
                            kt_error *err) KT_CHECKED;
/* kt_hash_info.hash, or zeros while it is not known. */
void kt__model_full_hash(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES]);

/* The GGUF file linked into the library, if there is one. Any thread. */

const void *kt__demo_model(size_t *size); /* NULL: none */

#endif
