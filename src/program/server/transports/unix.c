#include "transports/unix.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "transports/unix_client.h"

enum { READ_BYTES = 16 << 10, MAX_OUT_BYTES = 256 << 20, REST_US = 1000000 };

static void settle_client(kt__unix_client *c);

/* ---- output ---- */

static size_t unsent_bytes(const kt__unix_client *c) {
    return c->out.len - c->out_at;
}

static void flush_out(kt__unix_client *c) {
    while (unsent_bytes(c) > 0 && !c->doomed) {
        ssize_t n = send(c->watch.fd, c->out.data + c->out_at, unsent_bytes(c), MSG_NOSIGNAL);
        if (n > 0) {
            c->out_at += (size_t)n;
            c->moved_us = kt__now_us();
        } else if (errno == EINTR) {
            continue;
        } else {
            if (errno != EAGAIN && errno != EWOULDBLOCK) c->doomed = true;
            break;
        }
    }
    if (!unsent_bytes(c)) {
        kt__buf_clear(&c->out);
        c->out_at = 0;
        c->moved_us = kt__now_us();
    } else if (c->out_at > (64 << 10)) {
        memmove(c->out.data, c->out.data + c->out_at, unsent_bytes(c) + 1);
        c->out.len -= c->out_at;
        c->out_at = 0;
    }
}

/* What a job has written so far, whole lines. true: the job is over and empty. */
static bool move_from(kt__unix_client *c, kt__job *job) {
    pthread_mutex_lock(&job->lock);
    size_t n = job->answer.out.len - job->answer.out_at;
    if (n) {
        (void)kt__buf_append(&c->out, job->answer.out.data + job->answer.out_at, n);
        kt__job_taken(job, n);
    }
    bool over = job->state == KT__JOB_ENDED;
    pthread_mutex_unlock(&job->lock);
    return over;
}

static void drop_job(kt__unix_client *c, size_t i) {
    kt__job *job = c->jobs[i];
    job->transport.owner = NULL;
    c->jobs[i] = c->jobs[--c->n_jobs];
    kt__job_release(job);
}

/* Sends what can be sent, and takes from the jobs what there is room for. */
static void pump_out(kt__unix_client *c) {
    size_t most = (size_t)kt__shared_limits(c->home->shared).output;
    for (bool more = true; more && !c->doomed;) {
        more = false;
        for (size_t i = c->n_jobs; i-- > 0 && unsent_bytes(c) <= most;) {
            size_t before = c->out.len;
            bool over = move_from(c, c->jobs[i]);
            more |= c->out.len != before;
            if (over) drop_job(c, i);
        }
        flush_out(c);
        if (unsent_bytes(c) > 0) break;
    }
    if (c->out.failed) c->doomed = true;
}

static void take_job_output(kt__job *job) {
    kt__unix_client *c = job->transport.owner;
    if (!c) return;
    pump_out(c);
    settle_client(c);
}

/* ---- input ---- */

static void take_frame(kt__unix_client *c, kt__frame frame, const char *line, size_t len) {
    kt_error err;
    if (frame == KT__FRAME_LINE) {
        kt__unix_take_line(c, line, len);
    } else if (frame == KT__FRAME_TOO_LONG) {
        (void)kt__fail(&err, KT_E_LIMIT, "a line over %zu bytes was dropped", c->framer.max_line);
        kt__unix_say_error(c, NULL, &err);
    } else if (frame == KT__FRAME_NOMEM) {
        (void)kt__fail_nomem(&err, "a line", 0);
        kt__unix_say_error(c, NULL, &err);
    }
}

/* Counts what is kept of a line that is coming; where there is no room for more of it, it goes. */
static void count_pending(kt__unix_client *c) {
    kt__shared *shared = c->home->shared;
    size_t n = kt__framer_pending(&c->framer), n_more = n > c->n_held ? n - c->n_held : 0;
    kt_error err;
    if (kt__shared_hold(shared, n_more)) {
        if (n < c->n_held) kt__shared_let_go(shared, c->n_held - n);
        c->n_held = n;
        return;
    }
    kt__framer_skip(&c->framer);
    kt__shared_let_go(shared, c->n_held);
    c->n_held = 0;
    kt__unix_say_error(c, NULL, kt__unix_crowded(&err));
}

static void read_some(kt__unix_client *c) {
    char data[READ_BYTES];
    const char *line = NULL;
    size_t len = 0, used;
    ssize_t n = recv(c->watch.fd, data, sizeof data, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) c->doomed = true;
        return;
    }
    for (size_t at = 0; at < (size_t)n; at += used) {
        kt__frame frame = kt__framer_next(&c->framer, data + at, (size_t)n - at, &used, &line,
                                          &len);
        count_pending(c);
        take_frame(c, frame, line, len);
    }
    if (n == 0) {
        c->eof = true;
        kt__frame frame = kt__framer_end(&c->framer, &line, &len);
        count_pending(c);
        take_frame(c, frame, line, len);
    }
}

/* ---- clients ---- */

static void count_client(kt__unix *u, int change) {
    pthread_mutex_lock(&u->lock);
    u->n_clients += change;
    if (u->n_clients == 0) pthread_cond_broadcast(&u->empty);
    pthread_mutex_unlock(&u->lock);
    kt__metrics_connection(u->shared->metrics, true, change);
}

static void free_client(kt__unix_client *c) {
    while (c->n_jobs) {
        kt__job_abandon(c->jobs[c->n_jobs - 1]);
        drop_job(c, c->n_jobs - 1);
    }
    kt__event_loop_unwatch(c->home->shared->loop, &c->watch);
    close(c->watch.fd);
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    count_client(c->home, -1);
    kt__framer_free(&c->framer);
    kt__shared_let_go(c->home->shared, c->n_held);
    kt__buf_free(&c->out);
    kt__free(c->jobs);
    kt__free(c);
}

/* Watches what can continue now; frees a client that is done. Nothing may touch it afterwards. */
static void settle_client(kt__unix_client *c) {
    size_t most = (size_t)kt__shared_limits(c->home->shared).output;
    if (c->doomed || (c->eof && !c->n_jobs && !unsent_bytes(c))) {
        free_client(c);
        return;
    }
    uint32_t events = unsent_bytes(c) ? EPOLLOUT : 0;
    if (!c->eof && unsent_bytes(c) <= most) events |= EPOLLIN;
    if (events == c->events) return;
    c->events = events;
    kt__event_loop_change(c->home->shared->loop, &c->watch,
                          events); /* EPOLLHUP comes in any case */
}

static void on_client(kt__watch *watch, uint32_t events) {
    kt__unix_client *c = (kt__unix_client *)(void *)watch;
    /* HUP: both directions are closed, so no answer can be read. What was sent before is still
     * read. */
    if (events & EPOLLIN) read_some(c);
    if (events & (EPOLLERR | EPOLLHUP)) c->doomed = true;
    if (!c->doomed) pump_out(c);
    settle_client(c);
}

static int count_of(const kt__unix *u, uid_t uid) {
    int n = 0;
    for (const kt__unix_client *c = u->clients; c; c = c->next) n += c->uid == uid;
    return n;
}

static bool is_welcome(kt__unix *u, int fd, struct ucred *who) {
    const kt__config *config = u->shared->start;
    socklen_t len = sizeof *who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &len) != 0) return false;
    if (u->own && !u->open_to_others && who->uid != geteuid() && who->uid != 0) {
        kt__slog_line(&u->shared->log, KT_LOG_WARN, "socket: user %d refused", (int)who->uid);
        return false;
    }
    return u->n_clients < u->shared->connections &&
           count_of(u, who->uid) < config->connections_per_peer;
}

static void add_client(kt__unix *u, int fd, const struct ucred *who) {
    kt__unix_client *c = kt__calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->watch = (kt__watch){on_client, fd};
    c->home = u;
    c->serial = ++u->n_accepted;
    c->uid = who->uid;
    c->pid = who->pid;
    c->moved_us = kt__now_us();
    c->events = EPOLLIN;
    snprintf(c->name, sizeof c->name, "uid:%u", (unsigned)who->uid);
    kt__framer_init(&c->framer, (size_t)kt__shared_limits(u->shared).max_body);
    kt__buf_init(&c->out, MAX_OUT_BYTES);
    if (!kt__event_loop_watch(u->shared->loop, &c->watch, c->events)) {
        close(fd);
        kt__free(c);
        return;
    }
    c->next = u->clients;
    c->link = &u->clients;
    if (c->next) c->next->link = &c->next;
    u->clients = c;
    count_client(u, 1);
}

static void refuse_client(kt__unix *u, int fd) {
    static const char full[] =
        "{\"done\":true,\"error\":{\"message\":\"too many connections, or not allowed\",\"type\":"
        "\"rate_limit_error\",\"param\":null,\"code\":\"KT_E_BUSY\"}}\n";
    unsigned n_kept;
    ssize_t n = send(fd, full, sizeof full - 1, MSG_NOSIGNAL);
    (void)n;
    close(fd);
    kt__metrics_refused(u->shared->metrics, true);
    if (kt__slog_may(&u->crowd, 60000000, &n_kept))
        kt__slog_line(&u->shared->log, KT_LOG_WARN,
                      "socket: a connection refused, and %u others within a minute: see "
                      "limits.connections and limits.connections_per_peer",
                      n_kept);
}

/* A connection that waits to be accepted would wake the loop again and again: it waits for the
 * clock. */
static void rest_listener(kt__unix *u, int code) {
    unsigned n_kept;
    u->rest_until_us = kt__now_us() + REST_US;
    kt__event_loop_change(u->shared->loop, &u->watch, 0);
    if (kt__slog_may(&u->short_of_fds, 60000000, &n_kept))
        kt__slog_line(&u->shared->log, KT_LOG_WARN,
                      "socket: connections wait, none can be accepted: %s%s", strerror(code),
                      code == EMFILE ? ": raise the limit of open files (ulimit -n, LimitNOFILE)"
                                     : "");
}

static void on_listener(kt__watch *watch, uint32_t events) {
    kt__unix *u = (kt__unix *)(void *)watch;
    struct ucred who;
    (void)events;
    for (int i = 0; i < 64; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            bool none = errno == EAGAIN || errno == EWOULDBLOCK;
            if (!none && errno != ECONNABORTED && errno != EINTR) rest_listener(u, errno);
            return;
        }
        if (is_welcome(u, fd, &who)) {
            add_client(u, fd, &who);
        } else {
            refuse_client(u, fd);
        }
    }
}

/* ---- life ---- */

kt_status kt__unix_open(kt__shared *shared, const char *path, unsigned mode, int fd, kt__unix **out,
                        kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    kt__unix *u = kt__calloc(1, sizeof *u);
    if (!u) return kt__fail_nomem(err, "the socket", sizeof *u);
    u->shared = shared;
    pthread_mutex_init(&u->lock, NULL);
    (void)kt__cond_init(&u->empty);
    u->on_output = take_job_output;
    u->own = fd < 0;
    u->open_to_others = (mode & 077) != 0;
    u->listener = (kt__listener){.fd = fd, .lock_fd = -1};
    if (u->own) status = kt__listener_open(path, mode, &u->listener, err);
    u->watch = (kt__watch){on_listener, u->listener.fd};
    if (status == KT_OK && !kt__event_loop_watch(shared->loop, &u->watch, EPOLLIN))
        status = kt__fail_nomem(err, "the socket", 0);
    if (status != KT_OK) {
        kt__unix_close(u);
        return status;
    }
    *out = u;
    return KT_OK;
}

void kt__unix_stop_accepting(kt__unix *u) {
    if (u) kt__event_loop_unwatch(u->shared->loop, &u->watch);
}

static void wake_listener(kt__unix *u) {
    if (!u->rest_until_us || kt__now_us() < u->rest_until_us) return;
    u->rest_until_us = 0;
    kt__event_loop_change(u->shared->loop, &u->watch, EPOLLIN);
}

void kt__unix_tick(kt__unix *u) {
    if (!u) return;
    wake_listener(u);
    int64_t before_us = kt__now_us() - kt__shared_limits(u->shared).stall_s * 1000000;
    for (kt__unix_client *c = u->clients, *next; c; c = next) {
        next = c->next;
        if (!unsent_bytes(c) || c->moved_us > before_us) continue;
        kt__slog_line(&u->shared->log, KT_LOG_WARN, "socket: %s (pid %d) reads nothing: let go",
                      c->name, (int)c->pid);
        free_client(c);
    }
}

bool kt__unix_wait(kt__unix *u, int64_t ms) {
    const struct timespec until = kt__time_in_ms(ms);
    int rc = 0;
    if (!u) return true;
    pthread_mutex_lock(&u->lock);
    while (u->n_clients && rc == 0) rc = pthread_cond_timedwait(&u->empty, &u->lock, &until);
    bool none = u->n_clients == 0;
    pthread_mutex_unlock(&u->lock);
    return none;
}

void kt__unix_close(kt__unix *u) {
    if (!u) return;
    while (u->clients) free_client(u->clients);
    kt__listener_close(&u->listener);
    pthread_cond_destroy(&u->empty);
    pthread_mutex_destroy(&u->lock);
    kt__free(u);
}
