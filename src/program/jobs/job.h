/* A request on its way: read by the workers, computed by an engine, written by the event loop.
 *
 * Owns: everything between a transport (HTTP, the Unix socket) and kt_engine_submit: limits of the
 * configuration, the model's use, events into bytes of the request's dialect, backpressure, cancel,
 * figures, the log line, and the list of jobs that have not ended. Knows neither sockets nor HTTP;
 * a dialect knows the bytes. job.c has its life and that list; job_submit.c, above it, the reading;
 * job_answer.c, above it, the answer.
 *
 * Threads: created and released by a transport; read on a worker's thread; events are taken on the
 * loop's. What they share is under the job's lock. Lock order: job, then the engine's; the locks of
 * the loop and of kt__shared are leaves. */
#ifndef KT_JOBS_JOB_H
#define KT_JOBS_JOB_H

#include <pthread.h>

#include "services/shared.h"
#include "wire/wire_blocks.h"

typedef struct kt__job kt__job;

/* An error as a whole body of JSON; status is HTTP's. */
typedef void kt__error_body_fn(kt__buf *out, int status, const kt_error *err);

/* How a kind of request is read and answered. All write to job->out. The calls are made with the
 * job's lock held, except read and run. */
typedef struct kt__dialect {
    const char *route;         /* for metrics and the log: a constant */
    const char *stream_type;   /* Content-Type of its streams; NULL: it has none */
    const char *stream_filler; /* bytes of a stream that say nothing */
    kt__error_body_fn *error_body;
    /* On a worker: job->body into job->wire, or for `run` whatever it needs. */
    kt_status (*read)(kt__job *job, kt_error *err);
    /* On a worker: the whole answer at once; there is no generation then. */
    kt_status (*run)(kt__job *job, kt_error *err);
    /* What is left of it where `run` has handed the job on, on that thread; or NULL. */
    kt_status (*finish_run)(kt__job *job, kt_error *err);
    bool
        waits; /* it waits for a computation: on a worker of its own, so that nobody waits for it */
    void (*begin)(kt__job *job); /* submitted; NULL: nothing is written */
    /* event->choice counts over all prompts: of prompt p with n choices, p * n to p * n + n - 1 */
    void (*token)(kt__job *job, const kt_event *event);  /* each token */
    void (*finish)(kt__job *job, const kt_event *event); /* of a choice */
    void (*end)(kt__job *job); /* after the last choice; NULL: nothing is written */
    /* Instead of all that follows; job->status is set. Where job->stream holds, the answer's head
     * is out already. */
    void (*error)(kt__job *job, const kt_error *err);
} kt__dialect;

enum { KT__JOB_AT_ONCE = 8 };

typedef enum kt__job_state {
    KT__JOB_READING,   /* waits for a worker, or a worker reads and submits it */
    KT__JOB_QUEUED,    /* the worker is done; nothing of the answer is written */
    KT__JOB_ANSWERING, /* the dialect began the answer: status and kind of body are fixed */
    KT__JOB_ENDED      /* nothing more will be written */
} kt__job_state;

/* A prompt that is being answered. Requests with several prompts have some at once in the engine,
 * and the next as these end. */
typedef struct kt__job_part {
    kt_request *req; /* NULL: the place is free */
    int32_t base;    /* its choices are base, base + 1, ... of the job's */
    bool counted;    /* its prompt is in the usage */
} kt__job_part;

/* What of an answer is gathered. */
typedef struct kt__job_choice {
    kt__wire_blocks said;
    kt__wire_token *tokens; /* with log probabilities; texts are in the job's arena */
    size_t n_tokens, cap_tokens;
    kt_finish finish;
    int64_t last_token_us;
    double logprob; /* sum over its n_scored tokens, where they have one */
    int32_t n_scored;
} kt__job_choice;

struct kt__job {
    atomic_int refs;
    pthread_mutex_t lock;
    kt__shared *shared;
    kt__settings *settings; /* in force when it came */
    const kt__dialect *dialect;
    kt__task_item task;  /* for the loop */
    kt__work_item item;  /* for the workers */
    char id[48];         /* our name for it */
    char name[128];      /* the client's, "" if it gave none */
    char session[40];    /* that the answer's head tells the client, or "" */
    char client[80];     /* who asks */
    char share[112];     /* who gets an equal share: the client, or one connection of it */
    size_t n_held;       /* bytes of its body, held (kt__shared_hold) as long as the job is there */
    kt__buf body;        /* the request's bytes, until it is read; */
    struct json_t *json; /* or the request as it was parsed already */
    int64_t created_s, begin_us;
    /* the transport's */
    uint64_t serial;                 /* its place among all that came; 0: not registered */
    void (*on_output)(kt__job *job); /* loop: there are new bytes in out, or it ended; no lock */
    void *owner;
    bool connection_waits; /* HTTP: suspended until on_output; lines: its end was not seen */
    /* under the lock */
    kt__wire_request *wire;
    const kt__wire_name *names; /* the client's, of fields, for errors; a constant, or NULL */
    kt__arena arena;            /* texts that live as long as the job */
    kt__served *model;
    kt_model *engine_model;
    kt_engine *engine;
    kt_adapter_use adapters[KT_ADAPTERS_MAX]; /* of its requests, held */
    size_t n_adapters;
    kt_learned learned;      /* what its client has taught, held */
    char taught_by[128];     /* the namespace of that, or "": nothing is learned from this answer */
    int64_t learned_version; /* 0: the model alone */
    char learned_json[320];  /* ,"adapter":{"namespace":NAME,"version":N} where it is used, or "" */
    kt__job_part parts[KT__JOB_AT_ONCE];
    size_t n_submitted; /* prompts */
    kt__job_state state;
    bool stream;        /* bytes go out as they come; a refusal is whole all the same */
    bool with_worker;   /* a worker has it, or will: for reading, later for its next prompts */
    bool queue_full;    /* the next prompt waits for room in the engine's queue */
    bool handed_on;     /* `run` gave it to another thread, which hands it back */
    bool paused;        /* its reader is behind: no events are taken */
    bool cancelled;     /* the answer is cut short, and still read */
    bool abandoned;     /* the client is gone; it is cancelled, too */
    bool whole;         /* the reading wrote the whole answer: there is nothing to submit */
    bool error_written; /* the error is in out: nothing follows it */
    kt_error error;     /* KT_OK: none so far */
    int error_status;   /* HTTP's, where the code alone does not say it; else 0 */
    int status;         /* HTTP's, once it answers or ended */
    kt__buf out;
    size_t out_at;    /* bytes of out that the transport has taken */
    int64_t moved_us; /* when it last took some, or had none to take */
    kt__job_choice *choices;
    int32_t n_choices, n_finished;
    kt__wire_usage usage;
    kt_request_report report; /* of the first choice that finished; figures of the log line */
    const char *notes;        /* kt_request_notes of the first prompt */
    void *extra;              /* the dialect's, in the arena */
};

/* ---- job.c: life, and the list of those that have not ended ---- */

/* "chatcmpl-" and 24 random digits */
void kt__job_make_id(char *out, size_t size, const char *prefix);
/* A job with one reference, for its transport. client is copied. */
kt_status KT_CHECKED kt__job_create(kt__shared *shared, const kt__dialect *dialect,
                                    const char *id_prefix, const char *client, kt__job **out,
                                    kt_error *err);
/* Connections of a client that stands for several programs, such as all of this machine, share as
 * clients do. Before kt__job_start. */
void kt__job_share_by_connection(kt__job *job, uint64_t connection);
void kt__job_ref(kt__job *job);
void kt__job_release(kt__job *job); /* any thread; must not hold its lock */
/* The loop looks at it. Any thread, under any lock but the loop's. */
void kt__job_post(kt__job *job);
bool kt__job_register(kt__job *job); /* false: no memory */
/* Called with the job's lock held, by a caller with a reference of its own. */
void kt__job_unregister(kt__job *job);
size_t kt__jobs_count(kt__shared *shared);
/* Walks those that have not ended, in the order in which they came: the one after `job`, whose reference it
 * takes over, with a reference of its own; NULL: the first, and there are no more. One that ends meanwhile
 * hides no other. */
kt__job *kt__jobs_next(kt__shared *shared, kt__job *job);
/* Waits until none is left; false: some are, after ms. */
bool kt__jobs_wait(kt__shared *shared, int64_t ms);
void kt__job_cancel_parts(kt__job *job); /* what the engine has of it; the lock is held */
/* The answer still comes, with finish_reason "cancelled". */
void kt__job_cancel(kt__job *job);
/* Cancels the job of that id and client. */
bool kt__jobs_cancel(kt__shared *shared, const char *id, const char *client);
/* Cancels the jobs of that name (job->name) and client. */
void kt__jobs_cancel_named(kt__shared *shared, const char *name, const char *client);
/* Nobody reads the answer any more: it is cancelled, and dropped. on_output is not called again
 * after this returns, when called on the loop's thread. */
void kt__job_abandon(kt__job *job);
/* Says nothing, for a stream that has said nothing for ping_s. */
void kt__job_ping(kt__job *job, int64_t ping_s);
/* Tries again to submit prompts that found the queue full. Any thread. */
void kt__job_retry(kt__job *job);
/* Bytes of out up to out_at were taken: goes on where it waited for that. The lock is held. */
void kt__job_taken(kt__job *job, size_t n);

#define KT__JOB_OF(member_pointer, member) \
    ((kt__job *)(void *)((char *)(member_pointer)-offsetof(kt__job, member)))

/* ---- job_submit.c: reading, on a worker ---- */

void kt__job_read_and_submit(kt__work_item *item); /* of a job */
/* Ends the worker's part: the loop goes on with it. */
void kt__job_hand_back(kt__job *job, kt_status status, kt_error *err);
/* Reads job->body, or job->json, with the server's defaults and limits. */
kt_status KT_CHECKED kt__job_read_wire(kt__job *job, kt__wire_form form, kt_error *err);
/* The request as parsed JSON; the job's. */
kt_status KT_CHECKED kt__job_parse(kt__job *job, kt_error *err);
/* The model by name; loads it. */
kt_status KT_CHECKED kt__job_use_model(kt__job *job, const char *name, kt_error *err);
/* The adapters that the request names, or the configuration's; the model is in use. */
kt_status KT_CHECKED kt__job_use_adapters(kt__job *job, kt_error *err);

/* ---- job_learn.c: what was learned, and what may be learned from ---- */

/* The version that the request names, or its client's, where learning is on; before adapters are used.
 * *named: what it names is such a version, no adapter of the configuration. */
kt_status KT_CHECKED kt__job_use_learned(kt__job *job, bool *named, kt_error *err);
/* A choice has ended: keeps it for feedback. The lock is held. */
void kt__job_keep(kt__job *job, const kt_request *req, int32_t choice, int32_t base);

/* ---- job_answer.c: from events to bytes, on the loop ---- */

/* Hands it to the workers; its answer, be it a refusal, comes through on_output. */
void kt__job_start(kt__job *job);
/* The rest of the answer is an error. The lock is held. */
void kt__job_fail(kt__job *job, const kt_error *err);

#endif
