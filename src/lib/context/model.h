/* What the engine's modules ask of a model. Any thread.
 *
 * Owns: kt_model; it is immutable once open, but for its hash and fingerprint, which are made when they are asked
 * for. */
#ifndef KT_CONTEXT_MODEL_H
#define KT_CONTEXT_MODEL_H

#include "context/types.h"

#include <stddef.h>

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

/* The fingerprint: whether two files, or two openings of one, are the same model (fingerprint.c). */

typedef struct kt__fingerprint kt__fingerprint;

/* A model's: not computed yet. */
kt_status kt__fingerprint_create(kt__fingerprint **out, kt_error *err) KT_CHECKED;
void kt__fingerprint_free(kt__fingerprint *fingerprint);
/* A model's fingerprint, computed at the first call: of the metadata, the tensor table, the sizes
 * and sampled blocks of the tensors' bytes. KT_E_TRUNCATED where the file was cut since it was
 * opened. */
kt_status kt__model_fingerprint(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES],
                                kt_error *err) KT_CHECKED;
/* The same of any GGUF file, computed now. */
void kt__gguf_fingerprint(const kt__gguf *gguf, uint8_t out[KT_FINGERPRINT_BYTES]);
/* Two openings of one model, in one context or in two: what was made for the one fits the other. */
bool kt__model_is_same(const kt_model *a, const kt_model *b);

/* Samplers that know the bytes of the model's tokens, and kt_sampler, the public form over logits that the caller
 * has. A sampler belongs to one caller at a time. */

/* Creates the sampler chain of `sampling`; `setup` may leave out the bytes of tokens, which are the
 * model's. The caller frees *out with kt__sampler_free. */
kt_status kt__model_sampler(const kt_model *model, const kt_sampling *sampling,
                            const kt__sampler_setup *setup, kt__sampler **out,
                            kt_error *err) KT_CHECKED;

#endif
