#include "transports/http.h"

#include <errno.h>
#include <linux/filter.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "services/workers.h"
#include "transports/http_answer.h"
#include "transports/http_listen.h"
#include "transports/http_peer.h"
#include "transports/http_refuse.h"

enum { MAX_REPLY = 16 << 20, SLICE_BYTES = 32 << 10 };

struct kt__http {
    kt__http *next; /* the same at another address, or NULL */
    kt__shared *shared;
    char listen_at[KT__LISTEN_BYTES];
    struct MHD_Daemon *daemon;
    kt__http_socket at; /* its descriptor is the daemon's, which closes it */
    bool quiet;
    bool own_socket;     /* made here, not passed in */
    char complaint[256]; /* the daemon's last */
    kt__http_peers peers;
    char *cert, *key;
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t idle;  /* n_requests has become 0 */
    int n_requests;
};

int kt__http_port(const kt__http *http) {
    return http->at.port;
}

void kt__http_tick(kt__http *http) {
    for (; http; http = http->next) kt__http_peers_tick(&http->peers);
}

/* ---- a job's answer ---- */

/* Loop: there is something, or the end. */
static void wake_connection(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool wake = job->transport.waits;
    job->transport.waits = false;
    struct MHD_Connection *connection = job->transport.owner;
    if (wake) MHD_resume_connection(connection);
    pthread_mutex_unlock(&job->lock);
}

/* The lock of the job is held. */
static void suspend_connection(kt__http_request *r) {
    r->job->transport.waits = true;
    MHD_suspend_connection(r->connection);
}

/* What the daemon calls for the next bytes of a stream. */
static ssize_t read_stream(void *user, uint64_t pos, char *out, size_t most) {
    kt__http_request *r = user;
    kt__job *job = r->job;
    ssize_t n;
    (void)pos;
    pthread_mutex_lock(&job->lock);
    size_t there = job->answer.out.len - job->answer.out_at;
    if (there) {
        n = (ssize_t)(there < most ? there : most);
        memcpy(out, job->answer.out.data + job->answer.out_at, (size_t)n);
        kt__job_taken(job, (size_t)n);
    } else if (job->interest == KT__JOB_ABANDONED) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (job->state == KT__JOB_ENDED) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        n = 0;
        suspend_connection(r);
    }
    pthread_mutex_unlock(&job->lock);
    return n;
}

/* Answers if it can, or suspends. */
static enum MHD_Result answer_job(kt__http_request *r) {
    kt__job *job = r->job;
    pthread_mutex_lock(&job->lock);
    bool stream = job->answer.stream && job->state >= KT__JOB_ANSWERING;
    bool ended = job->state == KT__JOB_ENDED, abandoned = job->interest == KT__JOB_ABANDONED;
    int status = job->answer.status;
    r->retry_ms = job->answer.error.retry_ms;
    if (!stream && !ended) suspend_connection(r);
    pthread_mutex_unlock(&job->lock);
    if (abandoned) return MHD_NO;
    if (stream) {
        struct MHD_Response *response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, SLICE_BYTES, read_stream, r, NULL);
        if (response) kt__http_add_header(response, "X-Accel-Buffering", "no");
        return kt__http_queue(r, response, status, job->dialect->stream_type);
    }
    if (!ended) return MHD_YES;
    if (job->answer.out.failed)
        return kt__http_answer_error(r, 500, NULL, "the answer did not fit into memory");
    if (!job->answer.out.len && status != 202)
        return kt__http_answer_error(r, 499, NULL, "cancelled");
    return kt__http_answer_bytes(r, status, NULL, job->answer.out.data, job->answer.out.len);
}

static enum MHD_Result start_job(kt__http_request *r) {
    kt_error err;
    kt_status status = kt__job_create(r->shared, r->route->dialect, r->route->id_prefix, r->client,
                                      &r->job, &err);
    if (status != KT_OK) return kt__http_answer_error(r, 503, NULL, "%s", err.message);
    r->job->request.body = r->body;
    r->job->request.n_held = r->n_held;
    kt__buf_init(&r->body, 0);
    r->n_held = 0;
    r->job->transport.owner = r->connection;
    r->job->transport.on_output = wake_connection;
    if (r->route->take_head) status = r->route->take_head(r, &err);
    if (status != KT_OK) return kt__http_answer_error(r, 503, NULL, "%s", err.message);
    uint64_t share = r->has_key ? 0 : kt__http_peer_share(kt__http_peer_of(r->connection));
    if (share) kt__job_share_by_connection(r->job, share);
    kt__job_start(r->job);
    kt__http_peer_set_job(kt__http_peer_of(r->connection), r->job, !r->old_version);
    /* Not suspended yet: the daemon still means to read, and would read the end of a client that
     * closed its sending side, and close, when it resumes the connection. It calls again at once,
     * then not reading any more. */
    return MHD_YES;
}

static enum MHD_Result answer_file(kt__http_request *r, int status) {
    struct stat st;
    uint64_t size = fstat(r->file, &st) == 0 ? (uint64_t)st.st_size : 0;
    struct MHD_Response *response = MHD_create_response_from_fd64(size, r->file);
    if (!response) close(r->file);
    return kt__http_queue(r, response, status, r->type);
}

static enum MHD_Result answer_now(kt__http_request *r) {
    int status = r->route->answer(r);
    kt__metrics_answer(r->shared->metrics, r->route->path, status);
    if (r->reply.failed) return kt__http_answer_error(r, 500, NULL, "the answer is too long");
    if (r->has_file) return answer_file(r, status);
    return kt__http_answer_bytes(r, status, r->type ? r->type : r->route->type, r->reply.data,
                                 r->reply.len);
}

/* ---- the daemon's calls ---- */

/* Paths are compared as they came: no route has a character that needs an escape, and %2f or %00
 * must not become what a proxy's rules did not see. */
static size_t keep_escapes(void *user, struct MHD_Connection *connection, char *text) {
    (void)user;
    (void)connection;
    return strlen(text);
}

static void *on_uri(void *user, const char *uri, struct MHD_Connection *connection) {
    kt__http *http = user;
    (void)uri;
    kt__http_peer_set_deadline(kt__http_peer_of(connection),
                               kt__shared_limits(http->shared).request_s);
    return NULL;
}

static void count_request(kt__http *http, int change) {
    pthread_mutex_lock(&http->lock);
    http->n_requests += change;
    if (http->n_requests == 0) pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->lock);
}

static void wait_until_idle(kt__http *http, int64_t ms) {
    const struct timespec until = kt__time_in_ms(ms);
    int rc = 0;
    pthread_mutex_lock(&http->lock);
    while (http->n_requests && rc == 0)
        rc = pthread_cond_timedwait(&http->idle, &http->lock, &until);
    pthread_mutex_unlock(&http->lock);
}

static kt__http_request *new_request(kt__http *http, struct MHD_Connection *connection) {
    kt__http_peer *peer = kt__http_peer_of(connection);
    kt__http_request *r = peer ? kt__calloc(1, sizeof *r) : NULL;
    if (!r) return NULL;
    count_request(http, 1);
    r->shared = http->shared;
    r->settings = kt__shared_settings(http->shared);
    r->connection = connection;
    r->listens_at = http->at.unix_socket ? NULL : http->at.address;
    r->max_body = (size_t)r->settings->config->max_body;
    kt__buf_init(&r->body, r->max_body);
    kt__buf_init(&r->reply, MAX_REPLY);
    snprintf(r->client, sizeof r->client, "ip:%s", kt__http_peer_address(peer));
    r->surplus = kt__http_peer_is_surplus(peer);
    kt__http_peer_set_busy(peer, true);
    return r;
}

/* The path without http.prefix: "llm", "/llm" and "/llm/" are one, and only whole parts of a path count. A proxy
 * may take the prefix away or leave it, so a path without it stays what it is. */
static const char *path_after_prefix(const char *path, const char *prefix) {
    while (prefix && *prefix == '/') prefix++;
    size_t n = prefix ? strlen(prefix) : 0;
    while (n && prefix[n - 1] == '/') n--;
    if (!n || *path != '/' || strncmp(path + 1, prefix, n) != 0) return path;
    const char *rest = path + 1 + n;
    return !*rest ? "/" : *rest == '/' ? rest : path;
}

static enum MHD_Result first_call(kt__http *http, struct MHD_Connection *connection,
                                  const char *method, const char *path, const char *version,
                                  void **context) {
    kt__http_head head = {.method = method, .version = version};
    enum MHD_Result result;
    kt__http_request *r = new_request(http, connection);
    if (!r) return MHD_NO;
    head.path = path = path_after_prefix(path, r->settings->config->prefix);
    *context = r;
    r->old_version = !strcmp(version, "HTTP/1.0");
    r->route = kt__http_find_route(method, path, &head.allowed, &r->rest);
    r->error_body = kt__http_error_body(r->route, path);
    return kt__http_refuse(r, &head, &result) ? result : MHD_YES;
}

/* What came is not needed any more, nor is what follows of it. */
static void drop_body(kt__http_request *r) {
    kt__buf_free(&r->body);
    kt__shared_let_go(r->shared, r->n_held);
    r->n_held = 0;
}

/* A body that cannot be kept is read to its end anyway: the refusal is said then. */
static enum MHD_Result take_body(kt__http_request *r, const char *data, size_t *len) {
    size_t n = *len;
    *len = 0;
    if (r->answered || r->body.failed || r->crowded_out) return MHD_YES;
    if (!kt__shared_hold(r->shared, n)) {
        r->crowded_out = true;
        drop_body(r);
        return MHD_YES;
    }
    r->n_held += n;
    if (kt__buf_append(&r->body, data, n)) return MHD_YES;
    bool long_ = r->body.len + n > r->max_body;
    drop_body(r);
    r->body.failed = true;
    return long_ ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_body(kt__http_request *r) {
    if (r->body.failed)
        return kt__http_answer_error(r, 413, NULL, "the body is longer than %zu bytes",
                                     r->max_body);
    r->retry_ms = 1000;
    return kt__http_answer_error(r, 503, NULL,
                                 "the bodies of other requests fill limits.bodies: try again in a "
                                 "moment");
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **context) {
    kt__http_request *r = *context;
    if (!r) return first_call(user, connection, method, path, version, context);
    if (*len) return take_body(r, data, len);
    if (r->answered) return MHD_YES;
    if (!r->started) {
        kt__http_peer_set_deadline(kt__http_peer_of(connection), 0);
        r->started = true;
        if (r->body.failed || r->crowded_out) return refuse_body(r);
        return r->route->dialect ? start_job(r) : answer_now(r);
    }
    return answer_job(r);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code) {
    kt__http *http = user;
    kt__http_request *r = *context;
    kt__http_peer *peer = kt__http_peer_of(connection);
    *context = NULL;
    if (!r) return;
    kt__http_peer_set_busy(peer, false);
    kt__http_peer_set_job(peer, NULL, false);
    kt__http_peer_set_deadline(peer, http->shared->start->idle_s);
    if (r->job && code != MHD_REQUEST_TERMINATED_COMPLETED_OK) kt__job_abandon(r->job);
    kt__job_release(r->job);
    drop_body(r);
    kt__buf_free(&r->reply);
    kt__settings_drop(r->settings);
    kt__free(r);
    count_request(http, -1);
}

static void on_daemon_log(void *user, const char *fmt, va_list args) {
    kt__http *http = user;
    char text[512];
    if (http->quiet) return;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    if (!http->daemon) snprintf(http->complaint, sizeof http->complaint, "%.255s", text);
    kt__slog_line(&http->shared->log, KT_LOG_DEBUG, "http: %s", text);
}

static kt_status start_daemon(kt__http *http, kt_error *err) {
    const kt__config *c = http->shared->start;
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
                                   {MHD_OPTION_END, 0, NULL}};
    if (http->cert) flags |= MHD_USE_TLS;
    bool latency = kt__sched_latency_begin(); /* the daemon's thread inherits it */
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_daemon_log, http,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)http->at.fd, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, kt__http_peers_notify, &http->peers,
        MHD_OPTION_URI_LOG_CALLBACK, on_uri, http, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)http->shared->connections + KT__HTTP_SPARE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)c->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)c->max_header + 4096, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_ARRAY, http->cert ? tls : &tls[2], MHD_OPTION_END);
    kt__sched_latency_end(latency);
    if (http->daemon) return KT_OK;
    const char *why = http->complaint[0] ? http->complaint : strerror(errno);
    return kt__fail(err, KT_E_IO, "cannot start the HTTP server: %s%s", why,
                    http->cert ? ": are certificate and key valid PEM, and of one pair?" : "");
}

static kt_status open_one(kt__shared *shared, const char *listen_at, int fd, kt__http **out,
                          kt_error *err) {
    const kt__config *config = shared->start;
    kt_status status = KT_OK;
    *out = NULL;
    kt__http *http = kt__calloc(1, sizeof *http);
    if (!http) return kt__fail_nomem(err, "the HTTP server", sizeof *http);
    http->shared = shared;
    snprintf(http->listen_at, sizeof http->listen_at, "%s", listen_at);
    pthread_mutex_init(&http->lock, NULL);
    (void)kt__cond_init(&http->idle);
    http->at = KT__HTTP_NO_SOCKET;
    http->at.fd = fd; /* ours from here on, also on failure */
    http->own_socket = fd < 0;
    kt__http_peers_init(&http->peers, shared, config->tls_cert != NULL);
    if (config->tls_cert) {
        KT__TRY(kt__http_read_pem(config->tls_cert, &http->cert, err));
        KT__TRY(kt__http_read_pem(config->tls_key, &http->key, err));
    }
    KT__TRY(kt__http_socket_open(config, http->listen_at, fd, &http->at, err));
    *out = http;
    http = NULL;
out:
    kt__http_free(http);
    return status;
}

kt_status kt__http_open(kt__shared *shared, const char *listen, int fd, kt__http **out,
                        kt_error *err) {
    char one[KT__LISTEN_BYTES];
    kt__http **end = out;
    kt_status status = KT_OK;
    *out = NULL;
    if (fd >= 0) return open_one(shared, listen ? listen : "", fd, out, err);
    while (kt__config_next_listen(&listen, one)) {
        KT__TRY(open_one(shared, one, -1, end, err));
        end = &(*end)->next;
    }
    if (!*out) status = kt__fail(err, KT_E_ARG, "http.listen names no address");
out:
    if (status != KT_OK) kt__http_free(*out);
    if (status != KT_OK) *out = NULL;
    return status;
}

kt_status kt__http_start(kt__http *http, kt_error *err) {
    for (; http; http = http->next) {
        KT__STEP(kt__http_socket_listen(&http->at, http->listen_at, err));
        KT__STEP(start_daemon(http, err));
    }
    return KT_OK;
}

enum { REST_MS = 20, MOST_REST_MS = 500 };

/* Closing the socket would reset connections that are made already or being made: no more are begun
 * (who asks then asks again in a second, and is refused), and the daemon takes those that are left. */
static void let_rest_in(int listener) {
    enum { FLAGS_AT = 13, SYN = 2, ACK = 16 }; /* of a TCP header */
    struct sock_filter no_syn[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
                                   BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, 0),
                                   BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
    const struct sock_fprog program = {sizeof no_syn / sizeof *no_syn, no_syn};
    static const struct timespec pause = {0, 1000000};
    struct pollfd waits = {.fd = listener, .events = POLLIN};
    (void)setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    int64_t now_us = kt__now_us(), until_us = now_us + MOST_REST_MS * 1000, last_us = now_us;
    for (; now_us < until_us && now_us < last_us + REST_MS * 1000; now_us = kt__now_us()) {
        if (poll(&waits, 1, 0) > 0) last_us = now_us;
        (void)nanosleep(&pause, NULL);
    }
}

static void stop_accepting(kt__http *http) {
    if (!http->daemon) return;
    if (http->own_socket) let_rest_in(http->at.fd); /* else who passed it keeps them */
    int fd = (int)MHD_quiesce_daemon(http->daemon);
    if (fd >= 0) close(fd);
    http->at.fd = -1;
}

void kt__http_stop_accepting(kt__http *http) {
    for (; http; http = http->next) stop_accepting(http);
}

static void close_one(kt__http *http) {
    if (http->daemon) {
        /* answers that are finished still want to be sent */
        wait_until_idle(http, 1000);
        kt__http_peers_abandon(&http->peers);
        kt__http_peers_wait_unread(&http->peers);
        wait_until_idle(http, 2000);
        http->quiet = true;
        MHD_stop_daemon(http->daemon);
    } else if (http->at.fd >= 0) {
        close(http->at.fd);
    }
    http->daemon = NULL;
    http->at.fd = -1;
    kt__listener_close(&http->at.listener);
}

void kt__http_close(kt__http *http) {
    for (; http; http = http->next) close_one(http);
}

void kt__http_free(kt__http *http) {
    kt__http_close(http);
    for (kt__http *next; http; http = next) {
        next = http->next;
        kt__http_peers_free(&http->peers);
        if (http->key) explicit_bzero(http->key, KT__HTTP_MAX_PEM);
        kt__free(http->key);
        kt__free(http->cert);
        pthread_cond_destroy(&http->idle);
        pthread_mutex_destroy(&http->lock);
        kt__free(http);
    }
}
