#include "answer/answer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "context/model.h"
#include "context/stage.h"

#include <math.h> /* INFINITY only */
#include <string.h>

/* ---- log-probabilities ---- */

static double log_sum_of(const float *logits, int32_t n_vocab) {
    float max = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int32_t i = 0; i < n_vocab; i++) sum += kt__exp((double)(logits[i] - max));
    return kt__log(sum) + (double)max;
}

/* The same by f32 exponentials, for what is in the way of the next token. */
static double quick_log_sum_of(const float *logits, int32_t n_vocab) {
    enum { CHUNK = 512 };
    float max = -INFINITY, weights[CHUNK];
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int32_t at = 0; at < n_vocab; at += CHUNK) {
        int32_t n = n_vocab - at < CHUNK ? n_vocab - at : CHUNK;
        kt__exp_weights(logits + at, max, (size_t)n, weights);
        for (int32_t i = 0; i < n; i++) sum += (double)weights[i];
    }
    return kt__log(sum) + (double)max;
}

float kt__mixed_logit(const float *logits, int32_t n_vocab, int32_t id, double weight) {
    double own = (double)logits[id];
    double more = kt__log(weight / (1.0 - weight)) + quick_log_sum_of(logits, n_vocab);
    double high = more > own ? more : own, low = more > own ? own : more;
    return (float)(high + kt__log(1.0 + kt__exp(low - high)));
}

void kt__logprobs(const float *logits, int32_t n_vocab, int32_t id, kt_logprob *out, int n) {
    int filled = 0;
    double log_sum = log_sum_of(logits, n_vocab);
    kt_logprob *top = out + 1;
    for (int32_t i = 0; n > 0 && i < n_vocab; i++) {
        if (filled == n && logits[i] <= top[n - 1].logprob) continue;
        int at = filled < n ? filled++ : n - 1;
        for (; at > 0 && logits[i] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (kt_logprob){i, logits[i]};
    }
    for (int i = 0; i < filled; i++) top[i].logprob = (float)((double)top[i].logprob - log_sum);
    for (int i = filled; i < n; i++) top[i] = (kt_logprob){-1, -INFINITY};
    out[0] = (kt_logprob){id, (float)((double)logits[id] - log_sum)};
}

/* ---- tokens and their text ---- */

enum {
    MAX_STEP_TEXT = 1 << 20, /* bytes that one token may release */
    USUAL_STEP_TEXT = 4096
};

kt_gen_params kt_gen_params_default(void) {
    return (kt_gen_params){.sampling = kt_sampling_default(), .n_predict = -1};
}

const char *kt_finish_name(kt_finish finish) {
    static const char *const names[KT_FINISH_COUNT] = {
        "none", "eog", "stop", "length", "context", "cancelled", "error", "deadline", "loop"};
    return (unsigned)finish < KT_FINISH_COUNT ? names[finish] : "error";
}

static kt_status make_sampler(kt__answer *a, const kt_gen_params *params, uint32_t choice,
                              kt_error *err) {
    kt_engine *engine = a->engine;
    kt__sampler_setup setup = {
        .n_vocab = engine->model->net->hp.n_vocab,
        .n_ctx = engine->params.n_ctx,
        .choice = choice,
        .scratch = engine->scratch,
    };
    kt_status status = kt__model_sampler(engine->model, &params->sampling, &setup, &a->sampler,
                                         err);
    if (status == KT_OK) a->seed = kt__sampler_seed(a->sampler);
    return status;
}

kt_status kt__answer_init(kt__answer *a, kt_engine *engine, const kt_gen_params *params,
                          uint32_t choice, kt_error *err) {
    kt_status status;
    *a = (kt__answer){
        .engine = engine,
        .n_predict = params->n_predict,
        .min_tokens = params->min_tokens,
        .ignore_eog = params->ignore_eog,
        .stop = -1,
    };
    kt__buf_init(&a->piece, MAX_STEP_TEXT);
    kt__buf_init(&a->text, MAX_STEP_TEXT);
    if (params->n_predict < -1) {
        return kt__fail(err, KT_E_ARG, "n_predict is %d, expected -1 (no limit) or more",
                        params->n_predict);
    }
    if (params->loop_tokens && params->loop_tokens < KT__LOOP_LEAST) {
        return kt__fail_at(err, KT_E_ARG, "loop_tokens", UINT64_MAX,
                           "loop_tokens: it is %d, expected 0 (off) or at least %d",
                           params->loop_tokens, KT__LOOP_LEAST);
    }
    if (params->min_tokens < 0)
        return kt__fail_at(err, KT_E_ARG, "min_tokens", UINT64_MAX,
                           "min_tokens: it is %d, expected 0 or more", params->min_tokens);
    kt__loop_init(&a->loop, params->loop_tokens);
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
    kt__parts_free(a->parts);
    kt__buf_free(&a->piece);
    kt__buf_free(&a->text);
}

kt_status kt__answer_split(kt__answer *a, const kt__conversation *conversation,
                           const kt_request_params *request, uint64_t id_seed, kt_error *err) {
    return kt__parts_create(a->engine->model, conversation, request, id_seed, &a->parts, err);
}

void kt__answer_accept(kt__answer *a, int32_t id) {
    kt__sampler_accept(a->sampler, id);
}

/* ---- constraints ---- */

kt_status kt__answer_hold(kt__answer *a, kt__constraint *constraint, bool finish_within,
                          kt_error *err) {
    kt_status status = kt__held_create(constraint, &a->held, err);
    if (status != KT_OK) return status;
    a->finish_within = finish_within && a->n_predict > 0;
    if (a->finish_within) a->n_way = kt__held_finish(a->held, -1, a->way, KT__ANSWER_WAY);
    return KT_OK;
}

void kt__answer_probs(const kt__answer *a, int32_t id, kt_logprob *out, int n) {
    if (a->drawn) {
        kt__sampler_probs(a->sampler, id, out, n);
        return;
    }
    for (int i = 0; i <= n; i++)
        out[i] = i < 2 ? (kt_logprob){id, 0.0f} : (kt_logprob){-1, -INFINITY};
}

static kt_status sample_masked(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                               kt_error *err) {
    float *masked = a->engine->masked;
    kt_status status = kt__held_mask(a->held, logits, masked, err);
    if (status != KT_OK) return status;
    a->drawn = true;
    status = kt__sampler_sample(a->sampler, masked, position, id, err);
    if (status != KT_E_NUMERIC) return status;
    return kt__fail(err, KT_E_UNSUPPORTED, "no token of this vocabulary can continue the text");
}

static int32_t argmax_of(const kt_engine *engine, const float *logits) {
    bool finite;
    return engine->model->ctx->kernels->argmax(logits, engine->model->net->hp.n_vocab, &finite);
}

/* Where only the greatest logit counts, it may be a token that fits: then nothing need be
 * masked. */
static kt_status sample_held(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                             kt_error *err) {
    if (kt__sampler_is_argmax(a->sampler)) {
        *id = argmax_of(a->engine, logits);
        if (kt__held_takes(a->held, *id)) return KT_OK;
    }
    return sample_masked(a, logits, position, id, err);
}

/* The token that was drawn, if there is time to end the text after it; else the first of the way
 * that is known, whose rest is found anew. */
static int32_t keep_in_time(kt__answer *a, int32_t id) {
    int32_t way[KT__ANSWER_WAY] = {0};
    size_t left = (size_t)(a->n_predict - a->n_generated - 1);
    if (kt_token_is_eog(a->engine->model, id)) return id;
    size_t n = kt__held_finish(a->held, id, way, KT__ANSWER_WAY);
    bool known = a->n_way != SIZE_MAX && a->n_way > 0;
    if (n > left && known && a->n_way <= left + 1) {
        id = a->way[0];
        n = kt__held_finish(a->held, id, way, KT__ANSWER_WAY);
    }
    a->n_way = n;
    memcpy(a->way, way, sizeof way);
    return id;
}

static bool is_held(const kt__answer *a) {
    return a->held && !kt__held_is_free(a->held);
}

/* As long as the answer may not end: logits without the tokens that end the turn. */
static const float *without_eog(kt__answer *a, const float *logits) {
    kt_engine *engine = a->engine;
    size_t n_vocab = (size_t)engine->model->net->hp.n_vocab, n;
    if (a->n_generated >= a->min_tokens || !engine->model->tok) return logits;
    const int32_t *ends = kt__tokenizer_eog(engine->model->tok, &n);
    memcpy(engine->masked, logits, n_vocab * sizeof *logits);
    for (size_t i = 0; i < n; i++)
        if ((size_t)ends[i] < n_vocab) engine->masked[ends[i]] = -INFINITY;
    return engine->masked;
}

kt_status kt__answer_sample(kt__answer *a, const float *logits, uint64_t position, int32_t *id,
                            kt_error *err) {
    kt_engine *engine = a->engine;
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = KT_OK;
    int32_t forced = a->parts ? kt__parts_forced(a->parts) : -1;
    a->drawn = false;
    if (forced >= 0) {
        *id = forced;
    } else if (is_held(a)) {
        status = sample_held(a, logits, position, id, err);
        if (status == KT_OK && a->finish_within) *id = keep_in_time(a, *id);
    } else if (kt__sampler_is_argmax(a->sampler)) {
        *id = argmax_of(engine, without_eog(a, logits));
    } else {
        a->drawn = true;
        status = kt__sampler_sample(a->sampler, without_eog(a, logits), position, id, err);
    }
    if (status == KT_OK) kt__sampler_accept(a->sampler, *id);
    kt__stage_end(engine, KT__STAGE_SAMPLE, begin_ns);
    return status;
}

static void release_text(kt__answer *a, kt__stops_text released) {
    for (int i = 0; i < 2; i++) (void)kt__buf_append(&a->text, released.part[i], released.len[i]);
    if (released.stop < 0) return;
    a->finish = KT_FINISH_STOP;
    a->stop = released.stop;
}

/* Before min_tokens no stop string counts. */
static void release_piece(kt__answer *a) {
    if (a->n_generated <= a->min_tokens)
        (void)kt__buf_append(&a->text, a->piece.data, a->piece.len);
    else
        release_text(a, kt__stops_push(a->stops, a->piece.data, a->piece.len));
}

static kt_status push_text(kt__answer *a, int32_t id, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(a->engine);
    kt__buf_clear(&a->piece);
    if (a->parts) a->detok.flags = kt__parts_shows(a->parts, id) ? KT_TOK_RENDER_SPECIAL : 0;
    kt_status status = kt__detok_push(&a->detok, id, &a->piece, err);
    if (status == KT_OK && a->piece.len) release_piece(a);
    kt__stage_end(a->engine, KT__STAGE_DETOKENIZE, begin_ns);
    return status;
}

/* Arguments of a call that the model spells in its own way are held to their schema from the moment
 * that the tool is known. */
static void hold_args(kt__answer *a) {
    kt__call_args args;
    if (a->parts && kt__parts_take_args(a->parts, &args))
        kt__held_begin_value(a->held, args.tool, args.tagged, args.indent, args.text, args.len);
}

kt_status kt__answer_push(kt__answer *a, int32_t id, kt_error *err) {
    const kt_model *model = a->engine->model;
    kt_status status = KT_OK;
    kt__buf_clear(&a->text);
    a->n_generated++;
    if ((!a->ignore_eog || a->held) && kt_token_is_eog(model, id)) {
        a->finish = KT_FINISH_EOG;
        return a->parts ? kt__parts_push(a->parts, "", 0, false, err) : KT_OK;
    }
    if (model->tok) status = push_text(a, id, err);
    if (status == KT_OK && a->parts)
        status = kt__parts_push(a->parts, a->text.data, a->text.len, false, err);
    if (a->held) {
        kt__held_push(a->held, id);
        hold_args(a);
        if (kt__held_over(a->held) && a->finish == KT_FINISH_NONE) a->finish = KT_FINISH_EOG;
    }
    bool full = a->n_generated == a->n_predict, loops = kt__loop_push(&a->loop, id);
    if (status == KT_OK && a->finish == KT_FINISH_NONE && loops) a->finish = KT_FINISH_LOOP;
    if (status == KT_OK && a->finish == KT_FINISH_NONE && full) a->finish = KT_FINISH_LENGTH;
    return status;
}

/* What was held back of the text. */
static kt_status flush_text(kt__answer *a, kt_error *err) {
    kt__buf_clear(&a->piece);
    kt_status status = kt__detok_finish(&a->detok, &a->piece, err);
    if (status != KT_OK) return status;
    if (a->piece.len) release_text(a, kt__stops_push(a->stops, a->piece.data, a->piece.len));
    if (a->finish != KT_FINISH_STOP) release_text(a, kt__stops_flush(a->stops));
    return KT_OK;
}

kt_status kt__answer_end(kt__answer *a, kt_finish finish, kt_error *err) {
    bool stopped = a->finish == KT_FINISH_STOP;
    kt_status status = KT_OK;
    kt__buf_clear(&a->text);
    if (!stopped) a->finish = finish;
    if (a->engine->model->tok && !stopped) status = flush_text(a, err);
    if (status == KT_OK && a->parts)
        status = kt__parts_push(a->parts, a->text.data, a->text.len, true, err);
    return status;
}

kt_status kt__answer_text(const kt__answer *a, kt_event *out, kt_error *err) {
    const kt__buf *text = a->parts ? kt__parts_content(a->parts) : &a->text;
    out->text = text->data ? text->data : "";
    out->len = text->len;
    if (a->parts) out->parts = kt__parts_get(a->parts, &out->n_parts);
    if (!a->text.failed) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "a token released more than %d bytes of text", MAX_STEP_TEXT);
}
