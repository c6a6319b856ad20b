#include "transports/http_peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"

struct kt__http_peer {
    kt__watch watch;    /* first member: the loop looks for hang-ups */
    kt__task_item task; /* frees it, on the loop */
    kt__http_peers *home;
    kt__http_peer *next, **link;
    int64_t deadline_us; /* what is being waited for must have come; 0: nothing */
    uint64_t serial;     /* from 1 */
    int64_t idle_us;     /* since when it carries no request */
    kt__job *job;        /* that it waits for, or NULL */
    bool watched;
    bool interim;     /* the job's client understands "100 Continue" */
    bool half_closed; /* the client sends no more, and nothing was sent to it since */
    bool end_unseen;  /* answered, and not looked since whether the client sends no more */
    bool fresh;       /* no request has come on it yet */
    bool busy, loopback, surplus;
    bool closing; /* to make room: no longer counted */
    char address[64];
};

enum {
    PIPELINED_US = 50000, /* what came together with the last request has been begun by then */
    FRESH_US = 50000,     /* a client that has connected has sent its request by then */
    UNREAD_MS = 500
};

void kt__http_peers_init(kt__http_peers *peers, kt__shared *shared, bool tls) {
    *peers = (kt__http_peers){.shared = shared, .tls = tls};
    pthread_mutex_init(&peers->lock, NULL);
}

void kt__http_peers_free(kt__http_peers *peers) {
    pthread_mutex_destroy(&peers->lock);
}

static void free_peer(kt__task_item *item) {
    kt__free((char *)item - offsetof(kt__http_peer, task));
}

/* ---- clients that leave ---- */

/* A client that closed its sending side may still read, or may be gone: bytes tell, for who is gone
 * answers them with a reset. A stream gets an empty piece, others an interim answer. false: it
 * cannot be told now. The job's lock is held. */
static bool send_probe(const kt__http_peer *p, kt__job *job) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (job->answer.stream && kt__job_is_answering(job)) {
        (void)kt__buf_puts(&job->answer.out, job->dialect->stream_filler);
        return true;
    }
    if (!job->transport.waits) return false; /* the daemon may be writing */
    ssize_t n = send(p->watch.fd, interim, sizeof interim - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n == sizeof interim - 1;
}

/* false: it has to be taken for one that left. Lock order: the peers', then the job's. */
static bool may_still_read(kt__http_peer *p) {
    kt__job *job = p->job;
    if (!p->interim) return false;
    pthread_mutex_lock(&job->lock);
    p->half_closed = !send_probe(p, job);
    pthread_mutex_unlock(&job->lock);
    if (!p->half_closed) kt__job_post(job);
    return true;
}

/* Its on_output wakes the connection, which then ends. */
static void drop_or_probe(kt__http_peer *p, bool gone) {
    if (p->job && (gone || !may_still_read(p))) kt__job_abandon(p->job);
}

static void on_hangup(kt__watch *watch, uint32_t events) {
    kt__http_peer *p = (kt__http_peer *)(void *)watch;
    pthread_mutex_lock(&p->home->lock);
    drop_or_probe(p, (events & (EPOLLERR | EPOLLHUP)) != 0);
    pthread_mutex_unlock(&p->home->lock);
}

/* ---- room ---- */

static bool is_loopback_address(const char *address) {
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1") ||
           !strncmp(address, "::ffff:127.", 11);
}

static void shut_peer(kt__http_peer *p) {
    (void)shutdown(p->watch.fd, SHUT_RDWR); /* the daemon sees the end and closes */
    p->deadline_us = 0;
    if (!p->closing) p->home->n--;
    p->closing = true;
}

/* Closes the connection that has been without a request for longest. false: there is none. */
static bool shut_idlest(kt__http_peers *peers) {
    kt__http_peer *idlest = NULL;
    for (kt__http_peer *p = peers->first; p; p = p->next) {
        if (p->busy || p->closing) continue;
        if (!idlest || p->idle_us < idlest->idle_us) idlest = p;
    }
    if (idlest) shut_peer(idlest);
    return idlest != NULL;
}

/* The daemon does not read again where an end came together with a request whose answer was there
 * at once: such a client would wait for the close as long as an idle one may stay. */
static void shut_ended(kt__http_peer *p) {
    char next;
    p->end_unseen = false;
    if (recv(p->watch.fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0) shut_peer(p);
}

static int count_of_address(const kt__http_peers *peers, const char *address) {
    int n = 0;
    for (const kt__http_peer *p = peers->first; p; p = p->next)
        n += !p->closing && !strcmp(p->address, address);
    return n;
}

/* Programs of this machine, and a proxy on it, come from one address: only what all connections
 * together may be holds for them. */
static bool has_room(kt__http_peers *peers, const kt__http_peer *fresh) {
    const kt__config *config = peers->shared->start;
    if (!fresh->loopback && count_of_address(peers, fresh->address) >= config->connections_per_peer)
        return false;
    return peers->n < peers->shared->connections || shut_idlest(peers);
}

static void tell_crowd(kt__http_peers *peers, const kt__http_peer *p) {
    unsigned n_kept;
    kt__metrics_refused(peers->shared->metrics, false);
    if (!kt__slog_may(&peers->crowd, 60000000, &n_kept)) return;
    kt__slog_line(&peers->shared->log, KT_LOG_WARN,
                  "http: more connections than there is room for, the last of %s (%u more within a "
                  "minute): %s; see limits.connections and limits.connections_per_peer",
                  p->address, n_kept,
                  p->surplus ? "its requests are refused" : "the longest idle one is closed");
}

/* ---- from accept to close ---- */

static void name_peer(kt__http_peer *p, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    snprintf(p->address, sizeof p->address, "local");
    if (address && address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, p->address, sizeof p->address);
    } else if (address && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, p->address, sizeof p->address);
    }
    p->loopback = !address || address->sa_family == AF_UNIX || is_loopback_address(p->address);
}

static void open_peer(kt__http_peers *peers, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    kt__http_peer *p = kt__calloc(1, sizeof *p);
    *context = p;
    if (!p) return; /* requests on it are refused */
    p->watch = (kt__watch){on_hangup, info ? (int)info->connect_fd : -1};
    p->task.run = free_peer;
    p->home = peers;
    p->fresh = true;
    p->idle_us = kt__now_us();
    p->deadline_us = p->idle_us + kt__shared_limits(peers->shared).request_s * 1000000;
    name_peer(p, connection);
    pthread_mutex_lock(&peers->lock);
    bool crowded = peers->n >= peers->shared->connections;
    p->surplus = !has_room(peers, p);
    peers->n++;
    p->serial = ++peers->n_opened;
    p->next = peers->first;
    p->link = &peers->first;
    if (p->next) p->next->link = &p->next;
    peers->first = p;
    pthread_mutex_unlock(&peers->lock);
    kt__metrics_connection(peers->shared->metrics, false, 1);
    if (crowded || p->surplus) tell_crowd(peers, p);
}

static void close_peer(kt__http_peers *peers, void **context) {
    kt__http_peer *p = *context;
    *context = NULL;
    if (!p) return;
    pthread_mutex_lock(&peers->lock);
    *p->link = p->next;
    if (p->next) p->next->link = p->link;
    if (!p->closing) peers->n--;
    if (p->watched) kt__event_loop_unwatch(peers->shared->loop, &p->watch);
    pthread_mutex_unlock(&peers->lock);
    kt__metrics_connection(peers->shared->metrics, false, -1);
    (void)kt__event_loop_post(peers->shared->loop, &p->task);
}

void kt__http_peers_notify(void *user, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_peer(user, connection, context);
    } else {
        close_peer(user, context);
    }
}

/* ---- while it lives ---- */

kt__http_peer *kt__http_peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

const char *kt__http_peer_address(const kt__http_peer *p) {
    return p->address;
}

uint64_t kt__http_peer_share(const kt__http_peer *p) {
    return p->loopback ? p->serial : 0;
}

bool kt__http_peer_is_surplus(const kt__http_peer *p) {
    return p->surplus;
}

void kt__http_peer_set_busy(kt__http_peer *p, bool busy) {
    if (!p) return;
    pthread_mutex_lock(&p->home->lock);
    p->busy = busy;
    p->fresh = false;
    p->end_unseen = !busy;
    p->idle_us = kt__now_us();
    pthread_mutex_unlock(&p->home->lock);
}

void kt__http_peer_set_deadline(kt__http_peer *p, int64_t seconds) {
    if (!p) return;
    pthread_mutex_lock(&p->home->lock);
    p->deadline_us = seconds ? kt__now_us() + seconds * 1000000 : 0;
    pthread_mutex_unlock(&p->home->lock);
}

void kt__http_peer_set_job(kt__http_peer *p, kt__job *job, bool interim) {
    if (!p) return;
    kt__event_loop *loop = p->home->shared->loop;
    pthread_mutex_lock(&p->home->lock);
    p->job = job;
    p->interim = interim && !p->home->tls;
    p->half_closed = false;
    if (job && !p->watched)
        p->watched = kt__event_loop_watch(loop, &p->watch, EPOLLRDHUP | EPOLLET);
    else if (job)
        kt__event_loop_change(loop, &p->watch, EPOLLRDHUP | EPOLLET); /* looks again */
    pthread_mutex_unlock(&p->home->lock);
}

void kt__http_peers_tick(kt__http_peers *peers) {
    int64_t now_us = kt__now_us();
    pthread_mutex_lock(&peers->lock);
    for (kt__http_peer *p = peers->first; p; p = p->next) {
        if (p->half_closed) drop_or_probe(p, false);
        if (p->end_unseen && !p->closing && now_us > p->idle_us + PIPELINED_US) shut_ended(p);
        if (p->deadline_us && now_us > p->deadline_us) shut_peer(p);
    }
    pthread_mutex_unlock(&peers->lock);
}

void kt__http_peers_abandon(kt__http_peers *peers) {
    pthread_mutex_lock(&peers->lock);
    for (kt__http_peer *p = peers->first; p; p = p->next) {
        if (p->job) kt__job_abandon(p->job);
    }
    pthread_mutex_unlock(&peers->lock);
}

static bool is_unread(const kt__http_peer *p, int64_t now_us) {
    char next;
    if (p->busy || p->closing) return false;
    if (p->fresh && now_us < p->idle_us + FRESH_US) return true;
    return recv(p->watch.fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool any_unread(kt__http_peers *peers, int64_t now_us) {
    bool any = false;
    pthread_mutex_lock(&peers->lock);
    for (const kt__http_peer *p = peers->first; p && !any; p = p->next) any = is_unread(p, now_us);
    pthread_mutex_unlock(&peers->lock);
    return any;
}

void kt__http_peers_wait_unread(kt__http_peers *peers) {
    static const struct timespec pause = {0, 2000000};
    int64_t until_us = kt__now_us() + UNREAD_MS * 1000;
    for (int64_t now_us = kt__now_us(); now_us < until_us; now_us = kt__now_us()) {
        if (!any_unread(peers, now_us)) return;
        (void)nanosleep(&pause, NULL);
    }
}
