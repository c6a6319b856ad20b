/* kt_req: a generation, a step at a time; kt_generate and kt_chat on top of it. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "sample/stops.h"

struct kt_req {
    kt_seq *seq;
    kt_gen_params params;
    int32_t *prompt; /* [n_prompt], evaluated by the first step */
    size_t n_prompt;
    bool prefilled;
    int32_t last; /* sampled, not yet evaluated */
    kt__sampler *sampler;
    kt__stops *stops;
    kt__detok detok;
    kt__buf piece; /* what the detokeniser released in this step */
    kt__buf text;  /* what the step hands out */
    kt_finish finish;
    atomic_bool cancel;
    kt_gen_result result;
    int64_t opened_us;
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

static kt_status check_prompt(const kt_seq *seq, const int32_t *ids, size_t n, kt_error *err) {
    size_t n_ctx = (size_t)seq->engine->params.n_ctx;
    if (n == 0 && !seq->logits) {
        return kt__fail(err, KT_E_ARG,
                        "no tokens to start from: the sequence was not evaluated before");
    }
    if (n > 0 && !ids) return kt__fail(err, KT_E_ARG, "ids is NULL");
    if (n > n_ctx - seq->n_pos) {
        return kt__fail(
            err, KT_E_CONTEXT_FULL,
            "a prompt of %zu tokens after %zu does not fit the context of %zu: ask for a larger "
            "context (-c) or shorten the prompt",
            n, seq->n_pos, n_ctx);
    }
    return KT_OK;
}

static kt_status make_sampler(kt_req *req, kt_error *err) {
    kt_engine *engine = req->seq->engine;
    kt__sampler_vocab vocab = {token_bytes, engine->model->tok};
    kt__sampler_setup setup = {
        .n_vocab = engine->model->net->hp.n_vocab,
        .n_ctx = engine->params.n_ctx,
        .scratch = engine->scratch,
        .vocab = engine->model->tok ? &vocab : NULL,
    };
    kt_status status = kt__sampler_create(&req->params.sampling, &setup, &req->sampler, err);
    if (status != KT_OK) return status;
    req->result.seed = kt__sampler_seed(req->sampler);
    for (size_t i = 0; i < req->seq->n_pos; i++)
        kt__sampler_accept(req->sampler, req->seq->tokens[i]);
    for (size_t i = 0; i < req->n_prompt; i++) kt__sampler_accept(req->sampler, req->prompt[i]);
    return KT_OK;
}

enum { MAX_STEP_TEXT = 1 << 20 }; /* bytes that one token may release */

static kt_status req_init(kt_req *req, const int32_t *ids, size_t n, kt_error *err) {
    kt_status status;
    const kt_model *model = req->seq->engine->model;
    kt__buf_init(&req->piece, MAX_STEP_TEXT);
    kt__buf_init(&req->text, MAX_STEP_TEXT);
    KT__TRY(check_prompt(req->seq, ids, n, err));
    if (req->params.n_predict < -1) {
        status = kt__fail(err, KT_E_ARG, "n_predict is %d, expected -1 (no limit) or more",
                          req->params.n_predict);
        goto out;
    }
    req->prompt = kt__calloc(n + 1, sizeof *req->prompt);
    if (!req->prompt) return kt__fail_nomem(err, "the prompt", n * sizeof *req->prompt);
    if (n) memcpy(req->prompt, ids, n * sizeof *ids);
    req->n_prompt = n;
    req->result.n_prompt = (int32_t)n;
    KT__TRY(make_sampler(req, err));
    KT__TRY(kt__stops_create(req->params.stop, req->params.n_stop, &req->stops, err));
    if (model->tok) kt__detok_init(&req->detok, model->tok, 0, false);
    if (!kt__buf_reserve(&req->text, 4096) || !kt__buf_reserve(&req->piece, 4096)) {
        status = kt__fail_nomem(err, "the answer's text", 4096);
    }
out:
    return status;
}

static kt_status open_request(kt_seq *seq, const int32_t *ids, size_t n,
                              const kt_gen_params *params, kt_req **out, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    *out = NULL;
    kt__error_clear(err);
    kt_req *req = kt__calloc(1, sizeof *req);
    if (!req) return kt__fail_nomem(err, "a request", sizeof *req);
    req->seq = seq;
    req->params = params ? *params : kt_gen_params_default();
    req->opened_us = kt__now_us();
    pthread_mutex_lock(&seq->engine->lock);
    kt_status status = req_init(req, ids, n, err);
    kt__stage_end(seq->engine, KT__STAGE_SETUP, begin_ns, true);
    pthread_mutex_unlock(&seq->engine->lock);
    if (status == KT_OK) {
        *out = req;
    } else {
        kt_req_close(req);
    }
    return status;
}

kt_status kt_req_open(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                      kt_req **out, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    kt_status status = open_request(seq, ids, n, params, out, err);
    kt__stage_end(seq->engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}

void kt_req_close(kt_req *req) {
    if (!req) return;
    kt__sampler_free(req->sampler);
    kt__stops_free(req->stops);
    kt__buf_free(&req->piece);
    kt__buf_free(&req->text);
    kt__free(req->prompt);
    kt__free(req);
}

void kt_req_cancel(kt_req *req) {
    atomic_store(&req->cancel, true);
}

static double ms_since(int64_t t_us) {
    return (double)(kt__now_us() - t_us) / 1000.0;
}

/* The prompt, or the token sampled before. */
static kt_status evaluate_pending(kt_req *req, kt_error *err) {
    kt_eval_item item = {.seq = req->seq, .ids = &req->last, .n = 1};
    bool prefill = !req->prefilled;
    int64_t t_us = kt__now_us();
    if (prefill) {
        item.ids = req->prompt;
        item.n = req->n_prompt;
    }
    kt_status status = KT_OK;
    if (item.n > 0) status = kt__engine_eval_locked(req->seq->engine, &item, 1, &req->cancel, err);
    *(prefill ? &req->result.prefill_ms : &req->result.decode_ms) += ms_since(t_us);
    req->prefilled |= status == KT_OK;
    return status;
}

static kt_status sample(kt_req *req, int32_t *id, kt_error *err) {
    const kt_engine *engine = req->seq->engine;
    const float *logits = req->seq->logits;
    int64_t t_us = kt__now_us(), begin_ns = kt__stage_begin(engine);
    kt_status status = KT_OK;
    if (kt__sampler_is_argmax(req->sampler)) {
        bool finite;
        *id = engine->model->ctx->kernels->argmax(logits, engine->model->net->hp.n_vocab, &finite);
    } else {
        status = kt__sampler_sample(req->sampler, logits, req->seq->n_pos, id, err);
    }
    if (status == KT_OK) kt__sampler_accept(req->sampler, *id);
    kt__stage_end(req->seq->engine, KT__STAGE_SAMPLE, begin_ns, true);
    double took_ms = ms_since(t_us);
    req->result.sample_ms += took_ms;
    req->result.decode_ms += took_ms;
    return status;
}

static void release(kt_req *req, kt__stops_text released) {
    for (int i = 0; i < 2; i++) (void)kt__buf_append(&req->text, released.part[i], released.len[i]);
    if (released.stop >= 0) req->finish = KT_FINISH_STOP;
}

/* The token's text through the detokeniser and the stop strings. */
static kt_status release_token(kt_req *req, int32_t id, kt_error *err) {
    if (!req->seq->engine->model->tok) return KT_OK;
    int64_t begin_ns = kt__stage_begin(req->seq->engine);
    kt__buf_clear(&req->piece);
    kt_status status = kt__detok_push(&req->detok, id, &req->piece, err);
    if (status == KT_OK && req->piece.len)
        release(req, kt__stops_push(req->stops, req->piece.data, req->piece.len));
    kt__stage_end(req->seq->engine, KT__STAGE_DETOKENIZE, begin_ns, true);
    return status;
}

/* The answer is over: what was held back cannot become anything else. */
static kt_status release_rest(kt_req *req, kt_error *err) {
    if (!req->seq->engine->model->tok || req->finish == KT_FINISH_STOP) return KT_OK;
    kt__buf_clear(&req->piece);
    kt_status status = kt__detok_finish(&req->detok, &req->piece, err);
    if (status != KT_OK) return status;
    kt_finish finish = req->finish;
    if (req->piece.len) release(req, kt__stops_push(req->stops, req->piece.data, req->piece.len));
    if (req->finish != KT_FINISH_STOP) release(req, kt__stops_flush(req->stops));
    if (req->finish != KT_FINISH_STOP) req->finish = finish;
    return KT_OK;
}

static kt_status generate_token(kt_req *req, int32_t *id, kt_error *err) {
    const kt_engine *engine = req->seq->engine;
    kt_status status;
    KT__TRY(evaluate_pending(req, err));
    KT__TRY(sample(req, id, err));
    req->last = *id;
    if (req->result.n_generated++ == 0) req->result.first_token_ms = ms_since(req->opened_us);
    if (!req->params.ignore_eog && kt_token_is_eog(engine->model, *id)) {
        req->finish = KT_FINISH_EOG;
        return KT_OK;
    }
    KT__TRY(release_token(req, *id, err));
    if (req->finish == KT_FINISH_NONE && req->result.n_generated == req->params.n_predict) {
        req->finish = KT_FINISH_LENGTH;
    }
out:
    return status;
}

static bool context_is_full(const kt_req *req) {
    size_t pending = req->prefilled ? 1 : req->n_prompt;
    return pending > (size_t)req->seq->engine->params.n_ctx - req->seq->n_pos;
}

static kt_status step_locked(kt_req *req, int32_t *id, kt_error *err) {
    kt_status status = KT_OK;
    if (req->params.n_predict == 0) {
        req->finish = KT_FINISH_LENGTH;
    } else if (context_is_full(req)) {
        req->finish = KT_FINISH_CONTEXT;
    } else {
        status = generate_token(req, id, err);
    }
    if (status == KT_E_CANCELLED) {
        req->finish = KT_FINISH_CANCELLED;
        status = KT_OK;
    }
    if (status == KT_OK && req->finish != KT_FINISH_NONE) status = release_rest(req, err);
    if (status != KT_OK) req->finish = KT_FINISH_ERROR;
    req->result.finish = req->finish;
    return status;
}

static kt_status step_request(kt_req *req, const char **text, size_t *len, int32_t *id,
                              kt_finish *finish, kt_error *err) {
    kt_status status = KT_OK;
    kt__error_clear(err);
    kt__buf_clear(&req->text);
    int32_t sampled = -1;
    if (req->finish == KT_FINISH_NONE) {
        pthread_mutex_lock(&req->seq->engine->lock);
        status = step_locked(req, &sampled, err);
        pthread_mutex_unlock(&req->seq->engine->lock);
    }
    if (status == KT_OK && req->text.failed) {
        status =
            kt__fail(err, KT_E_LIMIT, "a token released more than %d bytes of text", MAX_STEP_TEXT);
    }
    *text = req->text.data ? req->text.data : "";
    *len = req->text.len;
    *id = sampled;
    *finish = req->finish;
    return status;
}

kt_status kt_req_step(kt_req *req, const char **text, size_t *len, int32_t *id, kt_finish *finish,
                      kt_error *err) {
    kt_engine *engine = req->seq->engine;
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = step_request(req, text, len, id, finish, err);
    kt__stage_end(engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}

void kt_req_get_result(const kt_req *req, kt_gen_result *out) {
    *out = req->result;
}

/* Steps req to its end, handing out text as it comes. */
static kt_status run_request(kt_req *req, kt_text_fn *on_text, void *user, kt_error *err) {
    kt_finish finish = KT_FINISH_NONE;
    while (finish == KT_FINISH_NONE) {
        const char *text;
        size_t len;
        int32_t id;
        kt_status status = step_request(req, &text, &len, &id, &finish, err);
        if (status != KT_OK) return status;
        if (len == 0 || !on_text) continue;
        int64_t begin_ns = kt__stage_begin(req->seq->engine);
        if (!on_text(user, text, len, id)) kt_req_cancel(req);
        kt__stage_end(req->seq->engine, KT__STAGE_CALLBACK, begin_ns, false);
    }
    return KT_OK;
}

static kt_status generate(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                          kt_text_fn *on_text, void *user, kt_gen_result *result, kt_error *err) {
    kt_req *req = NULL;
    kt_status status = open_request(seq, ids, n, params, &req, err);
    if (status != KT_OK) {
        if (result) *result = (kt_gen_result){.finish = KT_FINISH_ERROR};
        return status;
    }
    status = run_request(req, on_text, user, err);
    if (result) kt_req_get_result(req, result);
    kt_req_close(req);
    return status;
}

kt_status kt_generate(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                      kt_text_fn *on_text, void *user, kt_gen_result *result, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    kt_status status = generate(seq, ids, n, params, on_text, user, result, err);
    kt__stage_end(seq->engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}

/* Keeps what seq holds of ids, at least one short of all, so that there is something to compute
 * logits from. */
static size_t keep_common_prefix(kt_seq *seq, const int32_t *ids, size_t n) {
    size_t common = 0, most = n > 0 ? n - 1 : 0;
    if (most > seq->n_pos) most = seq->n_pos;
    while (common < most && seq->tokens[common] == ids[common]) common++;
    pthread_mutex_lock(&seq->engine->lock);
    if (common < seq->n_pos) kt__seq_truncate_locked(seq, common);
    pthread_mutex_unlock(&seq->engine->lock);
    return common;
}

static kt_status encode_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                             int32_t **ids, size_t *n, kt_error *err) {
    int64_t ns[2] = {0};
    kt_engine *engine = seq->engine;
    kt_status status =
        kt__chat_encode_timed(engine->model, messages, n_messages, true, ids, n, ns, err);
    if (!kt__stage_begin(engine)) return status;
    pthread_mutex_lock(&engine->lock);
    engine->profile.stage_ns[KT__STAGE_TEMPLATE] += ns[0];
    engine->profile.stage_ns[KT__STAGE_TOKENIZE] += ns[1];
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static kt_status chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                      const kt_gen_params *params, kt_text_fn *on_text, void *user,
                      kt_gen_result *result, kt_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status = encode_chat(seq, messages, n_messages, &ids, &n, err);
    if (status != KT_OK) return status;
    if (n > (size_t)seq->engine->params.n_ctx) {
        status =
            kt__fail(err, KT_E_CONTEXT_FULL,
                     "the conversation is %zu tokens long and the context has %d: ask for a larger "
                     "context (-c) or leave out earlier messages",
                     n, seq->engine->params.n_ctx);
    } else {
        size_t common = keep_common_prefix(seq, ids, n);
        status = generate(seq, ids + common, n - common, params, on_text, user, result, err);
        if (result && status == KT_OK) {
            result->n_cached = (int32_t)common;
            result->n_prompt = (int32_t)n;
        }
    }
    kt_free(ids);
    return status;
}

kt_status kt_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                  const kt_gen_params *params, kt_text_fn *on_text, void *user,
                  kt_gen_result *result, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    if (result) *result = (kt_gen_result){.finish = KT_FINISH_ERROR};
    kt_status status = chat(seq, messages, n_messages, params, on_text, user, result, err);
    kt__stage_end(seq->engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}
