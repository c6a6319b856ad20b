#include "engine/answer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/stage.h"

enum {
    MAX_STEP_TEXT = 1 << 20, /* bytes that one token may release */
    USUAL_STEP_TEXT = 4096
};

kt_gen_params kt_gen_params_default(void) {
    return (kt_gen_params){.sampling = kt_sampling_default(), .n_predict = -1};
}

const char *kt_finish_name(kt_finish finish) {
    static const char *const names[KT_FINISH_COUNT] = {"none",    "eog",       "stop",  "length",
                                                       "context", "cancelled", "error", "deadline"};
    return (unsigned)finish < KT_FINISH_COUNT ? names[finish] : "error";
}

static const char *token_bytes(void *ctx, int32_t id, size_t *len) {
    kt__str bytes = kt__tokenizer_token_bytes(ctx, id);
    *len = bytes.len;
    return bytes.s;
}

static kt_status make_sampler(kt__answer *a, const kt_gen_params *params, uint32_t choice,
                              kt_error *err) {
    kt_engine *engine = a->engine;
    kt__sampler_vocab vocab = {token_bytes, engine->model->tok};
    kt__sampler_setup setup = {
        .n_vocab = engine->model->net->hp.n_vocab,
        .n_ctx = engine->params.n_ctx,
        .choice = choice,
        .scratch = engine->scratch,
        .vocab = engine->model->tok ? &vocab : NULL,
    };
    kt_status status = kt__sampler_create(&params->sampling, &setup, &a->sampler, err);
    if (status == KT_OK) a->seed = kt__sampler_seed(a->sampler);
    return status;
}

kt_status kt__answer_init(kt__answer *a, kt_engine *engine, const kt_gen_params *params,
                          uint32_t choice, kt_error *err) {
    kt_status status;
    *a = (kt__answer){
        .engine = engine,
        .n_predict = params->n_predict,
        .ignore_eog = params->ignore_eog,
        .stop = -1,
    };
    kt__buf_init(&a->piece, MAX_STEP_TEXT);
    kt__buf_init(&a->text, MAX_STEP_TEXT);
    if (params->n_predict < -1) {
        return kt__fail(err, KT_E_ARG, "n_predict is %d, expected -1 (no limit) or more",
                        params->n_predict);
    }
    KT__TRY(make_sampler(a, params, choice, err));
    KT__TRY(kt__stops_create(params->stop, params->n_stop, &a->stops, err));
    if (engine->model->tok) kt__detok_init(&a->detok, engine->model->tok, 0, false);
    if (!kt__buf_reserve(&a->text, USUAL_STEP_TEXT) || !kt__buf_reserve(&a->piece, USUAL_STEP_TEXT))
        status = kt__fail_nomem(err, "the answer's text", USUAL_STEP_TEXT);
out:
    return status;
}

void kt__answer_free(kt__answer *a) {
    kt__sampler_free(a->sampler);
    kt__stops_free(a->stops);
    kt__held_free(a->held);
    kt__buf_free(&a->piece);
    kt__buf_free(&a->text);
}

void kt__answer_accept(kt__answer *a, int32_t id) {
    kt__sampler_accept(a->sampler, id);
}

/* ---- constraints ---- */

kt_status kt__answer_hold(kt__answer *a, kt__constraint *constraint, kt_error *err) {
    return kt__held_create(constraint, &a->held, err);
}

static kt_status sample_masked(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                               kt_error *err) {
    float *masked = a->engine->masked;
    kt_status status = kt__held_mask(a->held, logits, masked, err);
    if (status != KT_OK) return status;
    status = kt__sampler_sample(a->sampler, masked, position, id, err);
    if (status != KT_E_NUMERIC) return status;
    return kt__fail(err, KT_E_UNSUPPORTED, "no token of this vocabulary can go on with the text");
}

static int32_t argmax_of(const kt_engine *engine, const float *logits) {
    bool finite;
    return engine->model->ctx->kernels->argmax(logits, engine->model->net->hp.n_vocab, &finite);
}

/* Where only the greatest logit counts, it may be a token that fits: then nothing need be masked. */
static kt_status sample_held(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                             kt_error *err) {
    if (kt__sampler_is_argmax(a->sampler)) {
        *id = argmax_of(a->engine, logits);
        if (kt__held_takes(a->held, *id)) return KT_OK;
    }
    return sample_masked(a, logits, position, id, err);
}

static bool is_held(const kt__answer *a) {
    return a->held && !kt__held_is_free(a->held);
}

kt_status kt__answer_sample(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                            kt_error *err) {
    kt_engine *engine = a->engine;
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = KT_OK;
    if (is_held(a)) {
        status = sample_held(a, logits, position, id, err);
    } else if (kt__sampler_is_argmax(a->sampler)) {
        *id = argmax_of(engine, logits);
    } else {
        status = kt__sampler_sample(a->sampler, logits, position, id, err);
    }
    if (status == KT_OK) kt__sampler_accept(a->sampler, *id);
    kt__stage_end(engine, KT__STAGE_SAMPLE, begin_ns);
    return status;
}

static void release(kt__answer *a, kt__stops_text released) {
    for (int i = 0; i < 2; i++) (void)kt__buf_append(&a->text, released.part[i], released.len[i]);
    if (released.stop < 0) return;
    a->finish = KT_FINISH_STOP;
    a->stop = released.stop;
}

static kt_status push_text(kt__answer *a, int32_t id, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(a->engine);
    kt__buf_clear(&a->piece);
    kt_status status = kt__detok_push(&a->detok, id, &a->piece, err);
    if (status == KT_OK && a->piece.len)
        release(a, kt__stops_push(a->stops, a->piece.data, a->piece.len));
    kt__stage_end(a->engine, KT__STAGE_DETOKENIZE, begin_ns);
    return status;
}

kt_status kt__answer_push(kt__answer *a, int32_t id, kt_error *err) {
    const kt_model *model = a->engine->model;
    kt_status status = KT_OK;
    kt__buf_clear(&a->text);
    a->n_generated++;
    if ((!a->ignore_eog || a->held) && kt_token_is_eog(model, id)) {
        a->finish = KT_FINISH_EOG;
        return KT_OK;
    }
    if (model->tok) status = push_text(a, id, err);
    if (a->held) {
        kt__held_push(a->held, id);
        if (kt__held_over(a->held) && a->finish == KT_FINISH_NONE) a->finish = KT_FINISH_EOG;
    }
    bool full = a->n_generated == a->n_predict;
    if (status == KT_OK && a->finish == KT_FINISH_NONE && full) a->finish = KT_FINISH_LENGTH;
    return status;
}

kt_status kt__answer_end(kt__answer *a, kt_finish finish, kt_error *err) {
    bool stopped = a->finish == KT_FINISH_STOP;
    if (!stopped) a->finish = finish;
    if (!a->engine->model->tok || stopped) return KT_OK;
    kt__buf_clear(&a->piece);
    kt_status status = kt__detok_finish(&a->detok, &a->piece, err);
    if (status != KT_OK) return status;
    if (a->piece.len) release(a, kt__stops_push(a->stops, a->piece.data, a->piece.len));
    if (a->finish != KT_FINISH_STOP) release(a, kt__stops_flush(a->stops));
    return KT_OK;
}

kt_status kt__answer_text(const kt__answer *a, const char **text, size_t *len, kt_error *err) {
    *text = a->text.data ? a->text.data : "";
    *len = a->text.len;
    if (!a->text.failed) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "a token released more than %d bytes of text", MAX_STEP_TEXT);
}
