#include "serve/job.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

enum { MAX_OUT_BYTES = 1 << 30, MAX_ARENA_BYTES = 256 << 20, COMPACT_BYTES = 64 << 10 };

#define JOB_OF(member_pointer, member) \
    ((kt__job *)(void *)((char *)(member_pointer)-offsetof(kt__job, member)))

static void pump(kt__task_item *item);
static void read_and_submit(kt__chore *chore);

/* ---- life ---- */

static void make_id(char *out, size_t size, const char *prefix) {
    unsigned char bytes[12] = {0};
    ssize_t n = getrandom(bytes, sizeof bytes, 0);
    (void)n; /* 12 bytes never come short once the system is up */
    size_t len = (size_t)snprintf(out, size, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes && len + 3 <= size; i++, len += 2)
        snprintf(out + len, size - len, "%02x", bytes[i]);
}

kt_status kt__job_create(kt__server *server, const kt__dialect *dialect, const char *id_prefix,
                         const char *client, kt__job **out, kt_error *err) {
    *out = NULL;
    kt__job *job = kt__calloc(1, sizeof *job);
    if (!job) return kt__fail_nomem(err, "a request", sizeof *job);
    atomic_init(&job->refs, 1);
    pthread_mutex_init(&job->lock, NULL);
    job->server = server;
    job->dialect = dialect;
    job->task.run = pump;
    job->chore.run = read_and_submit;
    job->created_s = (int64_t)time(NULL);
    job->begin_us = job->moved_us = kt__now_us();
    make_id(job->id, sizeof job->id, id_prefix);
    snprintf(job->client, sizeof job->client, "%s", client);
    kt__buf_init(&job->body, KT__WIRE_MAX_BYTES);
    kt__buf_init(&job->out, MAX_OUT_BYTES);
    kt__arena_init(&job->arena, 4096, MAX_ARENA_BYTES);
    *out = job;
    return KT_OK;
}

void kt__job_ref(kt__job *job) {
    atomic_fetch_add(&job->refs, 1);
}

void kt__job_release(kt__job *job) {
    if (!job || atomic_fetch_sub(&job->refs, 1) != 1) return;
    for (int32_t i = 0; i < job->n_choices; i++) {
        kt__buf_free(&job->choices[i].text);
        kt__free(job->choices[i].tokens);
    }
    kt__free(job->choices);
    kt__wire_request_free(job->wire);
    json_decref(job->json);
    kt__buf_free(&job->body);
    kt__buf_free(&job->out);
    kt__arena_free(&job->arena);
    pthread_mutex_destroy(&job->lock);
    kt__free(job);
}

/* The hub's queue holds a reference. Any thread, under any lock but the hub's. */
static void post(kt__job *job) {
    kt__job_ref(job);
    if (!kt__hub_post(job->server->hub, &job->task)) atomic_fetch_sub(&job->refs, 1);
}

static void on_ready(void *user) {
    post(user);
}

/* ---- the account ---- */

static void log_end(kt__job *job) {
    const kt_req_report *r = &job->report;
    bool generated = job->n_finished > 0;
    const kt__slog_field fields[] = {
        {"id", job->id, 0},
        {"route", job->dialect->route, 0},
        {"client", job->client, 0},
        {"status", NULL, (double)job->status},
        {"ms", NULL, (double)((kt__now_us() - job->begin_us) / 1000)},
        {"model", job->model ? kt__served_name(job->model) : "", 0},
        {"prompt", NULL, (double)job->usage.n_prompt},
        {"cached", NULL, (double)job->usage.n_cached},
        {"generated", NULL, (double)job->usage.n_generated},
        {"finish", generated ? kt_finish_name(r->finish) : "", 0},
        {"first_ms", NULL, (double)(r->first_token_us / 1000)},
        {"bottleneck", r->bottleneck ? r->bottleneck : "", 0},
    };
    kt__slog_write(&job->server->log, KT_LOG_INFO, "request", fields, generated ? 12 : 5);
}

/* Nothing more will be written. The lock is held. */
static void conclude(kt__job *job) {
    if (job->done) return;
    job->done = true;
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        kt_req_close(job->parts[i].req);
        job->parts[i].req = NULL;
    }
    if (job->engine) kt__served_done(job->model);
    job->engine = NULL;
    kt__metrics_answer(job->server->metrics, job->dialect->route, job->gone ? 499 : job->status);
    log_end(job);
    kt__server_remove_job(job->server, job);
}

static void cancel_parts(kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->parts[i].req) kt_req_cancel(job->parts[i].req);
    }
}

void kt__job_fail(kt__job *job, const kt_error *err) {
    kt_error copy = *err; /* may be job->error itself */
    if (job->told) return;
    job->failed = job->told = true;
    job->error = copy;
    if (!job->begun) job->status = job->no_model ? 404 : kt__wire_http_status(copy.code);
    if (!job->gone) job->dialect->error(job, &copy);
    cancel_parts(job);
}

/* ---- reading and submitting, on the crew ---- */

static void hand_back(kt__job *job, kt_status status, const kt_error *err) {
    pthread_mutex_lock(&job->lock);
    job->returned = true;
    if (status != KT_OK) {
        job->failed = true;
        job->error = *err;
    }
    pthread_mutex_unlock(&job->lock);
    post(job);
}

/* The same random numbers can be had again: several prompts share the seed that is reported. */
static void fix_seed(kt_sampling *sampling) {
    uint64_t seed = 0;
    if (sampling->seed != KT_SEED_RANDOM) return;
    ssize_t n = getrandom(&seed, sizeof seed, 0);
    (void)n;
    sampling->seed = seed >> 11; /* whole in every language's numbers */
}

static kt_status make_choices(kt__job *job, kt_error *err) {
    size_t n = job->wire->n_prompts * (size_t)job->wire->req.n_choices;
    if (job->choices || !n) return KT_OK;
    job->choices = kt__calloc(n, sizeof *job->choices);
    if (!job->choices) return kt__fail_nomem(err, "a request", n * sizeof *job->choices);
    for (size_t i = 0; i < n; i++) kt__buf_init(&job->choices[i].text, MAX_OUT_BYTES);
    job->n_choices = (int32_t)n;
    if (job->wire->n_prompts > 1) fix_seed(&job->wire->req.gen.sampling);
    return KT_OK;
}

static kt_status submit_prompt(kt__job *job, kt__job_part *part, kt_error *err) {
    kt_request r = job->wire->req;
    kt_req *req;
    r.client = job->client;
    r.on_event = NULL;
    r.on_ready = on_ready;
    r.user = job;
    kt__wire_set_prompt(job->wire, job->n_submitted, &r);
    kt_status status = kt_engine_submit(job->engine, &r, &req, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&job->lock);
    *part = (kt__job_part){.req = req, .base = (int32_t)job->n_submitted * r.n_choices};
    job->n_submitted++;
    if (job->cancelled || job->gone) kt_req_cancel(req);
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* A free place for the next prompt; NULL: all are in use, there is none, or nobody wants it. */
static kt__job_part *next_part(kt__job *job) {
    kt__job_part *found = NULL;
    pthread_mutex_lock(&job->lock);
    bool wanted = !job->cancelled && !job->gone && job->n_submitted < job->wire->n_prompts;
    for (int i = 0; i < KT__JOB_AT_ONCE && wanted && !found; i++) {
        if (!job->parts[i].req) found = &job->parts[i];
    }
    pthread_mutex_unlock(&job->lock);
    return found;
}

static bool any_part(const kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->parts[i].req) return true;
    }
    return false;
}

/* A full queue is no error once prompts of this request were taken: the next ones wait until one of
 * them ends, or for kt__job_retry. */
static bool waits_for_room(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    job->full = job->n_submitted > 0;
    bool full = job->full;
    pthread_mutex_unlock(&job->lock);
    return full;
}

static kt_status submit(kt__job *job, kt_error *err) {
    kt__job_part *part;
    kt_status status = make_choices(job, err);
    while (status == KT_OK && (part = next_part(job)) != NULL)
        status = submit_prompt(job, part, err);
    return status == KT_E_BUSY && waits_for_room(job) ? KT_OK : status;
}

static void read_and_submit(kt__chore *chore) {
    kt__job *job = JOB_OF(chore, chore);
    kt_error err = {0};
    kt_status status;
    if (atomic_load(&job->server->stopping)) {
        status = kt__fail(&err, KT_E_STATE, "the server is being stopped");
    } else if (job->dialect->run) {
        status = job->dialect->run(job, &err);
    } else {
        status = job->wire ? KT_OK : job->dialect->read(job, &err);
        kt__buf_free(&job->body);
        if (status == KT_OK) status = submit(job, &err);
    }
    hand_back(job, status, &err);
    kt__job_release(job);
}

void kt__job_start(kt__job *job) {
    kt_error err;
    kt_status status = KT_OK;
    if (!kt__server_add_job(job->server, job)) {
        status = kt__fail_nomem(&err, "a request", 0);
    } else {
        kt__job_ref(job);
        if (kt__crew_add(job->server->crew, &job->chore)) return;
        kt__job_release(job);
        status = kt__fail(&err, KT_E_BUSY, "too many requests are waiting to be read");
        err.retry_ms = 1000;
    }
    hand_back(job, status, &err);
}

kt_status kt__job_use_model(kt__job *job, const char *name, kt_error *err) {
    if (job->engine) return KT_OK;
    kt_status status = kt__models_find(job->server->models, name, &job->model, err);
    job->no_model = status != KT_OK;
    if (status != KT_OK) return status;
    kt_model *model;
    kt_engine *engine;
    status = kt__served_use(job->model, &model, &engine, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&job->lock);
    job->engine_model = model;
    job->engine = engine;
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* The configuration's limits on what a request may ask for. */
static kt_status limit(kt__job *job, kt_error *err) {
    const kt__config *config = kt__server_config(job->server);
    kt_request *r = &job->wire->req;
    int32_t most = (int32_t)config->max_new_tokens;
    if (r->n_choices > config->max_choices)
        return kt__fail_at(err, KT_E_ARG, "n", UINT64_MAX, "n: at most %lld here",
                           (long long)config->max_choices);
    if (most >= 0 && (r->gen.n_predict < 0 || r->gen.n_predict > most)) r->gen.n_predict = most;
    return KT_OK;
}

kt_status kt__job_parse(kt__job *job, kt_error *err) {
    if (job->json) return KT_OK;
    kt_status status =
        kt__wire_parse(job->body.data ? job->body.data : "", job->body.len, &job->json, err);
    kt__buf_free(&job->body);
    if (status == KT_OK && !json_is_object(job->json))
        return kt__fail(err, KT_E_ARG, "expected a JSON object");
    return status;
}

kt_status kt__job_read_wire(kt__job *job, kt__wire_form form, kt_error *err) {
    kt_request defaults = kt__config_request(kt__server_config(job->server));
    kt_status status = kt__job_parse(job, err);
    if (status == KT_OK)
        status = kt__wire_read_value(form, job->json, NULL, &defaults, &job->wire, err);
    if (status == KT_OK) status = limit(job, err);
    if (status != KT_OK) return status;
    json_decref(job->json);
    job->json = NULL;
    pthread_mutex_lock(&job->lock);
    job->stream = job->wire->stream;
    pthread_mutex_unlock(&job->lock);
    if (job->wire->id && !job->name[0]) snprintf(job->name, sizeof job->name, "%s", job->wire->id);
    return kt__job_use_model(job, job->wire->model, err);
}

/* ---- events, on the hub ---- */

static void count_gap(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->choices[event->choice];
    if (event->id < 0) return;
    if (c->last_token_us)
        kt__metrics_observe(job->server->metrics, job->model, KT__HIST_GAP,
                            (double)(event->t_us - c->last_token_us) * 1e-6);
    c->last_token_us = event->t_us;
}

static void take_finish(kt__job *job, kt__job_part *part, const kt_event *event) {
    const kt_req_report *r = event->report;
    kt__metrics_finished(job->server->metrics, job->model, r);
    if (!job->n_finished++) job->report = *r;
    if (!part->counted) {
        job->usage.n_prompt += r->n_prompt;
        job->usage.n_cached += r->n_cached;
        part->counted = true;
    }
    job->usage.n_generated += r->n_generated;
    job->choices[event->choice].finish = event->finish;
    if (event->finish == KT_FINISH_ERROR && event->error) {
        kt__job_fail(job, event->error);
    } else if (!job->gone && !job->failed) {
        job->dialect->finish(job, event);
    }
}

/* The lock is held. */
static void take_event(kt__job *job, kt__job_part *part, const kt_event *from) {
    kt_event event = *from;
    event.choice += part->base;
    if (event.kind == KT_EVENT_TOKEN) {
        count_gap(job, &event);
        if (!job->gone && !job->failed) job->dialect->token(job, &event);
    } else if (event.kind == KT_EVENT_FINISHED) {
        take_finish(job, part, &event);
        if (!event.last) return;
        kt_req_close(part->req);
        part->req = NULL;
        job->full = false;
    }
}

/* What the engine has for it, as far as its reader keeps up. The lock is held. */
static void take_events(kt__job *job) {
    size_t most = (size_t)kt__server_config(job->server)->output;
    kt_event event;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
            kt__job_part *part = &job->parts[i];
            job->stalled = job->stream && !job->gone && job->out.len - job->out_at > most;
            if (job->stalled) return;
            if (!part->req || !kt_req_next_event(part->req, &event, 0)) continue;
            take_event(job, part, &event);
            more = true;
        }
    }
}

/* Prompts that were not begun when it was cancelled. */
static void finish_the_rest(kt__job *job) {
    const kt_req_report none = {.finish = KT_FINISH_CANCELLED, .stop = -1};
    for (int32_t i = 0; i < job->n_choices && !job->failed; i++) {
        if (job->choices[i].finish != KT_FINISH_NONE) continue;
        const kt_event event = {
            .kind = KT_EVENT_FINISHED, .choice = i, .finish = KT_FINISH_CANCELLED, .report = &none};
        job->choices[i].finish = KT_FINISH_CANCELLED;
        job->dialect->finish(job, &event);
    }
}

/* Hands it to the crew for its next prompts. The lock is held. */
static void submit_more(kt__job *job) {
    job->returned = false;
    kt__job_ref(job);
    if (kt__crew_add(job->server->crew, &job->chore)) return;
    atomic_fetch_sub(&job->refs, 1);
    job->returned = true;
    job->full = true;
}

/* The lock is held. */
static void advance_prompts(kt__job *job) {
    if (job->failed) kt__job_fail(job, &job->error);
    if (!job->begun && !job->failed) {
        job->status = 200;
        if (!job->gone) job->dialect->begin(job);
        job->begun = true;
    }
    take_events(job);
    if (job->out.failed && !job->gone) { /* what is there is not the whole answer */
        job->gone = true;
        cancel_parts(job);
    }
    bool unwanted = job->failed || job->cancelled || job->gone;
    bool all = !job->wire || job->n_submitted == job->wire->n_prompts;
    if (job->returned && !all && !unwanted && !job->full) submit_more(job);
    if (!job->returned || any_part(job) || !(all || unwanted)) return;
    if (!job->gone && !job->failed) finish_the_rest(job);
    if (!job->gone && !job->failed) job->dialect->end(job);
    conclude(job);
}

/* The lock is held. */
static void advance(kt__job *job) {
    if (!job->begun && !job->returned) return; /* the crew has it */
    if (!job->dialect->run) {
        advance_prompts(job);
        return;
    }
    if (job->failed) kt__job_fail(job, &job->error);
    if (!job->status) job->status = 200;
    conclude(job);
}

static void pump(kt__task_item *item) {
    kt__job *job = JOB_OF(item, task);
    pthread_mutex_lock(&job->lock);
    if (!job->done) advance(job);
    pthread_mutex_unlock(&job->lock);
    job->on_output(job);
    kt__job_release(job);
}

void kt__job_retry(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool full = job->full;
    job->full = false;
    pthread_mutex_unlock(&job->lock);
    if (full) post(job);
}

void kt__job_cancel(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    job->cancelled = true;
    cancel_parts(job);
    pthread_mutex_unlock(&job->lock);
}

void kt__job_abandon(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    job->gone = job->cancelled = true;
    cancel_parts(job);
    pthread_mutex_unlock(&job->lock);
    post(job); /* it may have waited for its reader */
}

void kt__job_taken(kt__job *job, size_t n) {
    size_t most = (size_t)kt__server_config(job->server)->output;
    job->out_at += n;
    job->moved_us = kt__now_us();
    if (job->out_at == job->out.len) {
        kt__buf_clear(&job->out);
        job->out_at = 0;
    } else if (job->out_at > COMPACT_BYTES) {
        memmove(job->out.data, job->out.data + job->out_at, job->out.len - job->out_at + 1);
        job->out.len -= job->out_at;
        job->out_at = 0;
    }
    if (job->stalled && job->out.len - job->out_at <= most / 2) post(job);
}

/* ---- for dialects ---- */

/* A token's own bytes; in the arena. Control tokens have their name. */
static void token_text(kt__job *job, int32_t id, kt__wire_token *out) {
    char text[512];
    size_t len = 0;
    kt_status status = kt_detokenize(job->engine_model, &id, 1, KT_TOK_RENDER_SPECIAL, text,
                                     sizeof text, &len, NULL);
    if (status != KT_OK) len = 0;
    out->id = id;
    out->text = kt__arena_strndup(&job->arena, text, len);
    out->len = out->text ? len : 0;
    if (!out->text) out->text = "";
}

const kt__wire_token *kt__job_token(kt__job *job, const kt_event *event) {
    if (job->wire->req.n_logprobs < 0 || event->id < 0) return NULL;
    kt__wire_token *token = kt__arena_calloc(&job->arena, 1, sizeof *token);
    kt__wire_token *top = kt__arena_calloc(&job->arena, event->n_top + 1, sizeof *top);
    if (!token || !top) return NULL;
    token_text(job, event->id, token);
    token->logprob = event->logprob;
    for (size_t i = 0; i < event->n_top; i++) {
        token_text(job, event->top[i].id, &top[i]);
        top[i].logprob = event->top[i].logprob;
    }
    token->top = top;
    token->n_top = event->n_top;
    return token;
}

void kt__job_gather(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->choices[event->choice];
    if (event->len && !kt__buf_append(&c->text, event->text, event->len)) job->out.failed = true;
    const kt__wire_token *token = kt__job_token(job, event);
    if (!token) return;
    if (c->n_tokens == c->cap_tokens) {
        size_t cap = c->cap_tokens ? c->cap_tokens * 2 : 64;
        kt__wire_token *grown = kt__realloc_array(c->tokens, cap, sizeof *grown);
        if (!grown) {
            job->out.failed = true;
            return;
        }
        c->tokens = grown;
        c->cap_tokens = cap;
    }
    c->tokens[c->n_tokens++] = *token;
}

void kt__job_write_figures(kt__buf *out, const kt_req_report *r) {
    double decode_s = (double)(r->total_us - r->first_token_us) * 1e-6;
    (void)kt__buf_printf(
        out,
        ",\"timings\":{\"total_ms\":%.3f,\"first_token_ms\":%.3f,\"tokenize_ms\":%.3f,"
        "\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"sample_ms\":%.3f,"
        "\"wait_ms\":%.3f,\"held_ms\":%.3f,\"tokens_per_second\":%.2f,\"preempted\":%d,"
        "\"drafted\":%d,\"accepted\":%d,\"bottleneck\":",
        (double)r->total_us / 1e3, (double)r->first_token_us / 1e3, (double)r->tokenize_us / 1e3,
        (double)r->queue_us / 1e3, (double)r->prefill_us / 1e3, (double)r->decode_us / 1e3,
        (double)r->sample_us / 1e3, (double)r->wait_us / 1e3, (double)r->held_us / 1e3,
        r->n_generated > 1 && decode_s > 0 ? (double)(r->n_generated - 1) / decode_s : 0.0,
        r->n_preempted, r->n_drafted, r->n_accepted);
    const char *bottleneck = r->bottleneck ? r->bottleneck : "";
    kt__wire_write_string(out, bottleneck, strlen(bottleneck));
    (void)kt__buf_putc(out, '}');
}
