/* What the scheduler asks for, and what it is told: its operations, its sizes, its counts.
 *
 * Owns: types only. The runner (runner.h) implements the operations on a model, tests on numbers.
 * All calls with the engine's turn. */
#ifndef KT_SCHED_SCHED_OPS_H
#define KT_SCHED_SCHED_OPS_H

#include "sched/optimizer.h"
#include "sched/task.h"

/* Positions [task->n_done, task->n_done + n) in a prompts' batch. */
typedef struct kt__slice {
    kt__task *task;
    int32_t n;
} kt__slice;

/* What the scheduler decides over. `user` comes first in each call. */
typedef struct kt__sched_ops {
    int64_t (*now_us)(void *user);
    /* The task gets a lane; with n_done 0 it may find computed positions (n_done, loading). */
    void (*start)(void *user, kt__task *task);
    /* Loads further positions from a slower place for about until_us, n_done and loading change. */
    void (*load)(void *user, kt__task *task, int64_t until_us);
    /* dst, a sibling, shares what src has computed but its own last token: n_done = n_tok - 1. */
    void (*fork)(void *user, const kt__task *src, kt__task *dst);
    /* Pages for positions up to n_pos; false: none left. */
    bool (*reserve)(void *user, kt__task *task, int32_t n_pos);
    /* How many of the next n rows may be in a batch without the ones after them: fewer, or up to `most` more; 0: none.
     * NULL: all n. */
    int32_t (*fit)(void *user, const kt__task *task, int32_t n, int32_t most);
    /* So many pages are missing: makes older positions of tasks take less. Returns how many places became free, or with
     * wanted 0 how many could. NULL: it cannot. */
    int64_t (*press)(void *user, const kt__task_list *running, const kt__task_list *waiting,
                     int64_t wanted);
    /* Positions after the next one that a step would write, of proposals, which a task gets where pages can be pressed
     * for them. NULL: none. */
    int32_t (*ahead)(void *user, const kt__task *task);
    int64_t (*pages_left)(void *user); /* free, or given up when asked for */
    /* All there are; those that the task may come to have at most, which are more where it may be pressed. */
    int64_t (*pages_most)(void *user, const kt__task *task);
    void (*drop)(void *user, kt__task *task); /* gives all pages back: n_done = 0 */
    /* One step for each: position n_done is computed, then an answer's token is sampled: n_done and
     * n_tok grow (by more than one with speculation), or finish is set. false: it paused, for tasks
     * to end, and is to be called again with the same list, NULL in place of those that have. */
    bool (*decode)(void *user, kt__task *const *tasks, int n);
    /* A prompts' batch: begun, run until a time (true: done; the tasks' n_done have grown, and
     * those that are complete have a token more or a finish), or forgotten. */
    void (*prefill_begin)(void *user, const kt__slice *slices, int n);
    bool (*prefill_run)(void *user, int64_t until_us);
    void (*prefill_abort)(void *user);
    /* The longest time that the batch that was run last could not stop for; 0: not known. */
    int64_t (*prefill_unit_us)(void *user);
    /* The task leaves the batch in flight, which continues without touching its pages. */
    void (*prefill_leave)(void *user, kt__task *task);
    /* The controller did something; NULL: nobody wants to know. */
    void (*adjusted)(void *user, kt_action action, const kt__optimizer *now);
    void (*end)(void *user, kt__task *task);     /* its last event */
    void (*release)(void *user, kt__task *task); /* gives back everything; the task is gone */
} kt__sched_ops;

typedef struct kt__sched_params {
    int n_parallel; /* lanes */
    int n_rows;     /* of a prompts' batch */
    int n_out;      /* rows of a prompts' batch that may want logits */
    int page_pos;   /* positions of a page */
    int64_t gap_us; /* aim for the longest pause of a running answer */
    kt__optimizer_params optimizer;
    double unit_share; /* of a prompts' batch's time, between two chances to stop; a first guess */
} kt__sched_params;

typedef struct kt__sched_counts {
    int n_running, n_waiting, n_held, n_clients; /* waiting: siblings and suspended ones too */
    uint64_t n_preempted, n_recomputed_tok;
    uint64_t n_prefill_batches, n_decode_batches, n_prefill_tok;
    int64_t prefill_us, decode_us;
    int n_lanes; /* that the controller allows now */
    int64_t gap_us;
    uint64_t n_actions[KT_ACTION_COUNT];
} kt__sched_counts;

#endif
