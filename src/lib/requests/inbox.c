#include "requests/inbox.h"
#include "base/thread.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

enum { LOOK_MS = 20 }; /* how often a waiting driver looks for cancels and deadlines */

struct kt__inbox {
    int n_queue_max;
    pthread_mutex_t lock;
    pthread_cond_t work; /* something to do for the driver */
    pthread_cond_t
        idle; /* no request is left, a task of a call is over, or a full queue has room */
    /* under the lock */
    kt__task *first, *last;
    int n_waiting; /* requests not started */
    int n_live;    /* not over */
    int n_calls;   /* tasks of calls that are not over */
    bool closed, quit, driven, wake_pending;
    kt__sched_load load;
    kt_engine_stats stats;
};

/* ---- life ---- */

static bool init_locks(kt__inbox *in) {
    if (pthread_mutex_init(&in->lock, NULL) != 0) return false;
    if (kt__cond_init(&in->work) == 0) {
        if (kt__cond_init(&in->idle) == 0) return true;
        pthread_cond_destroy(&in->work);
    }
    pthread_mutex_destroy(&in->lock);
    return false;
}

kt_status kt__inbox_create(int n_queue_max, kt__inbox **out, kt_error *err) {
    *out = NULL;
    kt__inbox *in = kt__calloc(1, sizeof *in);
    if (!in || !init_locks(in)) {
        kt__free(in);
        return kt__fail_nomem(err, "the queue of requests", sizeof *in);
    }
    in->n_queue_max = n_queue_max;
    *out = in;
    return KT_OK;
}

void kt__inbox_destroy(kt__inbox *in) {
    if (!in) return;
    pthread_cond_destroy(&in->work);
    pthread_cond_destroy(&in->idle);
    pthread_mutex_destroy(&in->lock);
    kt__free(in);
}

/* ---- submitting ---- */

static uint64_t client_key_of(const kt__task *task) {
    return kt__client_key(task->client ? task->client->name : "");
}

/* Everything ahead of a request that is submitted now. */
static kt__forecast predict_locked(const kt__inbox *in, const kt__sched_request *ask) {
    kt__sched_load load = in->load;
    for (const kt__task *t = in->first; t; t = t->next) {
        if (t->first) continue; /* of the same request */
        const kt__sched_request before = {t->priority, client_key_of(t), t->n_tok - t->n_done,
                                          t->n_predict};
        kt__sched_load_add(&load, &before);
    }
    return kt__sched_predict(&load, ask);
}

static kt_status refuse_busy(kt__inbox *in, const kt__forecast *f, kt_error *err) {
    in->stats.n_refused_busy++;
    (void)kt__fail(err, KT_E_BUSY, "%d requests are waiting already: try again in about %.1f s",
                   in->n_waiting, (double)f->first_us / 1e6 + 0.1);
    if (err) err->retry_ms = f->first_us / 1000 + 100;
    return KT_E_BUSY;
}

static kt_status refuse_late(kt__inbox *in, const kt__submission *sub, const kt__forecast *f,
                             int64_t late_us, kt_error *err) {
    in->stats.n_refused_deadline++;
    (void)kt__fail(err, KT_E_DEADLINE,
                   "the answer would take about %.1f s (first token %.1f s), and the deadline is "
                   "%.1f s",
                   (double)late_us / 1e6, (double)f->first_us / 1e6,
                   (double)sub->deadline_ms / 1e3);
    if (err) err->retry_ms = late_us / 1000;
    return KT_E_DEADLINE;
}

static kt_status check_locked(kt__inbox *in, const kt__submission *sub, kt_error *err) {
    bool lent = sub->first->lent;
    if (in->closed && !lent) {
        in->stats.n_refused_other++;
        return kt__fail(err, KT_E_STATE, "the engine is being stopped: no more requests are taken");
    }
    kt__forecast f = predict_locked(in, &sub->ask);
    int64_t late_us = sub->ask.n_predict > 0 ? f.all_us : f.first_us;
    if (in->n_waiting >= in->n_queue_max && !lent) return refuse_busy(in, &f, err);
    if (sub->deadline_ms > 0 && late_us > sub->deadline_ms * 1000)
        return refuse_late(in, sub, &f, late_us, err);
    return KT_OK;
}

static void enqueue_locked(kt__inbox *in, kt__task *first, kt__task *last) {
    if (in->last) {
        in->last->next = first;
    } else {
        in->first = first;
    }
    in->last = last;
    pthread_cond_signal(&in->work);
}

kt_status kt__inbox_submit(kt__inbox *in, const kt__submission *sub, kt_error *err) {
    pthread_mutex_lock(&in->lock);
    kt_status status = check_locked(in, sub, err);
    if (status == KT_OK) {
        enqueue_locked(in, sub->first, sub->last);
        in->n_waiting++;
        in->n_live++;
        in->stats.n_submitted++;
    }
    pthread_mutex_unlock(&in->lock);
    return status;
}

/* Wakes those that wait for a place where the queue was full. */
static void leave_queue_locked(kt__inbox *in) {
    if (in->n_waiting-- >= in->n_queue_max) pthread_cond_broadcast(&in->idle);
}

void kt__inbox_call(kt__inbox *in, kt__task *first, kt__task *last, int n) {
    pthread_mutex_lock(&in->lock);
    enqueue_locked(in, first, last);
    in->n_calls += n;
    pthread_mutex_unlock(&in->lock);
}

bool kt__inbox_wait_for_call(kt__inbox *in, const int *n_left, int64_t ms) {
    pthread_mutex_lock(&in->lock);
    struct timespec until = ms > 0 ? kt__time_in_ms(ms) : (struct timespec){0};
    while (*n_left > 0 && ms > 0) {
        if (pthread_cond_timedwait(&in->idle, &in->lock, &until) != 0) break;
    }
    bool done = *n_left == 0;
    pthread_mutex_unlock(&in->lock);
    return done;
}

void kt__inbox_note_refused(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    in->stats.n_refused_other++;
    pthread_mutex_unlock(&in->lock);
}

/* ---- by the driver ---- */

kt__task *kt__inbox_take(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    kt__task *first = in->first;
    in->first = in->last = NULL;
    pthread_mutex_unlock(&in->lock);
    return first;
}

bool kt__inbox_is_empty(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    bool empty = !in->first;
    pthread_mutex_unlock(&in->lock);
    return empty;
}

void kt__inbox_note_started(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    leave_queue_locked(in);
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_wait_for_room(kt__inbox *in, int64_t ms) {
    const struct timespec until = kt__time_in_ms(ms);
    int rc = 0;
    pthread_mutex_lock(&in->lock);
    while (in->n_waiting >= in->n_queue_max && rc == 0)
        rc = pthread_cond_timedwait(&in->idle, &in->lock, &until);
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_note_finished(kt__inbox *in, kt_finish finish) {
    pthread_mutex_lock(&in->lock);
    in->stats.n_finished[finish]++;
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_note_over(kt__inbox *in, bool started) {
    pthread_mutex_lock(&in->lock);
    if (!started) leave_queue_locked(in);
    if (--in->n_live == 0) pthread_cond_broadcast(&in->idle);
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_note_done(kt__inbox *in, int *n_left) {
    pthread_mutex_lock(&in->lock);
    in->n_calls--;
    --*n_left;
    pthread_cond_broadcast(&in->idle);
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_publish(kt__inbox *in, const kt__sched_load *load, const kt_engine_stats *stats) {
    pthread_mutex_lock(&in->lock);
    kt_engine_stats own = in->stats;
    in->load = *load;
    in->stats = *stats;
    in->stats.n_submitted = own.n_submitted;
    in->stats.n_refused_busy = own.n_refused_busy;
    in->stats.n_refused_deadline = own.n_refused_deadline;
    in->stats.n_refused_other = own.n_refused_other;
    for (int f = 0; f < KT_FINISH_COUNT; f++) in->stats.n_finished[f] = own.n_finished[f];
    pthread_mutex_unlock(&in->lock);
}

void kt__inbox_publish_pages(kt__inbox *in, int64_t n_used, int64_t n_kept) {
    pthread_mutex_lock(&in->lock);
    in->stats.kv_blocks_used = (uint64_t)(n_used - n_kept);
    in->stats.kv_blocks_cached = (uint64_t)n_kept;
    pthread_mutex_unlock(&in->lock);
}

/* ---- the driver's thread ---- */

bool kt__inbox_begin_driving(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    bool was_driven = in->driven;
    if (!was_driven) in->quit = in->closed = false;
    in->driven = true;
    pthread_mutex_unlock(&in->lock);
    return !was_driven;
}

static void wait_for_end_locked(kt__inbox *in, int64_t ms) {
    struct timespec until = kt__time_in_ms(ms);
    while (in->n_live > 0 && ms != 0) {
        if (ms < 0) {
            pthread_cond_wait(&in->idle, &in->lock);
        } else if (pthread_cond_timedwait(&in->idle, &in->lock, &until) != 0) {
            return;
        }
    }
}

bool kt__inbox_close(kt__inbox *in, int64_t drain_ms) {
    pthread_mutex_lock(&in->lock);
    in->closed = true;
    bool driven = in->driven;
    if (driven) {
        wait_for_end_locked(in, drain_ms);
        in->quit = true;
        pthread_cond_signal(&in->work);
    }
    pthread_mutex_unlock(&in->lock);
    return driven;
}

void kt__inbox_end_driving(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    in->driven = false;
    pthread_mutex_unlock(&in->lock);
}

bool kt__inbox_is_driven(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    bool driven = in->driven;
    pthread_mutex_unlock(&in->lock);
    return driven;
}

void kt__inbox_wait_for_work(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    while (!in->quit && !in->first && !in->wake_pending) {
        if (in->n_live + in->n_calls == 0) {
            pthread_cond_wait(&in->work, &in->lock);
        } else {
            struct timespec until = kt__time_in_ms(LOOK_MS);
            if (pthread_cond_timedwait(&in->work, &in->lock, &until) != 0) break;
        }
    }
    in->wake_pending = false;
    pthread_mutex_unlock(&in->lock);
}

bool kt__inbox_is_told_to_quit(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    bool quit = in->quit;
    pthread_mutex_unlock(&in->lock);
    return quit;
}

void kt__inbox_wake(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    in->wake_pending = true;
    pthread_cond_signal(&in->work);
    pthread_mutex_unlock(&in->lock);
}

/* ---- figures ---- */

int32_t kt__inbox_n_live(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    int32_t n = in->n_live;
    pthread_mutex_unlock(&in->lock);
    return n;
}

void kt__inbox_get_stats(kt__inbox *in, kt_engine_stats *out) {
    const kt__sched_request usual = {0, kt__client_key(""), 1, 1};
    pthread_mutex_lock(&in->lock);
    *out = in->stats;
    out->predicted_wait_ms = predict_locked(in, &usual).first_us / 1000;
    if (in->first && out->waiting < in->n_waiting) out->waiting = in->n_waiting;
    pthread_mutex_unlock(&in->lock);
}

double kt__inbox_prefill_us_tok(kt__inbox *in) {
    pthread_mutex_lock(&in->lock);
    double us = in->load.prefill_us_tok;
    pthread_mutex_unlock(&in->lock);
    return us;
}
