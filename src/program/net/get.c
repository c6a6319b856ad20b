#include "net/get.h"

#include "base/error.h"
#include "net/curl_lib.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

/* ---- addresses ---- */

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

static const struct in6_addr *six_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET6 ? &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                                    : NULL;
}

static uint32_t four_of(const struct sockaddr *a) {
    return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
}

bool kt__address_is_public(const struct sockaddr *a) {
    const struct in6_addr *six = six_of(a);
    if (!six && a->sa_family != AF_INET) return false;
    return six ? is_public6(six) : is_public4(four_of(a));
}

bool kt__address_is_loopback(const struct sockaddr *a) {
    const struct in6_addr *six = six_of(a);
    if (!six && a->sa_family != AF_INET) return false;
    return six ? IN6_IS_ADDR_LOOPBACK(six) : four_of(a) >> 24 == 127;
}

/* ---- files ---- */

enum { MOST_HOPS = 4, CONNECT_S = 10 };

typedef struct get {
    const kt__get_params *params;
    kt__curl curl;
    CURL *easy;
    kt__buf *out;
    bool refused_address;
} get;

/* What a name was resolved to is looked at here, also after a redirection. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *to) {
    get *g = user;
    (void)purpose;
    if (g->params->private_net || kt__address_is_public(&to->addr))
        return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    g->refused_address = true;
    return CURL_SOCKET_BAD;
}

static size_t take_bytes(char *data, size_t size, size_t count, void *user) {
    const get *g = user;
    return kt__buf_append(g->out, data, size * count) ? size * count : 0;
}

static void set_options(const get *g) {
    CURLcode (*set)(CURL *, CURLoption, ...) = g->curl.easy_setopt;
    (void)set(g->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    (void)set(g->easy, CURLOPT_WRITEDATA, (void *)(uintptr_t)g);
    (void)set(g->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)set(g->easy, CURLOPT_OPENSOCKETDATA, (void *)(uintptr_t)g);
    (void)set(g->easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)set(g->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    (void)set(g->easy, CURLOPT_TIMEOUT, (long)g->params->most_s);
    (void)set(g->easy, CURLOPT_USERAGENT, "kentang");
    (void)set(g->easy, CURLOPT_FAILONERROR, 1L);
    (void)set(g->easy, CURLOPT_NOPROXY, "*");
    (void)set(g->easy, CURLOPT_NOSIGNAL, 1L);
}

static kt_status fail_get(const get *g, const char *url, CURLcode code, kt_error *err) {
    long status = 0;
    (void)g->curl.easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &status);
    if (g->out->failed)
        return kt__fail(err, KT_E_LIMIT, "%.200s is longer than %zu MB", url,
                        g->params->most_bytes >> 20);
    if (g->refused_address)
        return kt__fail(err, KT_E_IO, "%.200s is at an address that is not public", url);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return kt__fail(err, KT_E_DEADLINE, "%.200s did not come within %d seconds", url,
                        g->params->most_s);
    if (code == CURLE_HTTP_RETURNED_ERROR)
        return kt__fail(err, KT_E_IO, "%.200s: HTTP %ld", url, status);
    return kt__fail(err, KT_E_IO, "%.200s: %s", url, g->curl.easy_strerror(code));
}

static bool is_web_address(const char *url) {
    return !kt__strncasecmp(url, "http://", 7) || !kt__strncasecmp(url, "https://", 8);
}

/* One request; *next is where it leads on, in libcurl's memory, or NULL. */
static kt_status ask_once(get *g, const char *url, char **next, kt_error *err) {
    *next = NULL;
    kt__buf_clear(g->out);
    if (!is_web_address(url))
        return kt__fail(err, KT_E_ARG, "%.200s is no http or https address", url);
    (void)g->curl.easy_setopt(g->easy, CURLOPT_URL, url);
    CURLcode code = g->curl.easy_perform(g->easy);
    if (code != CURLE_OK) return fail_get(g, url, code, err);
    (void)g->curl.easy_getinfo(g->easy, CURLINFO_REDIRECT_URL, next);
    return KT_OK;
}

static kt_status follow_url(get *g, const char *url, kt_error *err) {
    char at[4096], *next;
    if (strlen(url) >= sizeof at) return kt__fail(err, KT_E_LIMIT, "the address is too long");
    strcpy(at, url);
    for (int hop = 0; hop <= MOST_HOPS; hop++) {
        KT__STEP(ask_once(g, at, &next, err));
        if (!next) return KT_OK;
        if (strlen(next) >= sizeof at) return kt__fail(err, KT_E_LIMIT, "the address is too long");
        strcpy(at, next);
    }
    return kt__fail(err, KT_E_IO, "%.200s leads on and on", url);
}

kt_status kt__net_get(const char *url, const kt__get_params *params, kt__buf *out, kt_error *err) {
    get g = {.params = params, .out = out};
    kt__buf_init(out, params->most_bytes);
    KT__STEP(kt__curl_open(params->purpose, &g.curl, err));
    g.easy = g.curl.easy_init();
    if (!g.easy) return kt__fail_nomem(err, "a connection", 0);
    set_options(&g);
    kt_status status = follow_url(&g, url, err);
    g.curl.easy_cleanup(g.easy);
    return status;
}
