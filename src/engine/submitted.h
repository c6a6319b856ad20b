/* Submitted requests: what the scheduler's tasks belong to.
 *
 * Owns: a request's choices with their tokens, block tables and answers; its events, handed to a
 * callback or kept until they are read. Does not decide what runs (sched.h) nor run it (runner.h).
 *
 * Threads: made by whoever submits; computed on by whoever drives the engine, with its turn; events
 * are read and the request closed from other threads. What they share is under a lock of the
 * request's own, which is held for moments only, and under which no other lock is taken. */
#ifndef KT_ENGINE_SUBMITTED_H
#define KT_ENGINE_SUBMITTED_H

#include "engine/answer.h"
#include "engine/speculator.h"
#include "engine/task.h"

typedef struct kt__submitted kt__submitted;

typedef struct kt__choice {
    kt__task task; /* the scheduler's handle: first member */
    kt__submitted *sub;
    int32_t index;
    int32_t *tokens; /* [n_tok of cap] */
    int32_t cap;
    kt__kv_table table;
    kt__prefix_cursor cursor; /* blocks of the table that the index knows */
    kt__answer answer;
    kt__proposals proposals; /* of the step at hand */
    kt__draft_seq draft_seq;
    kt_request_report report;
    kt_error error;
    bool found; /* the cache was asked */
} kt__choice;

/* An event that waits to be read. */
typedef struct kt__stored {
    kt_event event;
    kt__buf text;
    kt_logprob *top; /* [n_logprobs] or NULL */
} kt__stored;

struct kt__submitted {
    kt_request req;
    kt_event_fn *on_event;
    kt_ready_fn *on_ready;
    void *user;
    kt__kv_key root;
    bool no_cache, started;
    int32_t n_prompt, n_logprobs, n_predict;
    kt_pooling pooling;
    bool normalize;
    float *embedding; /* [d_model] */
    kt_logprob *top;  /* [n_logprobs] of the token at hand */
    int64_t submitted_us, tokenize_us;
    char *texts; /* contents of the messages, NUL-separated, for explanations; or NULL */
    int32_t n_texts;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an event came, a callback has returned */
    /* under the lock */
    bool detached, done; /* closed by its owner; nothing of it runs any more */
    int n_open, n_released;
    kt__stored *ring; /* [ring_cap]; NULL with a callback */
    int ring_cap, ring_at, ring_n;
    bool ring_busy;   /* the oldest is being read */
    bool calling;     /* on_event runs, ... */
    pthread_t caller; /* ... on this thread */
    int n_choices;
    kt__choice choices[];
};

enum { KT__HELD_EVENTS = 64 }; /* unread events at which an answer pauses */

/* A request checked and made, with its prompt ids[n] (taken over in any case). */
kt_status kt__submitted_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                               size_t n, kt__submitted **out, kt_error *err) KT_CHECKED;
void kt__submitted_free(kt__submitted *sub);
/* Into the engine's queue; where it is refused, it stays the caller's. */
kt_status kt__submitted_enqueue(kt__submitted *sub, int64_t deadline_ms, kt_error *err) KT_CHECKED;
static inline kt__choice *kt__choice_of(const kt__task *task) {
    return (kt__choice *)(uintptr_t)task;
}
static inline kt__submitted *kt__submitted_of(const kt_request *req) {
    return (kt__submitted *)(uintptr_t)req;
}

/* ---- by the driver ---- */

/* Hands out an event; kind and what belongs to it are set, the rest is filled in here. */
void kt__submitted_emit(kt__choice *choice, kt_event *event);
/* TOKEN: what the answer released. */
void kt__submitted_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
                             int n_logprobs);
/* The report, the text that was held back, FINISHED. */
void kt__submitted_end(kt__choice *choice);
/* The scheduler is done with the choice; may free the request. */
void kt__submitted_release(kt__choice *choice);

/* ---- by others ---- */

void kt__submitted_close(kt_request *req);
void kt__submitted_get_result(const kt_request *req, kt_gen_result *out);

#endif
