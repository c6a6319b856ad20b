/* Winsock as POSIX has sockets. */
#include "system.h"

#include <sys/socket.h>

#undef socket
#undef bind
#undef listen
#undef connect
#undef send
#undef recv
#undef sendto
#undef shutdown
#undef getsockopt
#undef setsockopt
#undef getsockname
#undef accept
#undef getaddrinfo

static INIT_ONCE started = INIT_ONCE_STATIC_INIT;

static BOOL CALLBACK start_once(INIT_ONCE *once, void *arg, void **out) {
    WSADATA data;
    (void)once;
    (void)arg;
    (void)out;
    return WSAStartup(MAKEWORD(2, 2), &data) == 0;
}

void kt__win_start_sockets(void) {
    (void)InitOnceExecuteOnce(&started, start_once, NULL, NULL);
}

/* Not inherited; a handle, which is a multiple of four. */
static int take_socket(SOCKET s, bool nonblocking) {
    u_long on = 1;
    if (s == INVALID_SOCKET) return kt__win_fail_socket();
    (void)SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
    if (s > INT_MAX || s % 4 != 0) {
        closesocket(s);
        errno = EMFILE;
        return -1;
    }
    if (nonblocking) (void)ioctlsocket(s, (long)FIONBIO, &on);
    return (int)s;
}

int kt__win_socket(int family, int type, int protocol) {
    kt__win_start_sockets();
    return take_socket(socket(family, type & 0xf, protocol), (type & SOCK_NONBLOCK) != 0);
}

int kt__win_bind(int fd, const struct sockaddr *address, socklen_t len) {
    return bind((SOCKET)fd, address, len) == 0 ? 0 : kt__win_fail_socket();
}

int kt__win_listen(int fd, int backlog) {
    return listen((SOCKET)fd, backlog) == 0 ? 0 : kt__win_fail_socket();
}

int kt__win_connect(int fd, const struct sockaddr *address, socklen_t len) {
    if (connect((SOCKET)fd, address, len) == 0) return 0;
    int rc = kt__win_fail_socket();
    if (errno == EAGAIN) errno = EINPROGRESS;
    return rc;
}

int kt__win_accept(int fd, struct sockaddr *address, socklen_t *len, int flags) {
    return take_socket(accept((SOCKET)fd, address, len), (flags & SOCK_NONBLOCK) != 0);
}

/* MSG_DONTWAIT of a socket that waits: whether there is something is asked first. */
static bool would_wait(int fd, int flags, short events) {
    WSAPOLLFD one = {.fd = (SOCKET)fd, .events = events};
    if (!(flags & MSG_DONTWAIT) || WSAPoll(&one, 1, 0) != 0) return false;
    errno = EAGAIN;
    return true;
}

ssize_t kt__win_send(int fd, const void *data, size_t n, int flags) {
    if (would_wait(fd, flags, POLLOUT)) return -1;
    int sent = send((SOCKET)fd, data, n < INT_MAX ? (int)n : INT_MAX, flags & ~MSG_DONTWAIT);
    return sent >= 0 ? sent : kt__win_fail_socket();
}

ssize_t kt__win_recv(int fd, void *data, size_t n, int flags) {
    if (would_wait(fd, flags, POLLIN)) return -1;
    int got = recv((SOCKET)fd, data, n < INT_MAX ? (int)n : INT_MAX, flags & ~MSG_DONTWAIT);
    return got >= 0 ? got : kt__win_fail_socket();
}

ssize_t kt__win_sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
                       socklen_t len) {
    int sent = sendto((SOCKET)fd, data, n < INT_MAX ? (int)n : INT_MAX, flags & ~MSG_DONTWAIT, to,
                      len);
    return sent >= 0 ? sent : kt__win_fail_socket();
}

int kt__win_shutdown(int fd, int how) {
    return shutdown((SOCKET)fd, how) == 0 ? 0 : kt__win_fail_socket();
}

static int get_peer(void *value, socklen_t *len) {
    struct ucred who = {.pid = 0, .uid = geteuid(), .gid = geteuid()};
    if (*len < (socklen_t)sizeof who) {
        errno = EINVAL;
        return -1;
    }
    memcpy(value, &who, sizeof who);
    *len = sizeof who;
    return 0;
}

int kt__win_getsockopt(int fd, int level, int name, void *value, socklen_t *len) {
    if (level == SOL_SOCKET && name == SO_PEERCRED) return get_peer(value, len);
    return getsockopt((SOCKET)fd, level, name, value, len) == 0 ? 0 : kt__win_fail_socket();
}

/* SO_REUSEADDR means on Windows that two programs may listen at one address: what POSIX's is for, an
 * address whose last connections are still being closed, needs nothing here. */
int kt__win_setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
    DWORD ms;
    if (level == SOL_SOCKET && name == SO_ATTACH_FILTER) {
        errno = ENOPROTOOPT;
        return -1;
    }
    if (level == SOL_SOCKET && name == SO_REUSEADDR) name = SO_EXCLUSIVEADDRUSE;
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
        const struct timeval *limit = value;
        ms = (DWORD)(limit->tv_sec * 1000 + limit->tv_usec / 1000);
        value = &ms;
        len = sizeof ms;
    }
    return setsockopt((SOCKET)fd, level, name, value, len) == 0 ? 0 : kt__win_fail_socket();
}

int kt__win_getsockname(int fd, struct sockaddr *address, socklen_t *len) {
    return getsockname((SOCKET)fd, address, len) == 0 ? 0 : kt__win_fail_socket();
}

int kt__win_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                        struct addrinfo **out) {
    kt__win_start_sockets();
    return getaddrinfo(host, port, hints, out);
}

/* A socket for datagrams on this machine that is connected to itself: what is written can be read. */
int kt__win_eventfd(unsigned count, int flags) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    (void)count;
    (void)flags;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = kt__win_socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (kt__win_bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        kt__win_getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
        kt__win_connect(fd, (struct sockaddr *)&at, len) == 0)
        return fd;
    int code = errno;
    closesocket((SOCKET)fd);
    errno = code;
    return -1;
}
