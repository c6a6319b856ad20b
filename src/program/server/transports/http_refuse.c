#include "transports/http_refuse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "services/access.h"

/* A refusal in the making. */
typedef struct refusal {
    const kt__http_head *head;
    const char *allow; /* the Allow header, or NULL */
    char message[200];
} refusal;

static const char *header_of(const kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static int say_why(refusal *why, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int say_why(refusal *why, int status, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(why->message, sizeof why->message, fmt, args);
    va_end(args);
    return status;
}

/* ---- framing: where a body ends is said once, or two programs read two requests ---- */

/* The headers that decide it, counted. */
typedef struct framing {
    int n_host, n_length, n_coding;
    const char *coding;
    const char *end; /* of the line before, where the library's buffer has it */
    size_t most;     /* bytes of all headers */
    bool malformed;
} framing;

/* A line of libmicrohttpd 0.9 lies where it was read, and the next one begins two bytes after it: with
 * one, it ended in a bare LF; with more, it has a NUL, which the library takes for its end. Lines that
 * lie elsewhere are not judged. */
static bool follows_badly(const framing *f, const char *next) {
    uintptr_t gap = (uintptr_t)next - (uintptr_t)f->end;
    return f->end && gap != 2 && gap > 0 && gap <= f->most;
}

static bool keeps_lines(void) {
    return !strncmp(MHD_get_version(), "0.9.", 4);
}

/* The library takes a blank before the colon into the name, and glues a folded line to it. */
static bool is_bad_name(const char *name, size_t len) {
    static const char *const exact[] = {"Transfer-Encoding", "Content-Length"};
    if (!len || memchr(name, ' ', len) || memchr(name, '\t', len)) return true;
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        size_t n = strlen(exact[i]);
        if (len > n && !kt__strncasecmp(name, exact[i], n)) return true;
    }
    return false;
}

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name,
                                    size_t name_len, const char *value, size_t value_len) {
    framing *f = user;
    (void)kind;
    bool coding = !kt__strcasecmp(name, "Transfer-Encoding");
    f->n_host += !kt__strcasecmp(name, "Host");
    f->n_length += !kt__strcasecmp(name, "Content-Length");
    f->n_coding += coding;
    if (coding) f->coding = value ? value : "";
    f->malformed |= is_bad_name(name, name_len) || (value && memchr(value, '\0', value_len)) ||
                    follows_badly(f, name);
    f->end = f->end && value ? value + value_len : NULL;
    return MHD_YES;
}

/* RFC 9112, sections 3.2, 5.1, 6.1 and 6.3. What follows on such a connection is not read. */
static int check_framing(kt__http_request *r, refusal *why) {
    const kt__http_head *head = why->head;
    framing f = {.most = (size_t)r->shared->start->max_header};
    if (keeps_lines()) f.end = head->version + strlen(head->version);
    (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, count_header, &f);
    const union MHD_ConnectionInfo *size = MHD_get_connection_info(
        r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    /* an empty line comes last */
    if (size) f.malformed |= follows_badly(&f, head->method + size->header_size - 2);
    r->close = true;
    if (f.malformed) return say_why(why, 400, "malformed header line");
    if (f.n_host > 1 || (!f.n_host && !r->old_version))
        return say_why(why, 400, "a request has one Host header, not %d", f.n_host);
    if (f.n_length > 1) return say_why(why, 400, "more than one Content-Length");
    if (f.n_coding && (f.n_length || f.n_coding > 1 || r->old_version))
        return say_why(why, 400, "Transfer-Encoding together with another length of the body");
    if (f.coding && kt__strcasecmp(f.coding, "chunked") != 0)
        return say_why(why, 501, "Transfer-Encoding: only chunked is known here");
    r->close = false;
    return 0;
}

/* ---- who asks, and for what: 0, or the status of the refusal ---- */

/* Balancers of old ask for /health without a Host; a browser always names one. */
static bool may_lack_host(const kt__http_request *r) {
    return r->route && (r->route->flags & KT__ROUTE_OPEN);
}

static int check_host(kt__http_request *r, refusal *why) {
    const char *host = header_of(r, "Host");
    if (!r->listens_at || (!host && may_lack_host(r))) return 0;
    if (kt__access_host(r->settings->config, r->listens_at, host)) return 0;
    return say_why(why, 403, "this Host is not served here: add it to http.hosts if it should be");
}

/* A browser asks whether a page of another origin may send what it wants to send. It may where the answer names the
 * origin, whatever else the answer is. */
static bool is_preflight(const kt__http_request *r, const kt__http_head *head) {
    return !strcmp(head->method, "OPTIONS") && header_of(r, "Origin") &&
           header_of(r, "Access-Control-Request-Method");
}

static int check_origin(kt__http_request *r, refusal *why) {
    const char *origin = header_of(r, "Origin");
    if (origin) r->cors = kt__access_cors(r->settings->config, origin);
    if (!origin || r->cors || is_preflight(r, why->head) ||
        kt__access_origin(r->settings->config, r->listens_at, origin))
        return 0;
    return say_why(why, 403,
                   "requests from pages of other origins are not answered: add the origin to "
                   "http.cors if they should be");
}

static int check_method(kt__http_request *r, refusal *why) {
    (void)r;
    if (!why->head->allowed) return 0;
    why->allow = why->head->allowed;
    return say_why(why, 405, "%.10s is not allowed here, only %s", why->head->method, why->allow);
}

static bool needs_key(const kt__http_request *r) {
    unsigned flags = r->route ? r->route->flags : 0;
    if (!r->settings->keys || (flags & KT__ROUTE_OPEN)) return false;
    return !(flags & KT__ROUTE_METRICS) || !r->settings->config->metrics_open;
}

/* Guesses may come by the thousand. The key itself is never written. */
static void tell_wrong_key(kt__http_request *r) {
    unsigned n_kept;
    if (!kt__slog_may(&r->shared->wrong_keys, 1000000, &n_kept)) return;
    const kt__slog_field fields[] = {{"peer", r->client, 0}, {"more", NULL, (double)n_kept}};
    kt__slog_write(&r->shared->log, KT_LOG_WARN, "wrong API key", fields, 2);
}

/* The caller that has a key is known by its name. */
static int check_key(kt__http_request *r, refusal *why) {
    if (!needs_key(r)) return 0;
    const char *authorization = header_of(r, "Authorization"), *api_key = header_of(r, "X-Api-Key");
    const char *name = kt__access_key(r->settings->keys, authorization, api_key);
    if (!name && !authorization && !api_key)
        return say_why(why, 401, "an API key is needed: Authorization: Bearer KEY");
    if (!name) {
        tell_wrong_key(r);
        return say_why(why, 401, "this API key is not valid here");
    }
    snprintf(r->client, sizeof r->client, "key:%s", name);
    r->has_key = true;
    return 0;
}

static bool is_path(const char *path) {
    const char *allowed, *rest;
    return kt__http_find_route("GET", path, &allowed, &rest) != NULL;
}

/* Other servers' paths that are something else here. */
static const char *path_of_others(const char *path) {
    static const char *const pairs[][2] = {
        {"/v1/engines", "/v1/models"},
        {"/v1/chat", "/v1/chat/completions"},
        {"/metrics/prometheus", "/metrics"},
        {"/generate", "/v1/completions"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (!strcmp(path, pairs[i][0])) return pairs[i][1];
    return NULL;
}

/* Where what was asked for is: a base URL has /v1 once too often or not at all, or the path is
 * another server's. */
static int check_path(kt__http_request *r, refusal *why) {
    const char *path = why->head->path, *other = path_of_others(path);
    char with[120];
    if (r->route && (r->route->flags & KT__ROUTE_NO_FILE))
        return say_why(why, 501,
                       "files are not sent here: put them into the server's folder of models, or "
                       "pull them");
    if (r->route) return 0;
    if (!other && !strncmp(path, "/v1/", 4) && is_path(path + 3)) other = path + 3;
    if (!other && (size_t)snprintf(with, sizeof with, "/v1%s", path) < sizeof with && is_path(with))
        other = with;
    if (!other) return say_why(why, 404, "there is nothing at %.80s", path);
    return say_why(why, 404, "there is nothing at %.40s: it is %.80s here", path, other);
}

static int check_room(kt__http_request *r, refusal *why) {
    if (!r->surplus || (r->route->flags & KT__ROUTE_OPEN)) return 0;
    r->close = true;
    return say_why(why, 503, "too many connections are open");
}

static enum MHD_Result note_browser(void *user, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
    bool *found = user;
    const char *who = !kt__strcasecmp(name, "User-Agent") && value ? value : "";
    (void)kind;
    *found |= !kt__strcasecmp(name, "Origin") || !kt__strcasecmp(name, "Referer") ||
              !kt__strcasecmp(name, "Cookie") || !kt__strncasecmp(name, "Sec-Fetch-", 10) ||
              !strncmp(who, "Mozilla/", 8);
    return MHD_YES;
}

static bool may_be_browser(kt__http_request *r) {
    bool found = false;
    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, note_browser, &found);
    return found;
}

/* Browsers say with each POST where it comes from; node's fetch says only how it asks. */
static bool is_from_page(kt__http_request *r) {
    return header_of(r, "Origin") || header_of(r, "Sec-Fetch-Site") || header_of(r, "Referer") ||
           header_of(r, "Cookie");
}

/* What pages can send without asking first is not taken for JSON; of curl it is. */
static int check_type(kt__http_request *r, refusal *why) {
    const char *type = header_of(r, "Content-Type");
    if (strcmp(r->route->method, "POST") != 0 || kt__access_is_json(type)) return 0;
    if (kt__access_is_untold(type) && !may_be_browser(r)) return 0;
    bool form = type && (r->route->flags & KT__ROUTE_FORM) &&
                !kt__strncasecmp(type, "multipart/form-data", 19);
    bool bare = !type && (r->route->flags & KT__ROUTE_BARE);
    if ((form || bare) && (r->cors || !is_from_page(r))) return 0;
    return say_why(why, 415, "Content-Type: application/json is needed");
}

static int check_length(kt__http_request *r, refusal *why) {
    const char *length = header_of(r, "Content-Length");
    if (!length || strtoull(length, NULL, 10) <= r->max_body) return 0;
    return say_why(why, 413, "the body is longer than %zu bytes", r->max_body);
}

static int check_stopping(kt__http_request *r, refusal *why) {
    if (!atomic_load(&r->shared->stopping) || (r->route->flags & KT__ROUTE_OPEN)) return 0;
    return say_why(why, 503, "the server is being stopped");
}

bool kt__http_refuse(kt__http_request *r, const kt__http_head *head, enum MHD_Result *result) {
    static int (*const checks[])(kt__http_request *, refusal *) = {
        check_framing, check_host, check_origin, check_method, check_key,
        check_path,    check_room, check_type,   check_length, check_stopping};
    refusal why = {.head = head};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (checks[i] == check_method && is_preflight(r, head)) {
            *result = kt__http_answer_preflight(r);
            return true;
        }
        int status = checks[i](r, &why);
        if (!status) continue;
        *result = kt__http_answer_error(r, status, why.allow, "%s", why.message);
        return true;
    }
    return false;
}
