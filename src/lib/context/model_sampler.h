/* Samplers that know the bytes of a model's tokens.
 *
 * Owns: the connection of the sampler chain to a model's tokenizer, and kt_sampler, the public form
 * over logits that the caller has. Any thread; a sampler belongs to one at a time. */
#ifndef KT_CONTEXT_MODEL_SAMPLER_H
#define KT_CONTEXT_MODEL_SAMPLER_H

#include "context/types.h"

/* Creates the sampler chain of `sampling`; `setup` may leave out the bytes of tokens, which are the
 * model's. The caller frees *out with kt__sampler_free. */
kt_status kt__model_sampler(const kt_model *model, const kt_sampling *sampling,
                            const kt__sampler_setup *setup, kt__sampler **out,
                            kt_error *err) KT_CHECKED;

#endif
