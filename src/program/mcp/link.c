/* A server that is a process: a message a line. */
#include "mcp/link.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "mcp/rpc.h"
#include "net/curl_lib.h"
#include "net/get.h"

enum { CHUNK_BYTES = 64 << 10, ASIDE_BYTES = 600, LOOK_MS = 100 };

typedef struct lines_link {
    kt__mcp_link link; /* first member */
    kt__child child;
    const char *name;
    kt__framer framer;
    char data[CHUNK_BYTES];
    size_t at, len;          /* of data that is not framed yet */
    char aside[ASIDE_BYTES]; /* the last of its standard error */
    size_t n_aside;
    bool ended;
} lines_link;

static lines_link *lines_of(kt__mcp_link *link) {
    return (lines_link *)(void *)link;
}

/* The last bytes are kept. */
static void keep_aside(lines_link *l, const char *data, size_t n) {
    size_t most = sizeof l->aside - 1;
    if (n > most) {
        data += n - most;
        n = most;
    }
    size_t drop = l->n_aside + n > most ? l->n_aside + n - most : 0;
    memmove(l->aside, l->aside + drop, l->n_aside - drop);
    memcpy(l->aside + l->n_aside - drop, data, n);
    l->n_aside += n - drop;
    l->aside[l->n_aside] = '\0';
}

/* Nobody must wait because its complaints are not read. */
static void read_aside(lines_link *l) {
    char data[4096];
    ssize_t n;
    while (l->child.err >= 0 && (n = read(l->child.err, data, sizeof data)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        keep_aside(l, data, (size_t)n);
    }
    if (l->child.err >= 0) close(l->child.err);
    l->child.err = -1;
}

static const char *lines_aside(kt__mcp_link *link) {
    lines_link *l = lines_of(link);
    read_aside(l);
    return l->aside;
}

static kt_status check_wait(const kt__mcp_wait *wait, kt_error *err) {
    if (wait->stop && wait->stop(wait->user)) return kt__fail(err, KT_E_CANCELLED, "cancelled");
    if (kt__now_us() >= wait->until_us)
        return kt__fail(err, KT_E_DEADLINE, "the server did not answer in time");
    return KT_OK;
}

/* Until something can be read, or written where `writes`; reads what the server says aside. */
static kt_status wait_for_child(lines_link *l, bool writes, const kt__mcp_wait *wait,
                                kt_error *err) {
    struct pollfd fds[3] = {{.fd = l->child.from, .events = POLLIN},
                            {.fd = l->child.err, .events = POLLIN},
                            {.fd = writes ? l->child.to : -1, .events = POLLOUT}};
    kt_status status = check_wait(wait, err);
    if (status != KT_OK) return status;
    if (l->len - l->at) fds[0].fd = -1; /* there is no room for more */
    (void)poll(fds, 3, LOOK_MS);
    if (fds[1].revents) read_aside(l);
    return KT_OK;
}

static kt_status fail_ended(lines_link *l, kt_error *err) {
    l->ended = true;
    read_aside(l);
    return kt__fail(err, KT_E_IO, "the server \"%.60s\" has ended%s%.300s", l->name,
                    l->n_aside ? "; it said: " : "", l->aside);
}

/* More bytes of its output; KT_OK also where none came. */
static kt_status read_more(lines_link *l, kt_error *err) {
    if (l->at < l->len) return KT_OK;
    ssize_t n = read(l->child.from, l->data, sizeof l->data);
    l->at = l->len = 0;
    if (n > 0) l->len = (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return fail_ended(l, err);
    return KT_OK;
}

/* A server may fill its output before it reads: what it says meanwhile is kept, as far as there is
 * room, and it is waited for no longer than `wait`. */
static kt_status lines_send(kt__mcp_link *link, const kt__mcp_post *post, const kt__mcp_wait *wait,
                            kt_error *err) {
    lines_link *l = lines_of(link);
    for (size_t at = 0; at <= post->len;) {
        const char *data = at < post->len ? post->json + at : "\n";
        if (l->ended || l->child.to < 0) return fail_ended(l, err);
        ssize_t n = write(l->child.to, data, at < post->len ? post->len - at : 1);
        if (n > 0) at += (size_t)n;
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_ended(l, err);
        if (n > 0) continue;
        KT__STEP(wait_for_child(l, true, wait, err));
        KT__STEP(read_more(l, err));
    }
    return KT_OK;
}

static kt_status parse_message(const char *line, size_t len, json_t **out, kt_error *err) {
    const kt__json_limits limits = {KT__MCP_MAX_MESSAGE, KT__MCP_MAX_DEPTH};
    kt_status status = kt__json_read(line, len, &limits, out, err);
    return status == KT_E_LIMIT ? kt__fail(err, KT_E_FORMAT, "%s", err->message) : status;
}

static kt_status lines_receive(kt__mcp_link *link, const kt__mcp_wait *wait, json_t **out,
                               kt_error *err) {
    lines_link *l = lines_of(link);
    const char *line;
    size_t used, len;
    kt_status status = KT_OK;
    *out = NULL;
    while (status == KT_OK) {
        while (l->at < l->len) {
            kt__frame frame = kt__framer_next(&l->framer, l->data + l->at, l->len - l->at, &used,
                                              &line, &len);
            l->at += used;
            if (frame == KT__FRAME_LINE && len) return parse_message(line, len, out, err);
            if (frame == KT__FRAME_TOO_LONG)
                return kt__fail(err, KT_E_FORMAT, "a line over %d bytes was dropped",
                                (int)KT__MCP_MAX_MESSAGE);
            if (frame == KT__FRAME_NOMEM) return kt__fail_nomem(err, "a line", 0);
        }
        if (l->ended) return fail_ended(l, err);
        status = wait_for_child(l, false, wait, err);
        if (status == KT_OK) status = read_more(l, err);
    }
    return status;
}

static void lines_close(kt__mcp_link *link) {
    lines_link *l = lines_of(link);
    kt__child_stop(&l->child);
    kt__framer_free(&l->framer);
    kt__free(l);
}

kt_status kt__mcp_link_lines(const kt__mcp_server_config *config, kt__mcp_link **out,
                             kt_error *err) {
    lines_link *l = kt__calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return kt__fail_nomem(err, "a server", sizeof *l);
    l->link = (kt__mcp_link){lines_send, lines_receive, lines_aside, lines_close};
    l->name = config->name;
    kt__framer_init(&l->framer, KT__MCP_MAX_MESSAGE);
    kt_status status = kt__child_start(config, &l->child, err);
    if (status == KT_OK) {
        *out = &l->link;
    } else {
        lines_close(&l->link);
    }
    return status;
}

/* A server at a URL: a POST for each message, its answer as JSON or as a stream of events.
 *
 * Only https, or http to this machine; addresses that are not public are refused unless the file says
 * "private": true. Redirections are not followed, and no proxy is used. */

typedef struct http_link {
    kt__mcp_link link; /* first member */
    const kt__mcp_server_config *config;
    kt__curl curl;
    CURL *easy;
    bool local;        /* http, to this machine alone */
    char session[256]; /* "" */
    json_t *waiting;   /* messages that came and were not received yet */
    /* of the request that runs */
    const kt__mcp_wait *wait;
    kt__framer lines;
    kt__buf data; /* of the event, or of the whole body */
    bool stream, answered, refused_address;
} http_link;

static http_link *http_of(kt__mcp_link *link) {
    return (http_link *)(void *)link;
}

/* ---- addresses ---- */

static bool may_connect(const http_link *h, const struct sockaddr *to) {
    if (h->local) return kt__address_is_loopback(to);
    return h->config->private_net || kt__address_is_public(to);
}

/* What the name was resolved to is looked at here, so that a name cannot mean one thing when it is
 * checked and another when it is used. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *to) {
    http_link *h = user;
    (void)purpose;
    if (may_connect(h, &to->addr))
        return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    h->refused_address = true;
    return CURL_SOCKET_BAD;
}

static kt_status check_url(http_link *h, kt_error *err) {
    CURLU *url = h->curl.url();
    char *scheme = NULL, *host = NULL;
    if (url && h->curl.url_set(url, CURLUPART_URL, h->config->url, 0) == CURLUE_OK) {
        (void)h->curl.url_get(url, CURLUPART_SCHEME, &scheme, 0);
        (void)h->curl.url_get(url, CURLUPART_HOST, &host, 0);
    }
    bool https = scheme && !kt__strcasecmp(scheme, "https");
    bool here = host && (!kt__strcasecmp(host, "localhost") || !strcmp(host, "127.0.0.1") ||
                         !strcmp(host, "[::1]"));
    h->local = scheme && !kt__strcasecmp(scheme, "http") && here;
    h->curl.free(scheme);
    h->curl.free(host);
    h->curl.url_cleanup(url);
    if (h->local || https) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, h->config->name, UINT64_MAX,
                       "%.60s: the url must be https, or http to localhost", h->config->name);
}

/* ---- what comes ---- */

/* A message for receive; the request is over with the answer. */
static void keep_message(http_link *h, const char *text, size_t len) {
    const kt__json_limits limits = {KT__MCP_MAX_MESSAGE, KT__MCP_MAX_DEPTH};
    json_t *v;
    kt_error odd;
    if (kt__json_read(text, len, &limits, &v, &odd) != KT_OK) return;
    h->answered |= !json_object_get(v, "method");
    (void)json_array_append_new(h->waiting, v);
}

/* A line of a stream: an empty one ends an event. */
static void take_event_line(http_link *h, const char *line, size_t len) {
    if (!len) {
        if (h->data.len) keep_message(h, h->data.data, h->data.len);
        kt__buf_clear(&h->data);
    } else if (len >= 5 && !strncmp(line, "data:", 5)) {
        size_t from = len > 5 && line[5] == ' ' ? 6 : 5;
        if (h->data.len) (void)kt__buf_putc(&h->data, '\n');
        (void)kt__buf_append(&h->data, line + from, len - from);
    }
}

static bool is_event_stream(http_link *h) {
    char *type = NULL;
    (void)h->curl.easy_getinfo(h->easy, CURLINFO_CONTENT_TYPE, &type);
    return type && !kt__strncasecmp(type, "text/event-stream", 17);
}

/* Less than n ends the request: the answer is there, or it is too long. */
static size_t take_body(char *data, size_t size, size_t count, void *user) {
    http_link *h = user;
    size_t n = size * count, used, len;
    const char *line;
    if (!h->stream && !h->data.len) h->stream = is_event_stream(h);
    if (!h->stream) return kt__buf_append(&h->data, data, n) ? n : 0;
    for (size_t at = 0; at < n && !h->answered; at += used) {
        kt__frame frame = kt__framer_next(&h->lines, data + at, n - at, &used, &line, &len);
        if (frame == KT__FRAME_LINE) take_event_line(h, line, len);
    }
    return h->answered || h->data.failed ? 0 : n;
}

static size_t take_header(char *line, size_t size, size_t count, void *user) {
    static const char name[] = "mcp-session-id:";
    http_link *h = user;
    size_t n = size * count, at = sizeof name - 1;
    if (n > at && !kt__strncasecmp(line, name, at)) {
        while (at < n && line[at] == ' ') at++;
        size_t len = 0;
        while (at + len < n && line[at + len] > ' ' && line[at + len] < 0x7f) len++;
        if (len < sizeof h->session)
            snprintf(h->session, sizeof h->session, "%.*s", (int)len, line + at);
    }
    return n;
}

static int look_at_clock(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const http_link *h = user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    bool stopped = h->wait->stop && h->wait->stop(h->wait->user);
    return stopped || kt__now_us() >= h->wait->until_us;
}

/* ---- out ---- */

static struct curl_slist *add_header(http_link *h, struct curl_slist *list, const char *name,
                                     const char *value) {
    kt__buf line;
    kt__buf_init(&line, 1 << 20);
    (void)kt__buf_printf(&line, "%s: ", name);
    (void)kt__mcp_header_encode(value, &line);
    struct curl_slist *more = line.failed ? NULL : h->curl.slist_append(list, line.data);
    kt__buf_free(&line);
    return more ? more : list;
}

static struct curl_slist *add_params(http_link *h, struct curl_slist *list,
                                     const kt__mcp_post *post) {
    kt__buf lines;
    kt__buf_init(&lines, 1 << 20);
    bool made = kt__mcp_param_headers(post->schema, post->args, &lines);
    for (char *at = made ? lines.data : NULL; at && *at;) {
        char *end = strchr(at, '\n');
        *end = '\0';
        struct curl_slist *more = h->curl.slist_append(list, at);
        if (more) list = more;
        at = end + 1;
    }
    kt__buf_free(&lines);
    return list;
}

static struct curl_slist *make_headers(http_link *h, const kt__mcp_post *post) {
    struct curl_slist *list = h->curl.slist_append(NULL, "Content-Type: application/json");
    bool modern = post->version && !strcmp(post->version, KT__MCP_MODERN);
    list = h->curl.slist_append(list, "Accept: application/json, text/event-stream");
    list = h->curl.slist_append(list, "Expect:");
    if (post->version) list = add_header(h, list, "MCP-Protocol-Version", post->version);
    if (modern && post->method) list = add_header(h, list, "Mcp-Method", post->method);
    if (modern && post->name) list = add_header(h, list, "Mcp-Name", post->name);
    if (modern && post->args && post->schema) list = add_params(h, list, post);
    if (!modern && h->session[0]) list = add_header(h, list, "Mcp-Session-Id", h->session);
    for (kt__mcp_texts own = h->config->headers; own && *own; own++) {
        struct curl_slist *more = h->curl.slist_append(list, *own);
        if (more) list = more;
    }
    return list;
}

static void set_options(http_link *h, const kt__mcp_post *post, struct curl_slist *headers) {
    CURLcode (*set)(CURL *, CURLoption, ...) = h->curl.easy_setopt;
    (void)set(h->easy, CURLOPT_URL, h->config->url);
    (void)set(h->easy, CURLOPT_HTTPHEADER, headers);
    (void)set(h->easy, CURLOPT_POST, 1L);
    (void)set(h->easy, CURLOPT_POSTFIELDS, post->json);
    (void)set(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->len);
    (void)set(h->easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)set(h->easy, CURLOPT_WRITEDATA, h);
    (void)set(h->easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)set(h->easy, CURLOPT_HEADERDATA, h);
    (void)set(h->easy, CURLOPT_NOPROGRESS, 0L);
    (void)set(h->easy, CURLOPT_XFERINFOFUNCTION, look_at_clock);
    (void)set(h->easy, CURLOPT_XFERINFODATA, h);
    (void)set(h->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)set(h->easy, CURLOPT_OPENSOCKETDATA, h);
    (void)set(h->easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)set(h->easy, CURLOPT_NOPROXY, "*");
    (void)set(h->easy, CURLOPT_NOSIGNAL, 1L);
}

static kt_status fail_perform(const http_link *h, CURLcode code, kt_error *err) {
    if (h->wait->stop && h->wait->stop(h->wait->user))
        return kt__fail(err, KT_E_CANCELLED, "cancelled");
    if (code == CURLE_ABORTED_BY_CALLBACK || code == CURLE_OPERATION_TIMEDOUT)
        return kt__fail(err, KT_E_DEADLINE, "the server did not answer in time");
    if (h->refused_address)
        return kt__fail(err, KT_E_IO,
                        "%.200s is at an address that is not public: \"private\": true allows it",
                        h->config->url);
    return kt__fail(err, KT_E_IO, "%.200s: %s", h->config->url, h->curl.easy_strerror(code));
}

/* A status without a message that a client could read. */
static kt_status check_status(http_link *h, bool wants_answer, kt_error *err) {
    long status = 0;
    (void)h->curl.easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300 && status < 400)
        return kt__fail(err, KT_E_IO, "%.200s leads elsewhere (%ld), which is not followed",
                        h->config->url, status);
    if (h->answered || !wants_answer) return KT_OK;
    if (status >= 400 && status != 400 && status != 404 && status != 405)
        return kt__fail(err, KT_E_IO, "%.200s: HTTP %ld", h->config->url, status);
    if (status >= 400) { /* an old server that does not know what was asked */
        json_t *v = json_pack("{s:s,s:n,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", "error", "code",
                              (int)-status, "message", "refused");
        (void)json_array_append_new(h->waiting, v);
        return KT_OK;
    }
    return kt__fail(err, KT_E_IO, "%.200s: there was no answer in what came", h->config->url);
}

static kt_status http_send(kt__mcp_link *link, const kt__mcp_post *post, const kt__mcp_wait *wait,
                           kt_error *err) {
    http_link *h = http_of(link);
    h->wait = wait;
    h->stream = h->answered = h->refused_address = false;
    (void)json_array_clear(h->waiting);
    kt__buf_clear(&h->data);
    kt__framer_free(&h->lines);
    kt__framer_init(&h->lines, KT__MCP_MAX_MESSAGE);
    struct curl_slist *headers = make_headers(h, post);
    set_options(h, post, headers);
    CURLcode code = h->curl.easy_perform(h->easy);
    bool came = code == CURLE_OK || (code == CURLE_WRITE_ERROR && h->answered);
    if (came && !h->stream && h->data.len) keep_message(h, h->data.data, h->data.len);
    kt_status status = came ? check_status(h, post->wants_answer, err) : fail_perform(h, code, err);
    (void)h->curl.easy_setopt(h->easy, CURLOPT_HTTPHEADER, NULL);
    h->curl.slist_free_all(headers);
    return status;
}

static kt_status http_receive(kt__mcp_link *link, const kt__mcp_wait *wait, json_t **out,
                              kt_error *err) {
    http_link *h = http_of(link);
    (void)wait;
    *out = json_incref(json_array_get(h->waiting, 0));
    if (!*out) return kt__fail(err, KT_E_IO, "%.200s: there was no answer", h->config->url);
    (void)json_array_remove(h->waiting, 0);
    return KT_OK;
}

static const char *http_aside(kt__mcp_link *link) {
    (void)link;
    return "";
}

/* Ends the connection to the server and frees the link. A session there is not ended: it expires. */
static void http_close(kt__mcp_link *link) {
    http_link *h = http_of(link);
    if (h->easy) h->curl.easy_cleanup(h->easy);
    json_decref(h->waiting);
    kt__framer_free(&h->lines);
    kt__buf_free(&h->data);
    kt__free(h);
}

kt_status kt__mcp_link_http(const kt__mcp_server_config *config, kt__mcp_link **out,
                            kt_error *err) {
    http_link *h = kt__calloc(1, sizeof *h);
    *out = NULL;
    if (!h) return kt__fail_nomem(err, "a server", sizeof *h);
    h->link = (kt__mcp_link){http_send, http_receive, http_aside, http_close};
    h->config = config;
    kt__buf_init(&h->data, KT__MCP_MAX_MESSAGE);
    kt__framer_init(&h->lines, KT__MCP_MAX_MESSAGE);
    h->waiting = json_array();
    kt_status status;
    KT__TRY(kt__curl_open("a server with a url", &h->curl, err));
    KT__TRY(check_url(h, err));
    h->easy = h->curl.easy_init();
    if (!h->easy || !h->waiting) KT__TRY(kt__fail_nomem(err, "a server", 0));
    *out = &h->link;
out:
    if (status != KT_OK) http_close(&h->link);
    return status;
}

/* ---- param headers ---- */

enum { MAX_PARAMS = 32, DEEPEST = 64 };
#define MARK "x-mcp-header"

typedef struct marks {
    const char *names[MAX_PARAMS];
    size_t n;
    bool sound;
} marks;

static bool is_token(const char *name) {
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("!#$%&'*+-.^_`|~", *at)) return false;
    }
    return *name != '\0';
}

static bool is_primitive(const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type &&
           (!strcmp(type, "string") || !strcmp(type, "integer") || !strcmp(type, "boolean"));
}

static void take_mark(const json_t *schema, marks *m) {
    const json_t *mark = json_object_get(schema, MARK);
    const char *name = json_string_value(mark);
    if (!mark) return;
    m->sound = m->sound && name && is_token(name) && is_primitive(schema) && m->n < MAX_PARAMS;
    for (size_t i = 0; m->sound && i < m->n; i++) m->sound = kt__strcasecmp(m->names[i], name) != 0;
    if (m->sound) m->names[m->n++] = name;
}

/* Those that a chain of `properties` leads to. */
static void take_reachable(const json_t *schema, int depth, marks *m) {
    const char *key;
    json_t *v;
    if (depth > DEEPEST) return;
    json_object_foreach(json_object_get(schema, "properties"), key, v) {
        take_mark(v, m);
        take_reachable(v, depth + 1, m);
    }
}

/* Wherever they are; a property may have this name, which then is an object. */
static size_t count_marks(const json_t *v, int depth) {
    size_t n = json_is_string(json_object_get(v, MARK)), i;
    const char *key;
    json_t *part;
    if (depth > DEEPEST) return n;
    json_object_foreach((json_t *)(uintptr_t)v, key, part) n += count_marks(part, depth + 1);
    json_array_foreach(v, i, part) n += count_marks(part, depth + 1);
    return n;
}

bool kt__mcp_params_are_sound(const json_t *schema) {
    marks m = {.sound = true};
    take_reachable(schema, 0, &m);
    return m.sound && count_marks(schema, 0) == m.n;
}

static void write_value(const json_t *v, kt__buf *lines) {
    if (json_is_integer(v)) {
        (void)kt__buf_printf(lines, "%lld", (long long)json_integer_value(v));
    } else if (json_is_boolean(v)) {
        (void)kt__buf_puts(lines, json_is_true(v) ? "true" : "false");
    } else {
        (void)kt__mcp_header_encode(json_string_value(v), lines);
    }
}

static void write_params(const json_t *schema, const json_t *args, int depth, kt__buf *lines) {
    const char *key;
    json_t *v;
    if (depth > DEEPEST) return;
    json_object_foreach(json_object_get(schema, "properties"), key, v) {
        const char *name = json_string_value(json_object_get(v, MARK));
        const json_t *value = json_object_get(args, key);
        if (name && (json_is_string(value) || json_is_integer(value) || json_is_boolean(value))) {
            (void)kt__buf_printf(lines, "Mcp-Param-%s: ", name);
            write_value(value, lines);
            (void)kt__buf_putc(lines, '\n');
        }
        if (json_is_object(value)) write_params(v, value, depth + 1, lines);
    }
}

bool kt__mcp_param_headers(const json_t *schema, const json_t *args, kt__buf *lines) {
    write_params(schema, args, 0, lines);
    return !lines->failed;
}
