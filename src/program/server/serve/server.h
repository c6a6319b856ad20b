/* The server: the roof over services and transports.
 *
 * Owns: the order of starting and stopping, reloading, and the clock's work. What requests need is
 * in shared.h, below the transports (http.h, unix.h). Called by the thread that made it, unless a
 * call says otherwise. */
#ifndef KT_SERVE_SERVER_H
#define KT_SERVE_SERVER_H

#include "services/shared.h"

typedef struct kt__server kt__server;

struct kt__server {
    kt__shared shared;
    struct kt__unix *unix_socket;
    struct kt__http *http;
    int ticks;
    kt__slog_gate descriptors; /* for the log: none are left */
    kt__work_item models_item;
    atomic_bool models_busy; /* a worker has models_item */
    bool drained;
    bool lost;             /* a process that computed with this one; the loop's, while it runs */
    int64_t drain_most_ms; /* where that is less than the settings say; 0: it is not */
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
 * log. Frees the configuration that is replaced once the requests that came under it are gone. */
void kt__server_reload(kt__server *server, kt__config *config);
/* Refuses new requests and lets running ones end, for drain_s or until kt__server_hurry; those that
 * are left then are cancelled. */
void kt__server_drain(kt__server *server);
void kt__server_hurry(kt__server *server); /* async-signal-safe */
/* Before draining: where a launcher that has sent SIGTERM kills all soon, there is less time. */
void kt__server_end_with_launcher(kt__server *server);
/* Drains, where that has not been done, and closes everything. */
void kt__server_stop(kt__server *server);

#endif
