/* A job's second half, on the loop: from the engine's events to the bytes of an answer. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "jobs/job.h"

/* ---- the account ---- */

static bool is_fault_of_ours(const kt__job *job) {
    if (job->answer.error.code == KT_OK || job->answer.error.code == KT_E_STATE) return false;
    int status = job->answer.error_status ? job->answer.error_status
                                          : kt__wire_http_status(job->answer.error.code);
    return status >= 500;
}

static double ms_of(int64_t us) {
    return (double)us / 1e3;
}

/* Of the first choice that ended: the parts from queue_ms to held_ms sum to total_ms; lora_ms is in these. */
static void log_answer(kt__job *job) {
    const kt_request_report *r = &job->answer.report;
    const kt__slog_field fields[] = {
        {"id", job->id, 0},
        {"route", job->dialect->route, 0},
        {"client", job->request.client, 0},
        {"status", NULL, (double)job->answer.status},
        {"ms", NULL, (double)((kt__now_us() - job->request.begin_us) / 1000)},
        {"model", job->model.served ? kt__served_name(job->model.served) : "", 0},
        {"prompt", NULL, (double)job->answer.usage.n_prompt},
        {"cached", NULL, (double)job->answer.usage.n_cached},
        {"generated", NULL, (double)job->answer.usage.n_generated},
        {"finish", kt_finish_name(r->finish), 0},
        {"first_ms", NULL, (double)(r->first_token_us / 1000)},
        {"bottleneck", r->bottleneck ? r->bottleneck : "", 0},
        {"queue_ms", NULL, ms_of(r->queue_us)},
        {"tokenize_ms", NULL, ms_of(r->tokenize_us)},
        {"prefill_ms", NULL, ms_of(r->prefill_us)},
        {"decode_ms", NULL, ms_of(r->decode_us)},
        {"sample_ms", NULL, ms_of(r->sample_us)},
        {"wait_ms", NULL, ms_of(r->wait_us)},
        {"held_ms", NULL, ms_of(r->held_us)},
        {"lora_ms", NULL, ms_of(r->lora_us)},
        {"total_ms", NULL, ms_of(r->total_us)},
        {"tok_s", NULL, kt__tokens_per_second(r)},
    };
    kt__slog_write(&job->shared->log, KT_LOG_INFO, "request", fields,
                   sizeof fields / sizeof fields[0]);
}

static void log_end(kt__job *job) {
    const kt__slog_field fields[] = {
        {"id", job->id, 0},
        {"route", job->dialect->route, 0},
        {"client", job->request.client, 0},
        {"status", NULL, (double)job->answer.status},
        {"ms", NULL, (double)((kt__now_us() - job->request.begin_us) / 1000)},
    };
    if (job->answer.n_finished > 0) {
        log_answer(job);
    } else {
        kt__slog_write(&job->shared->log, KT_LOG_INFO, "request", fields,
                       sizeof fields / sizeof fields[0]);
    }
    if (is_fault_of_ours(job))
        kt__slog_line(&job->shared->log, KT_LOG_ERROR, "request %s failed: %s", job->id,
                      job->answer.error.message);
}

/* Nothing more will be written. The lock is held. */
static void conclude_job(kt__job *job) {
    kt__job_move(job, KT__JOB_ENDED);
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        kt_request_close(job->answer.parts[i].req);
        job->answer.parts[i].req = NULL;
    }
    for (size_t i = 0; i < job->model.n_adapters; i++)
        kt_adapter_close(job->model.adapters[i].adapter);
    job->model.n_adapters = 0;
    kt_learned_close(&job->model.learned);
    if (job->model.learner) kt__served_learner_done(job->model.served, job->model.learner);
    job->model.learner = NULL;
    if (job->model.engine) kt__served_done(job->model.served, job->model.engine);
    job->model.engine = NULL;
    kt__metrics_answer(job->shared->metrics, job->dialect->route,
                       job->interest == KT__JOB_ABANDONED ? 499 : job->answer.status);
    log_end(job);
    kt__job_unregister(job);
}

/* ---- errors ---- */

static bool has_failed(const kt__job *job) {
    return job->answer.error.code != KT_OK;
}

/* Each `what` in the message becomes `with`, as far as there is room. */
static void replace_all(kt_error *err, const char *what, const char *with) {
    char text[sizeof err->message];
    size_t n = what && !strstr(with, what) ? strlen(what) : 0;
    for (const char *at; n && (at = strstr(err->message, what)) != NULL;) {
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - err->message), err->message, with,
                 at + n);
        memcpy(err->message, text, sizeof text);
    }
}

/* Where files of this machine lie is the log's to say, not a client's to know. */
static void hide_paths(kt__job *job, kt_error *err) {
    const kt_error whole = *err;
    const kt__config *config = job->request.settings->config;
    kt_model_info info = {0};
    if (job->model.engine) kt_model_get_info(job->model.loaded, &info);
    if (info.path && kt__files_is_absolute(info.path))
        replace_all(err, info.path, kt__served_name(job->model.served));
    if (config->learn_dir && kt__files_is_absolute(config->learn_dir))
        replace_all(err, config->learn_dir, "learned");
    bool of_files = err->code == KT_E_IO || err->code == KT_E_FORMAT || err->code == KT_E_BUSY ||
                    err->code == KT_E_STATE;
    if (kt__files_is_absolute(err->where) && of_files) err->where[0] = '\0';
    if (!strcmp(whole.message, err->message) && !strcmp(whole.where, err->where)) return;
    kt__slog_line(&job->shared->log, KT_LOG_ERROR, "request %s: %s (%s)", job->id, whole.message,
                  whole.where);
}

/* What fails before its answer began is refused as a whole body, with a status of its own. */
void kt__job_fail(kt__job *job, const kt_error *err) {
    kt_error copy = *err; /* may be job->answer.error itself */
    if (kt__job_is_failed(job)) return;
    hide_paths(job, &copy);
    if (!kt__job_is_answering(job)) job->answer.stream = false;
    kt__job_move(job, job->state == KT__JOB_SUBMITTING ? KT__JOB_FAILING : KT__JOB_FAILED);
    job->answer.error = copy;
    if (!job->answer.stream)
        job->answer.status = job->answer.error_status ? job->answer.error_status
                                                      : kt__wire_http_status(copy.code);
    if (job->interest < KT__JOB_ABANDONED) job->dialect->error(job, &copy);
    kt__job_cancel_parts(job);
}

/* ---- events ---- */

static bool is_read(const kt__job *job) {
    return job->interest < KT__JOB_ABANDONED && !has_failed(job);
}

static void count_gap(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->answer.choices[event->choice];
    if (event->id < 0) return;
    c->n_generated++;
    if (!c->first_token_us) c->first_token_us = event->t_us;
    if (c->last_token_us)
        kt__metrics_observe(job->shared->metrics, job->model.served, KT__HIST_GAP,
                            (double)(event->t_us - c->last_token_us) * 1e-6);
    c->last_token_us = event->t_us;
}

kt_request_report kt__job_figures(const kt__job *job, int32_t choice) {
    const kt__job_choice *c = &job->answer.choices[choice];
    const kt_event *p = &job->answer.progress;
    return (kt_request_report){.n_prompt = (int32_t)p->n_computed,
                               .n_cached = (int32_t)p->n_cached,
                               .prefill_us = p->prefill_us,
                               .n_generated = c->n_generated,
                               .decode_us = c->last_token_us - c->first_token_us};
}

static void take_progress(kt__job *job, const kt_event *event) {
    if (event->choice == 0) job->answer.progress = *event;
    if (is_read(job) && job->request.wire->return_progress && job->dialect->progress)
        job->dialect->progress(job, event);
}

static void take_finish(kt__job *job, kt__job_part *part, const kt_event *event) {
    const kt_request_report *r = event->report;
    kt__metrics_finished(job->shared->metrics, job->model.served, r);
    kt__job_tell_recited(job, r);
    if (!job->answer.n_finished++) job->answer.report = *r;
    if (!part->counted) {
        job->answer.usage.n_prompt += r->n_prompt;
        job->answer.usage.n_cached += r->n_cached;
        part->counted = true;
    }
    job->answer.usage.n_generated += r->n_generated;
    job->answer.usage.n_reasoning += r->n_reasoning;
    job->answer.choices[event->choice].finish = event->finish;
    if (event->finish == KT_FINISH_ERROR && event->error) {
        kt__job_fail(job, event->error);
    } else if (is_read(job)) {
        job->dialect->finish(job, event);
    }
}

/* What the first model computed is what one of its slots holds then. */
static void keep_slot(kt__job *job, kt__job_part *part, const kt_event *event) {
    const int32_t *ids;
    size_t n;
    kt__llama_slots *slots = job->shared->slots;
    bool first = slots && job->request.wire->req.embedding.pooling == KT_POOLING_NONE &&
                 job->model.served == kt__models_at(job->shared->models, 0);
    if (first && event->choice == 0 && kt_request_get_tokens(part->req, 0, &ids, &n) && n)
        kt__llama_slots_put(slots, job->request.client, job->request.wire->id_slot, ids, n);
}

/* The lock is held. */
static void take_event(kt__job *job, kt__job_part *part, const kt_event *from) {
    kt_event event = *from;
    event.choice += part->base;
    if (event.kind == KT_EVENT_TOKEN) {
        count_gap(job, &event);
        if (is_read(job)) job->dialect->token(job, &event);
    } else if (event.kind == KT_EVENT_PROGRESS) {
        take_progress(job, &event);
    } else if (event.kind == KT_EVENT_FINISHED) {
        if (job->model.taught_by[0]) kt__job_keep(job, part->req, from->choice, part->base);
        keep_slot(job, part, from);
        take_finish(job, part, &event);
        if (!event.last) return;
        kt_request_close(part->req);
        part->req = NULL;
        if (job->state == KT__JOB_CROWDED) kt__job_move(job, KT__JOB_ANSWERING);
    }
}

static bool reader_is_behind(const kt__job *job) {
    size_t most = (size_t)job->request.settings->config->output;
    return job->answer.stream && job->interest < KT__JOB_ABANDONED &&
           job->answer.out.len - job->answer.out_at > most;
}

/* What the engine has for it, as far as its reader keeps up. The lock is held. */
static void take_events(kt__job *job) {
    kt_event event;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
            kt__job_part *part = &job->answer.parts[i];
            job->answer.paused = reader_is_behind(job);
            if (job->answer.paused) return;
            if (!part->req || !kt_request_next_event(part->req, &event, 0)) continue;
            take_event(job, part, &event);
            more = true;
        }
    }
}

/* ---- several prompts ---- */

static bool any_part(const kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->answer.parts[i].req) return true;
    }
    return false;
}

static bool all_submitted(const kt__job *job) {
    return !job->request.wire || job->answer.n_submitted == job->request.wire->n_prompts;
}

/* No prompt that is left is worth submitting. */
static bool is_cut_short(const kt__job *job) {
    return has_failed(job) || job->interest > KT__JOB_WANTED;
}

/* Hands it to the workers for its next prompts. The lock is held. */
static void submit_more(kt__job *job) {
    kt__job_move(job, KT__JOB_SUBMITTING);
    kt__job_ref(job);
    if (kt__workers_add(job->shared->workers, &job->item)) return;
    atomic_fetch_sub(&job->refs, 1);
    kt__job_move(job, KT__JOB_CROWDED);
}

/* Prompts that were not begun when it was cancelled. */
static void finish_the_rest(kt__job *job) {
    const kt_request_report none = {.finish = KT_FINISH_CANCELLED, .stop = -1};
    for (int32_t i = 0; i < job->answer.n_choices && !has_failed(job); i++) {
        if (job->answer.choices[i].finish != KT_FINISH_NONE) continue;
        const kt_event event = {
            .kind = KT_EVENT_FINISHED, .choice = i, .finish = KT_FINISH_CANCELLED, .report = &none};
        job->answer.choices[i].finish = KT_FINISH_CANCELLED;
        job->dialect->finish(job, &event);
    }
}

/* Without one, a worker could only hand the job back, and be given it again. */
static bool has_free_part(const kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++)
        if (!job->answer.parts[i].req) return true;
    return false;
}

/* ---- from state to state ---- */

static void begin_answer(kt__job *job) {
    job->answer.status = 200;
    kt__job_move(job, KT__JOB_ANSWERING);
    if (job->interest < KT__JOB_ABANDONED && job->dialect->begin) job->dialect->begin(job);
}

static void end_answer(kt__job *job) {
    if (is_read(job)) finish_the_rest(job);
    if (is_read(job) && job->dialect->end) job->dialect->end(job);
    conclude_job(job);
}

/* The answer does not fit into memory: what is there is not the whole. */
static void drop_unfitting(kt__job *job) {
    if (!job->answer.out.failed || job->interest == KT__JOB_ABANDONED) return;
    job->interest = KT__JOB_ABANDONED;
    kt__job_cancel_parts(job);
}

/* From READ to FAILED. The lock is held. */
static void advance_prompts(kt__job *job) {
    if (has_failed(job)) {
        kt__job_fail(job, &job->answer.error);
    } else if (job->state == KT__JOB_READ) {
        begin_answer(job);
    }
    take_events(job);
    drop_unfitting(job);

    bool more = !all_submitted(job) && !is_cut_short(job);
    if (more && job->state == KT__JOB_ANSWERING && has_free_part(job)) submit_more(job);
    if (!more && !kt__job_is_away(job) && !any_part(job)) end_answer(job);
}

/* The worker wrote the whole answer, or none. The lock is held. */
static void advance_at_once(kt__job *job) {
    if (has_failed(job)) kt__job_fail(job, &job->answer.error);
    if (!job->answer.status) job->answer.status = 200;
    conclude_job(job);
}

/* What it follows is written as long as somebody reads. The lock is held. */
static void advance_followed(kt__job *job) {
    bool failed = job->state == KT__JOB_READ && has_failed(job);
    if (failed) {
        kt__job_fail(job, &job->answer.error);
    } else if (job->state == KT__JOB_READ) {
        begin_answer(job);
    }
    drop_unfitting(job);
    bool over = failed || job->interest > KT__JOB_WANTED ||
                (!reader_is_behind(job) && job->dialect->follow(job));
    if (!over) return;
    if (!failed) job->dialect->leave(job);
    conclude_job(job);
}

static bool is_without_prompts(const kt__job *job) {
    return job->dialect->run || !job->request.wire;
}

static void pump_job(kt__task_item *item) {
    kt__job *job = KT__JOB_OF(item, task);
    pthread_mutex_lock(&job->lock);
    bool ready = job->state == KT__JOB_READ || kt__job_is_answering(job);
    if (ready && job->dialect->follow) {
        advance_followed(job);
    } else if (job->state == KT__JOB_READ && is_without_prompts(job)) {
        advance_at_once(job);
    } else if (ready) {
        advance_prompts(job);
    }
    pthread_mutex_unlock(&job->lock);
    job->transport.on_output(job);
    kt__job_release(job);
}

static kt_status hand_to_workers(kt__job *job, kt_error *err) {
    if (atomic_load(&job->shared->stopping))
        return kt__fail(err, KT_E_STATE, "the server is being stopped");
    if (!kt__job_register(job)) return kt__fail_nomem(err, "a request", 0);
    kt__job_ref(job);
    kt__workers *own = job->dialect->waits ? job->shared->waiters : NULL;
    if (kt__workers_add(own ? own : job->shared->workers, &job->item)) return KT_OK;
    kt__job_release(job);
    kt_status status = kt__fail(err, KT_E_BUSY, "too many requests are waiting to be read");
    err->retry_ms = 1000;
    return status;
}

void kt__job_start(kt__job *job) {
    kt_error err;
    job->task.run = pump_job;
    job->item.run = kt__job_read_and_submit;
    kt_status status = hand_to_workers(job, &err);
    if (status != KT_OK) kt__job_hand_back(job, status, &err);
}
