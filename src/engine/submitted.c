#include "engine/submitted.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/inbox.h"
#include "engine/scope.h"

enum { MAX_NAME = 256, USUAL_EVENT_TEXT = 64 };

/* ---- making ---- */

kt_request_params kt_request_params_default(void) {
    return (kt_request_params){
        .text_flags = KT_TOK_ADD_SPECIAL,
        .gen = kt_gen_params_default(),
        .n_choices = 1,
        .n_logprobs = -1,
        .normalize = true,
    };
}

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

static kt_status check_request(const kt_request_params *r, kt_error *err) {
    kt_status status;
    KT__TRY(check_int("n_choices", r->n_choices, 1, KT_CHOICES_MAX, err));
    KT__TRY(check_int("n_logprobs", r->n_logprobs, -1, KT_LOGPROBS_MAX, err));
    KT__TRY(check_int("priority", r->priority, -KT_PRIORITY_MAX, KT_PRIORITY_MAX, err));
    KT__TRY(check_int("deadline_ms", r->deadline_ms, 0, INT64_MAX / 2000, err));
    KT__TRY(check_int("pooling", (int64_t)r->pooling, 0, KT_POOLING_LAST, err));
    KT__TRY(check_int("constraint", (int64_t)r->constraint, 0, KT_CONSTRAINT_JSON, err));
    KT__TRY(check_name("client", r->client, err));
    KT__TRY(check_name("cache_scope", r->cache_scope, err));
    if (r->pooling != KT_POOLING_NONE && r->n_choices > 1)
        return kt__fail(err, KT_E_ARG, "an embedding has one choice, not %d", r->n_choices);
out:
    return status;
}

static kt_status check_prompt(const kt_engine *engine, const int32_t *ids, size_t n,
                              kt_error *err) {
    int32_t n_vocab = engine->model->net->hp.n_vocab;
    int64_t n_store = kt__kv_n_pages(engine->kv) * KT__PAGE_POS;
    if (n == 0) return kt__fail(err, KT_E_ARG, "the prompt has no tokens");
    if (n > (size_t)engine->params.n_ctx) {
        return kt__fail(err, KT_E_CONTEXT_FULL,
                        "a prompt of %zu tokens does not fit the context of %d: ask for a larger "
                        "context (-c) or shorten the prompt",
                        n, engine->params.n_ctx);
    }
    if ((int64_t)n > n_store) {
        return kt__fail(err, KT_E_CONTEXT_FULL,
                        "a prompt of %zu tokens does not fit the K/V budget of %lld positions: "
                        "give more memory or shorten the prompt",
                        n, (long long)n_store);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < n_vocab) continue;
        return kt__fail(err, KT_E_ARG, "token %zu is %d, expected 0 to %d", i, ids[i], n_vocab - 1);
    }
    return KT_OK;
}

static kt_status make_client(kt__task *task, const char *name, kt_error *err) {
    size_t len = name ? strlen(name) : 0;
    task->client = kt__calloc(1, sizeof *task->client + len + 1);
    if (!task->client) return kt__fail_nomem(err, "a client's name", len);
    if (len) memcpy(task->client->name, name, len);
    return KT_OK;
}

static kt_status make_choice(kt__submitted *sub, int index, const kt_request_params *request,
                             const int32_t *ids, size_t n, kt_error *err) {
    kt_status status;
    kt_engine *engine = sub->req.engine;
    kt__choice *c = &sub->choices[index];
    kt__task *task = &c->task;
    size_t cap = (size_t)engine->params.n_ctx + 1;
    c->sub = sub;
    c->index = index;
    c->cursor.key = sub->root;
    task->cancel = &sub->req.cancel;
    task->priority = request->priority;
    task->n_tok = (int32_t)n;
    task->embed = request->pooling != KT_POOLING_NONE;
    task->n_predict = task->embed ? 0 : request->gen.n_predict;
    KT__TRY(make_client(task, request->client, err));
    KT__TRY(kt__kv_table_init(&c->table, engine->params.n_ctx, err));
    KT__TRY(kt__draft_seq_init(engine, &c->draft_seq, err));
    if (request->gen.n_predict >= 0 && n + (size_t)request->gen.n_predict < cap)
        cap = n + (size_t)request->gen.n_predict;
    c->cap = (int32_t)cap;
    c->tokens = kt__calloc(cap, sizeof *c->tokens);
    if (!c->tokens) return kt__fail_nomem(err, "an answer's tokens", cap * sizeof *c->tokens);
    memcpy(c->tokens, ids, n * sizeof *ids);
    KT__TRY(kt__answer_init(&c->answer, engine, &request->gen, (uint32_t)index, err));
    if (request->constraint == KT_CONSTRAINT_JSON)
        KT__TRY(kt__answer_hold_to_json(&c->answer, err));
    c->report.seed = c->answer.seed;
    c->report.n_prompt = (int32_t)n;
    for (size_t i = 0; i < n && !task->embed; i++) kt__answer_accept(&c->answer, ids[i]);
out:
    return status;
}

/* Room for what one step may bring beyond the mark at which answers pause. */
static kt_status make_ring(kt__submitted *sub, kt_error *err) {
    int per_step = sub->req.engine->params.n_draft + 4;
    sub->ring_cap = KT__HELD_EVENTS + sub->n_choices * per_step;
    sub->ring = kt__calloc((size_t)sub->ring_cap, sizeof *sub->ring);
    if (!sub->ring) return kt__fail_nomem(err, "a request's events", 0);
    for (int i = 0; i < sub->ring_cap; i++) {
        kt__stored *slot = &sub->ring[i];
        kt__buf_init(&slot->text, SIZE_MAX / 2);
        if (!kt__buf_reserve(&slot->text, USUAL_EVENT_TEXT))
            return kt__fail_nomem(err, "a request's events", USUAL_EVENT_TEXT);
        if (sub->n_logprobs <= 0) continue;
        slot->top = kt__calloc((size_t)sub->n_logprobs, sizeof *slot->top);
        if (!slot->top) return kt__fail_nomem(err, "a request's events", 0);
    }
    return KT_OK;
}

static kt_status keep_texts(kt__submitted *sub, const kt_request_params *request, kt_error *err) {
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < request->n_messages; i++)
        bytes += strlen(request->messages[i].content ? request->messages[i].content : "") + 1;
    if (request->n_messages == 0 || request->n_messages > INT32_MAX) return KT_OK;
    sub->texts = kt__malloc(bytes);
    if (!sub->texts) return kt__fail_nomem(err, "a conversation", bytes);
    for (size_t i = 0; i < request->n_messages; i++) {
        const char *content = request->messages[i].content ? request->messages[i].content : "";
        size_t len = strlen(content) + 1;
        memcpy(sub->texts + at, content, len);
        at += len;
    }
    sub->n_texts = (int32_t)request->n_messages;
    return KT_OK;
}

static kt_status init_lock(kt__submitted *sub, kt_error *err) {
    if (pthread_mutex_init(&sub->lock, NULL) != 0) return kt__fail_nomem(err, "a request", 0);
    if (kt__cond_init(&sub->changed) == 0) return KT_OK;
    pthread_mutex_destroy(&sub->lock);
    return kt__fail_nomem(err, "a request", 0);
}

static kt_status fill_request(kt__submitted *sub, const kt_request_params *request,
                              const int32_t *ids, size_t n, kt_error *err) {
    kt_status status;
    kt_engine *engine = sub->req.engine;
    const char *scope = request->cache_scope ? request->cache_scope : request->client;
    sub->root = kt__scope_root(engine->scope, scope ? scope : "");
    for (int i = 0; i < sub->n_choices; i++) {
        KT__TRY(make_choice(sub, i, request, ids, n, err));
        if (i > 0) sub->choices[i].task.first = &sub->choices[0].task;
    }
    KT__TRY(keep_texts(sub, request, err));
    if (sub->pooling != KT_POOLING_NONE) {
        sub->embedding = kt__calloc((size_t)engine->model->net->hp.d_model, sizeof *sub->embedding);
        if (!sub->embedding) return kt__fail_nomem(err, "an embedding", 0);
    }
    if (sub->n_logprobs > 0) {
        sub->top = kt__calloc((size_t)sub->n_logprobs, sizeof *sub->top);
        if (!sub->top) return kt__fail_nomem(err, "logprobs", 0);
    }
    if (!sub->on_event) KT__TRY(make_ring(sub, err));
out:
    return status;
}

kt_status kt__submitted_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                               size_t n, kt__submitted **out, kt_error *err) {
    kt__submitted *sub = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(check_request(request, err));
    KT__TRY(check_prompt(engine, ids, n, err));
    size_t n_choices = (size_t)request->n_choices;
    sub = kt__calloc(1, sizeof *sub + n_choices * sizeof sub->choices[0]);
    if (!sub) {
        status = kt__fail_nomem(err, "a request", sizeof *sub);
        goto out;
    }
    status = init_lock(sub, err);
    if (status != KT_OK) {
        kt__free(sub);
        sub = NULL;
        goto out;
    }
    sub->req.engine = engine;
    sub->req.submitted = true;
    sub->on_event = request->on_event;
    sub->on_ready = request->on_ready;
    sub->user = request->user;
    sub->no_cache = request->no_cache;
    sub->n_prompt = (int32_t)n;
    sub->n_logprobs = request->n_logprobs;
    sub->n_predict = request->gen.n_predict;
    sub->pooling = request->pooling;
    sub->normalize = request->normalize;
    sub->n_choices = sub->n_open = request->n_choices;
    KT__TRY(fill_request(sub, request, ids, n, err));
    *out = sub;
    sub = NULL;
out:
    kt__free(ids);
    kt__submitted_free(sub);
    return status;
}

void kt__submitted_free(kt__submitted *sub) {
    if (!sub) return;
    for (int i = 0; i < sub->n_choices; i++) {
        kt__choice *c = &sub->choices[i];
        assert(c->table.n_pages == 0);
        kt__free(c->table.pages);
        kt__free(c->draft_seq.table.pages);
        kt__free(c->tokens);
        kt__answer_free(&c->answer);
        if (c->task.state == KT__TASK_NEW) kt__free(c->task.client); /* else the scheduler's */
    }
    for (int i = 0; sub->ring && i < sub->ring_cap; i++) {
        kt__buf_free(&sub->ring[i].text);
        kt__free(sub->ring[i].top);
    }
    pthread_cond_destroy(&sub->changed);
    pthread_mutex_destroy(&sub->lock);
    kt__free(sub->ring);
    kt__free(sub->embedding);
    kt__free(sub->top);
    kt__free(sub->texts);
    kt__free(sub);
}

kt_status kt__submitted_enqueue(kt__submitted *sub, int64_t deadline_ms, kt_error *err) {
    const kt__task *first = &sub->choices[0].task;
    int64_t t_us = kt__now_us();
    sub->tokenize_us = t_us - sub->submitted_us;
    for (int i = 0; i < sub->n_choices; i++) {
        kt__task *task = &sub->choices[i].task;
        task->arrival_us = t_us;
        task->deadline_us = deadline_ms > 0 ? sub->submitted_us + deadline_ms * 1000 : INT64_MAX;
        task->next = i + 1 < sub->n_choices ? &sub->choices[i + 1].task : NULL;
        if (sub->n_predict == 0 && !task->embed) task->finish = KT_FINISH_LENGTH;
    }
    const kt__submission submission = {
        .first = &sub->choices[0].task,
        .last = &sub->choices[sub->n_choices - 1].task,
        .ask = {first->priority, kt__client_key(first->client->name), sub->n_prompt,
                (int64_t)sub->n_predict * sub->n_choices},
        .deadline_ms = deadline_ms,
    };
    return kt__inbox_submit(sub->req.engine->inbox, &submission, err);
}

/* ---- events ---- */

static void set_held(kt__submitted *sub, bool held) {
    for (int i = 0; i < sub->n_choices; i++)
        atomic_store_explicit(&sub->choices[i].task.held, held, memory_order_relaxed);
}

/* The lock is held. An event whose text finds no memory would be a lie: the answer ends. */
static void store_event(kt__choice *choice, const kt_event *event) {
    kt__submitted *sub = choice->sub;
    assert(sub->ring_n < sub->ring_cap);
    kt__stored *slot = &sub->ring[(sub->ring_at + sub->ring_n) % sub->ring_cap];
    kt_logprob *top = slot->top;
    slot->event = *event;
    kt__buf_clear(&slot->text);
    slot->text.failed = false;
    if (event->len && !kt__buf_append(&slot->text, event->text, event->len)) {
        (void)kt__fail_nomem(&choice->error, "an answer's text", event->len);
        choice->task.finish = KT_FINISH_ERROR;
        slot->event.len = 0;
    }
    slot->event.text = slot->text.data;
    if (event->n_top) memcpy(top, event->top, event->n_top * sizeof *top);
    slot->event.top = top;
    sub->ring_n++;
    if (sub->ring_n >= KT__HELD_EVENTS) set_held(sub, true);
    pthread_cond_broadcast(&sub->changed);
    if (sub->on_ready) sub->on_ready(sub->user); /* the lock keeps the request from closing */
}

/* The lock is held; it is free while the callback runs, which may close the request. */
static void call_back(kt__submitted *sub, const kt_event *event) {
    sub->calling = true;
    sub->caller = pthread_self();
    pthread_mutex_unlock(&sub->lock);
    sub->on_event(sub->user, event);
    pthread_mutex_lock(&sub->lock);
    sub->calling = false;
    pthread_cond_broadcast(&sub->changed);
}

void kt__submitted_emit(kt__choice *choice, kt_event *event) {
    kt__submitted *sub = choice->sub;
    event->req = &sub->req;
    event->user = sub->user;
    event->choice = choice->index;
    event->t_us = kt__now_us();
    if (event->kind == KT_EVENT_FINISHED)
        kt__inbox_note_finished(sub->req.engine->inbox, event->finish);
    pthread_mutex_lock(&sub->lock);
    if (event->kind == KT_EVENT_FINISHED) event->last = --sub->n_open == 0;
    if (!sub->detached && !sub->on_event) store_event(choice, event);
    if (!sub->detached && sub->on_event) call_back(sub, event);
    pthread_mutex_unlock(&sub->lock);
}

void kt__submitted_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
                             int n_logprobs) {
    kt_event event = {.kind = KT_EVENT_TOKEN, .id = id};
    kt_error err;
    if (kt__answer_text(&choice->answer, &event.text, &event.len, &err) != KT_OK) {
        choice->error = err;
        choice->task.finish = KT_FINISH_ERROR;
    }
    if (logprobs) {
        event.logprob = logprobs[0].logprob;
        event.top = logprobs + 1;
        event.n_top = (size_t)n_logprobs;
    }
    kt__submitted_emit(choice, &event);
}

/* The event that was read last makes room. The lock is held. Returns whether the answer, which had
 * paused, goes on. */
static bool drop_read(kt__submitted *sub) {
    if (!sub->ring_busy) return false;
    sub->ring_busy = false;
    sub->ring_at = (sub->ring_at + 1) % sub->ring_cap;
    sub->ring_n--;
    if (sub->ring_n != KT__HELD_EVENTS / 2) return false;
    set_held(sub, false);
    return true;
}

static void drop_and_wake(kt__submitted *sub) {
    pthread_mutex_lock(&sub->lock);
    bool goes_on = drop_read(sub);
    pthread_mutex_unlock(&sub->lock);
    if (goes_on) kt__inbox_wake(sub->req.engine->inbox);
}

bool kt_request_next_event(kt_request *req, kt_event *out, int64_t timeout_ms) {
    kt__submitted *sub = kt__submitted_of(req);
    bool found = false;
    if (!req->submitted || sub->on_event) return false;
    struct timespec until = kt__time_in_ms(timeout_ms);
    drop_and_wake(sub);
    pthread_mutex_lock(&sub->lock);
    while (sub->ring_n == 0 && sub->n_open > 0 && timeout_ms != 0) {
        if (timeout_ms < 0) {
            pthread_cond_wait(&sub->changed, &sub->lock);
        } else if (pthread_cond_timedwait(&sub->changed, &sub->lock, &until) != 0) {
            break;
        }
    }
    if (sub->ring_n > 0) {
        *out = sub->ring[sub->ring_at].event;
        sub->ring_busy = found = true;
    }
    pthread_mutex_unlock(&sub->lock);
    return found;
}

/* ---- the end ---- */

static const char *bottleneck_of(const kt_request_report *r) {
    const struct {
        const char *name;
        int64_t us;
    } parts[] = {{"queue", r->queue_us},     {"tokenize", r->tokenize_us},
                 {"prefill", r->prefill_us}, {"decode", r->decode_us},
                 {"sampling", r->sample_us}, {"other requests", r->wait_us},
                 {"reader", r->held_us}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].us > parts[most].us) most = i;
    }
    return parts[most].name;
}

static void fill_report(kt__choice *c) {
    kt_request_report *r = &c->report;
    const int64_t *us = c->task.us;
    r->finish = c->answer.finish;
    r->stop = c->answer.stop;
    r->n_generated = c->answer.n_generated;
    r->n_preempted = c->task.n_preempted;
    r->n_recomputed = c->task.n_recomputed;
    r->n_drafted = (int32_t)c->proposals.spec.n_drafted;
    r->n_accepted = (int32_t)c->proposals.spec.n_accepted;
    r->tokenize_us = c->sub->tokenize_us;
    r->queue_us = us[KT__ACCOUNT_QUEUE];
    r->prefill_us = us[KT__ACCOUNT_PREFILL];
    r->decode_us = us[KT__ACCOUNT_DECODE];
    r->sample_us = us[KT__ACCOUNT_SAMPLE];
    r->wait_us = us[KT__ACCOUNT_WAIT];
    r->held_us = us[KT__ACCOUNT_HELD];
    r->total_us = kt__now_us() - c->sub->submitted_us;
    r->bottleneck = bottleneck_of(r);
}

/* Sums to one in the sense asked for; the order of additions is the rows', whatever the batches. */
static void finish_embedding(kt__submitted *sub) {
    size_t d = (size_t)sub->req.engine->model->net->hp.d_model;
    float *e = sub->embedding;
    if (sub->pooling == KT_POOLING_MEAN) {
        for (size_t i = 0; i < d; i++) e[i] /= (float)sub->n_prompt;
    }
    if (!sub->normalize) return;
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += (double)e[i] * (double)e[i];
    if (sum <= 0) return;
    double scale = 1.0 / sqrt(sum); /* both correctly rounded */
    for (size_t i = 0; i < d; i++) e[i] = (float)((double)e[i] * scale);
}

void kt__submitted_end(kt__choice *choice) {
    kt__submitted *sub = choice->sub;
    kt__task *task = &choice->task;
    kt_event event = {.kind = KT_EVENT_FINISHED};
    kt__buf_clear(&choice->answer.text);
    if (kt__answer_end(&choice->answer, task->finish, &choice->error) != KT_OK)
        choice->answer.finish = KT_FINISH_ERROR;
    if (choice->answer.text.len) kt__submitted_emit_text(choice, -1, NULL, 0);
    if (choice->answer.finish == KT_FINISH_ERROR && choice->error.code == KT_OK) {
        (void)kt__fail(&choice->error, KT_E_NOMEM,
                       "the K/V store is full, and others than requests hold it: close sequences, "
                       "or open the engine with a larger kv_bytes");
    }
    bool embedded = task->embed && choice->answer.finish == KT_FINISH_LENGTH;
    if (embedded) {
        finish_embedding(sub);
        event.embedding = sub->embedding;
        event.n_embedding = (size_t)sub->req.engine->model->net->hp.d_model;
    }
    fill_report(choice);
    event.finish = choice->answer.finish;
    event.report = &choice->report;
    event.error = event.finish == KT_FINISH_ERROR ? &choice->error : NULL;
    kt__submitted_emit(choice, &event);
}

void kt__submitted_release(kt__choice *choice) {
    kt__submitted *sub = choice->sub;
    kt_engine *engine = sub->req.engine;
    kt__kv_table_truncate(engine->kv, &choice->table, 0);
    kt__speculator_trim(engine->speculator, &choice->draft_seq, 0);
    pthread_mutex_lock(&sub->lock);
    bool over = ++sub->n_released == sub->n_choices, started = sub->started;
    if (over) sub->done = true;
    bool free_now = over && sub->detached;
    pthread_mutex_unlock(&sub->lock);
    if (over) kt__inbox_note_over(engine->inbox, started);
    if (free_now) kt__submitted_free(sub);
}

void kt__submitted_close(kt_request *req) {
    kt__submitted *sub = kt__submitted_of(req);
    kt_engine *engine = req->engine;
    pthread_mutex_lock(&sub->lock);
    while (sub->calling && !pthread_equal(sub->caller, pthread_self()))
        pthread_cond_wait(&sub->changed, &sub->lock);
    sub->detached = true;
    atomic_store(&req->cancel, true);
    atomic_store(&engine->cancel_pending, true);
    bool free_now = sub->done;
    pthread_mutex_unlock(&sub->lock);
    kt__inbox_wake(engine->inbox);
    if (free_now) kt__submitted_free(sub);
}

void kt__submitted_get_result(const kt_request *req, kt_gen_result *out) {
    kt__submitted *sub = kt__submitted_of(req);
    pthread_mutex_lock(&sub->lock);
    const kt_request_report *r = &sub->choices[0].report;
    *out = (kt_gen_result){.finish = KT_FINISH_NONE, .seed = r->seed, .n_prompt = r->n_prompt};
    if (sub->n_open == 0) {
        out->finish = r->finish;
        out->n_cached = r->n_cached;
        out->n_generated = r->n_generated;
        out->n_drafted = r->n_drafted;
        out->n_accepted = r->n_accepted;
        out->prefill_ms = (double)r->prefill_us / 1000.0;
        out->decode_ms = (double)(r->decode_us + r->sample_us) / 1000.0;
        out->sample_ms = (double)r->sample_us / 1000.0;
        out->first_token_ms = (double)r->first_token_us / 1000.0;
    }
    pthread_mutex_unlock(&sub->lock);
}
