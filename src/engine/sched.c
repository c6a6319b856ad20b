#include "engine/sched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/sched_impl.h"

enum { CLIENTS_KEPT = 256 }; /* remembered after their last task */

/* ---- lists ---- */

void kt__task_list_add(kt__task_list *list, kt__task *task) {
    task->next = NULL;
    task->prev = list->tail;
    if (list->tail) {
        list->tail->next = task;
    } else {
        list->head = task;
    }
    list->tail = task;
    list->n++;
}

void kt__task_list_remove(kt__task_list *list, kt__task *task) {
    if (task->prev) {
        task->prev->next = task->next;
    } else {
        list->head = task->next;
    }
    if (task->next) {
        task->next->prev = task->prev;
    } else {
        list->tail = task->prev;
    }
    task->prev = task->next = NULL;
    list->n--;
}

void kt__task_charge(kt__task *task, kt__account account, int64_t now_us) {
    task->us[account] += now_us - task->since_us;
    task->since_us = now_us;
}

/* ---- clients ---- */

uint64_t kt__client_key(const char *name) {
    return kt__hash_bytes(1, name, strlen(name)).w[0];
}

static uint64_t least_served(const kt__sched *s) {
    uint64_t least = UINT64_MAX;
    for (const kt__client *c = s->clients; c; c = c->next) {
        if (c->n_tasks > 0 && c->served < least) least = c->served;
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Forgets the client without tasks that was served least. */
static void forget_client(kt__sched *s) {
    kt__client **worst = NULL;
    for (kt__client **at = &s->clients; *at; at = &(*at)->next) {
        if ((*at)->n_tasks == 0 && (!worst || (*at)->served <= (*worst)->served)) worst = at;
    }
    if (!worst) return;
    kt__client *gone = *worst;
    *worst = gone->next;
    kt__free(gone);
    s->n_clients--;
}

/* A client that comes back begins beside the one that was served least: time away earns nothing. */
static void join_client(kt__sched *s, kt__task *task) {
    kt__client *c = s->clients;
    while (c && strcmp(c->name, task->client->name) != 0) c = c->next;
    if (c) {
        kt__free(task->client);
        task->client = c;
    } else {
        if (s->n_clients >= CLIENTS_KEPT) forget_client(s);
        c = task->client;
        c->key = kt__client_key(c->name);
        c->served = 0;
        c->n_tasks = c->n_running = 0;
        c->next = s->clients;
        s->clients = c;
        s->n_clients++;
    }
    if (c->n_tasks == 0) {
        uint64_t least = least_served(s);
        if (c->served < least) c->served = least;
    }
    c->n_tasks++;
}

/* ---- life ---- */

kt_status kt__sched_create(const kt__sched_params *params, const kt__sched_ops *ops, void *user,
                           kt__sched **out, kt_error *err) {
    *out = NULL;
    kt__sched *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the scheduler", sizeof *s);
    s->p = *params;
    s->ops = *ops;
    s->user = user;
    size_t n = (size_t)params->n_parallel;
    s->batch = kt__calloc(n, sizeof *s->batch);
    s->step = kt__calloc(n, sizeof *s->step);
    s->order = kt__calloc(n, sizeof *s->order);
    if (!s->batch || !s->step || !s->order) {
        kt__sched_destroy(s);
        return kt__fail_nomem(err, "the scheduler's lanes", n * sizeof *s->batch);
    }
    *out = s;
    return KT_OK;
}

static void leave(kt__sched *s, kt__task_list *list, kt__task *task) {
    kt__task_list_remove(list, task);
    s->ops.release(s->user, task);
}

void kt__sched_destroy(kt__sched *s) {
    if (!s) return;
    if (s->in_flight) s->ops.prefill_abort(s->user);
    while (s->running.head) leave(s, &s->running, s->running.head);
    while (s->waiting.head) leave(s, &s->waiting, s->waiting.head);
    for (kt__client *c = s->clients; c;) {
        kt__client *next = c->next;
        kt__free(c);
        c = next;
    }
    kt__free(s->batch);
    kt__free(s->step);
    kt__free(s->order);
    kt__free(s);
}

void kt__sched_add(kt__sched *s, kt__task *task) {
    task->state = task->first ? KT__TASK_SIBLING : KT__TASK_WAITING;
    task->serial = ++s->serial;
    task->since_us = task->arrival_us;
    join_client(s, task);
    kt__task_list_add(&s->waiting, task);
}

/* ---- the end of tasks ---- */

/* Its siblings compute the prompt themselves, or find it in the cache. */
static void orphan_siblings(kt__sched *s, const kt__task *task) {
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->first != task) continue;
        t->first = NULL;
        t->state = KT__TASK_WAITING;
    }
}

/* The step at hand goes on for the others. */
static void leave_step(kt__sched *s, const kt__task *task) {
    for (int i = 0; i < s->n_step; i++) {
        if (s->step[i] == task) s->step[i] = NULL;
    }
}

/* The last event, and everything is given back. */
static void end_task(kt__sched *s, kt__task *task) {
    bool had_lane = task->state == KT__TASK_RUNNING;
    kt__account last = had_lane ? KT__ACCOUNT_WAIT : KT__ACCOUNT_QUEUE;
    kt__task_list *list = had_lane ? &s->running : &s->waiting;
    kt__task_charge(task, last, kt__sched_now(s));
    orphan_siblings(s, task);
    task->client->n_tasks--;
    if (had_lane) task->client->n_running--;
    if (task->in_batch) kt__sched_leave_batch(s, task);
    leave_step(s, task);
    task->state = KT__TASK_ENDED;
    s->ops.end(s->user, task);
    leave(s, list, task);
}

void kt__sched_end_finished(kt__sched *s) {
    for (kt__task *t = s->running.head, *next; t; t = next) {
        next = t->next;
        if (t->state == KT__TASK_RUNNING && t->finish != KT_FINISH_NONE) end_task(s, t);
    }
}

static void reap_list(kt__sched *s, kt__task_list *list, int64_t t_us) {
    for (kt__task *t = list->head, *next; t; t = next) {
        next = t->next;
        if (atomic_load_explicit(t->cancel, memory_order_relaxed)) {
            t->finish = KT_FINISH_CANCELLED;
        } else if (t->deadline_us <= t_us) {
            t->finish = KT_FINISH_DEADLINE;
        }
        if (t->finish != KT_FINISH_NONE) end_task(s, t);
    }
}

/* Ends what was cancelled or came too late. */
static void reap(kt__sched *s) {
    int64_t t_us = kt__sched_now(s);
    reap_list(s, &s->running, t_us);
    reap_list(s, &s->waiting, t_us);
}

void kt__sched_end_all(kt__sched *s, kt_finish finish) {
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (t->finish == KT_FINISH_NONE) t->finish = finish;
    }
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->finish == KT_FINISH_NONE) t->finish = finish;
    }
    reap(s);
}

/* ---- decode steps ---- */

bool kt__task_wants_step(const kt__task *t) {
    return t->state == KT__TASK_RUNNING && t->finish == KT_FINISH_NONE && !t->embed &&
           !t->in_batch && !t->loading && t->n_tok - t->n_done == 1;
}

static void measure_step(kt__sched *s, int n, int64_t us) {
    const double keep = 0.95;
    double x = (double)n, t = (double)us;
    s->sum_w = s->sum_w * keep + 1;
    s->sum_n = s->sum_n * keep + x;
    s->sum_nn = s->sum_nn * keep + x * x;
    s->sum_t = s->sum_t * keep + t;
    s->sum_nt = s->sum_nt * keep + x * t;
}

/* Least squares of time over lanes; with one number of lanes only, half of it counts as fixed. */
void kt__sched_step_line(const kt__sched *s, double *fixed, double *per_lane) {
    *fixed = *per_lane = 0;
    if (s->sum_w <= 0) return;
    double mean_n = s->sum_n / s->sum_w, mean_t = s->sum_t / s->sum_w;
    double var = s->sum_nn / s->sum_w - mean_n * mean_n;
    double cov = s->sum_nt / s->sum_w - mean_n * mean_t;
    *per_lane = var > 0.05 ? cov / var : mean_t / mean_n / 2;
    if (*per_lane < 0) *per_lane = 0;
    if (*per_lane > mean_t / mean_n) *per_lane = mean_t / mean_n;
    *fixed = mean_t - *per_lane * mean_n;
}

double kt__sched_step_us(const kt__sched *s, int n) {
    double fixed, per_lane;
    kt__sched_step_line(s, &fixed, &per_lane);
    return fixed + per_lane * n;
}

/* Those that get a token now, each with the page it needs. */
static int gather_step(kt__sched *s) {
    int n = 0;
    for (kt__task *t = s->running.head, *next; t; t = next) {
        next = t->next;
        if (!kt__task_wants_step(t)) continue;
        if (t->held) {
            kt__task_charge(t, KT__ACCOUNT_HELD, kt__sched_now(s));
            continue;
        }
        s->step[n++] = t;
    }
    return n;
}

static int reserve_step(kt__sched *s, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (kt__task_wants_step(s->step[i]))
            (void)kt__sched_make_room(s, s->step[i], s->step[i]->n_done + 1);
    }
    /* making room for one may have suspended another */
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (kt__task_wants_step(t) && s->ops.reserve(s->user, t, t->n_done + 1))
            s->step[kept++] = t;
    }
    return kept;
}

static bool has_left(const kt__sched *s) {
    for (int i = 0; i < s->n_step; i++) {
        if (!s->step[i]) return true;
    }
    return false;
}

static int decode_step(kt__sched *s) {
    int n = reserve_step(s, gather_step(s));
    kt__sched_end_finished(s);
    if (n == 0) return 0;
    int64_t begin_us = kt__sched_now(s);
    for (int i = 0; i < n; i++) {
        s->step[i]->client->served += KT__DECODE_WEIGHT;
        kt__task_charge(s->step[i], KT__ACCOUNT_WAIT, begin_us);
    }
    s->n_step = n;
    while (!s->ops.decode(s->user, s->step, n)) reap(s);
    int64_t took_us = kt__sched_now(s) - begin_us;
    if (!has_left(s)) measure_step(s, n, took_us);
    s->n_step = 0;
    s->counts.n_decode_batches++;
    s->counts.decode_us += took_us;
    kt__sched_end_finished(s);
    return n;
}

bool kt__sched_step(kt__sched *s) {
    reap(s);
    kt__sched_admit(s);
    int n = decode_step(s);
    bool prefilled = kt__sched_prefill_slice(s, n);
    return n > 0 || prefilled;
}

/* ---- figures ---- */

int kt__sched_n_tasks(const kt__sched *s) {
    int n = s->waiting.n;
    for (const kt__task *t = s->running.head; t; t = t->next) n += t->state == KT__TASK_RUNNING;
    return n;
}

void kt__sched_get_counts(const kt__sched *s, kt__sched_counts *out) {
    *out = s->counts;
    out->n_running = kt__sched_n_tasks(s) - s->waiting.n;
    out->n_waiting = s->waiting.n;
    out->n_held = out->n_clients = 0;
    for (const kt__task *t = s->running.head; t; t = t->next) out->n_held += t->held;
    for (const kt__client *c = s->clients; c; c = c->next) out->n_clients += c->n_tasks > 0;
}
