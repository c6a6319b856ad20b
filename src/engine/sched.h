/* The scheduler's policy: who runs, who waits, who is suspended, and for how long a prompt may be
 * computed before running answers get their next token.
 *
 * Owns: the order of tasks (a task is one choice of a request), clients and their shares, lanes,
 * the prompts' batch in flight, measured rates and the predictions made from them. Knows positions
 * and times only: what a token is, where K/V pages lie and how a batch is run is behind
 * kt__sched_ops, so that tests drive it with a clock and a model of their own.
 *
 * One thread at a time (the engine's lock). No allocation after creation.
 *
 * A task computes positions [n_done, n_tok) and then gets a token more, n_tok + 1. With one
 * position to compute it goes into a decode step, with more into a prompts' batch. Tasks: SIBLING
 * waits until the request's first choice has computed the prompt they share WAITING  holds no page
 * PARKED   suspended, keeps its pages until others need them RUNNING  has a lane           ENDED
 * its last event is out
 *
 * Order: priority; then the client that was served least, in tokens (virtual token counters, Sheng
 * et al. 2024, "Fairness in serving large language models"); then arrival. */
#ifndef KT_ENGINE_SCHED_H
#define KT_ENGINE_SCHED_H

#include <kentang.h>
#include <stdatomic.h>

typedef enum kt__task_state {
    KT__TASK_NEW,
    KT__TASK_SIBLING,
    KT__TASK_WAITING,
    KT__TASK_PARKED,
    KT__TASK_RUNNING,
    KT__TASK_ENDED
} kt__task_state;

/* Where a task's time goes; between two charges it is all in one place. */
typedef enum kt__account {
    KT__ACCOUNT_QUEUE,
    KT__ACCOUNT_PREFILL,
    KT__ACCOUNT_DECODE,
    KT__ACCOUNT_SAMPLE,
    KT__ACCOUNT_WAIT,
    KT__ACCOUNT_HELD,
    KT__ACCOUNTS
} kt__account;

typedef struct kt__client kt__client;
struct kt__client {
    kt__client *next;
    uint64_t served; /* tokens, weighted */
    uint64_t key;    /* kt__client_key of its name */
    int n_tasks, n_running;
    char name[]; /* NUL-terminated */
};

uint64_t kt__client_key(const char *name);

typedef struct kt__task kt__task;
struct kt__task {
    /* the owner's, before it is added */
    kt__task *first; /* the choice that computes the prompt for this one; NULL: it does so itself */
    const atomic_bool *cancel;
    kt__client *client; /* with its name; taken over by the scheduler or, where it knows the name,
                           replaced and freed */
    int32_t priority;
    int64_t arrival_us, deadline_us; /* INT64_MAX: none */
    int32_t n_tok;                   /* known tokens */
    int32_t n_predict;               /* tokens that may come; for predictions */
    bool embed;                      /* ends when all is computed */
    /* the operations' */
    int32_t n_done;   /* computed positions, from the start */
    kt_finish finish; /* not NONE: to be ended */
    atomic_bool held; /* its reader does not keep up: no decode step */
    bool loading;     /* kt__sched_ops.load has more to do */
    /* the scheduler's */
    kt__task *prev, *next;
    kt__task_state state;
    uint64_t serial;
    bool in_batch, started;
    int32_t n_preempted, n_recomputed;
    int32_t n_lost;   /* positions given back when it was suspended */
    int64_t since_us; /* of the last charge */
    int64_t us[KT__ACCOUNTS];
};

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
    int64_t (*pages_left)(void *user);        /* free, or given up when asked for */
    int64_t (*pages_most)(void *user);        /* all there are */
    void (*drop)(void *user, kt__task *task); /* gives all pages back: n_done = 0 */
    /* One step for each: position n_done is computed, then a token sampled: n_done and n_tok grow
     * (by more than one with speculation), or finish is set. false: it paused, for tasks to end,
     * and is to be called again with the same list, NULL in place of those that have. */
    bool (*decode)(void *user, kt__task *const *tasks, int n);
    /* A prompts' batch: begun, run until a time (true: done; the tasks' n_done have grown, and
     * those that are complete have a token more or a finish), or forgotten. */
    void (*prefill_begin)(void *user, const kt__slice *slices, int n);
    bool (*prefill_run)(void *user, int64_t until_us);
    void (*prefill_abort)(void *user);
    /* The longest time that the batch that was run last could not stop for; 0: not known. */
    int64_t (*prefill_unit_us)(void *user);
    /* The task leaves the batch in flight, which goes on without touching its pages. */
    void (*prefill_leave)(void *user, kt__task *task);
    void (*end)(void *user, kt__task *task);     /* its last event */
    void (*release)(void *user, kt__task *task); /* gives back everything; the task is gone */
} kt__sched_ops;

typedef struct kt__sched_params {
    int n_parallel;    /* lanes */
    int n_rows;        /* of a prompts' batch */
    int n_out;         /* tasks of a prompts' batch that may become complete */
    int page_pos;      /* positions of a page */
    int64_t gap_us;    /* aim for the longest pause of a running answer */
    double unit_share; /* of a prompts' batch's time, between two chances to stop; a first guess */
} kt__sched_params;

enum { KT__SCHED_LANES_MAX = 1024 };

/* What one client has to do at one priority. */
typedef struct kt__load_group {
    int32_t priority;
    uint64_t client, served; /* kt__client_key; tokens, weighted */
    int n_tasks;
    int64_t n_prompt_tok; /* not computed yet */
    int64_t n_flight_tok; /* of these, in the batch in flight */
    int64_t n_answer_tok; /* that may come; open ends counted as usual ones */
} kt__load_group;

enum { KT__LOAD_GROUPS = 32 }; /* further clients are added to others of their priority */

/* How busy it is: enough to predict. Plain data. */
typedef struct kt__sched_load {
    int n_parallel, n_running, n_decoding;
    double prefill_us_tok, step_us,
        step_us_lane; /* a decode step takes step_us + n * step_us_lane */
    int64_t gap_us;
    double flight_us_tok; /* what is left of the batch in flight, per token */
    kt__load_group groups[KT__LOAD_GROUPS];
    int n_groups;
} kt__sched_load;

typedef struct kt__sched kt__sched;

kt_status kt__sched_create(const kt__sched_params *params, const kt__sched_ops *ops, void *user,
                           kt__sched **out, kt_error *err) __attribute__((warn_unused_result));
/* Releases (without an event) what is left. */
void kt__sched_destroy(kt__sched *sched);
/* The task stays the owner's, at its place, until `release`. */
void kt__sched_add(kt__sched *sched, kt__task *task);
/* One decode step and one slice of a prompts' batch, or less where there is less to do. false:
 * nothing could run. */
bool kt__sched_step(kt__sched *sched);
/* A slice of the batch in flight; false: there is none any more. */
bool kt__sched_run_batch(kt__sched *sched);
/* From now on no prompts' batch is begun, or they are again. */
void kt__sched_hold_prompts(kt__sched *sched, bool hold);
/* What may be computed at one go beside the running answers: time, and rows of a batch. */
int64_t kt__sched_slice_us(const kt__sched *sched);
int32_t kt__sched_slice_rows(const kt__sched *sched);
/* Sets finish of every task, and lets go of them. */
void kt__sched_end_all(kt__sched *sched, kt_finish finish);

typedef struct kt__sched_counts {
    int n_running, n_waiting, n_held, n_clients; /* waiting: siblings and suspended ones too */
    uint64_t n_preempted, n_recomputed_tok;
    uint64_t n_prefill_batches, n_decode_batches, n_prefill_tok;
    int64_t prefill_us, decode_us;
} kt__sched_counts;
void kt__sched_get_counts(const kt__sched *sched, kt__sched_counts *out);
int kt__sched_n_tasks(const kt__sched *sched); /* not ended */
void kt__sched_get_load(const kt__sched *sched, kt__sched_load *out);

/* A request: what will be asked for. */
typedef struct kt__wish {
    int32_t priority;
    uint64_t client; /* kt__client_key */
    int64_t n_prompt, n_predict;
} kt__wish;

/* One more that waits. */
void kt__sched_load_add(kt__sched_load *load, const kt__wish *wish);

/* Microseconds until a request submitted now would have its first token and all of n_predict
 * tokens, by what would run before it: the batch in flight, what has a higher priority, what its
 * client asked for earlier, and of other clients what fair shares let them have until then. 0 while
 * nothing was measured. */
typedef struct kt__forecast {
    int64_t first_us, all_us;
} kt__forecast;
kt__forecast kt__sched_predict(const kt__sched_load *load, const kt__wish *wish);

/* Adds the time since the last charge to an account. */
void kt__task_charge(kt__task *task, kt__account account, int64_t now_us);

#endif
