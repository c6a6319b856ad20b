/* The server: what all requests share.
 *
 * Owns: configuration (replaced as a whole at a reload), keys, log, metrics, models, event loop and
 * workers, the list of running jobs, and the order of starting and stopping. The transports (unix.h,
 * http.h) hang below it. Any thread, unless a call says otherwise. */
#ifndef KT_SERVE_SERVER_H
#define KT_SERVE_SERVER_H

#include <kentang.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/config.h"
#include "serve/workers.h"
#include "serve/event_loop.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/slog.h"

typedef struct kt__server kt__server;
struct kt__job;

struct kt__server {
    _Atomic(const kt__config *) config; /* live settings; the first one rules the others */
    _Atomic(kt__keys *) keys;           /* NULL: none are asked for */
    kt__slog log;
    kt__metrics *metrics;
    kt__models *models;
    kt__event_loop *loop;
    kt__workers *workers;
    struct kt__unix *unix_socket;
    struct kt__http *http;
    int64_t start_s, start_us;
    atomic_bool stopping;
    atomic_int stop_requested; /* by a client: kt__server_wait returns */
    int ticks;
    kt__work_item unload;
    atomic_bool unloading;
    pthread_mutex_t lock; /* jobs, old */
    struct kt__job **jobs;
    size_t n_jobs, cap_jobs;
    void **old; /* configurations and keys that were replaced: others may still look at them */
    size_t n_old;
    int wake; /* eventfd: kt__server_wait looks again */
};

/* Whether the files that it names can be read and its addresses be listened on, before a model is
 * loaded. */
kt_status KT_CHECKED kt__server_check(const kt__config *config, kt_error *err);
/* Takes the configuration over, also on failure. Listens when it returns. */
kt_status KT_CHECKED kt__server_start(kt__config *config, kt__server **out, kt_error *err);
/* Until a client asks to stop, or kt__server_wake; true: stop. */
bool kt__server_wait(kt__server *server);
void kt__server_wake(kt__server *server); /* async-signal-safe */
/* Live settings of a new configuration, taken over; what cannot change is kept and named in the
 * log. */
void kt__server_reload(kt__server *server, kt__config *config);
/* Refuses new requests, lets running ones end for drain_s, closes everything. */
void kt__server_stop(kt__server *server);

static inline const kt__config *kt__server_config(const kt__server *server) {
    return atomic_load_explicit(&server->config, memory_order_acquire);
}
bool kt__server_is_ready(kt__server *server); /* takes requests, and its first model is loaded */

/* Running jobs by name, for cancel and ps. */
bool kt__server_add_job(kt__server *server, struct kt__job *job);
void kt__server_remove_job(kt__server *server, struct kt__job *job);
/* Cancels the job of that id and client. */
bool kt__server_cancel(kt__server *server, const char *id, const char *client);
/* {"version", "uptime_s", "models": [...], "requests": [...]} */
void kt__server_write_stats(kt__server *server, kt__buf *out);

#endif
