#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/dialects.h"
#include "serve/guard.h"
#include "serve/http_request.h"
#include "serve/listener.h"

enum { BACKLOG = 512, MAX_REPLY = 16 << 20, MAX_PEM = 1 << 20, SLICE_BYTES = 32 << 10 };

/* A connection, from accept to close; it may carry many requests. */
typedef struct peer {
    kt__watch watch;    /* first member: the hub looks for hang-ups */
    kt__task_item task; /* frees it, on the hub */
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
    kt__listener listener; /* of a Unix socket */
    int fd, port;          /* fd: the daemon's, which closes it */
    char address[64];      /* that is listened on */
    bool unix_socket, quiet;
    pthread_mutex_t lock; /* peers and their members */
    peer *peers;
    char *cert, *key;
    atomic_int n_requests;
};

kt__server *kt__http_server(const kt__http_request *request) {
    return request->http->server;
}

int kt__http_port(const kt__http *http) {
    return http->port;
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
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
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
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
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
    if (p->watched) kt__hub_unwatch(http->server->hub, &p->watch);
    pthread_mutex_unlock(&http->lock);
    kt__metrics_connection(http->server->metrics, false, -1);
    (void)kt__hub_post(http->server->hub, &p->task);
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
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
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
        p->watched = kt__hub_watch(p->http->server->hub, &p->watch, EPOLLRDHUP | EPOLLET);
    else if (job)
        kt__hub_change(p->http->server->hub, &p->watch, EPOLLRDHUP | EPOLLET); /* looks again */
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

/* ---- answers ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
    (void)MHD_add_response_header(response, name, value);
}

static enum MHD_Result queue(kt__http_request *r, struct MHD_Response *response, int status,
                             const char *type) {
    char text[32];
    if (!response) return MHD_NO;
    add_header(response, "Content-Type", type);
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, "Cache-Control", "no-store");
    if (r->job) {
        add_header(response, "X-Request-Id", r->job->id);
        add_header(response, "Request-Id", r->job->id); /* where Anthropic's clients look */
    }
    if (status == 429 || status == 503) {
        int64_t seconds = (r->retry_ms + 999) / 1000;
        snprintf(text, sizeof text, "%lld", (long long)(seconds > 0 ? seconds : 1));
        add_header(response, "Retry-After", text);
    }
    if (status == 401) add_header(response, "WWW-Authenticate", "Bearer");
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    r->answered = true;
    return result;
}

static enum MHD_Result answer_bytes(kt__http_request *r, int status, const char *type, char *data,
                                    size_t len) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_COPY);
    return queue(r, response, status, type ? type : "application/json");
}

/* In the words of whom the path belongs to. */
static void write_error(kt__http_request *r, int status, const kt_error *err) {
    const char *path = r->route ? r->route->path : "";
    kt__buf_clear(&r->reply);
    if (!strncmp(path, "/v1/messages", 12)) {
        kt__messages_error_body(&r->reply, status, err->message);
    } else if (!strncmp(path, "/api/", 5)) {
        kt__ollama_error_body(&r->reply, err->message);
    } else {
        kt__wire_write_error(&r->reply, err);
    }
}

static enum MHD_Result answer_error(kt__http_request *r, int status, const char *allowed,
                                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static enum MHD_Result answer_error(kt__http_request *r, int status, const char *allowed,
                                    const char *fmt, ...) {
    kt_error err = {.code = status >= 500 ? KT_E_BUSY : KT_E_ARG, .offset = UINT64_MAX};
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.message, sizeof err.message, fmt, args);
    va_end(args);
    write_error(r, status, &err);
    kt__metrics_answer(r->http->server->metrics, r->route ? r->route->path : "other", status);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(r->reply.len, r->reply.data, MHD_RESPMEM_MUST_COPY);
    if (response && allowed) add_header(response, "Allow", allowed);
    return queue(r, response, status, "application/json");
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
        struct MHD_Response *response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, SLICE_BYTES, read_stream, r, NULL);
        if (response) add_header(response, "X-Accel-Buffering", "no");
        return queue(r, response, status, stream_type(job));
    }
    if (!done) return MHD_YES;
    if (job->out.failed) return answer_error(r, 500, NULL, "the answer did not fit into memory");
    if (!job->out.len) return answer_error(r, 499, NULL, "cancelled");
    return answer_bytes(r, status, NULL, job->out.data, job->out.len);
}

static enum MHD_Result start_job(kt__http_request *r) {
    kt_error err;
    kt_status status = kt__job_create(r->http->server, r->route->dialect, r->route->id_prefix,
                                      r->client, &r->job, &err);
    if (status != KT_OK) return answer_error(r, 503, NULL, "%s", err.message);
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
    if (r->reply.failed) return answer_error(r, 500, NULL, "the answer is too long");
    return answer_bytes(r, status, r->route->type, r->reply.data, r->reply.len);
}

/* ---- who may ask ---- */

static const char *header(kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static bool is_open(const kt__route *route, const kt__config *config) {
    return (route->flags & KT__ROUTE_OPEN) ||
           ((route->flags & KT__ROUTE_METRICS) && config->metrics_open);
}

/* 0: go on; else the answer was queued with *result. */
static bool refuse(kt__http_request *r, const char *method, const char *path, const char *allowed,
                   enum MHD_Result *result) {
    const kt__config *config = kt__server_config(r->http->server);
    const kt__keys *keys = atomic_load(&r->http->server->keys);
    const char *host = header(r, "Host"), *origin = header(r, "Origin");
    const char *address = r->http->address, *length = header(r, "Content-Length"), *name = NULL;
    if (!r->http->unix_socket && !kt__guard_host(config, address, host)) {
        *result = answer_error(
            r, 403, NULL, "this Host is not served here: add it to http.hosts if it should be");
    } else if (origin && !kt__guard_origin(config, address, origin)) {
        *result = answer_error(r, 403, NULL,
                               "requests from pages of other origins are not answered: add the "
                               "origin's host to http.hosts if they should be");
    } else if (!r->route && *allowed) {
        *result =
            answer_error(r, 405, allowed, "%.10s is not allowed here, only %s", method, allowed);
    } else if (keys && !(r->route && is_open(r->route, config)) &&
               !(name = kt__guard_key(keys, header(r, "Authorization"), header(r, "X-Api-Key")))) {
        *result = answer_error(r, 401, NULL, "an API key is needed: Authorization: Bearer KEY");
    } else if (!r->route) {
        *result = answer_error(r, 404, NULL, "there is nothing at %.80s", path);
    } else if (!strcmp(r->route->method, "POST") && !kt__guard_is_json(header(r, "Content-Type"))) {
        *result = answer_error(r, 415, NULL, "Content-Type: application/json is needed");
    } else if (length && strtoull(length, NULL, 10) > r->max_body) {
        *result = answer_error(r, 413, NULL, "the body is longer than %zu bytes", r->max_body);
    } else if (atomic_load(&r->http->server->stopping) && !(r->route->flags & KT__ROUTE_OPEN)) {
        *result = answer_error(r, 503, NULL, "the server is being stopped");
    } else {
        if (name) snprintf(r->client, sizeof r->client, "key:%s", name);
        return false;
    }
    return true;
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
    r->max_body = (size_t)kt__server_config(http->server)->max_body;
    kt__buf_init(&r->body, r->max_body);
    kt__buf_init(&r->reply, MAX_REPLY);
    snprintf(r->client, sizeof r->client, "ip:%s", p->address);
    r->route = kt__http_find_route(method, path, allowed, sizeof allowed);
    return refuse(r, method, path, allowed, &result) ? result : MHD_YES;
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
            return answer_error(r, 413, NULL, "the body is longer than %zu bytes", r->max_body);
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

/* ---- listening ---- */

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        return IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
    }
    return address->sa_family == AF_UNIX;
}

static kt_status split_listen(const char *listen, char *host, size_t host_size, char *port,
                              size_t port_size, kt_error *err) {
    const char *colon = strrchr(listen, ':'), *begin = listen, *end = colon;
    if (colon && listen[0] == '[' && colon > listen && colon[-1] == ']') {
        begin++;
        end--;
    } else if (!colon || memchr(listen, ':', (size_t)(colon - listen))) {
        return kt__fail(err, KT_E_ARG,
                        "http.listen \"%.80s\": expected ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH",
                        listen);
    }
    snprintf(host, host_size, "%.*s", (int)(end - begin), begin);
    snprintf(port, port_size, "%s", colon + 1);
    char *rest;
    long number = strtol(port, &rest, 10);
    if (!*port || *rest || number < 0 || number > 65535)
        return kt__fail(err, KT_E_ARG, "http.listen \"%.80s\": no port after the colon", listen);
    return KT_OK;
}

/* *found: for freeaddrinfo. */
static kt_status resolve(const char *listen_at, struct addrinfo **found, kt_error *err) {
    char host[64], port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    *found = NULL;
    kt_status status = split_listen(listen_at, host, sizeof host, port, sizeof port, err);
    if (status != KT_OK) return status;
    int rc = getaddrinfo(*host ? host : NULL, port, &hints, found);
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_ARG, "http.listen \"%.80s\": %s", listen_at, gai_strerror(rc));
}

static kt_status open_tcp(kt__http *http, const char *listen_at, kt_error *err) {
    struct addrinfo *found;
    int on = 1;
    kt_status status = resolve(listen_at, &found, err);
    if (status != KT_OK) return status;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        status = kt__fail(err, KT_E_IO, "cannot listen on %s: %s%s", listen_at, strerror(errno),
                          errno == EADDRINUSE ? ": is another server running?" : "");
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    http->fd = fd;
    return status;
}

static kt_status open_unix(kt__http *http, const char *path, kt_error *err) {
    mode_t mode = (mode_t)kt__server_config(http->server)->socket_mode;
    kt_status status = kt__listener_open(path, mode, &http->listener, err);
    if (status != KT_OK) return status;
    http->fd = http->listener.fd;
    http->listener.fd = -1; /* the daemon closes it */
    return KT_OK;
}

/* Beyond loopback keys are needed. */
static kt_status check_keys(const kt__config *config, const struct sockaddr *address,
                            const char *name, kt_error *err) {
    if (is_loopback(address) || config->keys || config->no_keys) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "%s can be reached from other machines: give a file of API keys (http.keys), "
                    "or say that none are wanted (http.no_keys)",
                    name);
}

/* What is listened on, and whether that needs keys. */
static kt_status look_at_socket(kt__http *http, kt_error *err) {
    const kt__config *config = kt__server_config(http->server);
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(http->fd, (struct sockaddr *)&address, &len) != 0)
        return kt__fail(err, KT_E_IO, "no address: %s", strerror(errno));
    http->unix_socket = address.ss_family == AF_UNIX;
    char port[16] = "0";
    if (!http->unix_socket &&
        getnameinfo((struct sockaddr *)&address, len, http->address, sizeof http->address, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return kt__fail(err, KT_E_IO, "no address");
    http->port = atoi(port);
    return check_keys(config, (struct sockaddr *)&address, http->address, err);
}

static kt_status read_pem(const char *path, char **out, kt_error *err) {
    FILE *in = fopen(path, "re");
    if (!in)
        return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot open %s: %s", path,
                           strerror(errno));
    *out = kt__calloc(1, MAX_PEM);
    size_t n = *out ? fread(*out, 1, MAX_PEM - 1, in) : 0;
    fclose(in);
    if (n) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "nothing in %s", path);
}

static kt_status start_daemon(kt__http *http, kt_error *err) {
    const kt__config *c = kt__server_config(http->server);
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
                                   {MHD_OPTION_END, 0, NULL}};
    if (http->cert) flags |= MHD_USE_TLS;
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, http,
        MHD_OPTION_LISTEN_SOCKET, http->fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
        http, MHD_OPTION_CONNECTION_LIMIT, (unsigned)c->connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)c->connections_per_peer,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)c->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)c->max_header + 4096, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
        http->cert ? tls : &tls[2], MHD_OPTION_END);
    if (http->daemon) return KT_OK;
    return kt__fail(err, KT_E_IO, "cannot start the HTTP server%s",
                    http->cert ? ": are certificate and key valid PEM, and of one pair?" : "");
}

static kt_status check_pem(const char *path, kt_error *err) {
    char *text = NULL;
    kt_status status = path ? read_pem(path, &text, err) : KT_OK;
    if (text) explicit_bzero(text, MAX_PEM);
    kt__free(text);
    return status;
}

kt_status kt__http_check(const kt__config *config, kt_error *err) {
    struct addrinfo *found;
    kt_status status;
    KT__TRY(check_pem(config->tls_cert, err));
    KT__TRY(check_pem(config->tls_key, err));
    if (!config->listen || !strncmp(config->listen, "unix:", 5)) return KT_OK;
    KT__TRY(resolve(config->listen, &found, err));
    status = check_keys(config, found->ai_addr, config->listen, err);
    freeaddrinfo(found);
out:
    return status;
}

kt_status kt__http_open(kt__server *server, const char *listen_at, int fd, kt__http **out,
                        kt_error *err) {
    const kt__config *config = kt__server_config(server);
    kt_status status = KT_OK;
    *out = NULL;
    kt__http *http = kt__calloc(1, sizeof *http);
    if (!http) return kt__fail_nomem(err, "the HTTP server", sizeof *http);
    http->server = server;
    http->fd = fd;
    http->listener = (kt__listener){.fd = -1, .lock_fd = -1};
    pthread_mutex_init(&http->lock, NULL);
    if (config->tls_cert) {
        KT__TRY(read_pem(config->tls_cert, &http->cert, err));
        KT__TRY(read_pem(config->tls_key, &http->key, err));
    }
    if (fd < 0 && !strncmp(listen_at, "unix:", 5)) {
        KT__TRY(open_unix(http, listen_at + 5, err));
    } else if (fd < 0) {
        KT__TRY(open_tcp(http, listen_at, err));
    }
    KT__TRY(look_at_socket(http, err));
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
    http->fd = -1;
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
    } else if (http->fd >= 0) {
        close(http->fd);
    }
    http->daemon = NULL;
    http->fd = -1;
    kt__listener_close(&http->listener);
}

void kt__http_free(kt__http *http) {
    if (!http) return;
    kt__http_close(http);
    pthread_mutex_destroy(&http->lock);
    if (http->key) explicit_bzero(http->key, MAX_PEM);
    kt__free(http->key);
    kt__free(http->cert);
    kt__free(http);
}
