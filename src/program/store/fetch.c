#include "store/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

enum { MAX_HOPS = 8, STALL_S = 30, CONNECT_S = 30, TRIES = 3, MAX_DISCARDED = 1 << 20 };

struct kt__fetch {
    const kt__access *access;
    CURL *easy;
    const kt__fetch_request *request;
    kt__fetch_reply *reply;
    char location[KT__FETCH_ADDRESS]; /* of a redirection, as the server wrote it */
    char modified[KT__FETCH_TAG];     /* means an ETag where there is none */
    size_t discarded;                 /* of the text of an error */
    bool stopped;                     /* by the sink, or for that text's length */
    char problem[CURL_ERROR_SIZE];
};

/* ---- URLs ---- */

bool kt__url_append(kt__buf *url, const char *text) {
    bool ok = true;
    for (const unsigned char *c = (const unsigned char *)text; *c && ok; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("-._~/", *c);
        ok = plain ? kt__buf_putc(url, (char)*c) : kt__buf_printf(url, "%%%02X", *c);
    }
    return ok;
}

/* A part of a URL copied into out; false: it has none, or it is too long. */
static bool url_part(const kt__curl *c, CURLU *url, CURLUPart part, unsigned flags, char *out,
                     size_t size) {
    char *text = NULL;
    bool ok = c->url_get(url, part, &text, flags) == CURLUE_OK && strlen(text) < size;
    if (ok) memcpy(out, text, strlen(text) + 1);
    if (text) c->free(text);
    return ok;
}

/* "https://host:443"; false: no URL of http or https, or one with a user's name in it. */
static bool url_origin(const kt__curl *c, const char *text, char *out, size_t size) {
    char scheme[16], host[512], port[16];
    CURLU *url = c->url();
    bool ok = url && c->url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER) == CURLUE_OK &&
              url_part(c, url, CURLUPART_SCHEME, 0, scheme, sizeof scheme) &&
              url_part(c, url, CURLUPART_HOST, 0, host, sizeof host) &&
              url_part(c, url, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof port);
    if (url) c->url_cleanup(url);
    ok = ok && (!strcmp(scheme, "https") || !strcmp(scheme, "http"));
    if (!ok) return false;
    for (char *h = host; *h; h++) *h = (char)(*h >= 'A' && *h <= 'Z' ? *h + 32 : *h);
    int n = snprintf(out, size, "%s://%s:%s", scheme, host, port);
    return n > 0 && (size_t)n < size;
}

/* Where a redirection from url leads. */
static bool url_follow(const kt__curl *c, char url[KT__FETCH_ADDRESS], const char *location) {
    char next[KT__FETCH_ADDRESS];
    CURLU *u = c->url();
    bool ok = u && c->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              c->url_set(u, CURLUPART_URL, location, CURLU_DISALLOW_USER) == CURLUE_OK &&
              url_part(c, u, CURLUPART_URL, 0, next, sizeof next);
    if (u) c->url_cleanup(u);
    if (ok) memcpy(url, next, sizeof next);
    return ok;
}

/* ---- access ---- */

static bool is_loopback(const char *origin) {
    static const char *const names[] = {"http://127.", "http://localhost:", "http://[::1]:"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(origin, names[i], strlen(names[i]))) return true;
    return false;
}

static kt_status parse_token(const char *text, const char *path, kt__access *a, kt_error *err) {
    size_t begin = strspn(text, " \t\r\n"), len = strcspn(text + begin, " \t\r\n");
    for (size_t i = 0; i < len; i++)
        if (text[begin + i] <= ' ' || text[begin + i] > '~') len = 0;
    if (!len || text[begin + len + strspn(text + begin + len, " \t\r\n")])
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "a hub's token must be one word and nothing else");
    memcpy(a->token, text + begin, len);
    return KT_OK;
}

static kt_status read_token(const char *path, kt__access *a, kt_error *err) {
    char text[sizeof a->token] = "";
    kt__file_info st;
    kt_status status = KT_OK;
    int fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_WAIT);
    if (fd < 0 && errno == ENOENT) return KT_OK;
    ssize_t n = fd < 0 || !kt__fd_look(fd, &st) ? -1 : kt__fd_read(fd, text, sizeof text - 1);
    if (n < 0)
        status = kt__fail_system(err, errno, path, "cannot read the hub's token");
    else if (st.permissions & 077)
        status = kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                             "others may read the hub's token: chmod 600 %.200s", path);
    else
        status = parse_token(text, path, a, err);
    explicit_bzero(text, sizeof text);
    if (fd >= 0) kt__fd_close(fd);
    return status;
}

/* No token goes in the clear over a network. */
static void keep_in_the_dark(kt__access *a) {
    if (!strncmp(a->origin, "http:", 5) && !is_loopback(a->origin))
        explicit_bzero(a->token, sizeof a->token);
}

kt_status kt__access_open(const char *base, const char *token_file, kt__access *out,
                          kt_error *err) {
    size_t len = strlen(base);
    memset(out, 0, sizeof *out);
    while (len && base[len - 1] == '/') len--;
    kt_status status = kt__curl_open("getting a model from a hub", &out->curl, err);
    if (status != KT_OK) return status;
    snprintf(out->base, sizeof out->base, "%.*s", (int)len, base);
    if (len >= sizeof out->base - 256 ||
        !url_origin(&out->curl, out->base, out->origin, sizeof out->origin))
        return kt__fail(err, KT_E_ARG,
                        "\"%.200s\" is no address of a hub: expected http:// or https://, a host "
                        "and no user's name",
                        base);
    if (!token_file) return KT_OK;
    snprintf(out->token_file, sizeof out->token_file, "%s", token_file);
    status = read_token(token_file, out, err);
    keep_in_the_dark(out);
    return status;
}

kt_status kt__access_add_token(kt__access *access, const char *text, const char *path,
                               kt_error *err) {
    if (access->token[0]) return KT_OK;
    if (strlen(text) >= sizeof access->token)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "this is no token: it is too long");
    kt_status status = parse_token(text, path, access, err);
    keep_in_the_dark(access);
    return status;
}

void kt__access_close(kt__access *access) {
    explicit_bzero(access->token, sizeof access->token);
}

/* ---- what comes back ---- */

static bool take_header(const char *line, size_t len, const char *name, char *out, size_t size) {
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || kt__strncasecmp(line, name, n) != 0) return false;
    for (n++; n < len && (line[n] == ' ' || line[n] == '\t'); n++) {
    }
    while (len > n && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    if (len - n < size) snprintf(out, size, "%.*s", (int)(len - n), line + n);
    return true;
}

/* A decimal number and nothing before it; UINT64_MAX: none. */
static uint64_t number_at(const char *text, const char **end) {
    uint64_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            return UINT64_MAX;
    *end = p;
    return p == text ? UINT64_MAX : n;
}

/* "bytes 100-199/1000", or, of a part that is not there, a star and "/1000" */
static void take_range(kt__fetch_reply *reply, const char *text) {
    const char *p = text + (kt__strncasecmp(text, "bytes ", 6) == 0 ? 6 : 0);
    if (p[0] == '*' && p[1] == '/') reply->total = number_at(p + 2, &p);
    uint64_t first = number_at(p, &p);
    if (first == UINT64_MAX || *p != '-') return;
    if (number_at(p + 1, &p) == UINT64_MAX || *p != '/') return;
    reply->total = number_at(p + 1, &p);
    reply->first = first;
}

static size_t on_header(char *line, size_t one, size_t len, void *user) {
    kt__fetch *h = user;
    kt__fetch_reply *r = h->reply;
    const char *end;
    char number[128] = "";
    (void)one;
    if (take_header(line, len, "content-length", number, sizeof number)) {
        r->length = number_at(number, &end);
    } else if (take_header(line, len, "content-range", number, sizeof number)) {
        take_range(r, number);
    } else if (!take_header(line, len, "etag", r->etag, sizeof r->etag) &&
               !take_header(line, len, "last-modified", h->modified, sizeof h->modified) &&
               !take_header(line, len, "x-linked-etag", r->linked_etag, sizeof r->linked_etag) &&
               !take_header(line, len, "link", r->link, sizeof r->link) &&
               !take_header(line, len, "x-repo-commit", r->commit, sizeof r->commit)) {
        (void)take_header(line, len, "location", h->location, sizeof h->location);
    }
    return len;
}

static size_t on_body(char *data, size_t one, size_t len, void *user) {
    kt__fetch *h = user;
    (void)one;
    (void)h->access->curl.easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->reply->code);
    if (h->reply->code / 100 != 2) { /* the text of an error or a redirection */
        h->discarded += len;
        h->stopped = h->discarded > MAX_DISCARDED;
        return h->stopped ? 0 : len;
    }
    if (!h->reply->etag[0]) memcpy(h->reply->etag, h->modified, sizeof h->modified);
    h->stopped = !h->request->sink(h->request->user, h->reply, data, len);
    return h->stopped ? 0 : len;
}

/* Called by libcurl some times a second, also while nothing comes. */
static int stop_where_asked(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const kt__fetch *h = user;
    (void)a, (void)b, (void)c, (void)d;
    return h->access->stop && atomic_load(h->access->stop);
}

/* ---- one request ---- */

kt_status kt__fetch_open(const kt__access *access, kt__fetch **out, kt_error *err) {
    const kt__curl *c = &access->curl;
    kt__fetch *h = kt__calloc(1, sizeof *h);
    *out = h;
    if (!h) return kt__fail_nomem(err, "a connection", sizeof *h);
    h->access = access;
    h->easy = c->easy_init();
    if (!h->easy) {
        kt__fetch_close(h);
        *out = NULL;
        return kt__fail_nomem(err, "a connection", 0);
    }
    c->easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
    c->easy_setopt(h->easy, CURLOPT_USERAGENT, "kentang/" KT_VERSION);
    c->easy_setopt(h->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    c->easy_setopt(h->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->easy_setopt(h->easy, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    c->easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->problem);
    c->easy_setopt(h->easy, CURLOPT_HEADERFUNCTION, on_header);
    c->easy_setopt(h->easy, CURLOPT_HEADERDATA, h);
    c->easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
    c->easy_setopt(h->easy, CURLOPT_XFERINFOFUNCTION, stop_where_asked);
    c->easy_setopt(h->easy, CURLOPT_XFERINFODATA, h);
    c->easy_setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
    return KT_OK;
}

void kt__fetch_close(kt__fetch *h) {
    if (!h) return;
    if (h->easy) h->access->curl.easy_cleanup(h->easy);
    kt__free(h);
}

static bool add_header(const kt__curl *c, struct curl_slist **list, const char *name,
                       const char *value) {
    char line[KT__FETCH_URL];
    if (!value || !*value) return true;
    int n = snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = n > 0 && (size_t)n < sizeof line ? c->slist_append(*list, line)
                                                                 : NULL;
    explicit_bzero(line, sizeof line);
    if (longer) *list = longer;
    return longer != NULL;
}

static kt_status fail_transfer(const kt__fetch *h, CURLcode code, const char *url, kt_error *err) {
    h->reply->may_retry = code != CURLE_ABORTED_BY_CALLBACK;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return kt__fail(err, KT_E_CANCELLED, "stopped: what has come is kept");
    return kt__fail_at(err, KT_E_IO, url, UINT64_MAX, "the connection failed: %.200s",
                       h->problem[0] ? h->problem : h->access->curl.easy_strerror(code));
}

/* One hop. */
static kt_status fetch_hop(kt__fetch *h, const char *url, kt_error *err) {
    const kt__curl *c = &h->access->curl;
    char origin[KT__FETCH_URL], bearer[sizeof h->access->token + 16] = "";
    struct curl_slist *headers = NULL;
    if (!url_origin(c, url, origin, sizeof origin))
        return kt__fail_at(err, KT_E_ARG, url, UINT64_MAX, "this is no http or https address");
    if (h->access->token[0] && !strcmp(origin, h->access->origin))
        snprintf(bearer, sizeof bearer, "Bearer %s", h->access->token);
    bool ok = add_header(c, &headers, "Authorization", bearer) &&
              add_header(c, &headers, "If-Range", h->request->if_range) &&
              add_header(c, &headers, "Accept", h->request->accept);
    h->reply->length = h->reply->first = h->reply->total = UINT64_MAX;
    h->reply->link[0] = h->reply->etag[0] = h->location[0] = h->modified[0] = h->problem[0] = '\0';
    h->discarded = 0;
    h->stopped = false;
    c->easy_setopt(h->easy, CURLOPT_URL, url);
    c->easy_setopt(h->easy, CURLOPT_RANGE, h->request->range);
    c->easy_setopt(h->easy, CURLOPT_HTTPHEADER, headers);
    CURLcode code = ok ? c->easy_perform(h->easy) : CURLE_OUT_OF_MEMORY;
    c->easy_setopt(h->easy, CURLOPT_HTTPHEADER, NULL);
    c->slist_free_all(headers);
    explicit_bzero(bearer, sizeof bearer);
    (void)c->easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->reply->code);
    return code == CURLE_OK || h->stopped ? KT_OK : fail_transfer(h, code, url, err);
}

static kt_status fail_code(const kt__fetch *h, const char *url, kt_error *err) {
    long code = h->reply->code;
    h->reply->may_retry = code >= 500 || code == 408;
    if (code == 401 || code == 403)
        return kt__fail_at(err, KT_E_IO, url, UINT64_MAX,
                           "the server refuses (%ld): %s; put a token of yours into %.160s (chmod "
                           "600) and accept the model's terms on its page",
                           code,
                           h->access->token[0] ? "the token is not good for it"
                                               : "it is private, gated or not there",
                           h->access->token_file[0] ? h->access->token_file : "the token file");
    if (code == 404 || code == 410)
        return kt__fail_at(err, KT_E_ARG, url, UINT64_MAX, "not there (%ld)", code);
    if (code == 429)
        return kt__fail_at(err, KT_E_BUSY, url, UINT64_MAX,
                           "too many requests (429): wait some minutes and run it again");
    return kt__fail_at(err, KT_E_IO, url, UINT64_MAX, "the server answers %ld", code);
}

static bool is_redirection(const kt__fetch *h) {
    long code = h->reply->code;
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

static kt_status follow_location(kt__fetch *h, char url[KT__FETCH_ADDRESS], kt_error *err) {
    char origin[KT__FETCH_URL];
    bool secure = !strncmp(url, "https:", 6);
    if (!h->location[0] || !url_follow(&h->access->curl, url, h->location) ||
        !url_origin(&h->access->curl, url, origin, sizeof origin) ||
        (secure && strncmp(origin, "https:", 6) != 0))
        return kt__fail_at(err, KT_E_IO, url, UINT64_MAX,
                           "the server sends us on to an address that is not followed: \"%.100s\"",
                           h->location);
    return KT_OK;
}

/* <address>; rel="next", among others that commas part */
static bool find_next(const char *link, char out[KT__FETCH_URL]) {
    for (const char *at = strchr(link, '<'); at; at = strchr(at, '<')) {
        size_t n = strcspn(++at, ">");
        const char *after = at + n;
        size_t end = strcspn(after, "<");
        const char *rel = strstr(after, "rel=\"next\"");
        if (!rel) rel = strstr(after, "rel=next");
        if (*after && rel && rel < after + end && n < KT__FETCH_URL) {
            snprintf(out, KT__FETCH_URL, "%.*s", (int)n, at);
            return true;
        }
        at = after;
    }
    return false;
}

kt_status kt__fetch_next(const kt__fetch *h, const kt__fetch_reply *reply,
                         char url[KT__FETCH_ADDRESS], kt_error *err) {
    const kt__curl *c = &h->access->curl;
    char next[KT__FETCH_URL], here[KT__FETCH_URL], there[KT__FETCH_URL];
    url[0] = '\0';
    if (!find_next(reply->link, next)) return KT_OK;
    snprintf(url, KT__FETCH_ADDRESS, "%s", reply->url);
    if (url_origin(c, url, here, sizeof here) && url_follow(c, url, next) &&
        url_origin(c, url, there, sizeof there) && strcmp(here, there) == 0)
        return KT_OK;
    return kt__fail_at(err, KT_E_IO, reply->url, UINT64_MAX,
                       "the list of files continues at an address that is not followed: \"%.100s\"",
                       next);
}

kt_status kt__fetch_url(kt__fetch *h, const kt__fetch_request *request, kt__fetch_reply *reply,
                        kt_error *err) {
    memset(reply, 0, sizeof *reply);
    h->request = request;
    h->reply = reply;
    snprintf(reply->url, sizeof reply->url, "%s", request->url);
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        kt_status status = fetch_hop(h, reply->url, err);
        if (status != KT_OK) return status;
        if (reply->code / 100 == 2) return KT_OK;
        if (!is_redirection(h)) return fail_code(h, reply->url, err);
        status = follow_location(h, reply->url, err);
        if (status != KT_OK) return status;
    }
    return kt__fail_at(err, KT_E_IO, request->url, UINT64_MAX, "more than %d redirections",
                       (int)MAX_HOPS);
}

/* ---- small documents ---- */

static bool append_body(void *user, const kt__fetch_reply *reply, const void *data, size_t n) {
    (void)reply;
    return kt__buf_append(user, data, n);
}

kt_status kt__fetch_text(kt__fetch *h, const char *url, const char *accept, kt__buf *out,
                         kt__fetch_reply *reply, kt_error *err) {
    const kt__fetch_request request = {
        .url = url, .accept = accept, .sink = append_body, .user = out};
    kt_status status = KT_OK;
    for (int i = 0; i < TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 200000000L << i};
        kt__buf_clear(out);
        status = kt__fetch_url(h, &request, reply, err);
        if (status == KT_OK || !reply->may_retry) break;
        (void)nanosleep(&pause, NULL);
    }
    if (status == KT_OK && out->failed)
        return kt__fail_at(err, KT_E_LIMIT, url, UINT64_MAX,
                           "the answer has more than %zu bytes: this is no hub's answer", out->max);
    return status;
}
