#include "jobs/job.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"

enum { MAX_OUT_BYTES = 1 << 30, MAX_ARENA_BYTES = 256 << 20, COMPACT_BYTES = 64 << 10 };

/* ---- life ---- */

void kt__job_make_id(char *out, size_t size, const char *prefix) {
    unsigned char bytes[12] = {0};
    (void)kt__random_bytes(bytes,
                           sizeof bytes); /* 12 bytes never come short once the system is up */
    size_t len = (size_t)snprintf(out, size, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes && len + 3 <= size; i++, len += 2)
        snprintf(out + len, size - len, "%02x", bytes[i]);
}

kt_status kt__job_create(kt__shared *shared, const kt__dialect *dialect, const char *id_prefix,
                         const char *client, kt__job **out, kt_error *err) {
    *out = NULL;
    kt__job *job = kt__calloc(1, sizeof *job);
    if (!job) return kt__fail_nomem(err, "a request", sizeof *job);
    atomic_init(&job->refs, 1);
    pthread_mutex_init(&job->lock, NULL);
    job->shared = shared;
    job->request.settings = kt__shared_settings(shared);
    job->dialect = dialect;
    job->request.created_s = (int64_t)time(NULL);
    job->request.begin_us = job->answer.moved_us = kt__now_us();
    kt__job_make_id(job->id, sizeof job->id, id_prefix);
    snprintf(job->request.client, sizeof job->request.client, "%s", client);
    snprintf(job->request.share, sizeof job->request.share, "%s", client);
    kt__buf_init(&job->request.body, KT__WIRE_MAX_BYTES);
    kt__buf_init(&job->answer.out, MAX_OUT_BYTES);
    kt__arena_init(&job->arena, 4096, MAX_ARENA_BYTES);
    *out = job;
    return KT_OK;
}

void kt__job_share_by_connection(kt__job *job, uint64_t connection) {
    snprintf(job->request.share, sizeof job->request.share, "%s#%llu", job->request.client,
             (unsigned long long)connection);
}

void kt__job_ref(kt__job *job) {
    atomic_fetch_add(&job->refs, 1);
}

void kt__job_release(kt__job *job) {
    if (!job || atomic_fetch_sub(&job->refs, 1) != 1) return;
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        kt__job_choice *c = &job->answer.choices[i];
        kt__wire_blocks_free(&c->said);
        kt__free(c->tokens);
    }
    kt__free(job->answer.choices);
    kt__wire_request_free(job->request.wire);
    json_decref(job->request.json);
    kt__buf_free(&job->request.body);
    kt__buf_free(&job->answer.out);
    kt__arena_free(&job->arena);
    kt__shared_let_go(job->shared, job->request.n_held);
    kt__settings_drop(job->request.settings);
    pthread_mutex_destroy(&job->lock);
    kt__free(job);
}

/* The loop's queue holds a reference. */
void kt__job_post(kt__job *job) {
    kt__job_ref(job);
    if (!kt__event_loop_post(job->shared->loop, &job->task)) atomic_fetch_sub(&job->refs, 1);
}

/* ---- those that have not ended ---- */

bool kt__job_register(kt__job *job) {
    kt__shared *s = job->shared;
    pthread_mutex_lock(&s->lock);
    bool added = kt__vec_reserve(s->jobs, s->cap_jobs, s->n_jobs + 1);
    if (added) {
        kt__job_ref(job);
        job->serial = ++s->n_jobs_ever;
        s->jobs[s->n_jobs++] = job;
    }
    pthread_mutex_unlock(&s->lock);
    return added;
}

/* The index of the first job with a serial above this one; the lock is held. */
static size_t first_after(const kt__shared *s, uint64_t serial) {
    size_t low = 0, high = s->n_jobs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->jobs[middle]->serial > serial)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void kt__job_unregister(kt__job *job) {
    kt__shared *s = job->shared;
    pthread_mutex_lock(&s->lock);
    size_t at = first_after(s, job->serial - 1);
    bool found = job->serial && at < s->n_jobs && s->jobs[at] == job;
    if (found) {
        memmove(&s->jobs[at], &s->jobs[at + 1], (--s->n_jobs - at) * sizeof(kt__job *));
        pthread_cond_broadcast(&s->job_ended);
    }
    pthread_mutex_unlock(&s->lock);
    if (found) atomic_fetch_sub(&job->refs, 1);
}

size_t kt__jobs_count(kt__shared *s) {
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_jobs;
    pthread_mutex_unlock(&s->lock);
    return n;
}

kt__job *kt__jobs_next(kt__shared *s, kt__job *job) {
    pthread_mutex_lock(&s->lock);
    size_t at = first_after(s, job ? job->serial : 0);
    kt__job *next = at < s->n_jobs ? s->jobs[at] : NULL;
    if (next) kt__job_ref(next);
    pthread_mutex_unlock(&s->lock);
    if (job) kt__job_release(job);
    return next;
}

bool kt__jobs_wait(kt__shared *s, int64_t ms) {
    const struct timespec until = kt__time_in_ms(ms);
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (s->n_jobs && rc == 0) rc = pthread_cond_timedwait(&s->job_ended, &s->lock, &until);
    bool none = s->n_jobs == 0;
    pthread_mutex_unlock(&s->lock);
    return none;
}

static kt__job *job_of_client(kt__shared *s, const char *id, const char *client) {
    kt__job *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_jobs && !found; i++) {
        kt__job *job = s->jobs[i];
        if (!strcmp(job->id, id) && !strcmp(job->request.client, client)) found = job;
    }
    if (found) kt__job_ref(found);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ---- the states ---- */

#define BIT(state) (1u << (state))

static const unsigned may_follow[KT__JOB_STATES] = {
    [KT__JOB_READING] = BIT(KT__JOB_ELSEWHERE) | BIT(KT__JOB_READ),
    [KT__JOB_ELSEWHERE] = BIT(KT__JOB_READING) | BIT(KT__JOB_READ), /* it was not taken; it was */
    [KT__JOB_READ] = BIT(KT__JOB_ANSWERING) | BIT(KT__JOB_FAILED) | BIT(KT__JOB_ENDED),
    [KT__JOB_ANSWERING] = BIT(KT__JOB_SUBMITTING) | BIT(KT__JOB_FAILED) | BIT(KT__JOB_ENDED),
    [KT__JOB_SUBMITTING] = BIT(KT__JOB_ANSWERING) | BIT(KT__JOB_CROWDED) | BIT(KT__JOB_FAILING),
    [KT__JOB_CROWDED] = BIT(KT__JOB_ANSWERING) | BIT(KT__JOB_FAILED) | BIT(KT__JOB_ENDED),
    [KT__JOB_FAILING] = BIT(KT__JOB_FAILED),
    [KT__JOB_FAILED] = BIT(KT__JOB_ENDED),
};

bool kt__job_may_move(kt__job_state from, kt__job_state to) {
    return from < KT__JOB_STATES && (may_follow[from] & BIT(to)) != 0;
}

void kt__job_move(kt__job *job, kt__job_state to) {
    assert(kt__job_may_move(job->state, to));
    job->state = to;
}

bool kt__job_is_away(const kt__job *job) {
    return job->state == KT__JOB_READING || job->state == KT__JOB_ELSEWHERE ||
           job->state == KT__JOB_SUBMITTING || job->state == KT__JOB_FAILING;
}

/* ---- from outside ---- */

void kt__job_cancel_parts(kt__job *job) {
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) {
        if (job->answer.parts[i].req) kt_request_cancel(job->answer.parts[i].req);
    }
}

static void lose_interest(kt__job *job, kt__job_interest left) {
    pthread_mutex_lock(&job->lock);
    if (job->interest < left) job->interest = left;
    kt__job_cancel_parts(job);
    pthread_mutex_unlock(&job->lock);
}

void kt__job_cancel(kt__job *job) {
    lose_interest(job, KT__JOB_CANCELLED);
}

bool kt__jobs_cancel(kt__shared *s, const char *id, const char *client) {
    kt__job *job = job_of_client(s, id, client);
    if (!job) return false;
    kt__job_cancel(job);
    kt__job_release(job);
    return true;
}

void kt__jobs_cancel_named(kt__shared *s, const char *name, const char *client) {
    for (kt__job *job = kt__jobs_next(s, NULL); job; job = kt__jobs_next(s, job)) {
        pthread_mutex_lock(&job->lock);
        bool same = !strcmp(job->request.name, name) && !strcmp(job->request.client, client);
        pthread_mutex_unlock(&job->lock);
        if (same) kt__job_cancel(job);
    }
}

void kt__job_abandon(kt__job *job) {
    lose_interest(job, KT__JOB_ABANDONED);
    kt__job_post(job); /* it may have waited for its reader */
}

void kt__job_look(kt__job *job) {
    if (job->dialect->follow) kt__job_post(job);
}

void kt__job_retry(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool again = job->state == KT__JOB_CROWDED;
    if (again) kt__job_move(job, KT__JOB_ANSWERING);
    pthread_mutex_unlock(&job->lock);
    if (again) kt__job_post(job);
}

void kt__job_ping(kt__job *job, int64_t ping_s) {
    const char *filler = job->dialect->stream_filler;
    int64_t before_us = kt__now_us() - ping_s * 1000000;
    pthread_mutex_lock(&job->lock);
    bool silent = kt__job_is_answering(job) && job->answer.out.len == job->answer.out_at &&
                  job->answer.moved_us <= before_us;
    bool due = ping_s > 0 && filler && job->answer.stream && silent &&
               job->interest < KT__JOB_ABANDONED;
    if (due) (void)kt__buf_puts(&job->answer.out, filler);
    pthread_mutex_unlock(&job->lock);
    if (due) kt__job_post(job);
}

void kt__job_taken(kt__job *job, size_t n) {
    size_t most = (size_t)job->request.settings->config->output;
    job->answer.out_at += n;
    job->answer.moved_us = kt__now_us();
    if (job->answer.out_at == job->answer.out.len) {
        kt__buf_clear(&job->answer.out);
        job->answer.out_at = 0;
    } else if (job->answer.out_at > COMPACT_BYTES) {
        memmove(job->answer.out.data, job->answer.out.data + job->answer.out_at,
                job->answer.out.len - job->answer.out_at + 1);
        job->answer.out.len -= job->answer.out_at;
        job->answer.out_at = 0;
    }
    if (job->answer.paused && job->answer.out.len - job->answer.out_at <= most / 2)
        kt__job_post(job);
}
