#include "transports/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/config_set.h"

enum { BACKLOG = 512 };

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
        return kt__fail(err, KT_E_ARG,
                        "http.listen \"%.80s\": expected a port from 0 to 65535 after the colon",
                        listen);
    return KT_OK;
}

/* *found: for freeaddrinfo. */
static kt_status resolve_listen(const char *listen_at, struct addrinfo **found, kt_error *err) {
    char host[64], port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    *found = NULL;
    kt_status status = split_listen(listen_at, host, sizeof host, port, sizeof port, err);
    if (status != KT_OK) return status;
    int rc = getaddrinfo(*host ? host : NULL, port, &hints, found);
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_ARG, "http.listen \"%.80s\": %s", listen_at, gai_strerror(rc));
}

/* What to do depends on why: none of it is about a path. */
static const char *remedy_of_listen(int code) {
    switch (code) {
    case EADDRINUSE:
        return ": another program listens there: end it, or choose another port (--listen)";
    case EADDRNOTAVAIL: return ": this machine has no such address: see `ip address`";
    case EACCES: return ": ports below 1024 need CAP_NET_BIND_SERVICE, or take a higher one";
    case EMFILE:
    case ENFILE: return ": raise the limit of open files (ulimit -n, LimitNOFILE)";
    default: return "";
    }
}

static kt_status fail_listen(const char *listen_at, int code, kt_error *err) {
    return kt__fail(err, KT_E_IO, "cannot listen on %s: %s%s", listen_at, strerror(code),
                    remedy_of_listen(code));
}

static kt_status open_tcp(kt__http_socket *out, const char *listen_at, kt_error *err) {
    struct addrinfo *found;
    int on = 1;
    kt_status status = resolve_listen(listen_at, &found, err);
    if (status != KT_OK) return status;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
        status = fail_listen(listen_at, errno, err);
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    out->fd = fd;
    out->bound = fd >= 0;
    return status;
}

kt_status kt__http_socket_listen(const kt__http_socket *at, const char *listen_at, kt_error *err) {
    if (!at->bound || listen(at->fd, BACKLOG) == 0) return KT_OK;
    return fail_listen(listen_at, errno, err);
}

static kt_status open_unix(kt__http_socket *out, const char *path, unsigned mode, kt_error *err) {
    kt_status status = kt__listener_open(path, mode, &out->listener, err);
    if (status != KT_OK) return status;
    out->fd = out->listener.fd;
    out->listener.fd = -1; /* the caller that listens closes it */
    return KT_OK;
}

/* Beyond loopback keys are needed. */
static kt_status check_keys(const kt__config *config, const struct sockaddr *address,
                            const char *name, kt_error *err) {
    if (is_loopback(address) || config->keys || config->api_key || config->no_keys) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "%s can be reached from other machines: give a file of API keys (http.keys), "
                    "or say that none are wanted (http.no_keys)",
                    name);
}

/* What is listened on, and whether that needs keys. */
static kt_status look_at(const kt__config *config, kt__http_socket *out, kt_error *err) {
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(out->fd, (struct sockaddr *)&address, &len) != 0)
        return kt__fail_system(err, errno, NULL, "no address");
    out->unix_socket = address.ss_family == AF_UNIX;
    char port[16] = "0";
    if (!out->unix_socket &&
        getnameinfo((struct sockaddr *)&address, len, out->address, sizeof out->address, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return kt__fail(err, KT_E_IO, "no address");
    out->port = atoi(port);
    return check_keys(config, (struct sockaddr *)&address, out->address, err);
}

kt_status kt__http_socket_open(const kt__config *config, const char *listen_at, int fd,
                               kt__http_socket *out, kt_error *err) {
    kt_status status = KT_OK;
    *out = KT__HTTP_NO_SOCKET;
    out->fd = fd;
    if (fd < 0 && !strncmp(listen_at, "unix:", 5)) {
        status = open_unix(out, listen_at + 5, (unsigned)config->socket_mode, err);
    } else if (fd < 0) {
        status = open_tcp(out, listen_at, err);
    }
    return status == KT_OK ? look_at(config, out, err) : status;
}

/* ---- certificates, and what can be checked beforehand ---- */

kt_status kt__http_read_pem(const char *path, char **out, kt_error *err) {
    kt__buf text;
    kt_status status;
    *out = NULL;
    KT__TRY(
        kt__config_file_read(path, "a certificate or key", KT__HTTP_MAX_PEM - 1, &text, NULL, err));
    if (!text.len) KT__TRY(kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "nothing in %s", path));
    *out = kt__calloc(1, KT__HTTP_MAX_PEM);
    if (!*out) KT__TRY(kt__fail_nomem(err, path, KT__HTTP_MAX_PEM));
    memcpy(*out, text.data, text.len);
out:
    kt__config_file_forget(&text);
    return status;
}

static kt_status check_pem(const char *path, kt_error *err) {
    char *text = NULL;
    kt_status status = path ? kt__http_read_pem(path, &text, err) : KT_OK;
    if (text) explicit_bzero(text, KT__HTTP_MAX_PEM);
    kt__free(text);
    return status;
}

static kt_status check_address(const kt__config *config, const char *listen_at, kt_error *err) {
    struct addrinfo *found;
    if (!strncmp(listen_at, "unix:", 5)) return KT_OK;
    KT__STEP(resolve_listen(listen_at, &found, err));
    kt_status status = check_keys(config, found->ai_addr, listen_at, err);
    freeaddrinfo(found);
    return status;
}

kt_status kt__http_check(const kt__config *config, kt_error *err) {
    char one[KT__LISTEN_BYTES];
    const char *rest = config->listen;
    KT__STEP(check_pem(config->tls_cert, err));
    KT__STEP(check_pem(config->tls_key, err));
    while (kt__config_next_listen(&rest, one)) KT__STEP(check_address(config, one, err));
    return KT_OK;
}
