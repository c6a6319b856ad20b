/* One thread that waits for everything: descriptors, posted tasks and the clock.
 *
 * Owns: the epoll set, the queue of tasks, and the thread. What it calls must not block; it calls
 * with no lock held, always on its own thread. Post and watch from any thread. */
#ifndef KT_SERVICES_EVENT_LOOP_H
#define KT_SERVICES_EVENT_LOOP_H

#include <kentang.h>
#include <stdatomic.h>

typedef struct kt__event_loop kt__event_loop;

/* Part of the object that is called. Tasks posted while a batch of descriptors is handled run after
 * it, so a task may free what a descriptor that was unwatched before pointed to. */
typedef struct kt__task_item kt__task_item;
struct kt__task_item {
    void (*run)(kt__task_item *item);
    kt__task_item *next;
    bool queued; /* the loop's */
};

typedef struct kt__watch kt__watch;
struct kt__watch {
    void (*ready)(kt__watch *watch, uint32_t events);
    int fd;
};

/* tick: called about ten times a second. */
kt_status KT_CHECKED kt__event_loop_create(void (*tick)(void *user), void *user,
                                           kt__event_loop **out, kt_error *err);
kt_status KT_CHECKED kt__event_loop_start(kt__event_loop *loop, kt_error *err);
void kt__event_loop_stop(kt__event_loop *loop); /* ends the thread */
void kt__event_loop_run_posted(
    kt__event_loop *loop); /* here, once there is no thread, until nothing is posted */
void kt__event_loop_free(kt__event_loop *loop);
/* false: it is queued already. Async-signal-unsafe. */
bool kt__event_loop_post(kt__event_loop *loop, kt__task_item *item);
bool kt__event_loop_watch(kt__event_loop *loop, kt__watch *watch,
                          uint32_t events); /* false: no memory */
void kt__event_loop_change(kt__event_loop *loop, kt__watch *watch, uint32_t events);
void kt__event_loop_unwatch(kt__event_loop *loop, kt__watch *watch);

#endif
