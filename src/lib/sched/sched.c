#include "sched/sched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sched/sched_forecast.h"
#include "sched/sched_state.h"

/* ==== clients and their shares ==== */

enum { CLIENTS_KEPT = 256 }; /* remembered after their last task */

/* What a client that had its fair share all the while would have been served, as far as clients that
 * have something to do were served so much and so little. */
static uint64_t fair_served(const kt__sched *s) {
    uint64_t least = UINT64_MAX, most = 0, fair = (uint64_t)s->fair_served;
    for (const kt__client *c = s->clients; c; c = c->next) {
        if (c->n_tasks > 0 && c->served < least) least = c->served;
        if (c->n_tasks > 0 && c->served > most) most = c->served;
    }
    if (most == 0) return 0;
    return fair < least ? least : fair > most ? most : fair;
}

static void serve_client(kt__sched *s, kt__client *client, int32_t n) {
    client->served += (uint64_t)n;
    s->fair_served += (double)n / s->n_active;
}

/* Forgets the client without tasks that was served least. */
static void forget_client(kt__sched *s) {
    kt__client **worst = NULL;
    for (kt__client **at = &s->clients; *at; at = &(*at)->next) {
        bool nameless = !(*at)->name[0]; /* tasks without a client need it */
        if (!nameless && (*at)->n_tasks == 0 && (!worst || (*at)->served <= (*worst)->served))
            worst = at;
    }
    if (!worst) return;
    kt__client *gone = *worst;
    *worst = gone->next;
    kt__free(gone);
    s->n_clients--;
}

static kt__client *find_client(const kt__sched *s, const char *name) {
    kt__client *c = s->clients;
    while (c && strcmp(c->name, name) != 0) c = c->next;
    return c;
}

static void add_client(kt__sched *s, kt__client *c) {
    if (s->n_clients >= CLIENTS_KEPT) forget_client(s);
    c->key = kt__client_key(c->name);
    c->served = 0;
    c->n_tasks = c->n_running = 0;
    c->next = s->clients;
    s->clients = c;
    s->n_clients++;
}

/* For tasks without a client; false: no memory. */
static bool add_nameless_client(kt__sched *s) {
    kt__client *c = kt__calloc(1, sizeof *c + 1);
    if (c) add_client(s, c);
    return c != NULL;
}

/* task->client becomes the scheduler's: the one that it knows by that name, or this one. A client
 * that comes back begins with the fair share of those that were there: time away earns nothing, and
 * ever new clients do not keep one with a long answer from its share. */
static void join_client(kt__sched *s, kt__task *task) {
    kt__client *c = find_client(s, task->client ? task->client->name : "");
    if (!c) {
        c = task->client;
        add_client(s, c);
    } else {
        kt__free(task->client);
        task->client = c;
    }
    if (c->n_tasks == 0) {
        uint64_t fair = fair_served(s);
        if (c->served < fair) c->served = fair;
        s->fair_served = (double)fair;
        s->n_active++;
    }
    c->n_tasks++;
}

static void free_clients(kt__sched *s) {
    for (kt__client *c = s->clients; c;) {
        kt__client *next = c->next;
        kt__free(c);
        c = next;
    }
    s->clients = NULL;
}

/* ==== what computing costs, as measured ==== */

/* ---- decode steps ---- */

/* A step's time is the processor's speed now, which follows at once, times what so many lanes cost
 * next to others, which is learnt for longer: a processor that slows down makes no number of lanes
 * look dear. Least squares; with one number of lanes only, half of the time counts as fixed. false:
 * no step was measured. */
static bool relative_line(const kt__sched *s, double *fixed, double *per_lane) {
    *fixed = *per_lane = 0;
    if (s->sum_w <= 0) return false;
    double mean_n = s->sum_n / s->sum_w, mean_t = s->sum_t / s->sum_w;
    double var = s->sum_nn / s->sum_w - mean_n * mean_n;
    double cov = s->sum_nt / s->sum_w - mean_n * mean_t;
    *per_lane = var > 0.05 ? cov / var : mean_t / mean_n / 2;
    if (*per_lane < 0) *per_lane = 0;
    if (*per_lane > mean_t / mean_n) *per_lane = mean_t / mean_n;
    *fixed = mean_t - *per_lane * mean_n;
    return true;
}

/* Towards what this step says of it; a neighbour's burst is not the processor's speed. */
static void follow_speed(kt__sched *s, int n, double us) {
    const double rate = 0.25, most = 3;
    double fixed, per_lane;
    if (!relative_line(s, &fixed, &per_lane)) {
        s->step_speed = us;
        return;
    }
    double times = us / (s->step_speed * (fixed + per_lane * n));
    if (times > most) times = most;
    if (times > 0) s->step_speed *= 1 + rate * (times - 1);
}

/* A decode step of n lanes took us microseconds. */
static void measure_step(kt__sched *s, int n, int64_t us) {
    const double keep = 0.95;
    if (us <= 0) return;
    follow_speed(s, n, (double)us);
    double x = (double)n, t = (double)us / s->step_speed;
    s->sum_w = s->sum_w * keep + 1;
    s->sum_n = s->sum_n * keep + x;
    s->sum_nn = s->sum_nn * keep + x * x;
    s->sum_t = s->sum_t * keep + t;
    s->sum_nt = s->sum_nt * keep + x * t;
}

/* A decode step's time as a line over the number of lanes, and with n of them; 0: not measured. */
static void line_of_steps(const kt__sched *s, double *fixed, double *per_lane) {
    (void)relative_line(s, fixed, per_lane);
    *fixed *= s->step_speed;
    *per_lane *= s->step_speed;
}

static double time_of_step(const kt__sched *s, int n) {
    double fixed, per_lane;
    line_of_steps(s, &fixed, &per_lane);
    return fixed + per_lane * n;
}

/* ---- prompts' batches ---- */

static void average_towards(double *to, double us_tok, double weight) {
    *to = *to > 0 ? *to + weight * (us_tok - *to) : us_tok;
}

/* Small batches cost more a row and say little about large ones. */
static double weight_of_batch(const kt__sched *s) {
    return s->batch_rows >= s->p.n_rows / 4 ? 0.5 : 0.1;
}

static void measure_unit(kt__sched *s) {
    double unit_us = (double)s->ops.prefill_unit_us(s->user);
    if (unit_us > 0)
        average_towards(&s->unit_us_tok, unit_us / (double)s->batch_rows, weight_of_batch(s));
}

/* The prompts' batch at hand: all of it, where it was run to its end; the longest time that it
 * could not stop for, in any case. */
static void measure_batch(kt__sched *s) {
    average_towards(&s->prefill_us_tok, (double)s->batch_us / (double)s->batch_rows,
                    weight_of_batch(s));
}

/* ==== the end of tasks ==== */

/* Off the list, and given back to its owner. */
static void release_task(kt__sched *s, kt__task_list *list, kt__task *task) {
    kt__task_list_remove(list, task);
    s->ops.release(s->user, task);
}

/* Its siblings compute the prompt themselves, or find it in the cache. */
static void orphan_siblings(kt__sched *s, const kt__task *task) {
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->first != task) continue;
        t->first = NULL;
        t->state = KT__TASK_WAITING;
    }
}

/* The step at hand continues for the others. */
static void leave_step(kt__sched *s, const kt__task *task) {
    for (int i = 0; i < s->n_step; i++) {
        if (s->step[i] == task) s->step[i] = NULL;
    }
}

/* Out of the batch in flight, which continues for the others if there are any: throwing it away for
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
    kt__task_list *list = had_lane ? &s->running : &s->waiting;
    kt__task_charge(task, last, kt__sched_now(s));
    orphan_siblings(s, task);
    if (--task->client->n_tasks == 0) s->n_active--;
    if (had_lane) task->client->n_running--;
    if (task->in_batch) leave_batch(s, task);
    leave_step(s, task);
    task->state = KT__TASK_ENDED;
    kt__room_note_end(s, task);
    s->ops.end(s->user, task);
    release_task(s, list, task);
}

/* Ends those that run and have a finish. */
static void end_finished(kt__sched *s) {
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
static void reap_tasks(kt__sched *s) {
    int64_t t_us = kt__sched_now(s);
    reap_list(s, &s->running, t_us);
    reap_list(s, &s->waiting, t_us);
}

/* ==== who runs, who waits, who is suspended ==== */

enum { FAIR_QUANTUM = 256 }; /* weighted tokens that a client may be ahead before it is suspended */

/* ---- order ---- */

/* a goes before b */
static bool goes_before(const kt__task *a, const kt__task *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->client != b->client && a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->serial < b->serial;
}

/* a is worth more than b when one of them has to go: shares do not count, or the two would take
 * turns in throwing each other out. A task whose reader is slow ranks last. */
static bool is_worth_more(const kt__task *a, const kt__task *b) {
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

static void park_task(kt__sched *s, kt__task *task) {
    kt__task_charge(task, KT__ACCOUNT_WAIT, kt__sched_now(s));
    kt__task_list_remove(&s->running, task);
    task->state = KT__TASK_PARKED;
    task->client->n_running--;
    task->n_preempted++;
    s->counts.n_preempted++;
    kt__task_list_add(&s->waiting, task);
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
        if (t->state != KT__TASK_PARKED || t->n_done == 0 || t->lent) continue;
        if (!victim || is_worth_more(victim, t)) victim = t;
    }
    if (!victim) {
        for (kt__task *t = s->running.head; t; t = t->next) {
            if (t == task || t->in_batch || t->lent || t->state != KT__TASK_RUNNING) continue;
            if (is_worth_more(task, t) && (!victim || is_worth_more(victim, t))) victim = t;
        }
        if (!victim) return false;
        park_task(s, victim);
    }
    drop_pages(s, victim);
    return true;
}

/* Only what is held outside the scheduler's reach keeps the task from running. */
static bool is_alone(const kt__sched *s, const kt__task *task) {
    for (const kt__task *t = s->running.head; t; t = t->next) {
        if (t != task) return false;
    }
    for (const kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->state == KT__TASK_PARKED && t->n_done > 0) return false;
    }
    return true;
}

static bool press_pages(kt__sched *s, const kt__task *task, int32_t n_pos) {
    int64_t wanted = kt__sched_pages_of(s, n_pos) - kt__sched_pages_of(s, task->n_done);
    if (!s->ops.press || wanted <= 0) return false;
    return s->ops.press(s->user, &s->running, &s->waiting, wanted) > 0;
}

/* Whether the task may have more pages than there are in f16: then it continues with what it can get. */
static bool is_narrow(const kt__sched *s, const kt__task *task) {
    return s->ops.pages_most(s->user, task) > s->ops.pages_most(s->user, NULL);
}

/* Pages up to n_pos, from others if need be. false: the task cannot continue now; it is suspended
 * unless only a batch in flight is in the way, and ended where nothing will ever change, unless fewer
 * positions would do. A task on a sequence cannot give its own pages back: instead of being suspended
 * it ends at once. */
static bool make_room(kt__sched *s, kt__task *task, int32_t n_pos, bool fewer) {
    while (!s->ops.reserve(s->user, task, n_pos)) {
        if (press_pages(s, task, n_pos)) continue;
        if (take_pages_for(s, task)) continue;
        if (task->lent) {
            if (s->n_batch == 0) task->finish = KT_FINISH_ERROR;
            return false;
        }
        if (is_alone(s, task)) {
            if (fewer) return false;
            bool never = kt__sched_pages_of(s, n_pos) > s->ops.pages_most(s->user, task);
            task->finish = never ? KT_FINISH_CONTEXT : KT_FINISH_ERROR;
            return false;
        }
        if (!s->in_flight || kt__sched_lanes_used(s) > s->n_batch + 1) {
            park_task(s, task);
            drop_pages(s, task);
        }
        return false;
    }
    return true;
}

/* ---- admission ---- */

static void start_task(kt__sched *s, kt__task *task) {
    kt__task_charge(task, KT__ACCOUNT_QUEUE, kt__sched_now(s));
    kt__task_list_remove(&s->waiting, task);
    kt__task_list_add(&s->running, task);
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

/* Which task would have to give a lane or pages to the candidate; NULL: none has to. One whose work was
 * lost before keeps its lane from those of its priority: what is suspended may lose its pages to the
 * next one, and long prompts of several clients would throw each other out for ever. */
static kt__task *who_yields(const kt__sched *s, const kt__task *candidate, bool pages) {
    kt__task *worst = NULL;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (t->in_batch || t->state != KT__TASK_RUNNING || (pages && t->lent)) continue;
        if (t->held) return t;
        if (!worst || goes_before(worst, t)) worst = t;
    }
    if (!worst) return NULL;
    if (worst->priority != candidate->priority)
        return worst->priority < candidate->priority ? worst : NULL;
    const kt__client *mine = candidate->client, *theirs = worst->client;
    if (worst->n_recomputed > 0) return NULL;
    bool ahead = theirs->served > mine->served + FAIR_QUANTUM;
    return ahead && theirs->n_running > mine->n_running ? worst : NULL;
}

/* Where the first choice has computed the prompt, the others begin, as far as there are lanes. The
 * prompt's last token is left to them: its logits are what they draw from. */
static void start_siblings(kt__sched *s) {
    for (kt__task *t = s->waiting.head, *next; t; t = next) {
        next = t->next;
        if (kt__sched_lanes_used(s) >= s->optimizer.n_now) return;
        if (t->state != KT__TASK_SIBLING || t->first->state != KT__TASK_RUNNING) continue;
        if (t->first->n_done < t->n_tok) continue;
        s->ops.fork(s->user, t->first, t);
        t->first = NULL;
        t->state = KT__TASK_PARKED; /* has pages */
        start_task(s, t);
    }
}

static void tell_adjusted(kt__sched *s, kt_action action) {
    if (action != KT_ACTION_COUNT && s->ops.adjusted)
        s->ops.adjusted(s->user, action, &s->optimizer);
}

static bool has_room(kt__sched *s, const kt__task *candidate) {
    bool room = kt__room_for(s, candidate);
    int n = kt__sched_lanes_used(s);
    tell_adjusted(s, kt__optimizer_note_room(&s->optimizer, kt__sched_now(s), n, room));
    return room;
}

/* Lanes to those whose turn it is. */
static void admit_tasks(kt__sched *s) {
    start_siblings(s);
    for (int i = 0; i < s->optimizer.n_now; i++) {
        kt__task *candidate = next_in_line(s);
        if (!candidate) return;
        bool room = has_room(s, candidate);
        if (kt__sched_lanes_used(s) >= s->optimizer.n_now || !room) {
            kt__task *worst = who_yields(s, candidate, !room);
            if (!worst) return;
            if (!room && !worst->held && worst->priority >= candidate->priority) return;
            park_task(s, worst);
            if (!room) {
                drop_pages(s, worst);
                room = has_room(s, candidate);
            }
            if (kt__sched_lanes_used(s) >= s->optimizer.n_now || !room) return;
        }
        start_task(s, candidate);
    }
}

/* Suspends those that are worth least while more run than the controller allows; they keep their
 * pages, and continue in their turn. */
static void keep_to_lanes(kt__sched *s) {
    while (kt__sched_lanes_used(s) > s->optimizer.n_now) {
        kt__task *worst = NULL;
        for (kt__task *t = s->running.head; t; t = t->next) {
            if (t->in_batch || t->lent || t->state != KT__TASK_RUNNING) continue;
            if (!worst || is_worth_more(worst, t)) worst = t;
        }
        if (!worst) return;
        park_task(s, worst);
    }
}

/* ==== prefill batches: who is in one, and for how long a slice of it runs ==== */

enum {
    IDLE_SLICE_US = 50000, /* without running answers: how often cancels are looked at */
    MIN_ROWS = 32,         /* of a batch that is cut small for the gap's sake */
    FIRST_ROWS = 128,      /* of the first batch: nothing is known of the machine */
    MOST_UNIT_US = 60000,  /* that a batch may not be able to stop for: cancels wait for it */
    MIN_CHUNK = 16         /* of a prompt, but its end */
};

/* ---- who is in it ---- */

static bool is_shorter(const kt__task *a, const kt__task *b) {
    int32_t left_a = a->n_tok - a->n_done, left_b = b->n_tok - b->n_done;
    return left_a != left_b ? left_a < left_b : a->serial < b->serial;
}

/* The tasks that want rows, as they take turns. Insertion sort: a few lanes. */
static int line_up(kt__sched *s, bool (*before)(const kt__task *, const kt__task *)) {
    int n = 0;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (!kt__task_wants_prefill(t)) continue;
        int at = n++;
        for (; at > 0 && before(t, s->order[at - 1]); at--) s->order[at] = s->order[at - 1];
        s->order[at] = t;
    }
    return n;
}

/* Rows of a batch: few enough that one indivisible part of it, which a slice may overrun by, is a
 * third of a slice at most, and that a cancel is not waited for. */
static int32_t rows_for(const kt__sched *s, bool others_wait, int64_t slice_us) {
    int32_t rows = s->p.n_rows;
    double unit_us = s->unit_us_tok > 0 ? s->unit_us_tok : s->prefill_us_tok * s->p.unit_share;
    if (unit_us <= 0) return rows < FIRST_ROWS ? rows : FIRST_ROWS;
    double most_us = others_wait && slice_us / 3 < MOST_UNIT_US ? (double)slice_us / 3
                                                                : MOST_UNIT_US;
    double most = most_us / unit_us;
    if (most < (double)rows) rows = (int32_t)most / MIN_CHUNK * MIN_CHUNK;
    int32_t least = s->p.n_rows < MIN_ROWS ? s->p.n_rows : MIN_ROWS;
    return rows < least ? least : rows;
}

static bool may_join(const kt__sched *s, const kt__task *task) {
    return s->n_batch == 0 ||
           kt__task_wants_logits(s->batch[0].task) == kt__task_wants_logits(task);
}

/* Rows of the batch that want a place for their logits. */
static int32_t n_out_rows(const kt__sched *s) {
    int32_t n = 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        if (kt__task_wants_all_logits(t)) {
            n += s->batch[i].n;
        } else {
            n += t->n_done + s->batch[i].n == t->n_tok;
        }
    }
    return n;
}

/* The number nearest to n of its next rows that leaves together what has to be; n_has: rows in the batch
 * already. */
static int32_t whole_rows(const kt__sched *s, const kt__task *task, int32_t n, int32_t n_has) {
    if (!s->ops.fit || n <= 0) return n;
    return s->ops.fit(s->user, task, n, s->p.n_rows - s->batch_rows + n_has);
}

/* Room for the next n of its rows, or, where it is alone and all of them would be too many, for fewer. Returns how
 * many; 0: none. */
static int32_t make_room_for_rows(kt__sched *s, kt__task *task, int32_t n) {
    for (int32_t fewer;; n = fewer) {
        int32_t page_end = s->p.page_pos - task->n_done % s->p.page_pos;
        fewer = n > page_end && is_narrow(s, task)
                    ? whole_rows(s, task, n / 2 > page_end ? n / 2 : page_end, 0)
                    : 0;
        if (fewer >= n) fewer = 0;
        if (make_room(s, task, task->n_done + n, fewer > 0)) return n;
        if (fewer <= 0 || task->finish != KT_FINISH_NONE || !is_alone(s, task)) return 0;
    }
}

/* Rows of one task into the batch, as many as fit, none rather than a crumb. */
static void take_rows(kt__sched *s, kt__task *task, int32_t room) {
    int32_t n = task->n_tok - task->n_done;
    if (task->whole && (s->n_batch == 0 || n > room)) room = s->n_batch == 0 ? n : 0;
    if (task->in_batch || !kt__task_wants_prefill(task) || !may_join(s, task)) return;
    int32_t outs = s->p.n_out - n_out_rows(s);
    if (kt__task_wants_all_logits(task) && room > outs) room = outs;
    if (n > room) n = room;
    n = whole_rows(s, task, n, 0);
    bool complete = task->n_done + n == task->n_tok;
    if (n <= 0 || (!complete && n < MIN_CHUNK && s->n_batch > 0)) return;
    if (complete && outs <= 0) return;
    n = make_room_for_rows(s, task, n);
    if (n == 0) return;
    task->in_batch = true;
    s->batch[s->n_batch++] = (kt__slice){task, n};
    s->batch_rows += n;
}

/* What is left over goes to the first again, after its own rows. */
static void extend_first(kt__sched *s, int32_t room) {
    if (s->n_batch == 0 || room <= 0) return;
    kt__slice *first = &s->batch[0];
    kt__task *task = first->task;
    int32_t more = task->n_tok - task->n_done - first->n;
    if (more > room) more = room;
    more = whole_rows(s, task, first->n + more, first->n) - first->n;
    bool complete = first->n + more == task->n_tok - task->n_done;
    if (more <= 0 || kt__task_wants_all_logits(task)) return;
    if (complete && n_out_rows(s) >= s->p.n_out) return;
    if (!s->ops.reserve(s->user, task, task->n_done + first->n + more)) return;
    first->n += more;
    s->batch_rows += more;
}

/* Calls on sequences are waited for, each by its owner: without others to consider, their batches
 * are as large as can be. */
static bool all_are_lent(const kt__sched *s, int n) {
    for (int i = 0; i < n; i++) {
        if (!s->order[i]->lent) return false;
    }
    return true;
}

/* Half of a batch belongs to the one whose turn it is, the rest to the shortest prompts: those do
 * not wait after a long one, and it is not starved by them. */
static void pack_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    s->n_batch = 0;
    s->batch_rows = 0;
    s->batch_us = 0;
    int n = line_up(s, goes_before);
    if (n == 0) return;
    bool whole = !others_wait && all_are_lent(s, n);
    int32_t rows = whole ? s->p.n_rows : rows_for(s, others_wait, slice_us);
    take_rows(s, s->order[0], n > 1 ? (rows + 1) / 2 : rows);
    n = line_up(s, is_shorter);
    for (int i = 0; i < n && s->n_batch < s->p.n_parallel; i++)
        take_rows(s, s->order[i], rows - s->batch_rows);
    extend_first(s, rows - s->batch_rows);
}

static void begin_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    pack_batch(s, others_wait, slice_us);
    if (s->n_batch == 0) return;
    s->in_flight = true;
    for (int i = 0; i < s->n_batch; i++) serve_client(s, s->batch[i].task->client, s->batch[i].n);
    s->ops.prefill_begin(s->user, s->batch, s->n_batch);
}

static void charge_batch(kt__sched *s, kt__account account) {
    int64_t t_us = kt__sched_now(s);
    for (int i = 0; i < s->n_batch; i++) kt__task_charge(s->batch[i].task, account, t_us);
}

static bool was_broken_off(const kt__sched *s) {
    for (int i = 0; i < s->n_batch; i++) {
        kt_finish finish = s->batch[i].task->finish;
        if (finish == KT_FINISH_CANCELLED || finish == KT_FINISH_ERROR) return true;
    }
    return false;
}

static void complete_batch(kt__sched *s) {
    if (!was_broken_off(s)) measure_batch(s);
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
    int64_t begin_us = kt__sched_now(s);
    bool done = s->ops.prefill_run(s->user, until_us);
    int64_t took_us = kt__sched_now(s) - begin_us;
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
        kt__task_charge(t, KT__ACCOUNT_WAIT, kt__sched_now(s));
        s->ops.load(s->user, t, until_us);
        kt__task_charge(t, KT__ACCOUNT_PREFILL, kt__sched_now(s));
        if (kt__sched_now(s) >= until_us) break;
    }
    return any;
}

static int64_t slice_beside(const kt__sched *s, int n_decoding) {
    if (n_decoding == 0) return IDLE_SLICE_US;
    return (int64_t)kt__sched_slice_between((double)s->optimizer.gap_now_us,
                                            time_of_step(s, n_decoding));
}

/* A slice next to n_decoding answers; false: there is nothing to do. */
static bool prefill_slice(kt__sched *s, int n_decoding) {
    int64_t slice_us = slice_beside(s, n_decoding);
    int64_t until_us = kt__sched_now(s) + slice_us;
    bool loaded = load_some(s, until_us);
    if (!s->in_flight) begin_batch(s, n_decoding > 0, slice_us);
    end_finished(s);
    if (!s->in_flight) return loaded;
    run_batch(s, until_us);
    return true;
}

/* ==== the scheduler ==== */

/* ---- life ---- */

kt_status kt__sched_create(const kt__sched_params *params, const kt__sched_ops *ops, void *user,
                           kt__sched **out, kt_error *err) {
    *out = NULL;
    kt__sched *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the scheduler", sizeof *s);
    s->p = *params;
    s->ops = *ops;
    s->user = user;
    kt__optimizer_params optimizer = params->optimizer;
    optimizer.n_most = params->n_parallel;
    optimizer.gap_most_us = params->gap_us;
    kt__optimizer_init(&s->optimizer, &optimizer);
    size_t n = (size_t)params->n_parallel;
    s->batch = kt__calloc(n, sizeof *s->batch);
    s->step = kt__calloc(n, sizeof *s->step);
    s->order = kt__calloc(n, sizeof *s->order);
    if (!s->batch || !s->step || !s->order || !add_nameless_client(s)) {
        kt__sched_destroy(s);
        return kt__fail_nomem(err, "the scheduler's lanes", n * sizeof *s->batch);
    }
    *out = s;
    return KT_OK;
}

void kt__sched_destroy(kt__sched *s) {
    if (!s) return;
    if (s->in_flight) s->ops.prefill_abort(s->user);
    while (s->running.head) release_task(s, &s->running, s->running.head);
    while (s->waiting.head) release_task(s, &s->waiting, s->waiting.head);
    free_clients(s);
    kt__free(s->batch);
    kt__free(s->step);
    kt__free(s->order);
    kt__free(s);
}

void kt__sched_set_rows(kt__sched *s, int n_rows) {
    s->p.n_rows = n_rows;
}

void kt__sched_add(kt__sched *s, kt__task *task) {
    task->state = task->first ? KT__TASK_SIBLING : KT__TASK_WAITING;
    task->serial = ++s->serial;
    task->n_begin = task->n_tok;
    task->since_us = task->arrival_us;
    join_client(s, task);
    kt__task_list_add(&s->waiting, task);
}

static void set_finish(const kt__task_list *list, kt_finish finish, bool lent_too) {
    for (kt__task *t = list->head; t; t = t->next) {
        if (t->finish == KT_FINISH_NONE && (lent_too || !t->lent)) t->finish = finish;
    }
}

void kt__sched_end_all(kt__sched *s, kt_finish finish, bool lent_too) {
    set_finish(&s->running, finish, lent_too);
    set_finish(&s->waiting, finish, lent_too);
    reap_tasks(s);
}

/* ---- decode steps ---- */

enum {
    COSTLY_US = 2000, /* work of one answer for a token that others are kept from */
    FELT_US = 16000,  /* and that may not be in more gaps than one in RARE_STEPS */
    COSTLY_SHARE = 8, /* times its work that others have in between */
    RARE_STEPS = 128,
    PAUSE_MAX_US = 2000000
};

/* Its own work for a token would be felt by the others of a step. A call's owner waits for nothing
 * else. */
static bool is_costly(const kt__task *t) {
    return !t->lent && t->costly_us + t->cost_us > COSTLY_US;
}

/* One answer's own work is the gap of all others: among others, one costly answer joins a step at a
 * time, the one that waited longest, and only where the last one's work has been paid for. */
static int thin_out(kt__sched *s, int n) {
    kt__task *turn = NULL;
    int n_cheap = 0, kept = 0;
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        n_cheap += !is_costly(t);
        if (is_costly(t) && (!turn || t->stepped_us < turn->stepped_us)) turn = t;
    }
    if (!turn || n_cheap == 0) return n;
    if (kt__sched_now(s) < s->costly_from_us) turn = NULL;
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (!is_costly(t) || t == turn) s->step[kept++] = t;
    }
    return kept;
}

/* A costly answer leaves the most of the time to others: eight times its work, and where that is more
 * than a gap may grow by, so many steps that a hundredth of the gaps have it. Returns its work. */
static int64_t note_costs(kt__sched *s, int n, int64_t took_us) {
    int64_t cost_us = 0, now_us = kt__sched_now(s);
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (!t) continue;
        cost_us += t->cost_us;
        t->costly_us -= t->costly_us / 8;
        if (t->cost_us > t->costly_us) t->costly_us = t->cost_us;
        t->cost_us = 0;
        t->stepped_us = now_us;
    }
    if (cost_us <= COSTLY_US) return cost_us;
    int64_t pause_us = COSTLY_SHARE * cost_us, many_us = RARE_STEPS * (took_us - cost_us);
    if (cost_us > FELT_US && many_us > pause_us) pause_us = many_us;
    s->costly_from_us = now_us + (pause_us < PAUSE_MAX_US ? pause_us : PAUSE_MAX_US);
    return cost_us;
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
    return thin_out(s, n);
}

/* A full store has no page for proposals that reach into the next one, and every other step would be without. */
static void make_room_ahead(kt__sched *s, kt__task *task) {
    int32_t n = s->ops.ahead ? s->ops.ahead(s->user, task) : 0, n_pos = task->n_done + 1 + n;
    if (n > 0 && !s->ops.reserve(s->user, task, n_pos)) (void)press_pages(s, task, n_pos);
}

static int reserve_step(kt__sched *s, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (kt__task_wants_step(t) && make_room(s, t, t->n_done + 1, false)) make_room_ahead(s, t);
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
    end_finished(s);
    if (n == 0) return 0;
    int64_t begin_us = kt__sched_now(s);
    for (int i = 0; i < n; i++) {
        serve_client(s, s->step[i]->client, KT__DECODE_WEIGHT);
        kt__task_charge(s->step[i], KT__ACCOUNT_WAIT, begin_us);
    }
    s->n_step = n;
    while (!s->ops.decode(s->user, s->step, n)) reap_tasks(s);
    int64_t took_us = kt__sched_now(s) - begin_us;
    int64_t cost_us = note_costs(s, n, took_us);
    if (!has_left(s)) measure_step(s, n, took_us - cost_us);
    s->n_step = 0;
    s->counts.n_decode_batches++;
    s->counts.decode_us += took_us;
    end_finished(s);
    return n;
}

static void note_optimizer(kt__sched *s, int n, int64_t step_us, int64_t slice_us) {
    kt__optimizer_step step = {.now_us = kt__sched_now(s),
                               .n_decoding = n,
                               .step_us = step_us,
                               .slice_us = slice_us,
                               .waits = s->waiting.n > 0};
    line_of_steps(s, &step.fixed, &step.lane);
    kt_action action = kt__optimizer_note(&s->optimizer, &step);
    if (action == KT_ACTION_COUNT) return;
    keep_to_lanes(s);
    tell_adjusted(s, action);
}

bool kt__sched_step(kt__sched *s) {
    reap_tasks(s);
    admit_tasks(s);
    int64_t begin_us = kt__sched_now(s);
    int n = decode_step(s);
    int64_t between_us = kt__sched_now(s);
    bool prefilled = prefill_slice(s, n);
    if (s->optimizer.p.on && n > 0)
        note_optimizer(s, n, between_us - begin_us, prefilled ? kt__sched_now(s) - between_us : 0);
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
    out->n_lanes = kt__optimizer_lanes(&s->optimizer);
    out->gap_us = s->optimizer.gap_now_us;
    memcpy(out->n_actions, s->optimizer.n_actions, sizeof out->n_actions);
    out->n_clients = s->n_active;
    out->n_held = 0;
    for (const kt__task *t = s->running.head; t; t = t->next) out->n_held += t->held;
}

static void add_task_load(kt__sched_load *out, const kt__task *t) {
    kt__load_group *g = kt__load_group_of(out, t->priority, t->client->key);
    int64_t pending = t->n_tok - t->n_done;
    g->served = t->client->served;
    g->n_tasks++;
    if (pending > 1 && t->state != KT__TASK_SIBLING) g->n_prompt_tok += pending;
    if (t->kind == KT__TASK_ANSWER) g->n_answer_tok += kt__load_answer_tok(t->n_predict);
}

void kt__sched_get_load(const kt__sched *s, kt__sched_load *out) {
    *out = (kt__sched_load){.n_parallel = s->optimizer.n_now,
                            .fair_served = fair_served(s),
                            .prefill_us_tok = s->prefill_us_tok,
                            .gap_us = s->optimizer.gap_now_us};
    line_of_steps(s, &out->step_us, &out->step_us_lane);
    for (const kt__task *t = s->waiting.head; t; t = t->next) add_task_load(out, t);
    for (const kt__task *t = s->running.head; t; t = t->next) {
        out->n_running++;
        out->n_decoding += kt__task_wants_step(t);
        add_task_load(out, t);
    }
    if (!s->in_flight) return;
    double left = s->prefill_us_tok - (double)s->batch_us / (double)s->batch_rows;
    out->flight_us_tok = left > 0 ? left : 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        kt__load_group_of(out, t->priority, t->client->key)->n_flight_tok += s->batch[i].n;
    }
}
