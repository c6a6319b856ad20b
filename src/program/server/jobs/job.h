/* A request on its way: read by the workers, computed by an engine, written by the event loop.
 *
 * Owns: everything between a transport (HTTP, the Unix socket) and kt_engine_submit: limits of the
 * configuration, the model's use, events into bytes of the request's dialect, backpressure, cancel,
 * figures, the log line, and the list of jobs that have not ended. Knows neither sockets nor HTTP;
 * a dialect knows the bytes. A job is three things with one state: the request, the model that
 * serves it, and the answer. job.c has its life, its states and that list; job_submit.c, above it,
 * the reading; job_answer.c, above it, the answer.
 *
 * Threads: created and released by a transport; read on a worker's thread; events are taken on the
 * loop's. What they share is under the job's lock. Lock order: job, then the engine's; the locks of
 * the loop and of kt__shared are leaves. */
#ifndef KT_JOBS_JOB_H
#define KT_JOBS_JOB_H

#include "base/thread.h"
#include "services/shared.h"
#include "wire/wire_blocks.h"

typedef struct kt__job kt__job;

/* An error as a whole body of JSON; status is HTTP's. */
typedef void kt__error_body_fn(kt__buf *out, int status, const kt_error *err);

/* How a kind of request is read and answered. All write to job->answer.out. The calls are made with
 * the job's lock held, except read and run. */
typedef struct kt__dialect {
    const char *route;         /* for metrics and the log: a constant */
    const char *stream_type;   /* Content-Type of its streams; NULL: it has none */
    const char *stream_filler; /* bytes of a stream that say nothing */
    kt__error_body_fn *error_body;
    /* On a worker: job->request.body into job->request.wire, NULL where it wrote
     * the whole answer; or for `run` whatever it needs. */
    kt_status (*read)(kt__job *job, kt_error *err);
    /* On a worker: the whole answer at once; there is no generation then. */
    kt_status (*run)(kt__job *job, kt_error *err);
    /* What is left of it where `run` has handed the job on, on that thread; or NULL. */
    kt_status (*finish_run)(kt__job *job, kt_error *err);
    /* Instead of a generation, where `read` began something else: writes what there is to say since the last
     * call, some times a second, on the loop with the lock held; true: that was all. Then, also where
     * nobody reads it any more, `leave`. */
    bool (*follow)(kt__job *job);
    void (*leave)(kt__job *job);
    bool
        waits; /* it waits for a computation: on a worker of its own, so that nobody waits for it */
    /* a model is meant by a name of its own alone: what is taught, loaded or called by name stays with it */
    bool exact_names;
    void (*begin)(kt__job *job); /* submitted; NULL: nothing is written */
    /* event->choice counts over all prompts: of prompt p with n choices, p * n to p * n + n - 1 */
    void (*token)(kt__job *job, const kt_event *event); /* each token */
    /* how far the prompt is, where a stream is to say it; NULL: it does not */
    void (*progress)(kt__job *job, const kt_event *event);
    void (*finish)(kt__job *job, const kt_event *event); /* of a choice */
    void (*end)(kt__job *job); /* after the last choice; NULL: nothing is written */
    /* Instead of all that follows; the answer's status is set. Where it is a stream, the answer's
     * head is out already. */
    void (*error)(kt__job *job, const kt_error *err);
} kt__dialect;

enum { KT__JOB_AT_ONCE = 8 };

/* Whose turn it is. kt__job_move has which state may follow which. */
typedef enum kt__job_state {
    KT__JOB_READING,    /* waits for a worker, or a worker reads it and submits its first prompts */
    KT__JOB_ELSEWHERE,  /* `run` handed it on to another thread, which hands it back */
    KT__JOB_READ,       /* the worker is done; the loop has not looked at it since */
    KT__JOB_ANSWERING,  /* the dialect began the answer: status and kind of body are fixed */
    KT__JOB_SUBMITTING, /* the same, and a worker submits its next prompts */
    KT__JOB_CROWDED,    /* the same, and the next prompt waits for room in the engine's queue */
    KT__JOB_FAILING,    /* the error is in out, nothing follows it; a worker still has the job */
    KT__JOB_FAILED,     /* the same, and what the engine has of it is waited for */
    KT__JOB_ENDED,      /* nothing more will be written */
    KT__JOB_STATES
} kt__job_state;

/* Who wants the answer. It only ever grows. */
typedef enum kt__job_interest {
    KT__JOB_WANTED,
    KT__JOB_CANCELLED, /* the answer is cut short, and still read */
    KT__JOB_ABANDONED  /* the client is gone, or cannot have the whole: nobody reads it */
} kt__job_interest;

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
    int64_t first_token_us, last_token_us;
    int32_t n_generated; /* so far */
    double logprob;      /* sum over its n_scored tokens, where they have one */
    int32_t n_scored;
} kt__job_choice;

/* The transport's, which has set it before kt__job_start. */
typedef struct kt__job_transport {
    void (*on_output)(kt__job *job); /* loop: there are new bytes in out, or it ended; no lock */
    void *owner;
    bool waits; /* HTTP: suspended until on_output; lines: its end was not seen. Under the lock */
} kt__job_transport;

/* What was asked, and by whom. The worker's; constant once the job is READ, but for `name`. */
typedef struct kt__job_request {
    kt__settings *settings; /* in force when it came */
    int64_t created_s, begin_us;
    char client[80];     /* who asks */
    char share[112];     /* who gets an equal share: the client, or one connection of it */
    char name[128];      /* the client's name for it, "" if it gave none; under the lock */
    size_t n_held;       /* bytes of its body, held (kt__shared_hold) as long as the job is there */
    kt__buf body;        /* the request's bytes, until it is read; */
    struct json_t *json; /* or the request as it was parsed already */
    kt__wire_request *wire;     /* NULL: there is nothing to submit */
    const kt__wire_name *names; /* the client's, of fields, for errors; a constant, or NULL */
} kt__job_request;

/* What it is answered with, held until the answer ends. Under the lock, as the answer is. */
typedef struct kt__job_model {
    kt__served *served;
    kt_model *loaded;
    kt_engine *engine;
    kt_adapter_use adapters[KT_ADAPTERS_MAX]; /* of its requests */
    size_t n_adapters;
    kt_learner *learner;     /* that it asks or changes, or NULL */
    kt_learned learned;      /* what its client has taught */
    char taught_by[128];     /* the namespace of that, or "": nothing is learned from this answer */
    int64_t learned_version; /* 0: the model alone */
    uint64_t noted[KT_NOTES_MAX]; /* feedbacks in a prompt as notes, or recited by an answer */
    size_t n_noted;
    /* ,"adapter":{"namespace":NAME,"version":N},"learned":[...] where it is used, or "" */
    char learned_json[640];
    char route[64];         /* that a request for "auto" took, or "" */
    const char *route_json; /* ,"route":{...} of it, in the job's arena; NULL: none */
} kt__job_model;

/* What is being written. */
typedef struct kt__job_answer {
    bool stream;      /* bytes go out as they come; a refusal is whole anyway */
    bool paused;      /* its reader takes too little: no events are taken */
    int status;       /* HTTP's, once it answers or ended */
    kt_error error;   /* KT_OK: none so far */
    int error_status; /* HTTP's, where the code alone does not say it; else 0 */
    kt__buf out;
    size_t out_at;    /* bytes of out that the transport has taken */
    int64_t moved_us; /* when it last took some, or had none to take */
    kt__job_part parts[KT__JOB_AT_ONCE];
    size_t n_submitted; /* prompts */
    kt__job_choice *choices;
    int32_t n_choices, n_finished;
    kt__wire_usage usage;
    kt_request_report report; /* of the first choice that finished; figures of the log line */
    kt_event progress;        /* the last PROGRESS of the first prompt; its pointers mean nothing */
    const char *notes;        /* kt_request_notes of the first prompt */
    char session[40];         /* that the head tells the client, or "" */
} kt__job_answer;

struct kt__job {
    atomic_int refs;
    pthread_mutex_t lock;
    kt__shared *shared;
    const kt__dialect *dialect;
    kt__task_item task;  /* for the loop */
    kt__work_item item;  /* for the workers */
    char id[48];         /* our name for it */
    uint64_t serial;     /* its place among all that came; 0: not registered */
    kt__arena arena;     /* texts that live as long as the job; under the lock */
    void *extra;         /* the dialect's, in the arena */
    kt__job_state state; /* under the lock, as interest is */
    kt__job_interest interest;
    kt__job_transport transport;
    kt__job_request request;
    kt__job_model model;
    kt__job_answer answer;
};

/* ---- job.c: life, and the list of those that have not ended ---- */

/* "chatcmpl-" and 24 random digits */
void kt__job_make_id(char *out, size_t size, const char *prefix);
/* A job with one reference, for its transport. client is copied. */
kt_status KT_CHECKED kt__job_create(kt__shared *shared, const kt__dialect *dialect,
                                    const char *id_prefix, const char *client, kt__job **out,
                                    kt_error *err);
/* Connections of a client that is several programs, such as all of this machine, share as
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
/* Walks those that have not ended, in the order in which they came: the one after `job`, whose
 * reference it takes over, with a reference of its own; NULL: the first, and there are no more. One
 * that ends meanwhile hides no other. */
kt__job *kt__jobs_next(kt__shared *shared, kt__job *job);
/* Waits until none is left; false: some are, after ms. */
bool kt__jobs_wait(kt__shared *shared, int64_t ms);
/* ---- job.c: the states; the lock is held ---- */

/* Whether a job of that state may be moved to this one. */
bool kt__job_may_move(kt__job_state from, kt__job_state to);
void kt__job_move(kt__job *job, kt__job_state to); /* such a one: an assertion */
/* Its answer has begun and has not ended. */
static inline bool kt__job_is_answering(const kt__job *job) {
    return job->state >= KT__JOB_ANSWERING && job->state < KT__JOB_ENDED;
}
/* A worker, or another thread, has it: it may not be ended. */
bool kt__job_is_away(const kt__job *job);
/* Its error was written, or is being. */
static inline bool kt__job_is_failed(const kt__job *job) {
    return job->state == KT__JOB_FAILING || job->state == KT__JOB_FAILED;
}

/* ---- job.c: from outside ---- */

void kt__job_cancel_parts(kt__job *job); /* what the engine has of it; the lock is held */
/* The answer still comes, with finish_reason "cancelled". */
void kt__job_cancel(kt__job *job);
/* Cancels the job of that id and client. */
bool kt__jobs_cancel(kt__shared *shared, const char *id, const char *client);
/* Cancels the jobs of that name (request.name) and client. */
void kt__jobs_cancel_named(kt__shared *shared, const char *name, const char *client);
/* Nobody reads the answer any more: it is cancelled, and dropped. on_output is not called again
 * after this returns, when called on the loop's thread. */
void kt__job_abandon(kt__job *job);
/* Says nothing, for a stream that has said nothing for ping_s. */
void kt__job_ping(kt__job *job, int64_t ping_s);
/* Some times a second: one that follows something looks at it. Any thread. */
void kt__job_look(kt__job *job);
/* Tries again to submit prompts that found the queue full. Any thread. */
void kt__job_retry(kt__job *job);
/* Bytes of out up to out_at were taken: continues where it waited for that. The lock is held. */
void kt__job_taken(kt__job *job, size_t n);

#define KT__JOB_OF(member_pointer, member) \
    ((kt__job *)(void *)((char *)(member_pointer)-offsetof(kt__job, member)))

/* ---- job_submit.c: reading, on a worker ---- */

void kt__job_read_and_submit(kt__work_item *item); /* of a job */
/* No other thread has it, and it was not handed back. */
bool kt__job_is_reading(kt__job *job);
/* Ends the worker's part, or that of the thread that has it ELSEWHERE: the loop continues with
 * it. */
void kt__job_hand_back(kt__job *job, kt_status status, kt_error *err);
/* Reads the request's body, or its json, with the server's defaults and limits. */
kt_status KT_CHECKED kt__job_read_wire(kt__job *job, kt__wire_form form, kt_error *err);
/* The request as parsed JSON; the job's. */
kt_status KT_CHECKED kt__job_parse(kt__job *job, kt_error *err);
/* Whether the parsed body asks for the model "auto", and requests are routed. */
bool kt__job_asks_route(const kt__job *job);
/* Of one that does: its model is the route's from now on, and its adapter, unless it names one. Waits for the encoder. */
kt_status KT_CHECKED kt__job_route(kt__job *job, kt_error *err);
/* The model by name; loads it. */
kt_status KT_CHECKED kt__job_use_model(kt__job *job, const char *name, kt_error *err);
/* The adapters that the request names, or the configuration's; the model is in use. */
kt_status KT_CHECKED kt__job_use_adapters(kt__job *job, kt_error *err);

/* ---- job_learn.c: what was learned, and what may be learned from ---- */

/* The version that the request names, or its client's, where learning is on; before adapters are
 * used. *named: what it names is such a version, no adapter of the configuration. */
kt_status KT_CHECKED kt__job_use_learned(kt__job *job, bool *named, kt_error *err);
/* A prompt was submitted: tells which notes are in it. The lock is held. */
void kt__job_tell_notes(kt__job *job, const kt_request *req);
/* A choice has ended: tells also what it recited of what was taught. The lock is held. */
void kt__job_tell_recited(kt__job *job, const kt_request_report *report);
/* A choice has ended: keeps it for feedback. The lock is held. */
void kt__job_keep(kt__job *job, const kt_request *req, int32_t choice, int32_t base);

/* ---- job_answer.c: from events to bytes, on the loop ---- */

/* Hands it to the workers; its answer, be it a refusal, comes through on_output. */
void kt__job_start(kt__job *job);
/* What is known of a choice's figures while its answer runs: prompt, tokens and their times; for streams that asked for
 * progress. The lock is held. */
kt_request_report kt__job_figures(const kt__job *job, int32_t choice);
/* The rest of the answer is an error. The lock is held. */
void kt__job_fail(kt__job *job, const kt_error *err);

#endif
