/* The sampler: from logits to a token.
 *
 * Owns: the validated chain of a kt_sampling, the history of accepted tokens that penalties and DRY
 * look at, mirostat's state, and the choice of a token. Does not know tensors, tokenizers (the
 * bytes of a token come through kt__sampler_vocab) or sequences.
 *
 * The chain, in the order of kt_sampling.chain (NULL: of steps.def) after the logit bias:
 *   penalties     repetition, frequency, presence over the last repeat_last_n tokens
 *   dry           "don't repeat yourself": a penalty that grows with the length of the repetition
 *   top_n_sigma   logits within n standard deviations of the greatest
 *   top_k, typ_p, top_p, min_p, xtc, temperature (with dynatemp_range: by entropy)
 * and then one draw. temperature <= 0 is greedy: penalties and DRY, then the greatest logit. With
 * mirostat the truncating steps are left out (penalties, DRY and temperature stay). Ties go to the
 * lowest id.
 *
 * Arithmetic is base/math.h's; random numbers are rng.h's, keyed by (seed, choice, position, draw),
 * so the same inputs give the same token, regardless of earlier samples.
 *
 * kt__sampler_sample does not change the state, kt__sampler_accept does: a token that was sampled
 * and then discarded leaves no trace. A sampler has one user at a time; a scratch may serve many
 * samplers, one call at a time. No allocation after creation. */
#ifndef KT_SAMPLE_SAMPLE_H
#define KT_SAMPLE_SAMPLE_H

#include <kentang.h>

typedef struct kt__sampler kt__sampler;
typedef struct kt__sampler_scratch kt__sampler_scratch;

/* The bytes a token means, for DRY's sequence breakers; NULL or *len = 0 for tokens without
 * text. The result is read before the next call. */
typedef struct kt__sampler_vocab {
    const char *(*bytes)(void *ctx, int32_t id, size_t *len);
    void *ctx;
} kt__sampler_vocab;

typedef struct kt__sampler_setup {
    int32_t n_vocab;
    int32_t n_ctx;   /* what "whole context" means for repeat_last_n and DRY; at least 1 */
    uint32_t choice; /* index of one of several answers to a prompt */
    kt__sampler_scratch
        *scratch; /* of the same n_vocab, outlives the sampler; NULL: one of its own */
    const kt__sampler_vocab *vocab; /* copied; NULL: DRY works without breakers */
} kt__sampler_setup;

/* About 24 bytes a vocabulary entry. */
kt_status KT_CHECKED kt__sampler_scratch_create(int32_t n_vocab, kt__sampler_scratch **out,
                                                kt_error *err);
void kt__sampler_scratch_free(kt__sampler_scratch *scratch);

/* Checks every member of params (KT_E_ARG names it, its range and the value) without creating
 * anything. */
kt_status KT_CHECKED kt__sampling_check(const kt_sampling *params, int32_t n_vocab, kt_error *err);

/* params and what it points to are copied. seed KT_SEED_RANDOM is replaced by one from the system.
 */
kt_status KT_CHECKED kt__sampler_create(const kt_sampling *params, const kt__sampler_setup *setup,
                                        kt__sampler **out, kt_error *err);
void kt__sampler_free(kt__sampler *sampler);
uint64_t kt__sampler_seed(const kt__sampler *sampler); /* the one in use; repeats the run */
/* Nothing but the greatest logit is asked for: no penalty, bias or draw. The caller may use an
 * argmax of its own. */
bool kt__sampler_is_argmax(const kt__sampler *sampler);

/* Forgets every token: as it was created, with the same seed. */
void kt__sampler_reset(kt__sampler *sampler);

/* Appends a token, of the prompt or sampled, to the history. */
void kt__sampler_accept(kt__sampler *sampler, int32_t id);

/* logits[n_vocab] f32; -infinity forbids a token. position: the absolute position that the token
 * will take. KT_E_NUMERIC for NaN, +infinity, or when every token is forbidden. */
kt_status KT_CHECKED kt__sampler_sample(kt__sampler *sampler, const float *logits,
                                        uint64_t position, int32_t *id, kt_error *err);
/* Logarithms of the probabilities that the last sample was drawn from: id's own in out[0], -infinity where the
 * chain has left it out, then the n most probable ones (id -1: there are fewer). Before anything else uses the
 * sampler or its scratch. */
void kt__sampler_probs(const kt__sampler *sampler, int32_t id, kt_logprob *out, int n);

#endif
