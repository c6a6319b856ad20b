/* What a task computes on, and who takes what comes out of it.
 *
 * Owns: the one layout that the runner works on, whatever the task is for:
 *
 *   made by              kind            tokens and pages     what comes out goes to
 *   a request            ANSWER          the choice's own     an answer: a token is drawn, an event
 *   a request on a seq   ANSWER, lent    the sequence's       the same; the tokens stay in the seq
 *   an embedding         EMBED           the choice's own     the sum of its hidden states
 *   kt_engine_eval       EVAL, EVAL_ALL  the sequence's       the sequence's logits, the caller's
 *
 * The maker fills it in and submits the task (inbox.h); from then on it is the driver's, with the
 * engine's turn, until `release`, which is the last call on it. */
#ifndef KT_CONTEXT_WORK_H
#define KT_CONTEXT_WORK_H

#include "context/adapter.h"
#include "context/types.h"
#include "sched/task.h"

typedef struct kt__work kt__work;

/* What a row of a batch gives. */
typedef struct kt__row {
    float *logits;       /* [n_vocab]; may be changed, and is used until the next row */
    const float *hidden; /* [d_model]: the normed state before the head; NULL: not known */
} kt__row;

/* Called by the thread that drives, with the engine's turn. */
typedef struct kt__work_ops {
    void (*started)(kt__work *work); /* it leaves the queue; once */
    /* The prefix index was asked, and what is after it: n_cached is final. */
    void (*looked_up)(kt__work *work);
    /* Its first positions were found, or more of them computed; NULL: nobody wants to know. */
    void (*progressed)(kt__work *work);
    /* Logits after n_pos positions: before the last known token, where the task wants all of them,
     * they are noted. After it an answer draws *id and appends it; finish is set where it ends with
     * that. false: no further row is wanted. */
    bool (*take_logits)(kt__work *work, const kt__row *row, int32_t n_pos, int32_t *id);
    void (*take_hidden)(kt__work *work, const float *hidden, int32_t position);
    void (*end)(kt__work *work);     /* task.finish says how; error, with KT_FINISH_ERROR, why */
    void (*release)(kt__work *work); /* the scheduler has let go */
} kt__work_ops;

struct kt__work {
    kt__task task; /* first member */
    const kt__work_ops *ops;
    kt_engine *engine;
    kt__seq_state *state;
    struct kt__proposals *proposals; /* NULL: nothing is proposed */
    int32_t cap;                     /* tokens that state may come to hold */
    int32_t n_base;                  /* positions before its prompt, which are counted nowhere */
    int32_t n_prompt;                /* tokens */
    int32_t n_cached;                /* of these, not computed */
    atomic_int n_computed;           /* task.n_done, for other threads to read */
    const struct kt__pictures *pictures; /* in its prompt, or NULL; the maker's */
    kt__adapters *adapters;              /* or NULL; the maker's */
    int64_t lora_ns;                     /* of its batches in adapters' terms */
    kt__kv_key root;
    kt__prefix_cursor cursor; /* blocks of the table that the index knows */
    /* a store with ends (requests/runner.h) */
    kt__prefix_cursor stored; /* blocks that it was handed, or had */
    int32_t n_load;           /* blocks that are being loaded, up to an end; 0: none */
    bool load_failed;         /* it is not asked again */
    int32_t n_keep;           /* tokens that stay where the context is full; -1: it ends there */
    int32_t n_drop;     /* that leave it after them, once this batch's rows were taken; 0: none */
    int32_t n_dropped;  /* that have left it */
    int32_t n_pressed;  /* positions whose pages were pressed, the most so far */
    bool no_cache;      /* neither asks the index nor tells it */
    bool takes_altered; /* its pages may be pressed, and it uses those that were (kv/kv.h) */
    bool is_counted;    /* in the engine's figures */
    bool mean;          /* EMBED: hidden states of all positions, not of the last one, */
    bool first;         /* or that of the first */
    int32_t pair_from;  /* kt__seg.pair_from */
    kt_error error;
};

static inline kt__work *kt__work_of(const kt__task *task) {
    return (kt__work *)(uintptr_t)task;
}

#endif
