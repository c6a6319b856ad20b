#include "serve/http_peer.h"

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
    kt__job *job;        /* that it waits for, or NULL */
    bool watched;
    char address[64];
};

void kt__http_peers_init(kt__http_peers *peers, kt__shared *shared) {
    *peers = (kt__http_peers){.shared = shared};
    pthread_mutex_init(&peers->lock, NULL);
}

void kt__http_peers_free(kt__http_peers *peers) {
    pthread_mutex_destroy(&peers->lock);
}

/* ---- from accept to close ---- */

static void free_peer(kt__task_item *item) {
    kt__free((char *)item - offsetof(kt__http_peer, task));
}

static void on_hangup(kt__watch *watch, uint32_t events) {
    kt__http_peer *p = (kt__http_peer *)(void *)watch;
    (void)events;
    pthread_mutex_lock(&p->home->lock);
    kt__job *job = p->job;
    if (job) kt__job_ref(job);
    pthread_mutex_unlock(&p->home->lock);
    if (!job) return;
    kt__job_abandon(job); /* its on_output wakes the connection, which then ends */
    kt__job_release(job);
}

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
}

static void open_peer(kt__http_peers *peers, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    kt__http_peer *p = kt__calloc(1, sizeof *p);
    *context = p;
    if (!p) return; /* requests on it are refused */
    p->watch = (kt__watch){on_hangup, info ? info->connect_fd : -1};
    p->task.run = free_peer;
    p->home = peers;
    p->deadline_us = kt__now_us() + kt__shared_limits(peers->shared).request_s * 1000000;
    name_peer(p, connection);
    pthread_mutex_lock(&peers->lock);
    p->next = peers->first;
    p->link = &peers->first;
    if (p->next) p->next->link = &p->next;
    peers->first = p;
    pthread_mutex_unlock(&peers->lock);
    kt__metrics_connection(peers->shared->metrics, false, 1);
}

static void close_peer(kt__http_peers *peers, void **context) {
    kt__http_peer *p = *context;
    *context = NULL;
    if (!p) return;
    pthread_mutex_lock(&peers->lock);
    *p->link = p->next;
    if (p->next) p->next->link = p->link;
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

void kt__http_peer_set_deadline(kt__http_peer *p, int64_t seconds) {
    if (!p) return;
    pthread_mutex_lock(&p->home->lock);
    p->deadline_us = seconds ? kt__now_us() + seconds * 1000000 : 0;
    pthread_mutex_unlock(&p->home->lock);
}

void kt__http_peer_set_job(kt__http_peer *p, kt__job *job) {
    if (!p) return;
    kt__event_loop *loop = p->home->shared->loop;
    pthread_mutex_lock(&p->home->lock);
    p->job = job;
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
        if (p->deadline_us && now_us > p->deadline_us) {
            p->deadline_us = 0;
            (void)shutdown(p->watch.fd, SHUT_RDWR); /* the daemon sees the end and closes */
        }
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
