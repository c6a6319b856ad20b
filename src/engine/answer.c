#include "engine/answer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/stage.h"
#include "sample/json_mask.h"

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
    kt__buf_free(&a->piece);
    kt__buf_free(&a->text);
}

void kt__answer_accept(kt__answer *a, int32_t id) {
    kt__sampler_accept(a->sampler, id);
}

/* ---- JSON ---- */

/* Only tokens that write something can bring the text forward. */
static bool writes_text(const kt__tokenizer *tok, int32_t id) {
    switch (kt__tokenizer_token_attr(tok, id)) {
    case KT__TOK_UNUSED:
    case KT__TOK_UNDEFINED:
    case KT__TOK_UNKNOWN:
    case KT__TOK_CONTROL: return false;
    default: return true;
    }
}

static const char *json_bytes(void *ctx, int32_t id, size_t *len) {
    const kt__tokenizer *tok = ctx;
    bool is_text = writes_text(tok, id) && !kt__tokenizer_is_eog(tok, id);
    kt__str bytes = is_text ? kt__tokenizer_token_bytes(tok, id) : (kt__str){"", 0};
    *len = bytes.len;
    return bytes.s;
}

/* The model's mask, made by the first who asks. */
static kt_status need_mask(kt_model *model, kt_error *err) {
    kt__json_mask *mask, *first = NULL;
    if (atomic_load(&model->json_mask)) return KT_OK;
    const kt__sampler_vocab vocab = {json_bytes, model->tok};
    kt_status status = kt__json_mask_create(&vocab, model->net->hp.n_vocab, &mask, err);
    if (status != KT_OK || atomic_compare_exchange_strong(&model->json_mask, &first, mask))
        return status;
    kt__json_mask_free(mask); /* another one was faster */
    return KT_OK;
}

kt_status kt__answer_hold_to_json(kt__answer *a, kt_error *err) {
    if (!a->engine->model->tok)
        return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary: its answers have no text",
                        a->engine->model->info.path);
    a->is_json = true;
    kt__json_state_init(&a->json);
    return need_mask(a->engine->model, err);
}

/* A copy of the logits in which what may not follow is forbidden. */
static const float *mask_logits(const kt__answer *a, const float *logits) {
    float *masked = a->engine->masked;
    kt__json_mask_apply(atomic_load(&a->engine->model->json_mask), &a->json, logits, masked);
    return masked;
}

static kt_status sample_json(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                             kt_error *err) {
    kt_status status = kt__sampler_sample(a->sampler, mask_logits(a, logits), position, id, err);
    if (status != KT_E_NUMERIC) return status;
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "no token of this vocabulary can go on with the JSON text");
}

kt_status kt__answer_sample(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                            kt_error *err) {
    kt_engine *engine = a->engine;
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = KT_OK;
    if (a->is_json) {
        status = sample_json(a, logits, position, id, err);
    } else if (kt__sampler_is_argmax(a->sampler)) {
        bool finite;
        *id = engine->model->ctx->kernels->argmax(logits, engine->model->net->hp.n_vocab, &finite);
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
    if (!a->ignore_eog && kt_token_is_eog(model, id)) {
        a->finish = KT_FINISH_EOG;
        return KT_OK;
    }
    if (model->tok) status = push_text(a, id, err);
    if (a->is_json) {
        kt__str bytes = kt__tokenizer_token_bytes(model->tok, id);
        (void)kt__json_state_feed(&a->json, bytes.s, bytes.len);
        if (kt__json_state_done(&a->json) && a->finish == KT_FINISH_NONE) a->finish = KT_FINISH_EOG;
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
