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

static void pump(kt__task_item *item);

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
    job->item.run = kt__job_read_and_submit;
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

/* The loop's queue holds a reference. */
void kt__job_post(kt__job *job) {
    kt__job_ref(job);
    if (!kt__event_loop_post(job->server->loop, &job->task)) atomic_fetch_sub(&job->refs, 1);
}

/* ---- the account ---- */

static void log_end(kt__job *job) {
    const kt_request_report *r = &job->report;
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
        kt_request_close(job->parts[i].req);
        job->parts[i].req = NULL;
    }
    if (job->engine) kt__served_done(job->model);
    job->engine = NULL;
    kt__metrics_answer(job->server->metrics, job->dialect->route, job->gone ? 499 : job->status);
    log_end(job);
    kt__server_remove_job(job->server, job);
}

static bool any_part(const kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->parts[i].req) return true;
    }
    return false;
}

static void cancel_parts(kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->parts[i].req) kt_request_cancel(job->parts[i].req);
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

/* ---- events, on the loop ---- */

static void count_gap(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->choices[event->choice];
    if (event->id < 0) return;
    if (c->last_token_us)
        kt__metrics_observe(job->server->metrics, job->model, KT__HIST_GAP,
                            (double)(event->t_us - c->last_token_us) * 1e-6);
    c->last_token_us = event->t_us;
}

static void take_finish(kt__job *job, kt__job_part *part, const kt_event *event) {
    const kt_request_report *r = event->report;
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
        kt_request_close(part->req);
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
            if (!part->req || !kt_request_next_event(part->req, &event, 0)) continue;
            take_event(job, part, &event);
            more = true;
        }
    }
}

/* Prompts that were not begun when it was cancelled. */
static void finish_the_rest(kt__job *job) {
    const kt_request_report none = {.finish = KT_FINISH_CANCELLED, .stop = -1};
    for (int32_t i = 0; i < job->n_choices && !job->failed; i++) {
        if (job->choices[i].finish != KT_FINISH_NONE) continue;
        const kt_event event = {
            .kind = KT_EVENT_FINISHED, .choice = i, .finish = KT_FINISH_CANCELLED, .report = &none};
        job->choices[i].finish = KT_FINISH_CANCELLED;
        job->dialect->finish(job, &event);
    }
}

/* Hands it to the workers for its next prompts. The lock is held. */
static void submit_more(kt__job *job) {
    job->returned = false;
    kt__job_ref(job);
    if (kt__workers_add(job->server->workers, &job->item)) return;
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
    if (!job->begun && !job->returned) return; /* the workers has it */
    if (!job->dialect->run) {
        advance_prompts(job);
        return;
    }
    if (job->failed) kt__job_fail(job, &job->error);
    if (!job->status) job->status = 200;
    conclude(job);
}

static void pump(kt__task_item *item) {
    kt__job *job = KT__JOB_OF(item, task);
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
    if (full) kt__job_post(job);
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
    kt__job_post(job); /* it may have waited for its reader */
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
    if (job->stalled && job->out.len - job->out_at <= most / 2) kt__job_post(job);
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

void kt__job_write_figures(kt__buf *out, const kt_request_report *r) {
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
