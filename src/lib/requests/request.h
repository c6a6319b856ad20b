/* A request: what its tasks, its events and its owner share, from its submission to its last event.
 *
 * Owns: the layout of a request and of its choices, and their memory (request.c); making one from its parameters
 * (submit.c), with a conversation shortened to the context (shorten.c); taking its tokens (choice.c) and handing out
 * its events (events.c). */
#ifndef KT_REQUESTS_REQUEST_H
#define KT_REQUESTS_REQUEST_H

#include "answer/answer.h"
#include "answer/recall.h"
#include "context/work.h"
#include "prompt/pictures.h"
#include "prompt/text.h"
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

/* Making a request from its parameters, and handing it to the engine: what is checked before anything is computed.
 * Any thread. */

/* A request checked and made, with its prompt ids[n] and its conversation or NULL (both taken over in
 * any case). A sequence is lent to it until its answer has ended. */
kt_status kt__submit_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                            size_t n, kt__conversation *conversation, kt__pictures *pictures,
                            kt__submitted **out, kt_error *err) KT_CHECKED;
/* Into the engine's queue. Where it is refused, the request is freed. */
kt_status kt__submit_enqueue(kt__submitted *sub, int64_t deadline_ms, kt_error *err) KT_CHECKED;

/* What the answers of a request are held to.
 *
 * Owns: putting together what the request asks for, the calls that its tools allow, and reasoning,
 * after which both come. Any thread. */

/* The constraint into sub->constraint, and into its conversation's notes what is not enforced. */
kt_status kt__hold_lend(kt__submitted *sub, const kt_request_params *request,
                        kt_error *err) KT_CHECKED;

/* Conversations that do not fit the context: which messages are left out, and the encoding of the rest. Any thread. */

/* The prompt's ids, for kt__free, of a request with messages and kt_request_params.shorten; ns: as of
 * kt__text_encode_prompt. Where nothing has to go it is the prompt as it is. KT_E_CONTEXT_FULL: the
 * system's messages and the last turn alone do not fit. */
kt_status kt__shorten_encode(const kt_engine *engine, const kt_request_params *request,
                             kt__conversation *conversation, int32_t **ids, size_t *n, int64_t *ns,
                             kt_error *err) KT_CHECKED;

/* One answer of a request: from logits to tokens, events, and the report at the end. The one place where tokens are
 * taken, and the one where reports are made. With the engine's turn. */

/* Of all choices. */
const kt__work_ops *kt__choice_ops(void);

/* From the driver to a callback, or to those who read events: a request's ring of unread events, and the callback in
 * progress. */

enum { KT__HELD_EVENTS = 64 }; /* unread events at which an answer pauses */

/* Where there is no callback: room for what may wait. */
kt_status kt__events_init(kt__submitted *sub, kt_error *err) KT_CHECKED;

/* ---- by the driver ---- */

/* Hands out an event; kind and what belongs to it are set, the rest is filled in here. */
void kt__events_emit(kt__choice *choice, kt_event *event);
/* TOKEN: what the answer released. */
void kt__events_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
                          int n_logprobs);

/* ---- by other threads ---- */

/* The event that was read last makes room. */
void kt__events_drop_read(kt__submitted *sub);
/* The oldest event, waited for at most timeout_ms (-1: as long as it takes). */
bool kt__events_read(kt__submitted *sub, kt_event *out, int64_t timeout_ms);
/* Waits until its sequence is given back; false: it is not, after timeout_ms. */
bool kt__events_wait_for_seq(kt__submitted *sub, int64_t timeout_ms);
bool kt__events_are_over(kt__submitted *sub); /* none waits, and none will come */
/* No event comes any more. Waits for a callback that runs on another thread. Returns whether
 * nothing of the request runs, so that it is the caller's to free. */
bool kt__events_detach(kt__submitted *sub);

#endif
