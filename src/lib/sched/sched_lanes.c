#include "sched/sched_lanes.h"

enum { FAIR_QUANTUM = 256 }; /* weighted tokens that a client may be ahead before it is suspended */

/* ---- order ---- */

bool kt__task_goes_before(const kt__task *a, const kt__task *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->client != b->client && a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->serial < b->serial;
}

/* a is worth more than b when one of them has to go: shares do not count, or the two would take
 * turns in throwing each other out. A task whose reader is slow ranks last. */
static bool outranks(const kt__task *a, const kt__task *b) {
    if (a->held != b->held) return b->held;
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->serial < b->serial;
}

static kt__task *next_in_line(const kt__sched *s) {
    kt__task *best = NULL;
    for (kt__task *t = s->waiting.head; t; t = t->next) {
        if (t->state == KT__TASK_SIBLING || t->held) continue;
        if (!best || kt__task_goes_before(t, best)) best = t;
    }
    return best;
}

/* ---- suspending ---- */

static void park(kt__sched *s, kt__task *task) {
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
        if (!victim || outranks(victim, t)) victim = t;
    }
    if (!victim) {
        for (kt__task *t = s->running.head; t; t = t->next) {
            if (t == task || t->in_batch || t->lent || t->state != KT__TASK_RUNNING) continue;
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

bool kt__sched_make_room(kt__sched *s, kt__task *task, int32_t n_pos) {
    while (!s->ops.reserve(s->user, task, n_pos)) {
        if (take_pages_for(s, task)) continue;
        if (task->lent) {
            if (s->n_batch == 0) task->finish = KT_FINISH_ERROR;
            return false;
        }
        if (is_alone(s, task)) {
            bool never = pages_of(s, n_pos) > s->ops.pages_most(s->user);
            task->finish = never ? KT_FINISH_CONTEXT : KT_FINISH_ERROR;
            return false;
        }
        if (!s->in_flight || kt__sched_lanes_used(s) > s->n_batch + 1) {
            park(s, task);
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

/* Whether pages are there for all that is known of the task, without suspending anybody. */
static bool has_room(const kt__sched *s, const kt__task *task) {
    if (kt__sched_lanes_used(s) == 0 || task->state == KT__TASK_PARKED || task->lent) return true;
    return pages_of(s, (int64_t)task->n_tok + 1) <= s->ops.pages_left(s->user);
}

/* Which task would have to give a lane or pages to the candidate; NULL: none has to. */
static kt__task *who_yields(const kt__sched *s, const kt__task *candidate, bool pages) {
    kt__task *worst = NULL;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (t->in_batch || t->state != KT__TASK_RUNNING || (pages && t->lent)) continue;
        if (t->held) return t;
        if (!worst || kt__task_goes_before(worst, t)) worst = t;
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
        if (kt__sched_lanes_used(s) >= s->optimizer.n_now) return;
        if (t->state != KT__TASK_SIBLING || t->first->state != KT__TASK_RUNNING) continue;
        if (t->first->n_done < t->n_tok) continue;
        s->ops.fork(s->user, t->first, t);
        t->first = NULL;
        t->state = KT__TASK_PARKED; /* has pages */
        start_task(s, t);
    }
}

void kt__sched_admit(kt__sched *s) {
    start_siblings(s);
    for (int i = 0; i < s->optimizer.n_now; i++) {
        kt__task *candidate = next_in_line(s);
        if (!candidate) return;
        bool room = has_room(s, candidate);
        if (kt__sched_lanes_used(s) >= s->optimizer.n_now || !room) {
            kt__task *worst = who_yields(s, candidate, !room);
            if (!worst) return;
            if (!room && !worst->held && worst->priority >= candidate->priority) return;
            park(s, worst);
            if (!room) drop_pages(s, worst);
        }
        if (kt__sched_lanes_used(s) >= s->optimizer.n_now || !has_room(s, candidate)) return;
        start_task(s, candidate);
    }
}

void kt__sched_keep_to_lanes(kt__sched *s) {
    while (kt__sched_lanes_used(s) > s->optimizer.n_now) {
        kt__task *worst = NULL;
        for (kt__task *t = s->running.head; t; t = t->next) {
            if (t->in_batch || t->lent || t->state != KT__TASK_RUNNING) continue;
            if (!worst || outranks(worst, t)) worst = t;
        }
        if (!worst) return;
        park(s, worst);
    }
}
