/* Tasks: what the scheduler orders, and the clients they belong to.
 *
 * Owns: the layout of a task (one choice of a request, or an evaluation) with its account of time,
 * lists of tasks, and clients with what they were served. Decides nothing (sched.h), computes
 * nothing (runner.h).
 *
 * Threads: the caller that makes a task fills in the owner's members before it is submitted;
 * everything else belongs to the thread that drives the engine, but `held` and what `cancel` points
 * to, which any thread may set. No allocation. */
#ifndef KT_SCHED_TASK_H
#define KT_SCHED_TASK_H

#include <kentang.h>
#include <stdatomic.h>

typedef enum kt__task_state {
    KT__TASK_NEW,     /* not handed to the scheduler */
    KT__TASK_SIBLING, /* waits until its request's first choice has computed their prompt */
    KT__TASK_WAITING, /* in the queue; holds no page */
    KT__TASK_PARKED,  /* suspended; keeps its pages until other tasks need them */
    KT__TASK_RUNNING, /* has a lane */
    KT__TASK_ENDED    /* its last event is out */
} kt__task_state;

typedef enum kt__task_kind {
    KT__TASK_ANSWER,  /* gets a token when all is computed, and continues with that */
    KT__TASK_EMBED,   /* ends when all is computed; without logits, so in batches of its own */
    KT__TASK_EVAL,    /* ends when all is computed; wants the last position's logits */
    KT__TASK_EVAL_ALL /* the same, and wants the logits of each position */
} kt__task_kind;

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

/* A task computes positions [n_done, n_tok); then an answer gets a token more, n_tok + 1, and the
 * others end. With one position to compute it goes into a decode step, with more (or without
 * logits) into a prompts' batch. */
typedef struct kt__task kt__task;
struct kt__task {
    /* the owner's, before it is submitted */
    kt__task *first; /* the choice that computes the prompt for this one; NULL: it does so itself */
    const atomic_bool *cancel;
    kt__client *client; /* with its name; taken over by the scheduler or, where it knows the name,
                           replaced and freed; NULL: the one without a name */
    int32_t priority;
    int64_t arrival_us, deadline_us; /* INT64_MAX: none */
    int32_t n_tok;                   /* known tokens */
    int32_t n_predict;               /* tokens that may come; for predictions */
    kt__task_kind kind;
    bool whole;      /* all its positions in one batch, which has rows for so many */
    bool all_logits; /* an answer that wants those of its prompt's positions, too */
    bool lent; /* runs on a sequence, whose pages cannot be taken from it; its owner waits for it */
    /* the operations' */
    int32_t n_done;   /* computed positions, from the start */
    kt_finish finish; /* not NONE: to be ended */
    atomic_bool held; /* its reader does not keep up: no decode step */
    bool loading;     /* kt__sched_ops.load has more to do */
    int64_t cost_us;  /* added to: what its tokens cost besides the batch (masks of a constraint) */
    /* the scheduler's; next also links what is submitted and not taken yet */
    kt__task *prev, *next;
    kt__task_state state;
    uint64_t serial;
    int32_t n_begin; /* n_tok when it came, less what left it (runner.c) */
    bool in_batch, started;
    int32_t n_preempted, n_recomputed;
    int32_t n_lost;     /* positions given back when it was suspended */
    int64_t costly_us;  /* what a token of it costs besides the batch, lately */
    int64_t stepped_us; /* when it was in a step last */
    int64_t since_us;   /* of the last charge */
    int64_t us[KT__ACCOUNTS];
};

typedef struct kt__task_list {
    kt__task *head, *tail;
    int n;
} kt__task_list;

void kt__task_list_add(kt__task_list *list, kt__task *task);
void kt__task_list_remove(kt__task_list *list, kt__task *task);

static inline bool kt__task_wants_logits(const kt__task *task) {
    return task->kind != KT__TASK_EMBED;
}

/* Each row that is computed has a place in what its batch gives out. */
static inline bool kt__task_wants_all_logits(const kt__task *task) {
    return task->kind == KT__TASK_EVAL_ALL || task->all_logits;
}

/* Adds the time since the last charge to an account. */
void kt__task_charge(kt__task *task, kt__account account, int64_t now_us);
/* It goes into the next decode step. */
bool kt__task_wants_step(const kt__task *task);
/* It goes into a prompts' batch. */
bool kt__task_wants_prefill(const kt__task *task);

#endif
