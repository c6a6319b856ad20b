/* For tests of the server: one in this process over the demo model, and small clients of it. */
#ifndef KT_TESTS_SERVE_WORLD_H
#define KT_TESTS_SERVE_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/server.h"
#include "transports/http.h"
#include "transports/unix.h"

typedef struct world {
    kt__server *server;
    char dir[64], socket[96];
    int port;
} world;

static inline void world_dir(world *w) {
    snprintf(w->dir, sizeof w->dir, "/tmp/kentang-serve-XXXXXX");
    if (!mkdtemp(w->dir)) abort();
    snprintf(w->socket, sizeof w->socket, "%s/k.sock", w->dir);
}

/* settings: "key=value" texts ("toml=..." a file's text), NULL at the end */
static inline kt_status world_open(world *w, kt_error *err, const char *const *settings) {
    kt__config *c;
    if (!w->dir[0]) world_dir(w);
    kt_status status = kt__config_create(&c, err);
    if (status == KT_OK) status = kt__config_set(c, "http.listen", "127.0.0.1:0", "test", err);
    if (status == KT_OK) status = kt__config_set(c, "socket.path", w->socket, "test", err);
    if (status == KT_OK) status = kt__config_set(c, "threads", "2", "test", err);
    if (status == KT_OK) status = kt__config_set(c, "log.level", "error", "test", err);
    for (; status == KT_OK && settings && *settings; settings++) {
        char key[64];
        const char *equals = strchr(*settings, '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - *settings), *settings);
        status = !strcmp(key, "toml")
                     ? kt__config_read_toml(c, equals + 1, strlen(equals + 1), "test", err)
                     : kt__config_set(c, key, equals + 1, "test", err);
    }
    if (status == KT_OK) status = kt__config_finish(c, err);
    if (status != KT_OK) {
        kt__config_free(c);
        return status;
    }
    status = kt__server_start(c, &w->server, err);
    if (status == KT_OK) w->port = w->server->http ? kt__http_port(w->server->http) : 0;
    return status;
}

/* Where the log goes from now on. */
static inline void world_log_to(world *w, int fd) {
    kt__slog *log = &w->server->shared.log;
    pthread_mutex_lock(&log->lock);
    log->fd = fd;
    pthread_mutex_unlock(&log->lock);
}

/* A test group's set-up: 0, or 1 after saying why not. */
static inline int world_set_up(world *w, const char *const *settings) {
    kt_error err;
    if (world_open(w, &err, settings) == KT_OK) return 0;
    fprintf(stderr, "%s\n", err.message);
    return 1;
}

static inline void world_close(world *w) {
    kt__server_stop(w->server);
    unlink(w->socket);
    rmdir(w->dir);
    memset(w, 0, sizeof *w);
}

/* open_group and close_group, for the tests of a program that share the world w; the rest: its
 * settings, as of world_open */
#define WORLD_OF_GROUP(w, ...)                                     \
    static int open_group(void **state) {                          \
        static const char *const group_settings[] = {__VA_ARGS__}; \
        (void)state;                                               \
        return world_set_up(&(w), group_settings);                 \
    }                                                              \
    static int close_group(void **state) {                         \
        (void)state;                                               \
        world_close(&(w));                                         \
        return 0;                                                  \
    }

static inline int connect_http(const world *w) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

static inline int connect_socket(const world *w) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", w->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

static inline bool send_all(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* Appends what comes within ms to text; false: nothing more will come. */
static inline bool receive(int fd, char *text, size_t size, size_t *len, int ms) {
    struct pollfd p = {fd, POLLIN, 0};
    if (poll(&p, 1, ms) <= 0) return true;
    ssize_t n = recv(fd, text + *len, size - *len - 1, 0);
    if (n > 0) *len += (size_t)n;
    text[*len] = '\0';
    return n > 0;
}

/* The same from a pipe; false: its end. */
static inline bool receive_pipe(int fd, char *text, size_t size, size_t *len) {
    ssize_t n = read(fd, text + *len, size - *len - 1);
    if (n > 0) *len += (size_t)n;
    text[*len] = '\0';
    return n > 0;
}

/* Reads until `needle` has come or the connection ends or ten seconds have passed. */
static inline bool receive_until(int fd, char *text, size_t size, const char *needle) {
    size_t len = strlen(text);
    int64_t until_us = kt__now_us() + 10000000;
    while (kt__now_us() < until_us && !(needle && strstr(text, needle))) {
        if (!receive(fd, text, size, &len, 100)) break;
    }
    return !needle || strstr(text, needle) != NULL;
}

typedef struct reply {
    int status;
    char text[1 << 20]; /* headers and body */
    char *body;
} reply;

/* head: request line and headers without Host, Content-Length and the empty line. */
static inline reply *ask_raw(const world *w, const char *text, size_t len) {
    reply *r = calloc(1, sizeof *r);
    int fd = connect_http(w);
    if (fd >= 0 && send_all(fd, text, len)) receive_until(fd, r->text, sizeof r->text, NULL);
    if (fd >= 0) close(fd);
    if (sscanf(r->text, "HTTP/1.1 %d", &r->status) != 1) r->status = 0;
    r->body = strstr(r->text, "\r\n\r\n");
    r->body = r->body ? r->body + 4 : r->text;
    return r;
}

static inline reply *ask(const world *w, const char *method, const char *path, const char *headers,
                         const char *body) {
    size_t size = strlen(body) + strlen(headers) + 512;
    char *text = malloc(size);
    int n = snprintf(text, size,
                     "%s %s HTTP/1.1\r\n%s%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, strstr(headers, "Host:") ? "" : "Host: localhost\r\n", headers,
                     strlen(body), body);
    reply *r = ask_raw(w, text, (size_t)n);
    free(text);
    return r;
}

#define JSON_TYPE "Content-Type: application/json\r\n"
static inline reply *post(const world *w, const char *path, const char *body) {
    return ask(w, "POST", path, JSON_TYPE, body);
}

/* A stream of n tokens named id that has begun: the connection; what came so far is in text. -1: it
 * did not begin. */
static inline int begin_stream(const world *w, const char *id, int n, char *text, size_t size) {
    char line[256];
    int len = snprintf(line, sizeof line,
                       "{\"id\":\"%s\",\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":%d,"
                       "\"stream\":true}\n",
                       id, n);
    int fd = connect_socket(w);
    if (fd >= 0 && send_all(fd, line, (size_t)len) && receive_until(fd, text, size, "\"token\""))
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* One line to the socket, all that comes until its final object; for free(). */
static inline char *ask_line(const world *w, const char *line) {
    char *text = calloc(1, 1 << 20);
    int fd = connect_socket(w);
    if (fd < 0) return text;
    if (send_all(fd, line, strlen(line)) && send_all(fd, "\n", 1))
        receive_until(fd, text, 1 << 20, "\"done\":true");
    size_t len = strlen(text);
    while (len && text[len - 1] != '\n' && receive(fd, text, 1 << 20, &len, 1000)) {
    }
    close(fd);
    return text;
}

#endif
