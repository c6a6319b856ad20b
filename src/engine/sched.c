#include "engine/sched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    DECODE_WEIGHT = 2,     /* a sampled token counts as so many prompt tokens */
    FAIR_QUANTUM = 256,    /* weighted tokens that a client may be ahead before it is suspended */
    CLIENTS_KEPT = 256,    /* remembered after their last task */
    MIN_SLICE_US = 20000,  /* however short the gap asked for, prompts advance */
    IDLE_SLICE_US = 50000, /* without running answers: how often cancels are looked at */
    MIN_ROWS = 32,         /* of a batch that is cut small for the gap's sake */
    FIRST_ROWS = 128,      /* of the first batch: nothing is known of the machine */
    MOST_UNIT_US = 60000,  /* that a batch may not be able to stop for: cancels wait for it */
    MIN_CHUNK = 16,        /* of a prompt, but its end */
    USUAL_ANSWER_TOK = 256 /* open-ended answers count as this much */
};

typedef struct task_list {
    kt__task *head, *tail;
    int n;
} task_list;

struct kt__sched {
    kt__sched_params p;
    kt__sched_ops ops;
    void *user;
    task_list waiting; /* SIBLING, WAITING, PARKED */
    task_list running; /* RUNNING */
    kt__client *clients;
    int n_clients;
    kt__slice *batch; /* [n_parallel] */
    int n_batch;
    bool in_flight, hold_prompts;
    int32_t batch_rows;
    int64_t batch_us;
    kt__task **step;  /* [n_parallel] scratch */
    kt__task **order; /* [n_parallel] scratch */
    uint64_t serial;
    double prefill_us_tok, unit_us_tok; /* unit: what a batch cannot stop for; 0: not measured */
    /* decode steps: time as a line over the number of lanes, by exponentially forgotten sums */
    double sum_w, sum_n, sum_nn, sum_t, sum_nt;
    kt__sched_counts counts;
};

/* ---- lists ---- */

static void list_add(task_list *list, kt__task *task) {
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

static void list_remove(task_list *list, kt__task *task) {
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

static int64_t now(const kt__sched *s) {
    return s->ops.now_us(s->user);
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

static void leave(kt__sched *s, task_list *list, kt__task *task) {
    list_remove(list, task);
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
    list_add(&s->waiting, task);
}

/* ---- the end of tasks ---- */

static int n_lanes_used(const kt__sched *s) {
    return s->running.n;
}

/* Its siblings compute the prompt themselves, or find it in the cache. */
static void orphan_siblings(kt__sched *s, const kt__task *task) {
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->first != task) continue;
        t->first = NULL;
        t->state = KT__TASK_WAITING;
    }
}

static void measure(double *to, double us_tok, double weight) {
    *to = *to > 0 ? *to + weight * (us_tok - *to) : us_tok;
}

/* Small batches cost more a row and say little about large ones. */
static double weight_of(const kt__sched *s) {
    return s->batch_rows >= s->p.n_rows / 4 ? 0.5 : 0.1;
}

/* Also of a batch that was not run to its end. */
static void measure_unit(kt__sched *s) {
    double unit_us = (double)s->ops.prefill_unit_us(s->user);
    if (unit_us > 0) measure(&s->unit_us_tok, unit_us / (double)s->batch_rows, weight_of(s));
}

/* Out of the batch in flight, which goes on for the others if there are any: throwing it away for
 * one would let a client undo others' work. */
static void leave_batch(kt__sched *s, kt__task *task) {
    int n = 0;
    for (int i = 0; i < s->n_batch; i++) {
        if (s->batch[i].task != task) s->batch[n++] = s->batch[i];
    }
    s->n_batch = n;
    task->in_batch = false;
    if (n > 0) {
        s->ops.prefill_leave(s->user, task);
    } else {
        measure_unit(s);
        s->ops.prefill_abort(s->user);
        s->in_flight = false;
    }
}

/* The last event, and everything is given back. */
static void end_task(kt__sched *s, kt__task *task) {
    bool had_lane = task->state == KT__TASK_RUNNING;
    kt__account last = had_lane ? KT__ACCOUNT_WAIT : KT__ACCOUNT_QUEUE;
    task_list *list = had_lane ? &s->running : &s->waiting;
    kt__task_charge(task, last, now(s));
    orphan_siblings(s, task);
    task->client->n_tasks--;
    if (had_lane) task->client->n_running--;
    if (task->in_batch) leave_batch(s, task);
    task->state = KT__TASK_ENDED;
    s->ops.end(s->user, task);
    leave(s, list, task);
}

static void end_finished(kt__sched *s) {
    for (kt__task *t = s->running.head, *next; t; t = next) {
        next = t->next;
        if (t->state == KT__TASK_RUNNING && t->finish != KT_FINISH_NONE) end_task(s, t);
    }
}

static void reap_list(kt__sched *s, task_list *list, int64_t t_us) {
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
    int64_t t_us = now(s);
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

/* ---- order ---- */

/* a goes before b */
static bool goes_before(const kt__task *a, const kt__task *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->client != b->client && a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->serial < b->serial;
}

/* a is worth more than b when one of them has to go: shares do not count, or the two would take
 * turns in throwing each other out. Who waits for a slow reader holds up nobody. */
static bool outranks(const kt__task *a, const kt__task *b) {
    if (a->held != b->held) return b->held;
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->serial < b->serial;
}

static kt__task *next_in_line(const kt__sched *s) {
    kt__task *best = NULL;
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->state == KT__TASK_SIBLING || t->held) continue;
        if (!best || goes_before(t, best)) best = t;
    }
    return best;
}

/* ---- suspending ---- */

static void park(kt__sched *s, kt__task *task) {
    kt__task_charge(task, KT__ACCOUNT_WAIT, now(s));
    list_remove(&s->running, task);
    task->state = KT__TASK_PARKED;
    task->client->n_running--;
    task->n_preempted++;
    s->counts.n_preempted++;
    list_add(&s->waiting, task);
}

static void drop_pages(kt__sched *s, kt__task *task) {
    task->n_lost = task->n_done;
    s->ops.drop(s->user, task);
    task->loading = false;
    if (task->state == KT__TASK_PARKED) task->state = KT__TASK_WAITING;
}

/* Takes the pages of the task that is worth least, among those that `task` outranks: first of the
 * suspended ones, then of those that run. false: there is none. */
static bool take_pages_for(kt__sched *s, const kt__task *task) {
    kt__task *victim = NULL;
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->state == KT__TASK_PARKED && t->n_done > 0 && (!victim || outranks(victim, t)))
            victim = t;
    }
    if (!victim) {
        for (kt__task *t = s->running.head; t; t = t->next) {
            if (t == task || t->in_batch || t->state != KT__TASK_RUNNING) continue;
            if (outranks(task, t) && (!victim || outranks(victim, t))) victim = t;
        }
        if (!victim) return false;
        park(s, victim);
    }
    drop_pages(s, victim);
    return true;
}

/* Only what is held outside the scheduler's reach keeps the task from going on. */
static bool is_alone(const kt__sched *s, const kt__task *task) {
    for (const kt__task *t = s->running.head; t; t = t->next) {
        if (t != task) return false;
    }
    for (const kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->state == KT__TASK_PARKED && t->n_done > 0) return false;
    }
    return true;
}

static int64_t pages_of(const kt__sched *s, int64_t n_pos) {
    return (n_pos + s->p.page_pos - 1) / s->p.page_pos;
}

/* Pages up to n_pos, from others if need be. false: the task cannot go on now; it is suspended
 * unless only a batch in flight is in the way, and ended where nothing will ever change. */
static bool make_room(kt__sched *s, kt__task *task, int32_t n_pos) {
    while (!s->ops.reserve(s->user, task, n_pos)) {
        if (take_pages_for(s, task)) continue;
        if (is_alone(s, task)) {
            bool never = pages_of(s, n_pos) > s->ops.pages_most(s->user);
            task->finish = never ? KT_FINISH_CONTEXT : KT_FINISH_ERROR;
            return false;
        }
        if (!s->in_flight || n_lanes_used(s) > s->n_batch + 1) {
            park(s, task);
            drop_pages(s, task);
        }
        return false;
    }
    return true;
}

/* ---- admission ---- */

static void start_task(kt__sched *s, kt__task *task) {
    kt__task_charge(task, KT__ACCOUNT_QUEUE, now(s));
    list_remove(&s->waiting, task);
    list_add(&s->running, task);
    task->state = KT__TASK_RUNNING;
    task->client->n_running++;
    s->ops.start(s->user, task);
    task->started = true;
    if (task->n_lost > task->n_done) {
        task->n_recomputed += task->n_lost - task->n_done;
        s->counts.n_recomputed_tok += (uint64_t)(task->n_lost - task->n_done);
    }
    task->n_lost = 0;
}

/* Whether pages are there for all that is known of the task, without suspending anybody. */
static bool has_room(const kt__sched *s, const kt__task *task) {
    if (n_lanes_used(s) == 0 || task->state == KT__TASK_PARKED) return true;
    return pages_of(s, (int64_t)task->n_tok + 1) <= s->ops.pages_left(s->user);
}

/* Who would have to give a lane or pages to the candidate; NULL: nobody has to. */
static kt__task *who_yields(const kt__sched *s, const kt__task *candidate) {
    kt__task *worst = NULL;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (t->in_batch || t->state != KT__TASK_RUNNING) continue;
        if (t->held) return t;
        if (!worst || goes_before(worst, t)) worst = t;
    }
    if (!worst) return NULL;
    if (worst->priority != candidate->priority)
        return worst->priority < candidate->priority ? worst : NULL;
    const kt__client *mine = candidate->client, *theirs = worst->client;
    bool ahead = theirs->served > mine->served + FAIR_QUANTUM;
    return ahead && theirs->n_running > mine->n_running ? worst : NULL;
}

/* Where the first choice has computed the prompt, the others begin, as far as there are lanes. The
 * prompt's last token is left to them: its logits are what they draw from. */
static void start_siblings(kt__sched *s) {
    for (kt__task *t = s->waiting.head, *next; t; t = next) {
        next = t->next;
        if (n_lanes_used(s) >= s->p.n_parallel) return;
        if (t->state != KT__TASK_SIBLING || t->first->state != KT__TASK_RUNNING) continue;
        if (t->first->n_done < t->n_tok) continue;
        s->ops.fork(s->user, t->first, t);
        t->first = NULL;
        t->state = KT__TASK_PARKED; /* has pages */
        start_task(s, t);
    }
}

static void admit(kt__sched *s) {
    start_siblings(s);
    for (int i = 0; i < s->p.n_parallel; i++) {
        kt__task *candidate = next_in_line(s);
        if (!candidate) return;
        bool room = has_room(s, candidate);
        if (n_lanes_used(s) >= s->p.n_parallel || !room) {
            kt__task *worst = who_yields(s, candidate);
            if (!worst) return;
            if (!room && !worst->held && worst->priority >= candidate->priority) return;
            park(s, worst);
            if (!room) drop_pages(s, worst);
        }
        if (n_lanes_used(s) >= s->p.n_parallel || !has_room(s, candidate)) return;
        start_task(s, candidate);
    }
}

/* ---- decode steps ---- */

static bool wants_step(const kt__task *t) {
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
static void step_line(const kt__sched *s, double *fixed, double *per_lane) {
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

static double step_us(const kt__sched *s, int n) {
    double fixed, per_lane;
    step_line(s, &fixed, &per_lane);
    return fixed + per_lane * n;
}

/* Those that get a token now, each with the page it needs. */
static int gather_step(kt__sched *s) {
    int n = 0;
    for (kt__task *t = s->running.head, *next; t; t = next) {
        next = t->next;
        if (!wants_step(t)) continue;
        if (t->held) {
            kt__task_charge(t, KT__ACCOUNT_HELD, now(s));
            continue;
        }
        s->step[n++] = t;
    }
    return n;
}

static int reserve_step(kt__sched *s, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (wants_step(s->step[i])) (void)make_room(s, s->step[i], s->step[i]->n_done + 1);
    }
    /* making room for one may have suspended another */
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (wants_step(t) && s->ops.reserve(s->user, t, t->n_done + 1)) s->step[kept++] = t;
    }
    return kept;
}

static int decode_step(kt__sched *s) {
    int n = reserve_step(s, gather_step(s));
    end_finished(s);
    if (n == 0) return 0;
    int64_t begin_us = now(s);
    for (int i = 0; i < n; i++) {
        s->step[i]->client->served += DECODE_WEIGHT;
        kt__task_charge(s->step[i], KT__ACCOUNT_WAIT, begin_us);
    }
    s->ops.decode(s->user, s->step, n);
    int64_t took_us = now(s) - begin_us;
    measure_step(s, n, took_us);
    s->counts.n_decode_batches++;
    s->counts.decode_us += took_us;
    end_finished(s);
    return n;
}

/* ---- prompts' batches ---- */

static bool wants_prefill(const kt__task *t) {
    int32_t pending = t->n_tok - t->n_done;
    return t->state == KT__TASK_RUNNING && t->finish == KT_FINISH_NONE && !t->loading &&
           (pending > 1 || (t->embed && pending > 0));
}

static bool is_shorter(const kt__task *a, const kt__task *b) {
    int32_t left_a = a->n_tok - a->n_done, left_b = b->n_tok - b->n_done;
    return left_a != left_b ? left_a < left_b : a->serial < b->serial;
}

/* The tasks that want rows, as they take turns. Insertion sort: a few lanes. */
static int line_up(kt__sched *s, bool (*before)(const kt__task *, const kt__task *)) {
    int n = 0;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (!wants_prefill(t)) continue;
        int at = n++;
        for (; at > 0 && before(t, s->order[at - 1]); at--) s->order[at] = s->order[at - 1];
        s->order[at] = t;
    }
    return n;
}

/* A slice between decode steps of busy_us: what they leave of the gap between tokens, and where
 * they leave little half a step at least, so that prompts have a third of the time. */
static double slice_between(double gap_us, double busy_us) {
    double slice = gap_us - busy_us;
    if (slice < busy_us / 2) slice = busy_us / 2;
    return slice < MIN_SLICE_US ? MIN_SLICE_US : slice;
}

/* Rows of a batch: few enough that one indivisible part of it, which a slice may overrun by, is a
 * third of a slice at most, and that a cancel is not waited for. */
static int32_t rows_for(const kt__sched *s, bool others_wait, int64_t slice_us) {
    int32_t rows = s->p.n_rows;
    double unit_us = s->unit_us_tok > 0 ? s->unit_us_tok : s->prefill_us_tok * s->p.unit_share;
    if (unit_us <= 0) return rows < FIRST_ROWS ? rows : FIRST_ROWS;
    double most_us =
        others_wait && slice_us / 3 < MOST_UNIT_US ? (double)slice_us / 3 : MOST_UNIT_US;
    double most = most_us / unit_us;
    if (most < (double)rows) rows = (int32_t)most / MIN_CHUNK * MIN_CHUNK;
    int32_t least = s->p.n_rows < MIN_ROWS ? s->p.n_rows : MIN_ROWS;
    return rows < least ? least : rows;
}

static bool may_join(const kt__sched *s, const kt__task *task) {
    return s->n_batch == 0 || s->batch[0].task->embed == task->embed;
}

static int n_complete(const kt__sched *s) {
    int n = 0;
    for (int i = 0; i < s->n_batch; i++)
        n += s->batch[i].task->n_done + s->batch[i].n == s->batch[i].task->n_tok;
    return n;
}

/* Rows of one task into the batch, as many as fit, none rather than a crumb. */
static void take_rows(kt__sched *s, kt__task *task, int32_t room) {
    int32_t n = task->n_tok - task->n_done;
    if (task->in_batch || !wants_prefill(task) || !may_join(s, task)) return;
    if (n > room) n = room;
    bool complete = task->n_done + n == task->n_tok;
    if (n <= 0 || (!complete && n < MIN_CHUNK && s->n_batch > 0)) return;
    if (complete && n_complete(s) >= s->p.n_out) return;
    if (!make_room(s, task, task->n_done + n)) return;
    task->in_batch = true;
    s->batch[s->n_batch++] = (kt__slice){task, n};
    s->batch_rows += n;
}

/* Half of a batch belongs to the one whose turn it is, the rest to the shortest prompts: those do
 * not wait behind a long one, and it is not starved by them. */
static void pack_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    int32_t rows = rows_for(s, others_wait, slice_us);
    s->n_batch = 0;
    s->batch_rows = 0;
    s->batch_us = 0;
    int n = line_up(s, goes_before);
    if (n == 0) return;
    take_rows(s, s->order[0], n > 1 ? (rows + 1) / 2 : rows);
    n = line_up(s, is_shorter);
    for (int i = 0; i < n && s->n_batch < s->p.n_parallel; i++)
        take_rows(s, s->order[i], rows - s->batch_rows);
    /* what is left over goes to the first again, behind its own rows */
    int32_t room = rows - s->batch_rows;
    if (s->n_batch == 0 || room <= 0) return;
    kt__slice *first = &s->batch[0];
    int32_t more = first->task->n_tok - first->task->n_done - first->n;
    if (more > room) more = room;
    if (more <= 0 || (first->n + more == first->task->n_tok - first->task->n_done &&
                      n_complete(s) >= s->p.n_out))
        return;
    if (!s->ops.reserve(s->user, first->task, first->task->n_done + first->n + more)) return;
    first->n += more;
    s->batch_rows += more;
}

static void begin_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    pack_batch(s, others_wait, slice_us);
    if (s->n_batch == 0) return;
    s->in_flight = true;
    for (int i = 0; i < s->n_batch; i++)
        s->batch[i].task->client->served += (uint64_t)s->batch[i].n;
    s->ops.prefill_begin(s->user, s->batch, s->n_batch);
}

static void charge_batch(kt__sched *s, kt__account account) {
    int64_t t_us = now(s);
    for (int i = 0; i < s->n_batch; i++) kt__task_charge(s->batch[i].task, account, t_us);
}

static bool was_broken_off(const kt__sched *s) {
    for (int i = 0; i < s->n_batch; i++) {
        kt_finish finish = s->batch[i].task->finish;
        if (finish == KT_FINISH_CANCELLED || finish == KT_FINISH_ERROR) return true;
    }
    return false;
}

static void measure_batch(kt__sched *s) {
    if (was_broken_off(s)) return;
    measure(&s->prefill_us_tok, (double)s->batch_us / (double)s->batch_rows, weight_of(s));
}

static void complete_batch(kt__sched *s) {
    measure_batch(s);
    measure_unit(s);
    s->counts.n_prefill_batches++;
    s->counts.n_prefill_tok += (uint64_t)s->batch_rows;
    for (int i = 0; i < s->n_batch; i++) s->batch[i].task->in_batch = false;
    s->n_batch = 0;
    s->in_flight = false;
    end_finished(s);
}

static void run_batch(kt__sched *s, int64_t until_us) {
    charge_batch(s, KT__ACCOUNT_WAIT);
    int64_t begin_us = now(s);
    bool done = s->ops.prefill_run(s->user, until_us);
    int64_t took_us = now(s) - begin_us;
    s->batch_us += took_us;
    s->counts.prefill_us += took_us;
    if (done) {
        complete_batch(s);
    } else {
        charge_batch(s, KT__ACCOUNT_PREFILL);
    }
}

static bool load_some(kt__sched *s, int64_t until_us) {
    bool any = false;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (!t->loading || t->state != KT__TASK_RUNNING) continue;
        any = true;
        kt__task_charge(t, KT__ACCOUNT_WAIT, now(s));
        s->ops.load(s->user, t, until_us);
        kt__task_charge(t, KT__ACCOUNT_PREFILL, now(s));
        if (now(s) >= until_us) break;
    }
    return any;
}

static int64_t slice_beside(const kt__sched *s, int n_decoding) {
    if (n_decoding == 0) return IDLE_SLICE_US;
    return (int64_t)slice_between((double)s->p.gap_us, step_us(s, n_decoding));
}

static int n_decoding_now(const kt__sched *s) {
    int n = 0;
    for (const kt__task *t = s->running.head; t; t = t->next) n += wants_step(t);
    return n;
}

int64_t kt__sched_slice_us(const kt__sched *s) {
    return slice_beside(s, n_decoding_now(s));
}

int32_t kt__sched_slice_rows(const kt__sched *s) {
    int n = n_decoding_now(s);
    return n > 0 ? rows_for(s, true, slice_beside(s, n)) : s->p.n_rows;
}

static bool prefill_slice(kt__sched *s, int n_decoding) {
    int64_t slice_us = slice_beside(s, n_decoding);
    int64_t until_us = now(s) + slice_us;
    bool loaded = load_some(s, until_us);
    if (!s->in_flight && !s->hold_prompts) begin_batch(s, n_decoding > 0, slice_us);
    end_finished(s);
    if (!s->in_flight) return loaded;
    run_batch(s, until_us);
    return true;
}

bool kt__sched_run_batch(kt__sched *s) {
    if (s->in_flight) run_batch(s, now(s) + kt__sched_slice_us(s));
    return s->in_flight;
}

void kt__sched_hold_prompts(kt__sched *s, bool hold) {
    s->hold_prompts = hold;
}

bool kt__sched_step(kt__sched *s) {
    reap(s);
    admit(s);
    int n = decode_step(s);
    bool prefilled = prefill_slice(s, n);
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

/* The group of a client at a priority; where there are too many, another of that priority. */
static kt__load_group *group_of(kt__sched_load *load, int32_t priority, uint64_t client) {
    kt__load_group *other = NULL;
    for (int i = 0; i < load->n_groups; i++) {
        kt__load_group *g = &load->groups[i];
        if (g->priority == priority && g->client == client) return g;
        if (!other || g->priority == priority) other = g;
    }
    if (load->n_groups == KT__LOAD_GROUPS) return other;
    kt__load_group *g = &load->groups[load->n_groups++];
    *g = (kt__load_group){.priority = priority, .client = client};
    return g;
}

static int64_t answer_tok(int64_t n_predict) {
    return n_predict < 0 ? USUAL_ANSWER_TOK : n_predict;
}

static void add_load(kt__sched_load *out, const kt__task *t) {
    kt__load_group *g = group_of(out, t->priority, t->client->key);
    int64_t pending = t->n_tok - t->n_done;
    g->served = t->client->served;
    g->n_tasks++;
    if (pending > 1 && t->state != KT__TASK_SIBLING) g->n_prompt_tok += pending;
    if (!t->embed) g->n_answer_tok += answer_tok(t->n_predict);
}

void kt__sched_get_load(const kt__sched *s, kt__sched_load *out) {
    *out = (kt__sched_load){
        .n_parallel = s->p.n_parallel, .prefill_us_tok = s->prefill_us_tok, .gap_us = s->p.gap_us};
    step_line(s, &out->step_us, &out->step_us_lane);
    for (const kt__task *t = s->waiting.head; t; t = t->next) add_load(out, t);
    for (const kt__task *t = s->running.head; t; t = t->next) {
        out->n_running++;
        out->n_decoding += wants_step(t);
        add_load(out, t);
    }
    if (!s->in_flight) return;
    double left = s->prefill_us_tok - (double)s->batch_us / (double)s->batch_rows;
    out->flight_us_tok = left > 0 ? left : 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        group_of(out, t->priority, t->client->key)->n_flight_tok += s->batch[i].n;
    }
}

/* Weighted tokens that a client was served; one that comes begins beside the least served. */
static uint64_t served_of(const kt__sched_load *load, uint64_t client) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < load->n_groups; i++) {
        if (load->groups[i].client == client) return load->groups[i].served;
        if (load->groups[i].served < least) least = load->groups[i].served;
    }
    return least == UINT64_MAX ? 0 : least;
}

void kt__sched_load_add(kt__sched_load *load, const kt__wish *wish) {
    uint64_t served = served_of(load, wish->client);
    kt__load_group *g = group_of(load, wish->priority, wish->client);
    if (g->n_tasks == 0) g->served = served;
    g->n_tasks++;
    g->n_prompt_tok += wish->n_prompt;
    g->n_answer_tok += answer_tok(wish->n_predict);
}

/* How much of a group's work comes before the wish: all, nothing, or, of another client at the same
 * priority, what it may have until it is served as much as the wish's client will be by then. */
static double share_before(const kt__load_group *g, const kt__wish *wish, uint64_t served) {
    if (g->priority != wish->priority) return g->priority > wish->priority ? 1 : 0;
    if (g->client == wish->client) return 1;
    double work = (double)(g->n_prompt_tok + DECODE_WEIGHT * g->n_answer_tok);
    double until = (double)served + (double)wish->n_prompt +
                   (double)DECODE_WEIGHT * (double)answer_tok(wish->n_predict);
    double share = work > 0 ? (until - (double)g->served) / work : 1;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Prompts first come in turn, then the answers of all share the lanes. */
kt__forecast kt__sched_predict(const kt__sched_load *load, const kt__wish *wish) {
    double tasks = 0, answers = 0, prompt_tok = (double)wish->n_prompt, flight_us = 0;
    uint64_t served = served_of(load, wish->client);
    for (int i = 0; i < load->n_groups; i++) {
        const kt__load_group *g = &load->groups[i];
        double share = share_before(g, wish, served);
        tasks += share * g->n_tasks;
        answers += share * (double)g->n_answer_tok;
        prompt_tok += share * (double)g->n_prompt_tok;
        flight_us += (1 - share) * (double)g->n_flight_tok * load->flight_us_tok;
    }
    if (load->prefill_us_tok <= 0) return (kt__forecast){0, 0};
    double lanes = load->n_running + 1 < load->n_parallel ? load->n_running + 1 : load->n_parallel;
    double step = load->step_us + load->step_us_lane * lanes;
    double prompts = prompt_tok * load->prefill_us_tok + flight_us;
    if (load->n_decoding > 0 && load->gap_us > 0) {
        /* between two slices a decode step runs */
        double busy = load->step_us + load->step_us_lane * load->n_decoding;
        double slice = slice_between((double)load->gap_us, busy);
        prompts *= (slice + busy) / slice;
    }
    /* until enough of those before have ended, one after the other, for a lane to be free */
    double ends = tasks - load->n_parallel + 1, wait = 0;
    if (ends > 0) wait = ends * (answers / tasks) * step / load->n_parallel;
    double first = wait + prompts + step;
    double all = first + step * (double)(wish->n_predict > 1 ? wish->n_predict - 1 : 0);
    return (kt__forecast){(int64_t)first, (int64_t)all};
}
