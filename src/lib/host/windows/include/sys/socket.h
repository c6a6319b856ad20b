/* Winsock with POSIX's error numbers and flags: ../../sockets.c. */
#ifndef KT_HOST_WINDOWS_SOCKET_H
#define KT_HOST_WINDOWS_SOCKET_H

#include <winsock2.h>
#include <ws2tcpip.h>

#include <afunix.h>

enum { SOCK_CLOEXEC = 0, SOCK_NONBLOCK = 0x800, MSG_NOSIGNAL = 0, MSG_DONTWAIT = 0x10000 };
enum { SHUT_RD = SD_RECEIVE, SHUT_WR = SD_SEND, SHUT_RDWR = SD_BOTH };
typedef unsigned short sa_family_t;

int kt__win_socket(int family, int type, int protocol);
int kt__win_bind(int fd, const struct sockaddr *address, socklen_t len);
int kt__win_listen(int fd, int backlog);
int kt__win_connect(int fd, const struct sockaddr *address, socklen_t len);
int kt__win_accept(int fd, struct sockaddr *address, socklen_t *len, int flags);
ssize_t kt__win_send(int fd, const void *data, size_t n, int flags);
ssize_t kt__win_recv(int fd, void *data, size_t n, int flags);
ssize_t kt__win_sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
                       socklen_t len);
int kt__win_shutdown(int fd, int how);
int kt__win_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int kt__win_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int kt__win_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int kt__win_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                        struct addrinfo **out);
#define socket(family, type, protocol) kt__win_socket(family, type, protocol)
#define bind(fd, address, len) kt__win_bind(fd, address, (socklen_t)(len))
#define listen(fd, backlog) kt__win_listen(fd, backlog)
#define connect(fd, address, len) kt__win_connect(fd, address, (socklen_t)(len))
#define accept(fd, address, len) kt__win_accept(fd, address, len, 0)
#define accept4(fd, address, len, flags) kt__win_accept(fd, address, len, flags)
#define send(fd, data, n, flags) kt__win_send(fd, data, n, flags)
#define recv(fd, data, n, flags) kt__win_recv(fd, data, n, flags)
#define sendto(fd, data, n, flags, to, len) kt__win_sendto(fd, data, n, flags, to, len)
#define shutdown(fd, how) kt__win_shutdown(fd, how)
#define getsockopt(fd, level, name, value, len) kt__win_getsockopt(fd, level, name, value, len)
#define setsockopt(fd, level, name, value, len) kt__win_setsockopt(fd, level, name, value, len)
#define getsockname(fd, address, len) kt__win_getsockname(fd, address, len)
#undef getaddrinfo
#define getaddrinfo(host, port, hints, out) kt__win_getaddrinfo(host, port, hints, out)

/* A Unix socket's peer: its file is the user's own, as its folder is. */
enum { SO_PEERCRED = 0x7001, SO_ATTACH_FILTER = 0x7002, SO_DETACH_FILTER = 0x7003 };
struct ucred {
    int pid;
    unsigned uid, gid;
};

#endif
