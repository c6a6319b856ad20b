#include "serve/hub.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/brisk.h"

enum { N_EVENTS = 64, TICK_MS = 100 };

struct kt__hub {
    int epoll, wake;
    pthread_mutex_t lock; /* a leaf: nothing else is taken or called under it */
    kt__task_item *first, *last;
    bool quit;
    void (*tick)(void *user);
    void *user;
    pthread_t thread;
    bool started;
};

kt_status kt__hub_create(void (*tick)(void *user), void *user, kt__hub **out, kt_error *err) {
    *out = NULL;
    kt__hub *hub = kt__calloc(1, sizeof *hub);
    if (!hub) return kt__fail_nomem(err, "the event loop", sizeof *hub);
    pthread_mutex_init(&hub->lock, NULL);
    hub->tick = tick;
    hub->user = user;
    hub->epoll = epoll_create1(EPOLL_CLOEXEC);
    hub->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (hub->epoll < 0 || hub->wake < 0 ||
        epoll_ctl(hub->epoll, EPOLL_CTL_ADD, hub->wake, &event) != 0) {
        kt_status status = kt__fail(err, KT_E_IO, "no event loop: %s", strerror(errno));
        kt__hub_free(hub);
        return status;
    }
    *out = hub;
    return KT_OK;
}

static kt__task_item *take_tasks(kt__hub *hub, bool *quit) {
    pthread_mutex_lock(&hub->lock);
    kt__task_item *first = hub->first;
    hub->first = hub->last = NULL;
    *quit = hub->quit;
    pthread_mutex_unlock(&hub->lock);
    return first;
}

/* A task that is posted again while it runs is queued again. */
static void run_tasks(kt__hub *hub, kt__task_item *item) {
    while (item) {
        kt__task_item *next = item->next;
        pthread_mutex_lock(&hub->lock);
        item->queued = false;
        pthread_mutex_unlock(&hub->lock);
        item->run(item);
        item = next;
    }
}

static void handle(kt__hub *hub, const struct epoll_event *events, int n) {
    for (int i = 0; i < n; i++) {
        kt__watch *watch = events[i].data.ptr;
        uint64_t count;
        if (watch) {
            watch->ready(watch, events[i].events);
        } else {
            ssize_t got = read(hub->wake, &count, sizeof count);
            (void)got;
        }
    }
}

static void *loop(void *arg) {
    kt__hub *hub = arg;
    struct epoll_event events[N_EVENTS];
    int64_t tick_us = kt__now_us();
    (void)pthread_setname_np(pthread_self(), "kentang-loop");
    (void)kt__brisk_begin();
    for (bool quit = false; !quit;) {
        int n = epoll_wait(hub->epoll, events, N_EVENTS, TICK_MS);
        if (n > 0) handle(hub, events, n);
        run_tasks(hub, take_tasks(hub, &quit));
        if (kt__now_us() - tick_us < TICK_MS * 1000) continue;
        tick_us = kt__now_us();
        hub->tick(hub->user);
    }
    return NULL;
}

kt_status kt__hub_start(kt__hub *hub, kt_error *err) {
    int rc = pthread_create(&hub->thread, NULL, loop, hub);
    if (rc != 0) return kt__fail(err, KT_E_NOMEM, "cannot start a thread: %s", strerror(rc));
    hub->started = true;
    return KT_OK;
}

static void wake(kt__hub *hub) {
    uint64_t one = 1;
    ssize_t n = write(hub->wake, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

void kt__hub_stop(kt__hub *hub) {
    if (!hub || !hub->started) return;
    pthread_mutex_lock(&hub->lock);
    hub->quit = true;
    pthread_mutex_unlock(&hub->lock);
    wake(hub);
    pthread_join(hub->thread, NULL);
    hub->started = false;
}

void kt__hub_run_posted(kt__hub *hub) {
    bool quit;
    for (kt__task_item *item; (item = take_tasks(hub, &quit)) != NULL;) run_tasks(hub, item);
}

void kt__hub_free(kt__hub *hub) {
    if (!hub) return;
    kt__hub_stop(hub);
    kt__hub_run_posted(hub);
    if (hub->epoll >= 0) close(hub->epoll);
    if (hub->wake >= 0) close(hub->wake);
    pthread_mutex_destroy(&hub->lock);
    kt__free(hub);
}

bool kt__hub_post(kt__hub *hub, kt__task_item *item) {
    pthread_mutex_lock(&hub->lock);
    bool fresh = !item->queued, first = !hub->first;
    if (fresh) {
        item->queued = true;
        item->next = NULL;
        if (hub->last) {
            hub->last->next = item;
        } else {
            hub->first = item;
        }
        hub->last = item;
    }
    pthread_mutex_unlock(&hub->lock);
    if (fresh && first) wake(hub);
    return fresh;
}

bool kt__hub_watch(kt__hub *hub, kt__watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(hub->epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0;
}

void kt__hub_change(kt__hub *hub, kt__watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    (void)epoll_ctl(hub->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

void kt__hub_unwatch(kt__hub *hub, kt__watch *watch) {
    (void)epoll_ctl(hub->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
}
