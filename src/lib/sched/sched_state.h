/* Inside of the scheduler: the state that its files share.
 *
 * Owns: the layout of kt__sched. Which file has what:
 *   task.c            tasks and lists of them
 *   optimizer.c       how many lanes and how long a gap are allowed
 *   sched.c           the policy: clients, costs, lanes, prefill batches, decode steps, the step as a whole
 *   sched_forecast.c  when a request would end, from a copy of the figures, and whether another answer's keys and values
 *                     find room
 * The rest of the engine sees sched.h only.
 * One thread at a time. */
#ifndef KT_SCHED_SCHED_STATE_H
#define KT_SCHED_SCHED_STATE_H

#include "sched/sched_ops.h"

typedef struct kt__sched kt__sched;
struct kt__sched {
    kt__sched_params p;
    kt__sched_ops ops;
    void *user;
    kt__task_list waiting; /* SIBLING, WAITING, PARKED */
    kt__task_list running; /* RUNNING */
    kt__client *clients;
    int n_clients, n_active; /* known; with tasks */
    kt__slice *batch;        /* [n_parallel] */
    int n_batch;
    bool in_flight;
    int32_t batch_rows;
    int64_t batch_us;
    kt__task **step; /* [n_parallel] of the step at hand; NULL: ended in the midst of it */
    int n_step;
    kt__task **order;   /* [n_parallel] scratch */
    double fair_served; /* tokens, weighted, of a client with its fair share */
    uint64_t serial;
    int64_t costly_from_us;             /* before that no costly answer joins others in a step */
    double prefill_us_tok, unit_us_tok; /* unit: what a batch cannot stop for; 0: not measured */
    /* decode steps: time over the speed that the processor has now, as a line over the number of
     * lanes, by exponentially forgotten sums */
    double step_speed, sum_w, sum_n, sum_nn, sum_t, sum_nt;
    double answer_tok; /* of an answer that ended, lately; 0: none has */
    kt__sched_counts counts;
    kt__optimizer optimizer; /* how many lanes and how long a gap are allowed now */
};

static inline int64_t kt__sched_now(const kt__sched *s) {
    return s->ops.now_us(s->user);
}

static inline int kt__sched_lanes_used(const kt__sched *s) {
    return s->running.n;
}

/* Whether the store of keys and values has room for another answer.
 *
 * What answers are expected to come to, and the decision. With the controller an answer begins only where all that
 * run can be expected to end within the share of memory that it may use: suspended ones would be computed again. One
 * thread at a time. */

static inline int64_t kt__sched_pages_of(const kt__sched *s, int64_t n_pos) {
    return (n_pos + s->p.page_pos - 1) / s->p.page_pos;
}

/* Whether pages are there for the task, without suspending anybody. */
bool kt__room_for(const kt__sched *sched, const kt__task *task);
/* A task ended. */
void kt__room_note_end(kt__sched *sched, const kt__task *task);

#endif
