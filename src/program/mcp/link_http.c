/* A server at a URL: a POST for each message, its answer as JSON or as a stream of events.
 *
 * Only https, or http to this machine; addresses that are not public are refused unless the file says
 * "private": true. Redirections are not followed, and no proxy is used. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/framer.h"
#include "net/curl_lib.h"
#include "mcp/json_read.h"
#include "mcp/link.h"
#include "mcp/param_headers.h"
#include "mcp/versions.h"

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

static bool is_loopback4(uint32_t a) {
    return a >> 24 == 127;
}

/* RFC 6890: what is not for the whole internet. */
static bool is_public4(uint32_t a) {
    static const struct {
        uint32_t base;
        int bits;
    } not_public[] = {{0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},
                      {0xa9fe0000, 16}, {0xac100000, 12}, {0xc0000000, 24}, {0xc0a80000, 16},
                      {0xc6120000, 15}, {0xe0000000, 4},  {0xf0000000, 4}};
    for (size_t i = 0; i < sizeof not_public / sizeof not_public[0]; i++) {
        if (a >> (32 - not_public[i].bits) == not_public[i].base >> (32 - not_public[i].bits))
            return false;
    }
    return true;
}

static uint32_t tail4(const struct in6_addr *a) {
    const uint8_t *b = a->s6_addr + 12;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Global unicast alone, and not what carries another address inside (6to4, Teredo, NAT64). */
static bool is_public6(const struct in6_addr *a) {
    const uint8_t *b = a->s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a)) return is_public4(tail4(a));
    bool carries = (b[0] == 0x20 && b[1] == 0x02) ||
                   (b[0] == 0x20 && b[1] == 0x01 && !b[2] && !b[3]);
    return (b[0] & 0xe0) == 0x20 && !carries;
}

static bool may_connect(const http_link *h, const struct sockaddr *to) {
    const struct in6_addr *six = to->sa_family == AF_INET6
                                     ? &((const struct sockaddr_in6 *)(const void *)to)->sin6_addr
                                     : NULL;
    uint32_t four = to->sa_family == AF_INET
                        ? ntohl(((const struct sockaddr_in *)(const void *)to)->sin_addr.s_addr)
                        : 0;
    if (!six && to->sa_family != AF_INET) return false;
    if (h->local) return six ? IN6_IS_ADDR_LOOPBACK(six) : is_loopback4(four);
    if (h->config->private_net) return true;
    return six ? is_public6(six) : is_public4(four);
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
    bool https = scheme && !strcasecmp(scheme, "https");
    bool here = host && (!strcasecmp(host, "localhost") || !strcmp(host, "127.0.0.1") ||
                         !strcmp(host, "[::1]"));
    h->local = scheme && !strcasecmp(scheme, "http") && here;
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
    return type && !strncasecmp(type, "text/event-stream", 17);
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
    if (n > at && !strncasecmp(line, name, at)) {
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
