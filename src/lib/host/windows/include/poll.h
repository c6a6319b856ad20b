/* Waiting for descriptors: ../poll.c. */
#ifndef KT_HOST_WINDOWS_POLL_H
#define KT_HOST_WINDOWS_POLL_H
#include <winsock2.h>
struct kt__win_pollfd {
    int fd;
    short events, revents;
};
#define pollfd kt__win_pollfd
typedef unsigned long nfds_t;
int kt__win_poll(struct kt__win_pollfd *fds, nfds_t n, int timeout_ms);
#define poll kt__win_poll
#endif
