/* Connections of HTTP, from accept to close; each may carry many requests.
 *
 * Owns: their list, addresses, deadlines, how many there may be, and the watch for clients that hang
 * up while the daemon has suspended them. Knows the daemon's connections, not its requests. The
 * daemon's thread and the loop's, as the calls say. */
#ifndef KT_TRANSPORTS_HTTP_PEER_H
#define KT_TRANSPORTS_HTTP_PEER_H

#include <microhttpd.h>

#include "jobs/job.h"

typedef struct kt__http_peer kt__http_peer;

typedef struct kt__http_peers {
    kt__shared *shared;
    bool tls;
    pthread_mutex_t lock; /* the list and its members */
    kt__http_peer *first;
    int n;               /* that are not being closed */
    uint64_t n_opened;   /* ever */
    kt__slog_gate crowd; /* for the log: no room */
} kt__http_peers;

/* The daemon's own limit is higher by this: who comes beyond ours is told so. */
enum { KT__HTTP_SPARE_CONNECTIONS = 64 };

void kt__http_peers_init(kt__http_peers *peers, kt__shared *shared, bool tls);
void kt__http_peers_free(kt__http_peers *peers); /* after the loop has ended */

/* ---- the daemon's thread ---- */

/* An MHD_NotifyConnectionCallback; user: the kt__http_peers. */
void kt__http_peers_notify(void *user, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code);
/* NULL: there was no memory for it. */
kt__http_peer *kt__http_peer_of(struct MHD_Connection *connection);
const char *kt__http_peer_address(const kt__http_peer *peer); /* "127.0.0.1"; "local" */
/* There was no room for it: only open routes are answered. */
bool kt__http_peer_is_surplus(const kt__http_peer *peer);
/* A request was begun, or ended: idle connections make room for new ones. */
void kt__http_peer_set_busy(kt__http_peer *peer, bool busy);
/* What is being waited for must have come after so long; 0: nothing. */
void kt__http_peer_set_deadline(kt__http_peer *peer, int64_t seconds);
/* Of a program of this machine: a number of its own; else 0. */
uint64_t kt__http_peer_share(const kt__http_peer *peer);
/* The job that the connection waits for; NULL: none. Watches for hang-ups from the first on. interim:
 * the client must understand "100 Continue", as all of HTTP/1.1 must. */
void kt__http_peer_set_job(kt__http_peer *peer, kt__job *job, bool interim);

/* ---- any thread ---- */

/* Closes connections whose time is up. The loop's thread. */
void kt__http_peers_tick(kt__http_peers *peers);
/* Connections that wait are woken: the daemon cannot end with one suspended. */
void kt__http_peers_abandon(kt__http_peers *peers);
/* Until no connection has bytes that the daemon has not read, or could have its first request on the
 * way; half a second at most. Closing such a connection would reset it. */
void kt__http_peers_wait_unread(kt__http_peers *peers);

#endif
