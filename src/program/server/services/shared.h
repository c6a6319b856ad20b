/* What all parts of the server share: the services that are below jobs and transports.
 *
 * Owns: the settings in force and the keys, the log, metrics, models, event loop and workers, the
 * place of the list of running jobs (job.h has its calls), and the request to stop. Knows no transport
 * and no job. Made and freed by server.h on one thread; everything else from any thread. */
#ifndef KT_SERVICES_SHARED_H
#define KT_SERVICES_SHARED_H

#include <kentang.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "services/access.h"
#include "services/event_loop.h"
#include "services/learners.h"
#include "services/llama_slots.h"
#include "services/lora_scales.h"
#include "services/metrics.h"
#include "services/models.h"
#include "services/pulls.h"
#include "services/responses.h"
#include "services/routes.h"
#include "services/workers.h"
#include "setup/config.h"
#include "setup/slog.h"

struct kt__job;

/* A configuration with its keys. Replaced as a whole on reload; a request keeps the one that was in
 * force when it came, and the last user frees it. */
typedef struct kt__settings {
    atomic_int refs;
    const kt__config *config;
    kt__config *owned; /* config, where a reload brought it; NULL: it is the start-up one */
    kt__keys *keys;    /* NULL: none are asked for */
} kt__settings;

/* The live settings that are plain numbers, for the caller that needs one for a moment. */
typedef struct kt__limits {
    int64_t max_body, bodies, output, requests_per_connection, request_s, stall_s, ping_s,
        idle_unload_s, drain_s, queue;
} kt__limits;

typedef struct kt__shared {
    /* Of the start. A reload changes only settings marked live; the rest keep these values, and
     * their texts live here. */
    kt__config *start;
    kt__slog log;
    kt__slog_gate wrong_keys;
    kt__metrics *metrics;
    kt__models *models;
    kt__pulls *pulls; /* NULL: clients fetch no models */
    kt__event_loop *loop;
    kt__workers *workers;
    kt__workers *
        waiters; /* of requests that wait for a computation; NULL: learning is off, and nothing is routed */
    kt__kept_answers *kept;      /* the same */
    struct kt__trainer *trainer; /* trainer.c's; the same way */
    atomic_bool adapter_fails;   /* a default one of the first model, when it was last asked for */
    int64_t connections;         /* of each listener, as far as there are descriptors for them */
    int64_t start_s, start_us;
    atomic_bool stopping;       /* new requests are refused */
    atomic_bool stop_requested; /* by a client */
    atomic_bool hurry;          /* what still runs is cut short */
    atomic_int_fast64_t n_held; /* bytes of requests, see kt__shared_hold */
    int wake;                   /* eventfd: kt__shared_wait looks again */
    pthread_mutex_t lock;       /* settings and jobs; a leaf */
    kt__settings *settings;
    struct kt__batches *batches; /* batches.c's; NULL: off */
    kt__responses *responses;    /* NULL: none is kept */
    kt__llama_slots *slots;      /* NULL: nobody asks for them */
    kt__lora_scales *lora_scales;
    kt__routes *routes;    /* NULL: no request for "auto" is routed */
    struct kt__job **jobs; /* job.c's: those that have not ended, in the order in which they came */
    size_t n_jobs, cap_jobs;
    uint64_t n_jobs_ever;
    pthread_cond_t job_ended; /* with lock */
} kt__shared;

/* Takes config over, also on failure; zeroes the rest. */
kt_status KT_CHECKED kt__shared_init(kt__shared *shared, kt__config *config, kt_error *err);
void kt__shared_free(kt__shared *shared); /* no job is left */

/* The settings in force, to be dropped; they stay as they are meanwhile. */
kt__settings *kt__shared_settings(kt__shared *shared);
void kt__settings_drop(kt__settings *settings);
kt__limits kt__shared_limits(kt__shared *shared);
/* Takes both over, also on failure. */
kt_status KT_CHECKED kt__shared_set_settings(kt__shared *shared, kt__config *config, kt__keys *keys,
                                             kt_error *err);

/* Counts n bytes of a request that is being read or waits; false: with them there would be more than
 * limits.bodies, and nothing was counted. */
bool kt__shared_hold(kt__shared *shared, size_t n);
void kt__shared_let_go(kt__shared *shared, size_t n);

/* Waits for kt__shared_wake; true: a client asked for the end. */
bool kt__shared_wait(kt__shared *shared);
void kt__shared_wake(kt__shared *shared); /* async-signal-safe */
void kt__shared_request_stop(kt__shared *shared);
/* NULL: it takes requests, and its first model is loaded and sound; else why not, a constant. */
const char *kt__shared_why_not_ready(kt__shared *shared);

#endif
