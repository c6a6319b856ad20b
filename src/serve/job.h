/* A request on its way: read by the workers, computed by an engine, written by the event loop.
 *
 * Owns: everything between a transport (HTTP, the Unix socket) and kt_engine_submit: limits of the
 * configuration, the model's use, events into bytes of the request's dialect, backpressure, cancel,
 * figures and the log line. Knows neither sockets nor HTTP; a dialect knows the bytes.
 *
 * Threads: created and released by a transport; read on a workers thread; events are taken on the
 * loop's. What they share is under the job's lock. Lock order: job, then the engine's; the loop's
 * lock is a leaf. */
#ifndef KT_SERVE_JOB_H
#define KT_SERVE_JOB_H

#include <pthread.h>

#include "serve/workers.h"
#include "serve/event_loop.h"
#include "serve/server.h"
#include "serve/wire.h"

typedef struct kt__job kt__job;

/* How a kind of request is read and answered. All write to job->out. The calls are made with the
 * job's lock held, except read and run. */
typedef struct kt__dialect {
    const char *route; /* for metrics and the log: a constant */
    /* Crew: job->body into job->wire (and job->stream), or for `run` whatever it needs. */
    kt_status (*read)(kt__job *job, kt_error *err);
    /* Crew: the whole answer at once; there is no generation then. */
    kt_status (*run)(kt__job *job, kt_error *err);
    void (*begin)(kt__job *job); /* submitted */
    /* event->choice counts over all prompts: of prompt p with n choices, p * n to p * n + n - 1 */
    void (*token)(kt__job *job, const kt_event *event);  /* each token */
    void (*finish)(kt__job *job, const kt_event *event); /* of a choice */
    void (*end)(kt__job *job);                           /* after the last choice */
    void (*error)(kt__job *job, const kt_error *err);    /* instead of all that follows */
} kt__dialect;

enum { KT__JOB_AT_ONCE = 8 };

/* A prompt that is being answered. Requests with several prompts have some at once in the engine,
 * and the next as these end. */
typedef struct kt__job_part {
    kt_request *req; /* NULL: the place is free */
    int32_t base;    /* its choices are base, base + 1, ... of the job's */
    bool counted;    /* its prompt is in the usage */
} kt__job_part;

/* What an answer that is not streamed gathers. */
typedef struct kt__job_choice {
    kt__buf text;
    kt__wire_token *tokens; /* with log probabilities; texts are in the job's arena */
    size_t n_tokens, cap_tokens;
    kt_finish finish;
    int64_t last_token_us;
} kt__job_choice;

struct kt__job {
    atomic_int refs;
    pthread_mutex_t lock;
    kt__server *server;
    const kt__dialect *dialect;
    kt__task_item task;  /* for the loop */
    kt__work_item item;  /* for the workers */
    char id[48];         /* our name for it */
    char name[128];      /* the client's, "" if it gave none */
    char client[80];     /* who asks */
    kt__buf body;        /* the request's bytes, until it is read; */
    struct json_t *json; /* or the request as it was parsed already */
    int64_t created_s, begin_us;
    /* the transport's */
    void (*on_output)(kt__job *job); /* loop: there are new bytes in out, or it is done; no lock */
    void *owner;
    bool suspended; /* HTTP: the connection waits for on_output */
    /* under the lock */
    kt__wire_request *wire;
    const kt__wire_name *names; /* the client's, of fields, for errors; a constant, or NULL */
    kt__arena arena;            /* texts that live as long as the job */
    kt__served *model;
    kt_model *engine_model;
    kt_engine *engine;
    kt__job_part parts[KT__JOB_AT_ONCE];
    size_t n_submitted; /* prompts */
    bool stream, begun, done, gone, cancelled, failed, stalled;
    bool no_model; /* it asked for one that is not here */
    bool returned; /* the workers is done with it */
    bool full;     /* the queue was: the next prompt waits */
    bool told;     /* the error was written */
    kt_error error;
    int status; /* HTTP's, once begun or done */
    kt__buf out;
    size_t out_at;    /* bytes of out that the transport has taken */
    int64_t moved_us; /* when it last took some, or had none to take */
    kt__job_choice *choices;
    int32_t n_choices, n_finished;
    kt__wire_usage usage;
    kt_request_report report; /* of the first choice that finished; figures of the log line */
    void *extra;              /* the dialect's, in the arena */
};

/* A job with one reference, for its transport. client is copied. */
kt_status KT_CHECKED kt__job_create(kt__server *server, const kt__dialect *dialect,
                                    const char *id_prefix, const char *client, kt__job **out,
                                    kt_error *err);
void kt__job_ref(kt__job *job);
void kt__job_release(kt__job *job); /* any thread; must not hold its lock */
/* Hands it to the workers; its answer, be it a refusal, comes through on_output. */
void kt__job_start(kt__job *job);
/* Tries again to submit prompts that found the queue full. Any thread. */
void kt__job_retry(kt__job *job);
/* The answer still comes, with finish_reason "cancelled". */
void kt__job_cancel(kt__job *job);
/* Nobody reads the answer any more: it is cancelled, and dropped. on_output is not called again
 * after this returns, when called on the loop's thread. */
void kt__job_abandon(kt__job *job);
/* Bytes of out up to out_at were taken: goes on where it waited for that. The lock is held. */
void kt__job_taken(kt__job *job, size_t n);

/* ---- between job.c and job_submit.c ---- */

#define KT__JOB_OF(member_pointer, member) \
    ((kt__job *)(void *)((char *)(member_pointer)-offsetof(kt__job, member)))

/* The loop looks at it. Any thread, under any lock but the loop's. */
void kt__job_post(kt__job *job);
void kt__job_read_and_submit(kt__work_item *item); /* of a job; on the workers */

/* ---- for dialects ---- */

/* Reads job->body, or job->json, with the server's defaults and limits. */
kt_status KT_CHECKED kt__job_read_wire(kt__job *job, kt__wire_form form, kt_error *err);
/* The request as parsed JSON; the job's. */
kt_status KT_CHECKED kt__job_parse(kt__job *job, kt_error *err);
/* The rest of the answer is an error. The lock is held. */
void kt__job_fail(kt__job *job, const kt_error *err);
/* The model by name; loads it. */
kt_status KT_CHECKED kt__job_use_model(kt__job *job, const char *name, kt_error *err);
/* A token of an event with its text and alternatives; in the job's arena. NULL: no logprobs. */
const kt__wire_token *kt__job_token(kt__job *job, const kt_event *event);
/* Adds a token to its choice. */
void kt__job_gather(kt__job *job, const kt_event *event);
/* An object of figures, with the comma before: ,"timings":{...} */
void kt__job_write_figures(kt__buf *out, const kt_request_report *report);

#endif
