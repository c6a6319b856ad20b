#include "context/model_sampler.h"

#include "base/alloc.h"
#include "base/error.h"

static const char *token_bytes(void *ctx, int32_t id, size_t *len) {
    kt__str bytes = kt__tokenizer_token_bytes(ctx, id);
    *len = bytes.len;
    return bytes.s;
}

kt_status kt__model_sampler(const kt_model *model, const kt_sampling *sampling,
                            const kt__sampler_setup *setup, kt__sampler **out, kt_error *err) {
    kt__sampler_vocab vocab = {token_bytes, model->tok};
    kt__sampler_setup whole = *setup;
    if (model->tok) whole.vocab = &vocab;
    return kt__sampler_create(sampling, &whole, out, err);
}

/* ---- kt_sampler: the chain over logits that the caller has ---- */

struct kt_sampler {
    kt__sampler *chain;
    int32_t n_vocab;
    uint64_t position; /* of the token that is drawn next */
};

static kt_status fill_sampler_of(kt_sampler *s, const kt_model *model, const kt_sampling *sampling,
                                 int32_t n_ctx, kt_error *err) {
    kt_sampling usual = kt_sampling_default();
    kt__sampler_setup setup = {.n_vocab = s->n_vocab, .n_ctx = n_ctx};
    if (n_ctx < 1 || n_ctx > KT_CTX_MAX)
        return kt__fail(err, KT_E_ARG, "n_ctx is %d, expected 1 to %d", n_ctx, KT_CTX_MAX);
    return kt__model_sampler(model, sampling ? sampling : &usual, &setup, &s->chain, err);
}

kt_status kt_sampler_open(const kt_model *model, const kt_sampling *sampling, int32_t n_ctx,
                          kt_sampler **out, kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    kt_sampler *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a sampler", sizeof *s);
    s->n_vocab = model->info.n_vocab;
    kt_status status = fill_sampler_of(s, model, sampling, n_ctx, err);
    if (status == KT_OK) {
        *out = s;
    } else {
        kt__free(s);
    }
    return status;
}

void kt_sampler_close(kt_sampler *s) {
    if (!s) return;
    kt__sampler_free(s->chain);
    kt__free(s);
}

kt_status kt_sampler_accept(kt_sampler *s, int32_t id, kt_error *err) {
    kt__error_clear(err);
    if (id < 0 || id >= s->n_vocab)
        return kt__fail(err, KT_E_ARG, "the token is %d, expected 0 to %d", id, s->n_vocab - 1);
    kt__sampler_accept(s->chain, id);
    s->position++;
    return KT_OK;
}

kt_status kt_sampler_sample(kt_sampler *s, const float *logits, int32_t *id, kt_error *err) {
    kt__error_clear(err);
    return kt__sampler_sample(s->chain, logits, s->position, id, err);
}

void kt_sampler_reset(kt_sampler *s) {
    kt__sampler_reset(s->chain);
    s->position = 0;
}

uint64_t kt_sampler_seed(const kt_sampler *s) {
    return kt__sampler_seed(s->chain);
}
