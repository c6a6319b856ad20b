#include "sched/sched_end.h"

#include "sched/sched_costs.h"

void kt__sched_release_task(kt__sched *s, kt__task_list *list, kt__task *task) {
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

/* The step at hand goes on for the others. */
static void leave_step(kt__sched *s, const kt__task *task) {
    for (int i = 0; i < s->n_step; i++) {
        if (s->step[i] == task) s->step[i] = NULL;
    }
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
        kt__sched_measure_unit(s);
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
    task->client->n_tasks--;
    if (had_lane) task->client->n_running--;
    if (task->in_batch) leave_batch(s, task);
    leave_step(s, task);
    task->state = KT__TASK_ENDED;
    s->ops.end(s->user, task);
    kt__sched_release_task(s, list, task);
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

void kt__sched_reap(kt__sched *s) {
    int64_t t_us = kt__sched_now(s);
    reap_list(s, &s->running, t_us);
    reap_list(s, &s->waiting, t_us);
}
