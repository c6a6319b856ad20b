#include "services/event_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "services/workers.h"

enum { N_EVENTS = 64, TICK_MS = 100 };

struct kt__event_loop {
    int epoll, wake;
    pthread_mutex_t lock; /* a leaf: nothing else is taken or called under it */
    kt__task_item *first, *last;
    bool quit;
    void (*tick)(void *user);
    void *user;
    pthread_t thread;
    bool started;
};

kt_status kt__event_loop_create(void (*tick)(void *user), void *user, kt__event_loop **out,
                                kt_error *err) {
    *out = NULL;
    kt__event_loop *loop = kt__calloc(1, sizeof *loop);
    if (!loop) return kt__fail_nomem(err, "the event loop", sizeof *loop);
    pthread_mutex_init(&loop->lock, NULL);
    loop->tick = tick;
    loop->user = user;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (loop->epoll < 0 || loop->wake < 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) != 0) {
        kt_status status = kt__fail_system(err, errno, NULL, "no event loop");
        kt__event_loop_free(loop);
        return status;
    }
    *out = loop;
    return KT_OK;
}

static kt__task_item *take_tasks(kt__event_loop *loop, bool *quit) {
    pthread_mutex_lock(&loop->lock);
    kt__task_item *first = loop->first;
    loop->first = loop->last = NULL;
    *quit = loop->quit;
    pthread_mutex_unlock(&loop->lock);
    return first;
}

/* A task that is posted again while it runs is queued again. */
static void run_tasks(kt__event_loop *loop, kt__task_item *item) {
    while (item) {
        kt__task_item *next = item->next;
        pthread_mutex_lock(&loop->lock);
        item->queued = false;
        pthread_mutex_unlock(&loop->lock);
        item->run(item);
        item = next;
    }
}

static void handle_events(kt__event_loop *loop, const struct epoll_event *events, int n) {
    for (int i = 0; i < n; i++) {
        kt__watch *watch = events[i].data.ptr;
        uint64_t count;
        if (watch) {
            watch->ready(watch, events[i].events);
        } else {
            ssize_t got = read(loop->wake, &count, sizeof count);
            (void)got;
        }
    }
}

static void *loop_main(void *arg) {
    kt__event_loop *loop = arg;
    struct epoll_event events[N_EVENTS];
    int64_t tick_us = kt__now_us();
    (void)kt__sched_latency_begin();
    for (bool quit = false; !quit;) {
        int n = epoll_wait(loop->epoll, events, N_EVENTS, TICK_MS);
        if (n > 0) handle_events(loop, events, n);
        run_tasks(loop, take_tasks(loop, &quit));
        if (kt__now_us() - tick_us < TICK_MS * 1000) continue;
        tick_us = kt__now_us();
        loop->tick(loop->user);
    }
    return NULL;
}

kt_status kt__event_loop_start(kt__event_loop *loop, kt_error *err) {
    int rc = kt__thread_start(&loop->thread, "kentang-loop", 0, loop_main, loop);
    if (rc != 0)
        return kt__fail(
            err, KT_E_LIMIT, "cannot start a thread: %s%s", strerror(rc),
            rc == EAGAIN ? ": raise the limit of threads (ulimit -u, TasksMax, pids.max)" : "");
    loop->started = true;
    return KT_OK;
}

static void wake_loop(kt__event_loop *loop) {
    uint64_t one = 1;
    ssize_t n = write(loop->wake, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

void kt__event_loop_stop(kt__event_loop *loop) {
    if (!loop || !loop->started) return;
    pthread_mutex_lock(&loop->lock);
    loop->quit = true;
    pthread_mutex_unlock(&loop->lock);
    wake_loop(loop);
    pthread_join(loop->thread, NULL);
    loop->started = false;
}

void kt__event_loop_run_posted(kt__event_loop *loop) {
    bool quit;
    for (kt__task_item *item; (item = take_tasks(loop, &quit)) != NULL;) run_tasks(loop, item);
}

void kt__event_loop_free(kt__event_loop *loop) {
    if (!loop) return;
    kt__event_loop_stop(loop);
    kt__event_loop_run_posted(loop);
    if (loop->epoll >= 0) close(loop->epoll);
    if (loop->wake >= 0) close(loop->wake);
    pthread_mutex_destroy(&loop->lock);
    kt__free(loop);
}

bool kt__event_loop_post(kt__event_loop *loop, kt__task_item *item) {
    pthread_mutex_lock(&loop->lock);
    bool fresh = !item->queued, first = !loop->first;
    if (fresh) {
        item->queued = true;
        item->next = NULL;
        if (loop->last) {
            loop->last->next = item;
        } else {
            loop->first = item;
        }
        loop->last = item;
    }
    pthread_mutex_unlock(&loop->lock);
    if (fresh && first) wake_loop(loop);
    return fresh;
}

bool kt__event_loop_watch(kt__event_loop *loop, kt__watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0;
}

void kt__event_loop_change(kt__event_loop *loop, kt__watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

void kt__event_loop_unwatch(kt__event_loop *loop, kt__watch *watch) {
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
}
