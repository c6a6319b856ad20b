/* Linux's event queue, made of WSAPoll: ../poll.c. */
#ifndef KT_HOST_WINDOWS_EPOLL_H
#define KT_HOST_WINDOWS_EPOLL_H
#include <stdint.h>
enum {
    EPOLLIN = 1,
    EPOLLOUT = 4,
    EPOLLERR = 8,
    EPOLLHUP = 16,
    EPOLLRDHUP = 0x2000,
    EPOLL_CTL_ADD = 1,
    EPOLL_CTL_DEL,
    EPOLL_CTL_MOD,
    EPOLL_CLOEXEC = 0
};
#define EPOLLET (1u << 31)
struct epoll_event {
    uint32_t events;
    union {
        void *ptr;
        int fd;
        uint64_t u64;
    } data;
};
int kt__win_epoll_create(int flags);
int kt__win_epoll_ctl(int queue, int what, int fd, struct epoll_event *event);
int kt__win_epoll_wait(int queue, struct epoll_event *events, int max, int timeout_ms);
#define epoll_create1 kt__win_epoll_create
#define epoll_ctl kt__win_epoll_ctl
#define epoll_wait kt__win_epoll_wait
#endif
