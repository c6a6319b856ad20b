/* A submitted request: what its tasks, its events and its owner share.
 *
 * Owns: the layout of a request and of its choices, and their memory. submit.c makes them, choice.c
 * turns logits into answers and says why a prompt was not found, events.c hands events out.
 *
 * Threads: made by the thread that submits; computed on by the thread that drives the engine, with
 * its turn; events are read and the request closed from other threads. What they share is under a
 * lock of the request's own, which is held for moments only, and under which no other lock is
 * taken. */
#ifndef KT_REQUESTS_SUBMITTED_H
#define KT_REQUESTS_SUBMITTED_H

#include "answer/answer.h"
#include "answer/recall.h"
#include "context/work.h"
#include "prompt/pictures.h"
#include "requests/constraints.h"
#include "requests/speculator.h"

typedef struct kt__submitted kt__submitted;

typedef struct kt__choice {
    kt__work work; /* first member */
    kt__submitted *sub;
    int32_t index;
    kt__seq_state own; /* where the request is on no sequence */
    kt__answer answer;
    kt__proposals proposals; /* of the step at hand */
    kt_request_report report;
    int8_t *key;  /* [d_model] of the row at hand, where something is recalled */
    int8_t *kept; /* [cap_kept][d_model] keys of the states that tokens were drawn from, or NULL */
    size_t n_kept, cap_kept;
    int32_t n_recalled;
    int32_t n_reported; /* positions that a PROGRESS event reported; at first -1 */
    bool ended;         /* under the request's lock: nothing above changes any more */
} kt__choice;

/* An event that waits to be read. */
typedef struct kt__stored {
    kt_event event;
    kt__buf text;
    kt_logprob *top; /* [n_logprobs] or NULL */
    kt_part *parts;  /* with their texts in part_text */
    size_t cap_parts;
    kt__buf part_text;
} kt__stored;

struct kt__submitted {
    kt_request req;         /* first member */
    kt__adapters *adapters; /* or NULL */
    kt_recall *recall;      /* or NULL; held */
    kt__recall_scope scope; /* opened: ours */
    uint64_t asked;         /* the entry whose answer is given word for word; 0: none */
    int32_t n_noted;        /* of what each choice's report says was learned: in the prompt */
    int32_t *recited;       /* [n_recited] the answer, of the bank's entries recited_of; or NULL */
    size_t n_recited;
    uint64_t recited_of[KT_NOTES_MAX];
    size_t n_recited_of;
    bool keep;
    int32_t *plain; /* [n_plain]: the prompt without them, where it is kept; or NULL */
    size_t n_plain;
    char *question; /* what the user said last, where it is kept; or NULL */
    int8_t *keys;   /* the caller's, of an embedding; or NULL */
    size_t keys_first;
    kt_seq *seq;         /* that the answer continues in; NULL: none */
    atomic_bool has_seq; /* it is lent to this request */
    kt_event_fn *on_event;
    kt_ready_fn *on_ready;
    void *user;
    bool started;
    int32_t n_kept; /* positions that were computed before */
    int32_t n_text; /* tokens that are known before the answer */
    int32_t n_logprobs, n_predict;
    bool post_sampling, progress;
    kt_pooling pooling;
    bool normalize;
    kt__constraint *constraint;     /* lent, of all choices; or NULL */
    kt__conversation *conversation; /* where the answers are split, else NULL */
    kt__pictures pictures;          /* of the prompt */
    float *embedding;               /* [d_model] */
    kt_logprob *prompt; /* [n_text][1 + n_logprobs] where they were asked for, else NULL */
    int64_t submitted_us, tokenize_us;
    char *texts; /* contents of the messages, NUL-separated, for explanations; or NULL */
    int32_t n_texts;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an event came, a callback has returned */
    /* under the lock */
    bool detached, done; /* closed by its owner; nothing of it runs any more */
    bool calling;        /* on_event runs, ... */
    pthread_t caller;    /* ... on this thread */
    int n_open, n_released;
    kt__stored *ring; /* [ring_cap]; NULL with a callback */
    int ring_cap, ring_at, ring_n;
    bool ring_busy; /* the oldest is being read */
    int n_choices;
    kt__choice choices[];
};

static inline kt__choice *kt__choice_of(kt__work *work) {
    return (kt__choice *)(void *)work;
}

static inline kt__submitted *kt__submitted_of(kt_request *req) {
    return (kt__submitted *)(void *)req;
}

/* Zeroed, with its lock; for kt__submitted_free. */
kt_status kt__submitted_new(kt_engine *engine, int n_choices, kt__submitted **out,
                            kt_error *err) KT_CHECKED;
void kt__submitted_free(kt__submitted *sub);

#endif
