#include "measure/bench_load.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

enum { MAX_TEXT = 16 << 20, MAX_REQUEST = 2 << 20 };

/* ---- the target ---- */

kt_status kt__target_read(kt__target *t, const char *url, kt_error *err) {
    bool path = *url == '/' || *url == '.', named = !strncmp(url, "unix:", 5);
    if (path || named) {
        if (named) url += 5;
        if (strlen(url) >= sizeof t->path)
            return kt__fail(err, KT_E_ARG, "--server %.120s: the path is too long", url);
        snprintf(t->path, sizeof t->path, "%s", url);
        return KT_OK;
    }
    const char *host = !strncmp(url, "http://", 7) ? url + 7 : "";
    bool bracket = *host == '['; /* [::1]:8000 */
    host += bracket;
    size_t len = strcspn(host, bracket ? "]" : ":/");
    const char *rest = host + len;
    if (!len || len >= sizeof t->host || (bracket && *rest++ != ']'))
        return kt__fail(err, KT_E_ARG,
                        "--server %.80s: expected http://HOST:PORT, unix:PATH or none", url);
    snprintf(t->host, sizeof t->host, "%.*s", (int)len, host);
    snprintf(t->port, sizeof t->port, "80");
    if (*rest == ':')
        snprintf(t->port, sizeof t->port, "%.*s", (int)strcspn(rest + 1, "/"), rest + 1);
    return KT_OK;
}

static int connect_tcp(const kt__target *t) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int on = 1;
    if (getaddrinfo(t->host, t->port, &hints, &found) != 0) return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    freeaddrinfo(found);
    return fd;
}

static int connect_unix(const kt__target *t) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, t->path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- what is sent ---- */

/* Digits that no other request has, of this process or, but for chance, of another: a server's
 * cache outlives us. Always ten, so that all prompts are equally long. */
static void write_prompt(const kt__target *t, int32_t number, kt__buf *out) {
    if (t->fresh)
        (void)kt__buf_printf(out, "%010u. ", (unsigned)(t->salt + (uint32_t)number * 2654435761u));
}

static bool write_request(kt__caller *c, int32_t number) {
    const kt__target *t = c->target;
    kt__buf body;
    kt__buf_init(&body, MAX_REQUEST);
    (void)kt__buf_puts(&body, "{\"prompt\":\"");
    write_prompt(t, number, &body);
    kt__json_chars(&body, t->prompt, strlen(t->prompt), KT__JSON_PLAIN);
    (void)kt__buf_printf(&body, "\",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":true}",
                         (int)t->n_predict);
    kt__buf_clear(&c->request);
    if (!t->path[0]) {
        bool six = strchr(t->host, ':') != NULL;
        (void)kt__buf_printf(&c->request,
                             "POST /v1/completions HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Type: "
                             "application/json\r\nContent-Length: %zu\r\n",
                             six ? "[" : "", t->host, six ? "]" : "", t->port, body.len);
        if (!t->keep) (void)kt__buf_puts(&c->request, "Connection: close\r\n");
        if (t->key) (void)kt__buf_printf(&c->request, "Authorization: Bearer %s\r\n", t->key);
        (void)kt__buf_puts(&c->request, "\r\n");
    }
    (void)kt__buf_append(&c->request, body.data, body.len);
    if (t->path[0]) (void)kt__buf_putc(&c->request, '\n');
    bool failed = body.failed || c->request.failed;
    kt__buf_free(&body);
    return !failed;
}

static bool send_request(const kt__caller *c) {
    size_t sent = 0;
    while (sent < c->request.len) {
        ssize_t n = send(c->fd, c->request.data + sent, c->request.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

/* ---- what comes back ---- */

static void count_token(const kt__target *t, kt__shot *s) {
    int64_t now_us = kt__now_us();
    if (!s->n_tokens++) {
        s->first_us = now_us - s->at_us;
    } else if (s->n_tokens <= t->n_predict) {
        s->gaps_ms[s->n_tokens - 2] = (float)(now_us - s->last_us) / 1e3f;
    }
    s->last_us = now_us;
}

/* A whole line of the answer; lines of chunked framing and headers among them are passed over.
 * true: the answer has ended. */
static bool take_line(const kt__target *t, kt__shot *s, const char *line) {
    if (!strncmp(line, "HTTP/1.1 ", 9)) s->status = atoi(line + 9);
    if (s->status && s->status != 200) return true;
    if (!strncmp(line, "data: [DONE]", 12)) {
        s->good = true;
        return !t->keep;
    }
    if (s->good) return !strcmp(line, "0\r"); /* the last chunk; its empty line is left */
    bool data = !strncmp(line, "data: {", 7), own = line[0] == '{';
    if (!data && !own) return false;
    if (strstr(line, "\"error\":{")) return true;
    if (strstr(line, "\"done\":true")) return s->good = true;
    if (own || strstr(line, "\"finish_reason\":null")) count_token(t, s);
    return false;
}

static void read_answer(kt__caller *c, kt__shot *s) {
    char piece[8192];
    for (bool ended = false; !ended;) {
        ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || !kt__buf_append(&c->text, piece, (size_t)n)) {
            s->good = s->good && !c->target->keep;
            return;
        }
        char *line = c->text.data, *newline;
        while (!ended &&
               (newline = memchr(line, '\n', c->text.len - (size_t)(line - c->text.data)))) {
            *newline = '\0';
            ended = take_line(c->target, s, line);
            line = newline + 1;
        }
        size_t rest = c->text.len - (size_t)(line - c->text.data);
        memmove(c->text.data, line, rest);
        c->text.len = rest;
    }
}

static void hang_up(kt__caller *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    kt__buf_clear(&c->text);
}

static void ask_server(kt__caller *c, kt__shot *s) {
    if (!write_request(c, s->number)) return;
    if (c->fd < 0) c->fd = c->target->path[0] ? connect_unix(c->target) : connect_tcp(c->target);
    if (c->fd >= 0 && send_request(c)) read_answer(c, s);
    s->total_us = kt__now_us() - s->at_us;
    if (!s->good || !c->target->keep) hang_up(c);
}

static void ask_engine(kt__caller *c, kt__shot *s) {
    const kt__target *t = c->target;
    kt_request_params request = kt_request_params_default();
    kt_request *req;
    kt_event event;
    kt__buf_clear(&c->request);
    write_prompt(t, s->number, &c->request);
    if (!kt__buf_puts(&c->request, t->prompt)) return;
    request.prompt.text = c->request.data;
    request.prompt.text_len = c->request.len;
    request.prompt.text_flags = KT_TOK_ADD_SPECIAL |
                                KT_TOK_PARSE_SPECIAL; /* as the server has it */
    request.gen.n_predict = t->n_predict;
    request.gen.ignore_eog = true;
    kt_status status = kt_engine_submit(t->engine, &request, &req, NULL);
    if (status == KT_E_BUSY) s->status = 429;
    if (status != KT_OK) return;
    while (kt_request_next_event(req, &event, -1) && event.kind != KT_EVENT_FINISHED) {
        if (event.kind == KT_EVENT_TOKEN) count_token(t, s);
    }
    s->good = event.kind == KT_EVENT_FINISHED && event.finish != KT_FINISH_ERROR;
    s->total_us = kt__now_us() - s->at_us;
    kt_request_close(req);
}

/* ---- callers ---- */

void kt__caller_open(kt__caller *c, const kt__target *target) {
    c->target = target;
    c->fd = -1;
    kt__buf_init(&c->request, MAX_REQUEST);
    kt__buf_init(&c->text, MAX_TEXT);
}

void kt__caller_close(kt__caller *c) {
    hang_up(c);
    kt__buf_free(&c->request);
    kt__buf_free(&c->text);
}

void kt__caller_ask(kt__caller *c, kt__shot *s) {
    if (c->target->engine) {
        ask_engine(c, s);
    } else {
        ask_server(c, s);
    }
}
