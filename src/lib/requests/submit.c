#include "requests/request.h"

#include <stdio.h>
#include <string.h>

#include "answer/recall.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "calls/calls.h"
#include "context/kv_binding.h"
#include "context/model.h"
#include "requests/inbox.h"
#include "requests/runner.h"
#include "requests/seq.h"

enum {
    MAX_NAME = 256,
    LENT_PRIORITY = KT_PRIORITY_MAX + 1 /* a call on a sequence keeps its owner waiting */
};

kt_request_params kt_request_params_default(void) {
    return (kt_request_params){
        .prompt.text_flags = KT_TOK_ADD_SPECIAL,
        .prompt.chat_flags = KT_CHAT_GENERATE,
        .gen = kt_gen_params_default(),
        .n_choices = 1,
        .logprobs.n = -1,
        .embedding.normalize = true,
    };
}

/* ---- checking ---- */

static kt_status check_int(const char *name, int64_t value, int64_t low, int64_t high,
                           kt_error *err) {
    if (value >= low && value <= high) return KT_OK;
    return kt__fail(err, KT_E_ARG, "%s is %lld, expected %lld to %lld", name, (long long)value,
                    (long long)low, (long long)high);
}

static kt_status check_name(const char *name, const char *value, kt_error *err) {
    if (!value || strlen(value) <= MAX_NAME) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "%s is longer than %d bytes", name, MAX_NAME);
}

static kt_status check_params(const kt_request_params *r, kt_error *err) {
    KT__STEP(check_int("n_choices", r->n_choices, 1, KT_CHOICES_MAX, err));
    KT__STEP(check_int("n_logprobs", r->logprobs.n, -1, KT_LOGPROBS_MAX, err));
    KT__STEP(check_int("priority", r->service.priority, -KT_PRIORITY_MAX, KT_PRIORITY_MAX, err));
    KT__STEP(check_int("deadline_ms", r->service.deadline_ms, 0, INT64_MAX / 2000, err));
    KT__STEP(check_int("n_keep", r->overflow.n_keep, -1, INT32_MAX, err));
    KT__STEP(check_int("pooling", (int64_t)r->embedding.pooling, 0, KT_POOLING_MODEL, err));
    KT__STEP(check_name("client", r->service.client, err));
    KT__STEP(check_name("cache_scope", r->service.cache_scope, err));
    if (r->seq && r->n_adapters > 0)
        return kt__fail(err, KT_E_ARG, "a sequence has adapters of its own: kt_seq_set_adapters");
    if (r->seq && r->n_choices > 1)
        return kt__fail(err, KT_E_ARG, "a sequence takes one answer, not %d", r->n_choices);
    if (r->seq && r->embedding.pooling != KT_POOLING_NONE)
        return kt__fail(err, KT_E_ARG, "an embedding is of a prompt, not of a sequence");
    if (r->logprobs.prompt &&
        (r->seq || r->embedding.pooling != KT_POOLING_NONE || r->logprobs.n < 0))
        return kt__fail(
            err, KT_E_ARG,
            "prompt_logprobs needs n_logprobs, and is not of a sequence or an embedding");
    if (r->embedding.keys && r->embedding.pooling != KT_POOLING_MEAN)
        return kt__fail(err, KT_E_ARG, "keys are of an embedding by the mean");
    if (r->embedding.pooling != KT_POOLING_NONE && r->n_choices > 1)
        return kt__fail(err, KT_E_ARG, "an embedding has one choice, not %d", r->n_choices);
    return KT_OK;
}

/* Whether the keys and values of its older positions may be in fewer bits. */
static bool takes_altered(const kt_engine *engine, const kt_request_params *r) {
    bool encoder = kt__engine_hparams(engine)->features &
                   KT__F_ENCODER; /* reads all as it computes it */
    return engine->params.kv_pressure && !r->service.exact_kv && !r->seq && !encoder;
}

static kt_status fail_store(const kt_engine *engine, const kt_request_params *r, size_t n,
                            int64_t n_store, kt_error *err) {
    int64_t f16 = kt__kv_n_pages_most(engine->kv) * KT__PAGE_POS;
    int64_t narrow = kt__pages_most(engine, true, false) * KT__PAGE_POS;
    const char *how = n_store > f16         ? ", the older ones in 4 bits"
                      : narrow < (int64_t)n ? ""
                      : r->seq              ? " in f16, which a sequence keeps"
                      : r->service.exact_kv ? " in f16, which exact_kv asks for"
                                            : "";
    (void)kt__fail(err, KT_E_CONTEXT_FULL,
                   "a prompt of %zu tokens does not fit the K/V budget of %lld positions%s: "
                   "give more memory or shorten the prompt",
                   n, (long long)n_store, how);
    return kt__error_set_context(err, n, (size_t)n_store);
}

/* The prompt after n_pos positions. */
static kt_status check_length(const kt_engine *engine, const kt_request_params *r, size_t n_pos,
                              size_t n, kt_error *err) {
    size_t n_ctx = (size_t)engine->params.n_ctx;
    int64_t n_store = KT__PAGE_POS *
                      kt__pages_most(engine, takes_altered(engine, r), r->prompt.n_pictures > 0);
    if (n > n_ctx - n_pos) {
        char after[48] = "";
        if (n_pos) snprintf(after, sizeof after, " after %zu", n_pos);
        (void)kt__fail(
            err, KT_E_CONTEXT_FULL,
            "a prompt of %zu tokens%s is too large: it exceeds the available context size of "
            "%zu tokens; shorten it, or raise the context",
            n, after, n_ctx);
        return kt__error_set_context(err, n_pos + n, n_ctx);
    }
    return (int64_t)n > n_store ? fail_store(engine, r, n, n_store, err) : KT_OK;
}

static kt_status check_ids(const kt_engine *engine, const kt_request_params *r, const int32_t *ids,
                           size_t n, kt_error *err) {
    int32_t n_vocab = kt__engine_hparams(engine)->n_vocab;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < n_vocab) continue;
        if (ids[i] < -1 && r->prompt.n_pictures) continue;
        return kt__fail(err, KT_E_ARG, "token %zu is %d, expected 0 to %d", i, ids[i], n_vocab - 1);
    }
    return KT_OK;
}

static kt_status check_recall(const kt_engine *engine, const kt_request_params *r, kt_error *err) {
    if (!r->corrections.recall || kt__recall_is_of(r->corrections.recall, engine->model))
        return KT_OK;
    return kt__fail(err, KT_E_ARG, "what is to be recalled is of another model");
}

static kt_status check_prompt(const kt_engine *engine, const kt_request_params *r,
                              const int32_t *ids, size_t n, kt_error *err) {
    const kt_seq *seq = r->seq;
    bool behind = seq && r->seq_append;
    size_t n_pos = behind ? kt_seq_len(seq) : 0;
    if (n == 0 && !(behind && kt_seq_logits(seq))) {
        return kt__fail(err, KT_E_ARG,
                        behind ? "no tokens to start from: the sequence was not evaluated before"
                               : "the prompt has no tokens");
    }
    kt_status status = check_length(engine, r, n_pos, n, err);
    return status == KT_OK ? check_ids(engine, r, ids, n, err) : status;
}

/* ---- making ---- */

static kt_status make_client(kt__task *task, const char *name, kt_error *err) {
    size_t len = name ? strlen(name) : 0;
    task->client = kt__calloc(1, sizeof *task->client + len + 1);
    if (!task->client) return kt__fail_nomem(err, "a client's name", len);
    if (len) memcpy(task->client->name, name, len);
    return KT_OK;
}

static kt_status make_own_state(kt__choice *c, size_t cap, kt_error *err) {
    kt_engine *engine = c->work.engine;
    KT__STEP(kt__kv_table_init(&c->own.table, engine->params.n_ctx, err));
    KT__STEP(kt__draft_seq_init(engine, &c->own.draft, err));
    c->own.tokens = kt__calloc(cap, sizeof *c->own.tokens);
    if (!c->own.tokens)
        return kt__fail_nomem(err, "an answer's tokens", cap * sizeof *c->own.tokens);
    c->work.state = &c->own;
    return KT_OK;
}

static kt__task_kind kind_of(const kt_request_params *request) {
    return request->embedding.pooling == KT_POOLING_NONE ? KT__TASK_ANSWER : KT__TASK_EMBED;
}

static void fill_task(kt__choice *c, const kt_request_params *request) {
    kt__submitted *sub = c->sub;
    kt__task *task = &c->work.task;
    task->kind = kind_of(request);
    task->lent = sub->seq != NULL;
    task->whole = kt__engine_hparams(sub->req.engine)->features & KT__F_ENCODER;
    task->cancel = &sub->req.cancel;
    task->priority = task->lent ? LENT_PRIORITY : request->service.priority;
    task->n_tok = sub->n_text;
    task->n_done = sub->n_kept;
    task->n_predict = task->kind == KT__TASK_ANSWER ? request->gen.n_predict : 0;
    task->all_logits = request->logprobs.prompt && c->index == 0;
    if (c->index > 0) task->first = &sub->choices[0].work.task;
}

/* The tokens that the answer's text may come to: one is drawn from a full context, too. */
static size_t room_for(const kt_engine *engine, const kt_request_params *request, size_t n_text) {
    size_t cap = (size_t)engine->params.n_ctx + 1;
    int32_t n_predict = request->gen.n_predict;
    return n_predict >= 0 && n_text + (size_t)n_predict < cap ? n_text + (size_t)n_predict : cap;
}

/* The same answer has the same ids of calls, and the next turn of the conversation others. */
static uint64_t id_seed(const kt__choice *c) {
    const uint64_t from[] = {c->answer.seed, (uint64_t)c->sub->n_text, (uint64_t)c->index};
    return kt__hash_bytes(1, from, sizeof from).w[0];
}

static kt_status make_answer(kt__choice *c, const kt_request_params *request, const int32_t *ids,
                             size_t n, kt_error *err) {
    const kt__work *w = &c->work;
    KT__STEP(kt__answer_init(&c->answer, w->engine, &request->gen, (uint32_t)c->index, err));
    if (c->sub->constraint)
        KT__STEP(kt__answer_hold(&c->answer, c->sub->constraint, request->constraint.finish_within,
                                 err));
    c->report.seed = c->answer.seed;
    if (c->sub->conversation)
        KT__STEP(kt__answer_split(&c->answer, c->sub->conversation, request, id_seed(c), err));
    if (w->task.kind != KT__TASK_ANSWER) return KT_OK;
    for (int32_t i = 0; i < c->sub->n_kept; i++) kt__answer_accept(&c->answer, w->state->tokens[i]);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0) kt__answer_accept(&c->answer, ids[i]);
    return KT_OK;
}

/* Room for the keys of rows: of the one at hand, and of those that are kept. */
static kt_status make_keys(kt__choice *c, size_t cap, kt_error *err) {
    size_t d = (size_t)kt__engine_hparams(c->work.engine)->d_model;
    const kt__submitted *sub = c->sub;
    if (c->work.task.kind != KT__TASK_ANSWER || !(sub->recall || sub->keep)) return KT_OK;
    c->key = kt__calloc(d, 1);
    if (!c->key) return kt__fail_nomem(err, "a state's key", d);
    if (!sub->keep) return KT_OK;
    c->cap_kept = cap - (size_t)sub->n_text;
    if (c->cap_kept > KT_KEPT_MAX) c->cap_kept = KT_KEPT_MAX;
    c->kept = kt__calloc(c->cap_kept + 1, d);
    return c->kept ? KT_OK : kt__fail_nomem(err, "an answer's states", c->cap_kept * d);
}

/* Tokens that stay where the context is full: with the mark that begins a text. -1: the answer ends
 * there. */
static int32_t n_keep_of(const kt__submitted *sub, const kt_request_params *request) {
    bool alone = sub->n_choices == 1 && !sub->seq && sub->pictures.n == 0;
    if (!request->overflow.shift || !alone || sub->pooling != KT_POOLING_NONE) return -1;
    int32_t n = request->overflow.n_keep < 0 ? sub->n_text : request->overflow.n_keep;
    const kt__tokenizer *tok = sub->req.engine->model->tok;
    if (request->overflow.n_keep >= 0 && tok && kt__tokenizer_add_bos(tok)) n++;
    return n < sub->n_text ? n : sub->n_text;
}

/* ids[n]: those of the prompt after the positions that are kept. */
static kt_status make_choice(kt__submitted *sub, int index, const kt_request_params *request,
                             const int32_t *ids, size_t n, kt_error *err) {
    kt__choice *c = &sub->choices[index];
    kt__work *w = &c->work;
    const char *scope = request->service.cache_scope ? request->service.cache_scope
                                                     : request->service.client;
    size_t cap = room_for(sub->req.engine, request, (size_t)sub->n_text);
    c->sub = sub;
    c->index = index;
    w->ops = kt__choice_ops();
    w->engine = sub->req.engine;
    w->cap = (int32_t)cap;
    w->no_cache = request->service.no_cache || request->logprobs.prompt;
    w->takes_altered = takes_altered(w->engine, request);
    w->mean = sub->pooling == KT_POOLING_MEAN;
    bool encoder = kt__engine_hparams(w->engine)->features & KT__F_ENCODER;
    w->first = sub->pooling == KT_POOLING_CLS || (sub->pooling == KT_POOLING_RANK && encoder);
    w->pair_from = request->prompt.pair_from;
    w->n_keep = n_keep_of(sub, request);
    w->n_base = request->seq && request->seq_append ? sub->n_kept : 0;
    w->n_prompt = sub->n_text - w->n_base;
    w->root = kt__scope_root(w->engine->scope, scope ? scope : "", sub->adapters);
    w->adapters = sub->adapters;
    w->cursor.key = w->root;
    c->report.n_prompt = w->n_prompt;
    fill_task(c, request);
    KT__STEP(make_client(&w->task, request->service.client, err));
    if (sub->seq) {
        w->state = &sub->seq->state;
    } else {
        KT__STEP(make_own_state(c, cap, err));
        memcpy(w->state->tokens, ids, n * sizeof *ids);
    }
    KT__STEP(make_answer(c, request, ids, n, err));
    KT__STEP(make_keys(c, cap, err));
    c->n_reported = -1;
    w->pictures = sub->pictures.n ? &sub->pictures : NULL;
    /* what proposes looks at tokens, which pictures are not */
    if (w->task.kind == KT__TASK_ANSWER && !w->pictures) w->proposals = &c->proposals;
    return KT_OK;
}

static kt_status keep_texts(kt__submitted *sub, const kt_request_params *request, kt_error *err) {
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < request->prompt.n_messages; i++)
        bytes += strlen(request->prompt.messages[i].content ? request->prompt.messages[i].content
                                                            : "") +
                 1;
    if (request->prompt.n_messages == 0 || request->prompt.n_messages > INT32_MAX) return KT_OK;
    sub->texts = kt__malloc(bytes);
    if (!sub->texts) return kt__fail_nomem(err, "a conversation", bytes);
    for (size_t i = 0; i < request->prompt.n_messages; i++) {
        const char *content = request->prompt.messages[i].content
                                  ? request->prompt.messages[i].content
                                  : "";
        size_t len = strlen(content) + 1;
        memcpy(sub->texts + at, content, len);
        at += len;
    }
    sub->n_texts = (int32_t)request->prompt.n_messages;
    return KT_OK;
}

/* The tokens' ids; what belongs to them comes with the rows before them. */
static kt_status make_prompt_logprobs(kt__submitted *sub, const int32_t *ids, size_t n,
                                      kt_error *err) {
    size_t width = (size_t)sub->n_logprobs + 1;
    sub->prompt = kt__calloc(n * width, sizeof *sub->prompt);
    if (!sub->prompt)
        return kt__fail_nomem(err, "a prompt's log-probabilities", n * width * sizeof *sub->prompt);
    for (size_t i = 0; i < n; i++) sub->prompt[i * width].id = ids[i];
    for (size_t k = 1; k < width; k++) sub->prompt[k].id = -1;
    return KT_OK;
}

static kt_status fill_request(kt__submitted *sub, const kt_request_params *request,
                              const int32_t *ids, size_t n, kt_error *err) {
    size_t d_model = (size_t)kt__engine_hparams(sub->req.engine)->d_model;
    for (int i = 0; i < sub->n_choices; i++) KT__STEP(make_choice(sub, i, request, ids, n, err));
    KT__STEP(keep_texts(sub, request, err));
    if (sub->pooling != KT_POOLING_NONE) {
        /* and room for what is computed with it */
        size_t n_room = kt__pool_scratch_floats(&sub->req.engine->model->net->pool, (int)d_model);
        sub->embedding = kt__calloc(d_model + n_room, sizeof *sub->embedding);
        if (!sub->embedding) return kt__fail_nomem(err, "an embedding", 0);
    }
    if (request->logprobs.prompt) KT__STEP(make_prompt_logprobs(sub, ids, n, err));
    return kt__events_init(sub, err);
}

static kt_status copy_params(kt__submitted *sub, const kt_request_params *request, kt_error *err) {
    sub->seq = request->seq;
    sub->on_event = request->events.on_event;
    sub->on_ready = request->events.on_ready;
    sub->user = request->events.user;
    sub->n_logprobs = request->logprobs.n;
    sub->n_predict = request->gen.n_predict;
    sub->post_sampling = request->logprobs.post_sampling && request->logprobs.n >= 0;
    sub->progress = request->events.progress;
    sub->recall = kt_recall_hold(request->corrections.recall);
    sub->keep = request->corrections.keep && !request->prompt.n_pictures;
    sub->keys = request->embedding.keys;
    sub->keys_first = request->embedding.keys_first;
    sub->normalize = request->embedding.normalize;
    return kt__model_pooling(sub->req.engine->model, request->embedding.pooling, &sub->pooling,
                             err);
}

static kt_status take_adapters(kt__submitted *sub, const kt_request_params *request,
                               kt_error *err) {
    if (sub->seq) {
        sub->adapters = kt__adapters_hold(sub->seq->adapters);
        return KT_OK;
    }
    return kt__adapters_new(sub->req.engine->model, request->adapters, request->n_adapters,
                            &sub->adapters, err);
}

/* With its sequence, if there is one, lent. */
static kt_status create_lent(kt_engine *engine, const kt_request_params *request,
                             const int32_t *ids, size_t n, kt__conversation **conversation,
                             kt__pictures *pictures, kt__submitted **out, kt_error *err) {
    kt_status status;
    kt__submitted *sub = NULL;
    size_t skip = 0;
    KT__TRY(check_prompt(engine, request, ids, n, err));
    KT__TRY(check_recall(engine, request, err));
    KT__TRY(kt__submitted_new(engine, request->n_choices, &sub, err));
    KT__TRY(copy_params(sub, request, err));
    sub->conversation = *conversation;
    *conversation = NULL;
    sub->pictures = *pictures;
    *pictures = (kt__pictures){0};
    KT__TRY(take_adapters(sub, request, err));
    if (sub->seq) {
        if (!request->seq_append) skip = kt__seq_common(sub->seq, ids, n);
        if (sub->recall && skip == n && n > 0) skip = n - 1; /* the last state is to be seen */
        sub->n_kept = (int32_t)(request->seq_append ? kt_seq_len(sub->seq) : skip);
    }
    atomic_store(&sub->has_seq, sub->seq != NULL);
    sub->n_text = sub->n_kept + (int32_t)(n - skip);
    KT__TRY(kt__hold_lend(sub, request, err));
    KT__TRY(fill_request(sub, request, ids + skip, n - skip, err));
    if (sub->seq) kt__seq_put_prompt(sub->seq, (size_t)sub->n_kept, ids + skip, n - skip);
    *out = sub;
    sub = NULL;
out:
    kt__submitted_free(sub);
    return status;
}

kt_status kt__submit_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                            size_t n, kt__conversation *conversation, kt__pictures *pictures,
                            kt__submitted **out, kt_error *err) {
    *out = NULL;
    kt_status status = check_params(request, err);
    if (status == KT_OK && request->seq) status = kt__seq_lend(request->seq, engine, err);
    if (status == KT_OK) {
        status = create_lent(engine, request, ids, n, &conversation, pictures, out, err);
        if (status != KT_OK && request->seq) kt__seq_unlend(request->seq);
    }
    kt__conversation_free(conversation);
    kt__free(ids);
    return status;
}

/* ---- handing over ---- */

kt_status kt__submit_enqueue(kt__submitted *sub, int64_t deadline_ms, kt_error *err) {
    kt__task *first = &sub->choices[0].work.task;
    int64_t t_us = kt__now_us();
    sub->tokenize_us = t_us - sub->submitted_us;
    for (int i = 0; i < sub->n_choices; i++) {
        kt__task *task = &sub->choices[i].work.task;
        task->arrival_us = t_us;
        task->deadline_us = deadline_ms > 0 ? sub->submitted_us + deadline_ms * 1000 : INT64_MAX;
        task->next = i + 1 < sub->n_choices ? &sub->choices[i + 1].work.task : NULL;
        if (sub->n_predict == 0 && task->kind == KT__TASK_ANSWER && !sub->prompt)
            task->finish = KT_FINISH_LENGTH;
    }
    const kt__submission submission = {
        .first = first,
        .last = &sub->choices[sub->n_choices - 1].work.task,
        .ask = {first->priority, kt__client_key(first->client->name), sub->n_text - sub->n_kept,
                (int64_t)sub->n_predict * sub->n_choices},
        .deadline_ms = deadline_ms,
    };
    kt_seq *seq = sub->seq;
    kt_status status = kt__inbox_submit(sub->req.engine->inbox, &submission, err);
    if (status != KT_OK) {
        kt__submitted_free(sub);
        if (seq) kt__seq_unlend(seq);
    }
    return status;
}

/* ---- hold ---- */

/* A constraint in the making; what it points to lives as long as this. */
typedef struct holding {
    kt__call_constraint calls;
    kt_form forms[2];
    const char *trigger;
    kt_constraint made;
} holding;

static void add_note(kt__buf *notes, const char *text, size_t len) {
    if (!len) return;
    if (notes->len) (void)kt__buf_putc(notes, '\n');
    (void)kt__buf_append(notes, text, len);
}

/* The texts that calls may be, and what a user should know of them. */
static kt_status describe_calls(kt__submitted *sub, const kt_request_params *r,
                                kt__call_constraint *out, kt_error *err) {
    kt__conversation *c = sub->conversation;
    const kt__call_style *style = &sub->req.engine->model->style;
    const kt__call_rules rules = {.tools = c->tools,
                                  .choice = c->choice,
                                  .one_call = r->calls.one,
                                  .any_spelling = kt__request_any_spelling(r),
                                  .prompt_tail = c->tail,
                                  .prompt_tail_len = c->tail_len};
    kt_status status = kt__call_constraint_make(style, &rules, out, err);
    if (status != KT_OK) return kt__conversation_fail_in("tools", status, err);
    const char *note = kt__call_style_note(style);
    if (note) add_note(&c->notes, note, strlen(note));
    if (out->notes.data) add_note(&c->notes, out->notes.data, out->notes.len);
    return KT_OK;
}

/* Calls that must come are the whole answer, reasoning included; so is text without calls, and what
 * is either, but these two only where the request holds the answer to nothing else. Calls that may
 * come after a mark follow it: among free text, or instead of what the request asks for. */
static kt_status add_calls(holding *h, kt__submitted *sub, const kt_request_params *r,
                           kt_error *err) {
    bool beside = r->constraint.n_forms == 1 && !r->constraint.n_triggers;
    kt_status status = describe_calls(sub, r, &h->calls, err);
    if (status != KT_OK || !h->calls.text.len) return status;
    kt_form form = {.kind = KT_FORM_PIECES, .text = h->calls.text.data, .len = h->calls.text.len};
    bool must = !h->calls.trigger[0];
    bool may_be_text = sub->conversation->choice.mode == KT__TOOL_NONE ||
                       (must && sub->conversation->choice.mode == KT__TOOL_AUTO);
    if (r->constraint.n_forms && may_be_text) return KT_OK;
    if (r->constraint.n_forms && !must && !beside)
        return kt__fail_at(err, KT_E_UNSUPPORTED, "tools", UINT64_MAX,
                           "tools: they go with one form of the answer, without triggers");
    if (must || !beside) {
        h->trigger = h->calls.trigger;
        h->forms[0] = form;
        h->made = (kt_constraint){.forms = h->forms,
                                  .n_forms = 1,
                                  .triggers = must ? NULL : &h->trigger,
                                  .n_triggers = must ? 0 : 1,
                                  .repeat = !must && !r->calls.one,
                                  .compact = r->constraint.compact};
        return KT_OK;
    }
    form.before = h->calls.trigger;
    h->forms[0] = r->constraint.forms[0];
    h->forms[1] = form;
    h->made = (kt_constraint){.forms = h->forms, .n_forms = 2, .compact = r->constraint.compact};
    return KT_OK;
}

/* Where the answer begins inside reasoning, a form comes after that. */
static void wait_for_answer(holding *h, const kt__submitted *sub) {
    bool thinks = sub->conversation && sub->conversation->thinks;
    h->trigger = thinks ? kt__conversation_closing(sub->req.engine->model) : NULL;
    if (!h->trigger || !h->made.n_forms || h->made.n_triggers) return;
    h->made.triggers = &h->trigger;
    h->made.n_triggers = 1;
}

kt_status kt__hold_lend(kt__submitted *sub, const kt_request_params *request, kt_error *err) {
    const kt__conversation *c = sub->conversation;
    holding h = {.made = request->constraint};
    bool calls = c && c->tools;
    kt_status status = calls ? add_calls(&h, sub, request, err) : KT_OK;
    bool whole = h.made.forms == h.forms && !h.calls.trigger[0]; /* reasoning is within it */
    if (status == KT_OK && !whole && !(h.made.n_triggers)) wait_for_answer(&h, sub);
    if (status == KT_OK)
        status = kt__constraints_lend(sub->req.engine, &h.made, &sub->constraint, err);
    kt__call_constraint_free(&h.calls);
    return status;
}
