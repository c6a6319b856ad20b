#include "serve/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/sched_latency.h"
#include "serve/http_answer.h"
#include "serve/http_listen.h"

enum { MAX_REPLY = 16 << 20, SLICE_BYTES = 32 << 10 };

/* A connection, from accept to close; it may carry many requests. */
typedef struct peer {
    kt__watch watch;    /* first member: the loop looks for hang-ups */
    kt__task_item task; /* frees it, on the loop */
    kt__http *http;
    struct peer *next, **link;
    int64_t deadline_us; /* what is being waited for must have come; 0: nothing */
    kt__job *job;        /* that it waits for, or NULL */
    bool watched;
    char address[64];
} peer;

struct kt__http {
    kt__server *server;
    struct MHD_Daemon *daemon;
    kt__http_socket at; /* its descriptor is the daemon's, which closes it */
    bool quiet;
    pthread_mutex_t lock; /* peers and their members */
    peer *peers;
    char *cert, *key;
    atomic_int n_requests;
};

kt__server *kt__http_server(const kt__http_request *request) {
    return request->http->server;
}

int kt__http_port(const kt__http *http) {
    return http->at.port;
}

/* ---- connections ---- */

static void free_peer(kt__task_item *item) {
    kt__free((char *)item - offsetof(peer, task));
}

static void on_hangup(kt__watch *watch, uint32_t events) {
    peer *p = (peer *)(void *)watch;
    (void)events;
    pthread_mutex_lock(&p->http->lock);
    kt__job *job = p->job;
    if (job) kt__job_ref(job);
    pthread_mutex_unlock(&p->http->lock);
    if (!job) return;
    kt__job_abandon(job); /* its on_output wakes the connection, which then ends */
    kt__job_release(job);
}

static void name_peer(peer *p, struct MHD_Connection *connection) {
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

static void open_peer(kt__http *http, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    peer *p = kt__calloc(1, sizeof *p);
    *context = p;
    if (!p) return; /* requests on it are refused */
    p->watch = (kt__watch){on_hangup, info ? info->connect_fd : -1};
    p->task.run = free_peer;
    p->http = http;
    p->deadline_us = kt__now_us() + kt__server_config(http->server)->request_s * 1000000;
    name_peer(p, connection);
    pthread_mutex_lock(&http->lock);
    p->next = http->peers;
    p->link = &http->peers;
    if (p->next) p->next->link = &p->next;
    http->peers = p;
    pthread_mutex_unlock(&http->lock);
    kt__metrics_connection(http->server->metrics, false, 1);
}

static void close_peer(kt__http *http, void **context) {
    peer *p = *context;
    *context = NULL;
    if (!p) return;
    pthread_mutex_lock(&http->lock);
    *p->link = p->next;
    if (p->next) p->next->link = p->link;
    if (p->watched) kt__event_loop_unwatch(http->server->loop, &p->watch);
    pthread_mutex_unlock(&http->lock);
    kt__metrics_connection(http->server->metrics, false, -1);
    (void)kt__event_loop_post(http->server->loop, &p->task);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_peer(user, connection, context);
    } else {
        close_peer(user, context);
    }
}

static peer *peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_deadline(struct MHD_Connection *connection, int64_t seconds) {
    peer *p = peer_of(connection);
    if (!p) return;
    pthread_mutex_lock(&p->http->lock);
    p->deadline_us = seconds ? kt__now_us() + seconds * 1000000 : 0;
    pthread_mutex_unlock(&p->http->lock);
}

/* The job that the connection waits for; NULL: none. Watches for hang-ups from the first on. */
static void set_job(struct MHD_Connection *connection, kt__job *job) {
    peer *p = peer_of(connection);
    if (!p) return;
    pthread_mutex_lock(&p->http->lock);
    p->job = job;
    if (job && !p->watched)
        p->watched = kt__event_loop_watch(p->http->server->loop, &p->watch, EPOLLRDHUP | EPOLLET);
    else if (job)
        kt__event_loop_change(p->http->server->loop, &p->watch,
                              EPOLLRDHUP | EPOLLET); /* looks again */
    pthread_mutex_unlock(&p->http->lock);
}

void kt__http_tick(kt__http *http) {
    if (!http) return;
    int64_t now_us = kt__now_us();
    pthread_mutex_lock(&http->lock);
    for (peer *p = http->peers; p; p = p->next) {
        if (p->deadline_us && now_us > p->deadline_us) {
            p->deadline_us = 0;
            (void)shutdown(p->watch.fd, SHUT_RDWR); /* the daemon sees the end and closes */
        }
    }
    pthread_mutex_unlock(&http->lock);
}

/* ---- a job's answer ---- */

/* Hub: there is something, or the end. */
static void on_output(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool wake = job->suspended;
    job->suspended = false;
    struct MHD_Connection *connection = job->owner;
    if (wake) MHD_resume_connection(connection);
    pthread_mutex_unlock(&job->lock);
}

/* The lock of the job is held. */
static void suspend(kt__http_request *r) {
    r->job->suspended = true;
    MHD_suspend_connection(r->connection);
}

/* What the daemon calls for the next bytes of a stream. */
static ssize_t read_stream(void *user, uint64_t pos, char *out, size_t most) {
    kt__http_request *r = user;
    kt__job *job = r->job;
    ssize_t n;
    (void)pos;
    pthread_mutex_lock(&job->lock);
    size_t there = job->out.len - job->out_at;
    if (there) {
        n = (ssize_t)(there < most ? there : most);
        memcpy(out, job->out.data + job->out_at, (size_t)n);
        kt__job_taken(job, (size_t)n);
    } else if (job->gone) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (job->done) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        n = 0;
        suspend(r);
    }
    pthread_mutex_unlock(&job->lock);
    return n;
}

static const char *stream_type(const kt__job *job) {
    bool lines = !strncmp(job->dialect->route, "/api/", 5);
    return lines ? "application/x-ndjson" : "text/event-stream";
}

/* Answers if it can, or suspends. */
static enum MHD_Result answer_job(kt__http_request *r) {
    kt__job *job = r->job;
    pthread_mutex_lock(&job->lock);
    bool stream = job->stream && job->begun, done = job->done, gone = job->gone;
    int status = job->status;
    r->retry_ms = job->error.retry_ms;
    if (!stream && !done) suspend(r);
    pthread_mutex_unlock(&job->lock);
    if (gone) return MHD_NO;
    if (stream) {
        struct MHD_Response *response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, SLICE_BYTES, read_stream, r, NULL);
        if (response) kt__http_add_header(response, "X-Accel-Buffering", "no");
        return kt__http_queue(r, response, status, stream_type(job));
    }
    if (!done) return MHD_YES;
    if (job->out.failed)
        return kt__http_answer_error(r, 500, NULL, "the answer did not fit into memory");
    if (!job->out.len) return kt__http_answer_error(r, 499, NULL, "cancelled");
    return kt__http_answer_bytes(r, status, NULL, job->out.data, job->out.len);
}

static enum MHD_Result start_job(kt__http_request *r) {
    kt_error err;
    kt_status status = kt__job_create(r->http->server, r->route->dialect, r->route->id_prefix,
                                      r->client, &r->job, &err);
    if (status != KT_OK) return kt__http_answer_error(r, 503, NULL, "%s", err.message);
    r->job->body = r->body;
    kt__buf_init(&r->body, 0);
    r->job->owner = r->connection;
    r->job->on_output = on_output;
    set_job(r->connection, r->job);
    kt__job_start(r->job);
    return answer_job(r);
}

static enum MHD_Result answer_now(kt__http_request *r) {
    int status = r->route->answer(r);
    kt__metrics_answer(r->http->server->metrics, r->route->path, status);
    if (r->reply.failed) return kt__http_answer_error(r, 500, NULL, "the answer is too long");
    return kt__http_answer_bytes(r, status, r->route->type, r->reply.data, r->reply.len);
}

/* ---- the daemon's calls ---- */

static void *on_uri(void *user, const char *uri, struct MHD_Connection *connection) {
    kt__http *http = user;
    (void)uri;
    set_deadline(connection, kt__server_config(http->server)->request_s);
    return NULL;
}

static enum MHD_Result first_call(kt__http *http, struct MHD_Connection *connection,
                                  const char *method, const char *path, void **context) {
    char allowed[16];
    enum MHD_Result result;
    const peer *p = peer_of(connection);
    kt__http_request *r = kt__calloc(1, sizeof *r);
    if (!r || !p) {
        kt__free(r);
        return MHD_NO;
    }
    *context = r;
    atomic_fetch_add(&http->n_requests, 1);
    r->http = http;
    r->connection = connection;
    r->listens_at = http->at.unix_socket ? NULL : http->at.address;
    r->max_body = (size_t)kt__server_config(http->server)->max_body;
    kt__buf_init(&r->body, r->max_body);
    kt__buf_init(&r->reply, MAX_REPLY);
    snprintf(r->client, sizeof r->client, "ip:%s", p->address);
    r->route = kt__http_find_route(method, path, allowed, sizeof allowed);
    return kt__http_refuse(r, method, path, allowed, &result) ? result : MHD_YES;
}

static enum MHD_Result take_body(kt__http_request *r, const char *data, size_t *len) {
    if (!r->answered && !r->body.failed && !kt__buf_append(&r->body, data, *len)) {
        bool long_ = r->body.len + *len > r->max_body;
        *len = 0;
        return long_ ? MHD_YES : MHD_NO; /* 413 is said at the end of the body */
    }
    *len = 0;
    return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **context) {
    kt__http_request *r = *context;
    (void)version;
    if (!r) return first_call(user, connection, method, path, context);
    if (*len) return take_body(r, data, len);
    if (r->answered) return MHD_YES;
    if (!r->started) {
        set_deadline(connection, 0);
        r->started = true;
        if (r->body.failed)
            return kt__http_answer_error(r, 413, NULL, "the body is longer than %zu bytes",
                                         r->max_body);
        return r->route->dialect ? start_job(r) : answer_now(r);
    }
    return answer_job(r);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code) {
    kt__http *http = user;
    kt__http_request *r = *context;
    *context = NULL;
    if (!r) return;
    set_job(connection, NULL);
    set_deadline(connection, kt__server_config(http->server)->idle_s);
    if (r->job && code != MHD_REQUEST_TERMINATED_COMPLETED_OK) kt__job_abandon(r->job);
    kt__job_release(r->job);
    kt__buf_free(&r->body);
    kt__buf_free(&r->reply);
    kt__free(r);
    atomic_fetch_sub(&http->n_requests, 1);
}

static void on_log(void *user, const char *fmt, va_list args) {
    kt__http *http = user;
    char text[512];
    if (http->quiet) return;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    kt__slog_line(&http->server->log, KT_LOG_DEBUG, "http: %s", text);
}

static kt_status start_daemon(kt__http *http, kt_error *err) {
    const kt__config *c = kt__server_config(http->server);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
                                   {MHD_OPTION_END, 0, NULL}};
    if (http->cert) flags |= MHD_USE_TLS;
    bool latency = kt__sched_latency_begin(); /* the daemon's thread inherits it */
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http,
        MHD_OPTION_LISTEN_SOCKET, http->at.fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
        http, MHD_OPTION_CONNECTION_LIMIT, (unsigned)c->connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)c->connections_per_peer,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)c->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)c->max_header + 4096, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
        http->cert ? tls : &tls[2], MHD_OPTION_END);
    kt__sched_latency_end(latency);
    if (http->daemon) return KT_OK;
    return kt__fail(err, KT_E_IO, "cannot start the HTTP server%s",
                    http->cert ? ": are certificate and key valid PEM, and of one pair?" : "");
}

kt_status kt__http_open(kt__server *server, const char *listen_at, int fd, kt__http **out,
                        kt_error *err) {
    const kt__config *config = kt__server_config(server);
    kt_status status = KT_OK;
    *out = NULL;
    kt__http *http = kt__calloc(1, sizeof *http);
    if (!http) return kt__fail_nomem(err, "the HTTP server", sizeof *http);
    http->server = server;
    http->at = KT__HTTP_NO_SOCKET;
    http->at.fd = fd; /* ours from here on, also on failure */
    pthread_mutex_init(&http->lock, NULL);
    if (config->tls_cert) {
        KT__TRY(kt__http_read_pem(config->tls_cert, &http->cert, err));
        KT__TRY(kt__http_read_pem(config->tls_key, &http->key, err));
    }
    KT__TRY(kt__http_socket_open(config, listen_at, fd, &http->at, err));
    KT__TRY(start_daemon(http, err));
    *out = http;
    http = NULL;
out:
    kt__http_free(http);
    return status;
}

void kt__http_stop_accepting(kt__http *http) {
    if (!http) return;
    int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0) close(fd);
    http->at.fd = -1;
}

/* Connections that wait are woken: the daemon cannot end with one suspended. */
static void wake_all(kt__http *http) {
    pthread_mutex_lock(&http->lock);
    for (peer *p = http->peers; p; p = p->next) {
        if (p->job) kt__job_abandon(p->job);
    }
    pthread_mutex_unlock(&http->lock);
}

void kt__http_close(kt__http *http) {
    if (!http) return;
    if (http->daemon) {
        /* answers that are finished still want to be sent */
        for (int i = 0; i < 100 && atomic_load(&http->n_requests); i++) usleep(10000);
        wake_all(http);
        for (int i = 0; i < 200 && atomic_load(&http->n_requests); i++) usleep(10000);
        http->quiet = true;
        MHD_stop_daemon(http->daemon);
    } else if (http->at.fd >= 0) {
        close(http->at.fd);
    }
    http->daemon = NULL;
    http->at.fd = -1;
    kt__listener_close(&http->at.listener);
}

void kt__http_free(kt__http *http) {
    if (!http) return;
    kt__http_close(http);
    pthread_mutex_destroy(&http->lock);
    if (http->key) explicit_bzero(http->key, KT__HTTP_MAX_PEM);
    kt__free(http->key);
    kt__free(http->cert);
    kt__free(http);
}
