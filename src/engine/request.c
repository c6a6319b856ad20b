/* kt_request over a kt_seq, a step at a time; kt_generate and kt_chat on top of it. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/answer.h"
#include "engine/eval.h"
#include "engine/seq.h"
#include "engine/speculator.h"
#include "engine/stage.h"
#include "engine/submitted.h"
#include "engine/text.h"

typedef struct stepped {
    kt_request req;
    kt_seq *seq;
    int32_t *prompt; /* [n_prompt], evaluated by the first step */
    size_t n_prompt;
    bool prefilled;
    int32_t last; /* sampled, not yet evaluated */
    kt__proposals proposals;
    int n_verified, n_right; /* of these: in the last step; that came true by now */
    kt__answer answer;
    kt_gen_result result;
    int64_t opened_us;
} stepped;

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

static kt_status req_init(stepped *req, const kt_gen_params *params, const int32_t *ids, size_t n,
                          kt_error *err) {
    kt_status status;
    KT__TRY(check_prompt(req->seq, ids, n, err));
    KT__TRY(kt__answer_init(&req->answer, req->seq->engine, params, 0, err));
    kt__proposals_init(req->seq->engine->speculator, &req->proposals);
    req->result.seed = req->answer.seed;
    req->prompt = kt__calloc(n + 1, sizeof *req->prompt);
    if (!req->prompt) return kt__fail_nomem(err, "the prompt", n * sizeof *req->prompt);
    if (n) memcpy(req->prompt, ids, n * sizeof *ids);
    req->n_prompt = n;
    req->result.n_prompt = (int32_t)n;
    for (size_t i = 0; i < req->seq->n_pos; i++)
        kt__answer_accept(&req->answer, req->seq->tokens[i]);
    for (size_t i = 0; i < n; i++) kt__answer_accept(&req->answer, ids[i]);
out:
    return status;
}

/* What became of the last step's proposals; what is left of it goes. */
static void settle_proposals(stepped *req) {
    kt_seq *seq = req->seq;
    /* those that nobody came to were not wrong */
    bool was_wrong = req->n_verified > req->n_right && seq->ahead.n > 0;
    int n_known = was_wrong ? req->n_verified : req->n_right;
    kt__speculator_learn(seq->engine->speculator, &req->proposals, &seq->draft_seq, n_known,
                         req->n_right);
    kt__seq_drop_ahead_locked(seq);
    req->n_verified = req->n_right = 0;
    req->proposals.asked = false;
}

static void req_free(stepped *req) {
    if (req->n_verified > 0) {
        kt__ticket_lock(&req->seq->engine->turn);
        settle_proposals(req);
        kt__ticket_unlock(&req->seq->engine->turn);
    }
    kt__answer_free(&req->answer);
    kt__free(req->prompt);
    kt__free(req);
}

static kt_status open_request(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *given,
                              stepped **out, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    kt_gen_params params = given ? *given : kt_gen_params_default();
    *out = NULL;
    kt__error_clear(err);
    stepped *req = kt__calloc(1, sizeof *req);
    if (!req) return kt__fail_nomem(err, "a request", sizeof *req);
    req->req.engine = seq->engine;
    req->seq = seq;
    req->opened_us = kt__now_us();
    kt__ticket_lock(&seq->engine->turn);
    kt_status status = req_init(req, &params, ids, n, err);
    kt__stage_end(seq->engine, KT__STAGE_SETUP, begin_ns, true);
    kt__ticket_unlock(&seq->engine->turn);
    if (status == KT_OK) {
        *out = req;
    } else {
        req_free(req);
    }
    return status;
}

kt_status kt_request_open(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                          kt_request **out, kt_error *err) {
    int64_t begin_ns = kt__stage_begin(seq->engine);
    stepped *req;
    *out = NULL;
    kt_status status = open_request(seq, ids, n, params, &req, err);
    if (status == KT_OK) *out = &req->req;
    kt__stage_end(seq->engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}

/* The kt_request is its first member. */
static stepped *stepped_of(kt_request *req) {
    return (stepped *)(void *)req;
}

void kt_request_close(kt_request *req) {
    if (!req) return;
    if (req->submitted) {
        kt__submitted_close(req);
    } else {
        req_free(stepped_of(req));
    }
}

void kt_request_cancel(kt_request *req) {
    atomic_store(&req->cancel, true);
    if (req->submitted) atomic_store(&req->engine->cancel_pending, true);
}

static double ms_since(int64_t t_us) {
    return (double)(kt__now_us() - t_us) / 1000.0;
}

static kt_status evaluate_prompt(stepped *req, kt_error *err) {
    kt_eval_item item = {.seq = req->seq, .ids = req->prompt, .n = req->n_prompt};
    int64_t t_us = kt__now_us();
    kt_status status = KT_OK;
    if (item.n > 0)
        status = kt__engine_eval_locked(req->seq->engine, &item, 1, &req->req.cancel, err);
    req->result.prefill_ms += ms_since(t_us);
    req->prefilled = status == KT_OK;
    return status;
}

/* Tokens that may come behind the one of this step. */
static int32_t left_for(const stepped *req) {
    const kt__answer *a = &req->answer;
    int32_t left = req->seq->engine->params.n_ctx - (int32_t)req->seq->n_pos - 1;
    if (a->n_predict >= 0 && a->n_predict - a->n_generated - 1 < left)
        left = a->n_predict - a->n_generated - 1;
    return left;
}

/* A step with the last token and, where that pays, proposals behind it. */
static kt_status run_step(stepped *req, bool propose, kt_error *err) {
    kt_seq *seq = req->seq;
    kt_engine *engine = seq->engine;
    kt__proposals *p = &req->proposals;
    int32_t ids[1 + KT__DRAFTS_MAX], left = left_for(req), room = engine->params.n_draft;
    seq->tokens[seq->n_pos] = req->last;
    const kt__draft_slot ask = {.to = p,
                                .draft_seq = &seq->draft_seq,
                                .tokens = seq->tokens,
                                .n_tok = (int32_t)seq->n_pos + 1,
                                .n_left = left,
                                .most = room < left ? room : left};
    kt__speculate(engine->speculator, &ask, 1, propose ? engine->step_rows : 1);
    ids[0] = req->last;
    memcpy(ids + 1, p->ids, (size_t)p->n * sizeof *ids);
    int64_t begin_us = kt__now_us();
    kt_status status = kt__seq_step_locked(seq, ids, 1 + p->n, &req->req.cancel, err);
    if (status == KT_OK) {
        kt__speculator_measure(engine->speculator, 1 + p->n, kt__now_us() - begin_us);
        req->n_verified = p->n;
        req->result.n_drafted += p->n;
    }
    if (status != KT_OK || p->n == 0) settle_proposals(req);
    return status;
}

/* The token sampled before. One that was proposed is computed already. */
static kt_status evaluate_last(stepped *req, kt_error *err) {
    kt_engine *engine = req->seq->engine;
    if (req->n_verified > 0) {
        bool cancelled = atomic_load(&req->req.cancel) || atomic_load(&engine->cancel);
        if (cancelled) return kt__fail(err, KT_E_CANCELLED, "cancelled");
        if (kt__seq_take_ahead_locked(req->seq, req->last)) {
            req->n_right++;
            req->result.n_accepted++;
            return KT_OK;
        }
        settle_proposals(req);
    }
    kt_status status = run_step(req, true, err);
    bool spoilt = status == KT_E_NUMERIC || status == KT_E_NOMEM;
    /* what was proposed may be to blame */
    return spoilt && req->proposals.n > 0 ? run_step(req, false, err) : status;
}

/* The prompt, or the token sampled before. */
static kt_status evaluate_pending(stepped *req, kt_error *err) {
    if (!req->prefilled) return evaluate_prompt(req, err);
    int64_t t_us = kt__now_us();
    kt_status status = evaluate_last(req, err);
    req->result.decode_ms += ms_since(t_us);
    return status;
}

static kt_status sample(stepped *req, int32_t *id, kt_error *err) {
    int64_t t_us = kt__now_us();
    kt_status status = kt__answer_sample(&req->answer, req->seq->logits, req->seq->n_pos, id, err);
    double took_ms = ms_since(t_us);
    req->result.sample_ms += took_ms;
    req->result.decode_ms += took_ms;
    return status;
}

static kt_status generate_token(stepped *req, int32_t *id, kt_error *err) {
    kt_status status;
    KT__TRY(evaluate_pending(req, err));
    KT__TRY(sample(req, id, err));
    req->last = *id;
    if (req->result.n_generated++ == 0) req->result.first_token_ms = ms_since(req->opened_us);
    KT__TRY(kt__answer_push(&req->answer, *id, err));
out:
    return status;
}

static bool context_is_full(const stepped *req) {
    size_t pending = req->prefilled ? 1 : req->n_prompt;
    return pending > (size_t)req->seq->engine->params.n_ctx - req->seq->n_pos;
}

static kt_status step_locked(stepped *req, int32_t *id, kt_error *err) {
    kt__answer *answer = &req->answer;
    kt_status status = KT_OK;
    if (answer->n_predict == 0) {
        answer->finish = KT_FINISH_LENGTH;
    } else if (context_is_full(req)) {
        answer->finish = KT_FINISH_CONTEXT;
    } else {
        status = generate_token(req, id, err);
    }
    if (status == KT_E_CANCELLED) {
        answer->finish = KT_FINISH_CANCELLED;
        status = KT_OK;
    }
    if (status == KT_OK && answer->finish != KT_FINISH_NONE)
        status = kt__answer_end(answer, answer->finish, err);
    if (status != KT_OK) answer->finish = KT_FINISH_ERROR;
    if (answer->finish != KT_FINISH_NONE && req->n_verified > 0) settle_proposals(req);
    req->result.finish = answer->finish;
    return status;
}

static kt_status step_request(stepped *req, const char **text, size_t *len, int32_t *id,
                              kt_finish *finish, kt_error *err) {
    kt_status status = KT_OK;
    kt__error_clear(err);
    kt__buf_clear(&req->answer.text);
    int32_t sampled = -1;
    if (req->answer.finish == KT_FINISH_NONE) {
        kt__ticket_lock(&req->seq->engine->turn);
        status = step_locked(req, &sampled, err);
        kt__ticket_unlock(&req->seq->engine->turn);
    }
    kt_status text_status = kt__answer_text(&req->answer, text, len, status == KT_OK ? err : NULL);
    *id = sampled;
    *finish = req->answer.finish;
    return status != KT_OK ? status : text_status;
}

kt_status kt_request_step(kt_request *req, const char **text, size_t *len, int32_t *id,
                          kt_finish *finish, kt_error *err) {
    kt_engine *engine = req->engine;
    if (req->submitted) {
        return kt__fail(err, KT_E_STATE,
                        "a submitted request is not stepped: use its events, and kt_engine_step");
    }
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = step_request(stepped_of(req), text, len, id, finish, err);
    kt__stage_end(engine, KT__STAGE_TOTAL, begin_ns, false);
    return status;
}

void kt_request_get_result(const kt_request *req, kt_gen_result *out) {
    if (req->submitted) {
        kt__submitted_get_result(req, out);
    } else {
        *out = ((const stepped *)(const void *)req)->result;
    }
}

/* Steps req to its end, handing out text as it comes. */
static kt_status run_request(stepped *req, kt_text_fn *on_text, void *user, kt_error *err) {
    kt_finish finish = KT_FINISH_NONE;
    while (finish == KT_FINISH_NONE) {
        const char *text;
        size_t len;
        int32_t id;
        kt_status status = step_request(req, &text, &len, &id, &finish, err);
        if (status != KT_OK) return status;
        if (len == 0 || !on_text) continue;
        int64_t begin_ns = kt__stage_begin(req->seq->engine);
        if (!on_text(user, text, len, id)) kt_request_cancel(&req->req);
        kt__stage_end(req->seq->engine, KT__STAGE_CALLBACK, begin_ns, false);
    }
    return KT_OK;
}

static kt_status generate(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                          kt_text_fn *on_text, void *user, kt_gen_result *result, kt_error *err) {
    stepped *req = NULL;
    kt_status status = open_request(seq, ids, n, params, &req, err);
    if (status != KT_OK) {
        if (result) *result = (kt_gen_result){.finish = KT_FINISH_ERROR};
        return status;
    }
    status = run_request(req, on_text, user, err);
    if (result) *result = req->result;
    req_free(req);
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
    kt__ticket_lock(&seq->engine->turn);
    if (common < seq->n_pos) kt__seq_truncate_locked(seq, common);
    kt__ticket_unlock(&seq->engine->turn);
    return common;
}

static kt_status encode_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                             int32_t **ids, size_t *n, kt_error *err) {
    int64_t ns[2] = {0};
    kt_engine *engine = seq->engine;
    kt_status status = kt__chat_encode_timed(engine->model, messages, n_messages, true, ids, n, ns,
                                             err);
    if (!kt__stage_begin(engine)) return status;
    kt__ticket_lock(&engine->turn);
    engine->profile.stage_ns[KT__STAGE_TEMPLATE] += ns[0];
    engine->profile.stage_ns[KT__STAGE_TOKENIZE] += ns[1];
    kt__ticket_unlock(&engine->turn);
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
        status = kt__fail(
            err, KT_E_CONTEXT_FULL,
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
