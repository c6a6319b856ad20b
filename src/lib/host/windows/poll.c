/* Waiting for descriptors: poll, and Linux's epoll on top of WSAPoll. */
#include "system.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* Windows waits for sockets only: pipes are looked at between waits of this length. */
enum { PIPE_LOOK_MS = 5, MOST_POLLED = 4096 };

static short look_at_pipe(const struct pollfd *p) {
    bool ended = false, ready = kt__win_wait_pipe(p->fd, &ended);
    short events = 0;
    if (GetFileType(kt__win_handle(p->fd)) == FILE_TYPE_UNKNOWN) return POLLNVAL;
    if (ended) events |= POLLHUP;
    if (ready && (p->events & POLLIN)) events |= p->events & POLLIN;
    return events | (p->events & POLLOUT);
}

/* A console is ready when a key was pressed, not when it only came up. */
static short look_at_console(const struct pollfd *p) {
    HANDLE handle = kt__win_handle(p->fd);
    INPUT_RECORD records[64];
    DWORD n = 0;
    short events = p->events & POLLOUT;
    if (!(p->events & POLLIN) || !PeekConsoleInputW(handle, records, 64, &n)) return events;
    for (DWORD i = 0; i < n; i++)
        if (records[i].EventType == KEY_EVENT && records[i].Event.KeyEvent.bKeyDown)
            events |= p->events & POLLIN;
    return events;
}

static short look_at_file(const struct pollfd *p) {
    return kt__win_isatty(p->fd) ? look_at_console(p) : look_at_pipe(p);
}

/* Ready now, of those that are no sockets. */
static int look_at_others(struct pollfd *fds, nfds_t n, nfds_t *n_others) {
    int ready = 0;
    *n_others = 0;
    for (nfds_t i = 0; i < n; i++) {
        if (fds[i].fd < 0) {
            fds[i].revents = 0;
        } else if (!kt__win_is_socket(fds[i].fd)) {
            ++*n_others;
            fds[i].revents = look_at_file(&fds[i]);
            ready += fds[i].revents != 0;
        }
    }
    return ready;
}

static int wait_sockets(struct pollfd *fds, nfds_t n, int ms) {
    WSAPOLLFD sockets[64];
    nfds_t at[64];
    ULONG n_sockets = 0;
    for (nfds_t i = 0; i < n && n_sockets < 64; i++) {
        if (fds[i].fd < 0 || !kt__win_is_socket(fds[i].fd)) continue;
        sockets[n_sockets] = (WSAPOLLFD){.fd = (SOCKET)fds[i].fd,
                                         .events = fds[i].events & (POLLIN | POLLOUT)};
        at[n_sockets++] = i;
    }
    if (!n_sockets) {
        if (ms) Sleep(ms < 0 ? INFINITE : (DWORD)ms);
        return 0;
    }
    int ready = WSAPoll(sockets, n_sockets, ms);
    if (ready < 0) return kt__win_fail_socket();
    for (ULONG i = 0; i < n_sockets; i++) fds[at[i]].revents = sockets[i].revents;
    return ready;
}

int kt__win_poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    uint64_t until = GetTickCount64() + (timeout_ms > 0 ? (uint64_t)timeout_ms : 0);
    nfds_t n_others;
    for (;;) {
        int ready = look_at_others(fds, n, &n_others);
        uint64_t now = GetTickCount64();
        int left = timeout_ms < 0 ? -1 : now < until ? (int)(until - now) : 0;
        int wait = ready ? 0 : n_others && (left < 0 || left > PIPE_LOOK_MS) ? PIPE_LOOK_MS : left;
        int got = wait_sockets(fds, n, wait);
        if (got < 0) return -1;
        if (ready + got || left == 0) return ready + got;
    }
}

/* ---- epoll ---- */

/* HANGUP_LOOK_MS: a socket that is watched for its end alone is looked at this often, as WSAPoll does not tell
 * an end from bytes that nobody reads. */
enum { MOST_QUEUES = 64, HANGUP_LOOK_MS = 50 };

typedef struct watched {
    int fd;
    uint32_t events;
    bool reported; /* its end, of one that is to be reported once */
    struct epoll_event event;
} watched;

typedef struct queue {
    int wake; /* its descriptor, too: it is a socket of its own */
    CRITICAL_SECTION lock;
    watched *list;
    size_t n, room;
    uint64_t looked_ms;
} queue;

static queue *queues[MOST_QUEUES];
static SRWLOCK queues_lock = SRWLOCK_INIT;

static queue *find_queue(int fd) {
    queue *found = NULL;
    AcquireSRWLockShared(&queues_lock);
    for (int i = 0; i < MOST_QUEUES && !found; i++)
        if (queues[i] && queues[i]->wake == fd) found = queues[i];
    ReleaseSRWLockShared(&queues_lock);
    return found;
}

bool kt__win_is_epoll(int fd) {
    return kt__win_is_socket(fd) && find_queue(fd) != NULL;
}

static bool add_queue(queue *q) {
    bool added = false;
    AcquireSRWLockExclusive(&queues_lock);
    for (int i = 0; i < MOST_QUEUES && !added; i++) {
        if (queues[i]) continue;
        queues[i] = q;
        added = true;
    }
    ReleaseSRWLockExclusive(&queues_lock);
    return added;
}

int kt__win_epoll_create(int flags) {
    queue *q = calloc(1, sizeof *q);
    (void)flags;
    if (!q) return -1;
    q->wake = eventfd(0, 0);
    if (q->wake < 0 || !add_queue(q)) {
        if (q->wake >= 0) closesocket((SOCKET)q->wake);
        free(q);
        errno = EMFILE;
        return -1;
    }
    InitializeCriticalSection(&q->lock);
    return q->wake;
}

void kt__win_epoll_close(int fd) {
    queue *q = find_queue(fd);
    AcquireSRWLockExclusive(&queues_lock);
    for (int i = 0; i < MOST_QUEUES; i++)
        if (queues[i] == q) queues[i] = NULL;
    ReleaseSRWLockExclusive(&queues_lock);
    closesocket((SOCKET)q->wake);
    DeleteCriticalSection(&q->lock);
    free(q->list);
    free(q);
}

static watched *find_watched(queue *q, int fd) {
    for (size_t i = 0; i < q->n; i++)
        if (q->list[i].fd == fd) return &q->list[i];
    return NULL;
}

static watched *add_watched(queue *q, int fd) {
    if (q->n == q->room) {
        size_t room = q->room ? 2 * q->room : 64;
        watched *list = room <= MOST_POLLED ? realloc(q->list, room * sizeof *list) : NULL;
        if (!list) return NULL;
        q->list = list;
        q->room = room;
    }
    q->list[q->n] = (watched){.fd = fd};
    return &q->list[q->n++];
}

int kt__win_epoll_ctl(int queue_fd, int what, int fd, struct epoll_event *event) {
    queue *q = find_queue(queue_fd);
    char byte = 0;
    if (!q) {
        errno = EBADF;
        return -1;
    }
    EnterCriticalSection(&q->lock);
    watched *w = find_watched(q, fd);
    if (!w && what == EPOLL_CTL_ADD) w = add_watched(q, fd);
    if (w && what == EPOLL_CTL_DEL) {
        *w = q->list[--q->n];
    } else if (w) {
        w->events = event->events;
        w->event = *event;
        w->reported = false;
    }
    LeaveCriticalSection(&q->lock);
    (void)send((SOCKET)q->wake, &byte, 1, 0); /* who waits takes it into account */
    errno = ENOENT;
    return w ? 0 : -1;
}

/* What became of a socket that is watched for its end. */
static uint32_t look_for_end(int fd) {
    char byte;
    WSAPOLLFD one = {.fd = (SOCKET)fd, .events = POLLIN};
    if (WSAPoll(&one, 1, 0) <= 0) return 0;
    if (one.revents & (POLLERR | POLLNVAL)) return EPOLLERR | EPOLLHUP;
    int n = recv((SOCKET)fd, &byte, 1, MSG_PEEK);
    if (n == 0) return EPOLLRDHUP;
    if (n > 0 || WSAGetLastError() == WSAEWOULDBLOCK) return 0;
    return EPOLLERR | EPOLLHUP;
}

static bool is_end_only(const watched *w) {
    return !(w->events & (EPOLLIN | EPOLLOUT));
}

static int tell_ends(queue *q, struct epoll_event *events, int max) {
    uint64_t now = GetTickCount64();
    int n = 0;
    if (now - q->looked_ms < HANGUP_LOOK_MS) return 0;
    q->looked_ms = now;
    for (size_t i = 0; i < q->n && n < max; i++) {
        watched *w = &q->list[i];
        uint32_t what = is_end_only(w) && !w->reported ? look_for_end(w->fd) : 0;
        if (!what) continue;
        w->reported = true;
        events[n] = w->event;
        events[n++].events = what;
    }
    return n;
}

static uint32_t epoll_events_of(short revents) {
    uint32_t out = 0;
    if (revents & POLLIN) out |= EPOLLIN;
    if (revents & POLLOUT) out |= EPOLLOUT;
    if (revents & (POLLERR | POLLNVAL)) out |= EPOLLERR;
    if (revents & POLLHUP) out |= EPOLLHUP | EPOLLIN;
    return out;
}

static void drain_socket(int fd) {
    char bytes[64];
    while (recv((SOCKET)fd, bytes, sizeof bytes, 0) > 0) {
    }
}

/* The queue's own socket first, then what is watched for more than its end. */
static ULONG gather_fds(queue *q, WSAPOLLFD *fds, bool *any_end) {
    ULONG n = 0;
    *any_end = false;
    fds[n++] = (WSAPOLLFD){.fd = (SOCKET)q->wake, .events = POLLIN};
    for (size_t i = 0; i < q->n && n < MOST_POLLED; i++) {
        const watched *w = &q->list[i];
        if (is_end_only(w)) {
            *any_end |= !w->reported;
            continue;
        }
        short events = (short)((w->events & EPOLLIN ? POLLIN : 0) |
                               (w->events & EPOLLOUT ? POLLOUT : 0));
        fds[n++] = (WSAPOLLFD){.fd = (SOCKET)w->fd, .events = events};
    }
    return n;
}

int kt__win_epoll_wait(int queue_fd, struct epoll_event *events, int max, int timeout_ms) {
    queue *q = find_queue(queue_fd);
    WSAPOLLFD *fds = q ? malloc((MOST_POLLED + 1) * sizeof *fds) : NULL;
    bool any_end;
    int n = 0;
    if (!fds) return -1;
    EnterCriticalSection(&q->lock);
    ULONG n_fds = gather_fds(q, fds, &any_end);
    LeaveCriticalSection(&q->lock);
    if (any_end && (timeout_ms < 0 || timeout_ms > HANGUP_LOOK_MS)) timeout_ms = HANGUP_LOOK_MS;
    int ready = WSAPoll(fds, n_fds, timeout_ms);
    if (fds[0].revents) drain_socket(q->wake);
    EnterCriticalSection(&q->lock);
    for (ULONG i = 1; i < n_fds && n < max && ready > 0; i++) {
        watched *w = fds[i].revents ? find_watched(q, (int)fds[i].fd) : NULL;
        if (!w) continue; /* meanwhile it is not watched any more */
        events[n] = w->event;
        events[n++].events = epoll_events_of(fds[i].revents);
    }
    n += tell_ends(q, events + n, max - n);
    LeaveCriticalSection(&q->lock);
    free(fds);
    return n;
}
