#include "engine/live.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/service.h"

enum { MAX_NAME = 256, USUAL_EVENT_TEXT = 64 };

/* ---- making ---- */

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

static kt_status make_choice(kt__live *live, int index, const kt_request_params *request,
                             const int32_t *ids, size_t n, kt_error *err) {
    kt_status status;
    kt_engine *engine = live->req.engine;
    kt__choice *c = &live->choices[index];
    kt__task *task = &c->task;
    size_t cap = (size_t)engine->params.n_ctx + 1;
    c->live = live;
    c->index = index;
    c->cursor.key = live->root;
    task->cancel = &live->req.cancel;
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
static kt_status make_ring(kt__live *live, kt_error *err) {
    int per_step = live->req.engine->params.n_draft + 4;
    live->ring_cap = KT__HELD_EVENTS + live->n_choices * per_step;
    live->ring = kt__calloc((size_t)live->ring_cap, sizeof *live->ring);
    if (!live->ring) return kt__fail_nomem(err, "a request's events", 0);
    for (int i = 0; i < live->ring_cap; i++) {
        kt__stored *slot = &live->ring[i];
        kt__buf_init(&slot->text, SIZE_MAX / 2);
        if (!kt__buf_reserve(&slot->text, USUAL_EVENT_TEXT))
            return kt__fail_nomem(err, "a request's events", USUAL_EVENT_TEXT);
        if (live->n_logprobs <= 0) continue;
        slot->top = kt__calloc((size_t)live->n_logprobs, sizeof *slot->top);
        if (!slot->top) return kt__fail_nomem(err, "a request's events", 0);
    }
    return KT_OK;
}

static kt_status keep_texts(kt__live *live, const kt_request_params *request, kt_error *err) {
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < request->n_messages; i++)
        bytes += strlen(request->messages[i].content ? request->messages[i].content : "") + 1;
    if (request->n_messages == 0 || request->n_messages > INT32_MAX) return KT_OK;
    live->texts = kt__malloc(bytes);
    if (!live->texts) return kt__fail_nomem(err, "a conversation", bytes);
    for (size_t i = 0; i < request->n_messages; i++) {
        const char *content = request->messages[i].content ? request->messages[i].content : "";
        size_t len = strlen(content) + 1;
        memcpy(live->texts + at, content, len);
        at += len;
    }
    live->n_texts = (int32_t)request->n_messages;
    return KT_OK;
}

static kt_status init_readable(kt__live *live, kt_error *err) {
    if (kt__cond_init(&live->readable) != 0) return kt__fail_nomem(err, "a request", 0);
    return KT_OK;
}

static kt_status fill(kt__live *live, const kt_request_params *request, const int32_t *ids,
                      size_t n, kt_error *err) {
    kt_status status;
    kt_engine *engine = live->req.engine;
    const char *scope = request->cache_scope ? request->cache_scope : request->client;
    live->root = kt__service_root(engine->service, scope ? scope : "");
    for (int i = 0; i < live->n_choices; i++) {
        KT__TRY(make_choice(live, i, request, ids, n, err));
        if (i > 0) live->choices[i].task.first = &live->choices[0].task;
    }
    KT__TRY(keep_texts(live, request, err));
    if (live->pooling != KT_POOLING_NONE) {
        live->embedding = kt__calloc((size_t)engine->model->net->hp.d_model,
                                     sizeof *live->embedding);
        if (!live->embedding) return kt__fail_nomem(err, "an embedding", 0);
    }
    if (live->n_logprobs > 0) {
        live->top = kt__calloc((size_t)live->n_logprobs, sizeof *live->top);
        if (!live->top) return kt__fail_nomem(err, "logprobs", 0);
    }
    if (!live->on_event) KT__TRY(make_ring(live, err));
out:
    return status;
}

kt_status kt__live_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                          size_t n, kt__live **out, kt_error *err) {
    kt__live *live = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(check_request(request, err));
    KT__TRY(check_prompt(engine, ids, n, err));
    size_t n_choices = (size_t)request->n_choices;
    live = kt__calloc(1, sizeof *live + n_choices * sizeof live->choices[0]);
    if (!live) {
        status = kt__fail_nomem(err, "a request", sizeof *live);
        goto out;
    }
    status = init_readable(live, err);
    if (status != KT_OK) {
        kt__free(live);
        live = NULL;
        goto out;
    }
    live->req.engine = engine;
    live->req.submitted = true;
    live->on_event = request->on_event;
    live->on_ready = request->on_ready;
    live->user = request->user;
    live->no_cache = request->no_cache;
    live->n_prompt = (int32_t)n;
    live->n_logprobs = request->n_logprobs;
    live->n_predict = request->gen.n_predict;
    live->pooling = request->pooling;
    live->normalize = request->normalize;
    live->n_choices = live->n_open = request->n_choices;
    KT__TRY(fill(live, request, ids, n, err));
    *out = live;
    live = NULL;
out:
    kt__free(ids);
    kt__live_free(live);
    return status;
}

void kt__live_free(kt__live *live) {
    if (!live) return;
    for (int i = 0; i < live->n_choices; i++) {
        kt__choice *c = &live->choices[i];
        assert(c->table.n_pages == 0);
        kt__free(c->table.pages);
        kt__free(c->draft_seq.table.pages);
        kt__free(c->tokens);
        kt__answer_free(&c->answer);
        if (!c->in_sched) kt__free(c->task.client);
    }
    for (int i = 0; live->ring && i < live->ring_cap; i++) {
        kt__buf_free(&live->ring[i].text);
        kt__free(live->ring[i].top);
    }
    pthread_cond_destroy(&live->readable);
    kt__free(live->ring);
    kt__free(live->embedding);
    kt__free(live->top);
    kt__free(live->texts);
    kt__free(live);
}

/* ---- events ---- */

static void set_held(kt__live *live, bool held) {
    for (int i = 0; i < live->n_choices; i++)
        atomic_store_explicit(&live->choices[i].task.held, held, memory_order_relaxed);
}

/* The lock is held. An event whose text finds no memory would be a lie: the answer ends. */
static void store_event(kt__choice *choice, const kt_event *event) {
    kt__live *live = choice->live;
    assert(live->ring_n < live->ring_cap);
    kt__stored *slot = &live->ring[(live->ring_at + live->ring_n) % live->ring_cap];
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
    live->ring_n++;
    if (live->ring_n >= KT__HELD_EVENTS) set_held(live, true);
    pthread_cond_signal(&live->readable);
    if (live->on_ready) live->on_ready(live->user); /* the lock keeps the request from closing */
}

void kt__live_emit(kt__choice *choice, kt_event *event) {
    kt__live *live = choice->live;
    kt__service *s = live->req.engine->service;
    event->req = &live->req;
    event->user = live->user;
    event->choice = choice->index;
    event->t_us = kt__now_us();
    pthread_mutex_lock(&s->lock);
    if (event->kind == KT_EVENT_FINISHED) {
        event->last = --live->n_open == 0;
        s->stats.n_finished[event->finish]++;
    }
    if (!live->detached && !live->on_event) store_event(choice, event);
    if (!live->detached && live->on_event) {
        s->calling = live;
        s->caller = pthread_self();
        pthread_mutex_unlock(&s->lock);
        live->on_event(live->user, event);
        pthread_mutex_lock(&s->lock);
        s->calling = NULL;
        pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
}

void kt__live_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
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
    kt__live_emit(choice, &event);
}

/* The event that was read last makes room. The lock is held. */
static void drop_read(kt__service *s, kt__live *live) {
    if (!live->ring_busy) return;
    live->ring_busy = false;
    live->ring_at = (live->ring_at + 1) % live->ring_cap;
    live->ring_n--;
    if (live->ring_n != KT__HELD_EVENTS / 2) return;
    set_held(live, false);
    s->nudged = true;
    pthread_cond_signal(&s->work);
}

bool kt_request_next_event(kt_request *req, kt_event *out, int64_t timeout_ms) {
    kt__live *live = kt__live_of(req);
    kt__service *s = req->engine->service;
    bool found = false;
    if (!req->submitted || live->on_event) return false;
    struct timespec until = kt__time_in_ms(timeout_ms);
    pthread_mutex_lock(&s->lock);
    drop_read(s, live);
    while (live->ring_n == 0 && live->n_open > 0 && timeout_ms != 0) {
        if (timeout_ms < 0) {
            pthread_cond_wait(&live->readable, &s->lock);
        } else if (pthread_cond_timedwait(&live->readable, &s->lock, &until) != 0) {
            break;
        }
    }
    if (live->ring_n > 0) {
        *out = live->ring[live->ring_at].event;
        live->ring_busy = found = true;
    }
    pthread_mutex_unlock(&s->lock);
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
    r->tokenize_us = c->live->tokenize_us;
    r->queue_us = us[KT__ACCOUNT_QUEUE];
    r->prefill_us = us[KT__ACCOUNT_PREFILL];
    r->decode_us = us[KT__ACCOUNT_DECODE];
    r->sample_us = us[KT__ACCOUNT_SAMPLE];
    r->wait_us = us[KT__ACCOUNT_WAIT];
    r->held_us = us[KT__ACCOUNT_HELD];
    r->total_us = kt__now_us() - c->live->submitted_us;
    r->bottleneck = bottleneck_of(r);
}

/* Sums to one in the sense asked for; the order of additions is the rows', whatever the batches. */
static void finish_embedding(kt__live *live) {
    size_t d = (size_t)live->req.engine->model->net->hp.d_model;
    float *e = live->embedding;
    if (live->pooling == KT_POOLING_MEAN) {
        for (size_t i = 0; i < d; i++) e[i] /= (float)live->n_prompt;
    }
    if (!live->normalize) return;
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += (double)e[i] * (double)e[i];
    if (sum <= 0) return;
    double scale = 1.0 / sqrt(sum); /* both correctly rounded */
    for (size_t i = 0; i < d; i++) e[i] = (float)((double)e[i] * scale);
}

void kt__live_end(kt__choice *choice) {
    kt__live *live = choice->live;
    kt__task *task = &choice->task;
    kt_event event = {.kind = KT_EVENT_FINISHED};
    kt__buf_clear(&choice->answer.text);
    if (kt__answer_end(&choice->answer, task->finish, &choice->error) != KT_OK)
        choice->answer.finish = KT_FINISH_ERROR;
    if (choice->answer.text.len) kt__live_emit_text(choice, -1, NULL, 0);
    if (choice->answer.finish == KT_FINISH_ERROR && choice->error.code == KT_OK) {
        (void)kt__fail(&choice->error, KT_E_NOMEM,
                       "the K/V store is full, and others than requests hold it: close sequences, "
                       "or open the engine with a larger kv_bytes");
    }
    bool embedded = task->embed && choice->answer.finish == KT_FINISH_LENGTH;
    if (embedded) {
        finish_embedding(live);
        event.embedding = live->embedding;
        event.n_embedding = (size_t)live->req.engine->model->net->hp.d_model;
    }
    fill_report(choice);
    event.finish = choice->answer.finish;
    event.report = &choice->report;
    event.error = event.finish == KT_FINISH_ERROR ? &choice->error : NULL;
    kt__live_emit(choice, &event);
}

void kt__live_release(kt__choice *choice) {
    kt__live *live = choice->live;
    kt_engine *engine = live->req.engine;
    kt__service *s = engine->service;
    kt__kv_table_truncate(engine->kv, &choice->table, 0);
    kt__proposer_trim(engine->proposer, &choice->draft_seq, 0);
    pthread_mutex_lock(&s->lock);
    bool gone = ++live->n_released == live->n_choices, free_now = false;
    if (gone) {
        if (!live->started) s->n_waiting--;
        s->n_live--;
        live->done = true;
        free_now = live->detached;
        pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    if (free_now) kt__live_free(live);
}

void kt__live_close(kt_request *req) {
    kt__live *live = kt__live_of(req);
    kt__service *s = req->engine->service;
    pthread_mutex_lock(&s->lock);
    while (s->calling == live && !pthread_equal(s->caller, pthread_self()))
        pthread_cond_wait(&s->idle, &s->lock);
    live->detached = true;
    atomic_store(&req->cancel, true);
    atomic_store(&req->engine->look, true);
    bool free_now = live->done;
    s->nudged = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (free_now) kt__live_free(live);
}

void kt__live_get_result(const kt_request *req, kt_gen_result *out) {
    const kt__live *live = kt__live_of(req);
    kt__service *s = req->engine->service;
    pthread_mutex_lock(&s->lock);
    const kt_request_report *r = &live->choices[0].report;
    *out = (kt_gen_result){.finish = KT_FINISH_NONE, .seed = r->seed, .n_prompt = r->n_prompt};
    if (live->n_open == 0) {
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
    pthread_mutex_unlock(&s->lock);
}

/* ---- explaining ---- */

/* Text of ids[n], cut at a whole character. */
static void text_of(const kt_model *model, const int32_t *ids, size_t n, char *out, size_t size) {
    char text[256];
    size_t len = 0, keep;
    if (n > 8) n = 8;
    kt_status status = kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, sizeof text, &len,
                                     NULL);
    if (status != KT_OK && status != KT_E_LIMIT) len = 0;
    keep = len < size - 1 ? len : size - 1;
    while (keep > 0 && keep < len && ((unsigned char)text[keep] & 0xc0) == 0x80) keep--;
    memcpy(out, text, keep);
    out[keep] = '\0';
}

/* The message in which the prompt's byte `at` lies: contents are looked for in order. */
static int32_t message_at(const kt__live *live, const char *prompt, size_t len, size_t at) {
    const char *text = live->texts;
    size_t from = 0;
    int32_t found = -1;
    for (int32_t i = 0; text && i < live->n_texts; i++, text += strlen(text) + 1) {
        size_t n = strlen(text);
        const char *where = n ? memmem(prompt + from, len - from, text, n) : NULL;
        if (!where) continue;
        size_t begin = (size_t)(where - prompt);
        if (begin > at) break;
        found = i;
        from = begin + n;
    }
    return found;
}

static int32_t find_message(const kt__choice *c, int32_t at) {
    kt__buf text;
    const kt_model *model = c->live->req.engine->model;
    int32_t message = -1;
    if (!c->live->texts || !model->tok) return -1;
    kt__buf_init(&text, (size_t)64 << 20);
    size_t upto = 0;
    kt_status status = kt__tokenizer_decode(model->tok, c->tokens, (size_t)at,
                                            KT_TOK_RENDER_SPECIAL, &text, NULL);
    upto = text.len;
    if (status == KT_OK)
        status = kt__tokenizer_decode(model->tok, c->tokens + at, (size_t)(c->live->n_prompt - at),
                                      KT_TOK_RENDER_SPECIAL, &text, NULL);
    if (status == KT_OK && text.data) message = message_at(c->live, text.data, text.len, upto);
    kt__buf_free(&text);
    return message;
}

void kt__live_explain(kt__choice *choice) {
    kt_engine *engine = choice->live->req.engine;
    kt_cache_miss *out = &choice->report.miss;
    kt__prefix_miss miss;
    size_t n = (size_t)choice->live->n_prompt;
    *out = (kt_cache_miss){.message = -1};
    kt__prefix_explain(engine->prefix, &choice->cursor, choice->tokens, n, &miss);
    if (!miss.known) return;
    kt__sched_load load;
    kt__sched_get_load(engine->service->sched, &load);
    out->known = true;
    out->at = (int32_t)miss.at;
    out->n_lost = (int32_t)miss.n_lost;
    out->cost_us = (int64_t)((double)miss.n_lost * load.prefill_us_tok);
    out->message = find_message(choice, out->at);
    if (!engine->model->tok) return;
    text_of(engine->model, miss.was, (size_t)miss.n_was, out->was, sizeof out->was);
    if (!miss.evicted)
        text_of(engine->model, choice->tokens + miss.at, n - (size_t)miss.at, out->is,
                sizeof out->is);
}
