/* What makes an engine answer many at once: the scheduler, the batches it asks for, the inbox, and
 * the thread that drives it.
 *
 * Owns: the calls of kentang.h under "requests". The turn (engine.h) is held by whoever drives; the
 * service's own lock is held for moments only and guards the inbox, the events and the figures, so
 * that submitting, reading events and statistics never wait for a computation. The turn is taken
 * before the lock, never after. */
#ifndef KT_ENGINE_SERVICE_H
#define KT_ENGINE_SERVICE_H

#include "engine/live.h"

struct kt__service {
    kt_engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t work; /* something to do for the driver */
    pthread_cond_t idle; /* for those who wait: a request is over, a callback has returned */
    /* under the lock */
    kt__live *inbox_first, *inbox_last;
    int n_waiting; /* requests not started */
    int n_live;    /* not over */
    bool closed, quit, threaded, nudged;
    kt__live *calling; /* its callback runs, ... */
    pthread_t caller;  /* ... on this thread */
    kt__sched_load load;
    kt_engine_stats stats;
    uint8_t binding[KT__KV_BINDING_BYTES];
    size_t binding_bytes;
    pthread_t thread;
    /* with the turn */
    kt__sched *sched;
    struct kt__runner *runner;
};

kt_status kt__service_create(kt_engine *engine, kt__service **out, kt_error *err) KT_CHECKED;
void kt__service_destroy(kt__service *service);
/* The engine's forward pass is wanted for a batch: one of prompts that is in flight is run to its
 * end, and none is begun until the release. With the turn, which others get in between. */
void kt__service_settle(kt__service *service);
/* more: it will be wanted again; prompts that wait get a batch first. */
void kt__service_release(kt__service *service, bool more);
/* kt__fwd_params.on_hidden; user is the engine. */
void kt__service_on_hidden(void *user, int row, float *hidden);
/* The root of a scope's blocks. */
kt__kv_key kt__service_root(kt__service *service, const char *scope);

#endif
