/* Inside of the scheduler: what its files share.
 *
 * Owns: the layout of kt__sched. sched.c has clients, the life and end of tasks, and decode steps;
 * sched_lanes.c who runs and who is suspended; sched_batch.c prompts' batches and their slices;
 * sched_forecast.c predictions. One thread at a time. */
#ifndef KT_ENGINE_SCHED_IMPL_H
#define KT_ENGINE_SCHED_IMPL_H

#include "engine/sched.h"

enum { KT__DECODE_WEIGHT = 2 }; /* a sampled token counts as so many prompt tokens */

typedef struct kt__task_list {
    kt__task *head, *tail;
    int n;
} kt__task_list;

struct kt__sched {
    kt__sched_params p;
    kt__sched_ops ops;
    void *user;
    kt__task_list waiting; /* SIBLING, WAITING, PARKED */
    kt__task_list running; /* RUNNING */
    kt__client *clients;
    int n_clients;
    kt__slice *batch; /* [n_parallel] */
    int n_batch;
    bool in_flight, hold_prompts;
    int32_t batch_rows;
    int64_t batch_us;
    kt__task **step; /* [n_parallel] of the step at hand; NULL: ended in the midst of it */
    int n_step;
    kt__task **order; /* [n_parallel] scratch */
    uint64_t serial;
    double prefill_us_tok, unit_us_tok; /* unit: what a batch cannot stop for; 0: not measured */
    /* decode steps: time as a line over the number of lanes, by exponentially forgotten sums */
    double sum_w, sum_n, sum_nn, sum_t, sum_nt;
    kt__sched_counts counts;
};

/* ---- sched.c ---- */

void kt__task_list_add(kt__task_list *list, kt__task *task);
void kt__task_list_remove(kt__task_list *list, kt__task *task);
static inline int64_t kt__sched_now(const kt__sched *s) {
    return s->ops.now_us(s->user);
}
static inline int kt__sched_lanes_used(const kt__sched *s) {
    return s->running.n;
}
/* Ends those that run and have a finish. */
void kt__sched_end_finished(kt__sched *s);
/* It goes into the next decode step. */
bool kt__task_wants_step(const kt__task *task);
/* A decode step's time as a line over the number of lanes, and with n of them; 0: not measured. */
void kt__sched_step_line(const kt__sched *s, double *fixed, double *per_lane);
double kt__sched_step_us(const kt__sched *s, int n);

/* ---- sched_lanes.c ---- */

bool kt__task_goes_before(const kt__task *a, const kt__task *b); /* a goes before b */
void kt__sched_admit(kt__sched *s);
/* Pages up to n_pos, from others if need be. false: the task cannot go on now; it is suspended
 * unless only a batch in flight is in the way, and ended where nothing will ever change. */
bool kt__sched_make_room(kt__sched *s, kt__task *task, int32_t n_pos);

/* ---- sched_batch.c ---- */

/* Out of the batch in flight, which goes on for the others if there are any: throwing it away for
 * one would let a client undo others' work. */
void kt__sched_leave_batch(kt__sched *s, kt__task *task);
/* A slice beside n_decoding answers; false: there is nothing to do. */
bool kt__sched_prefill_slice(kt__sched *s, int n_decoding);
/* A slice between decode steps of busy_us: what they leave of the gap between tokens, and where
 * they leave little half a step at least, so that prompts have a third of the time. */
double kt__sched_slice_between(double gap_us, double busy_us);

#endif
