/* One thread that waits for everything: descriptors, posted tasks and the clock.
 *
 * Owns: the epoll set, the queue of tasks, and the thread. What it calls must not block; it calls
 * with no lock held, always on its own thread. Post and watch from any thread. */
#ifndef KT_SERVE_HUB_H
#define KT_SERVE_HUB_H

#include <kentang.h>
#include <stdatomic.h>

typedef struct kt__hub kt__hub;

/* Part of whoever is called. Tasks posted while a batch of descriptors is handled run after it, so
 * a task may free what a descriptor that was unwatched before pointed to. */
typedef struct kt__task_item kt__task_item;
struct kt__task_item {
    void (*run)(kt__task_item *item);
    kt__task_item *next;
    bool queued; /* the hub's */
};

typedef struct kt__watch kt__watch;
struct kt__watch {
    void (*ready)(kt__watch *watch, uint32_t events);
    int fd;
};

/* tick: called about ten times a second. */
kt_status KT_CHECKED kt__hub_create(void (*tick)(void *user), void *user, kt__hub **out,
                                    kt_error *err);
kt_status KT_CHECKED kt__hub_start(kt__hub *hub, kt_error *err);
void kt__hub_stop(kt__hub *hub);       /* ends the thread */
void kt__hub_run_posted(kt__hub *hub); /* here, once there is no thread, until nothing is posted */
void kt__hub_free(kt__hub *hub);
/* false: it is queued already. Async-signal-unsafe. */
bool kt__hub_post(kt__hub *hub, kt__task_item *item);
bool kt__hub_watch(kt__hub *hub, kt__watch *watch, uint32_t events); /* false: no memory */
void kt__hub_change(kt__hub *hub, kt__watch *watch, uint32_t events);
void kt__hub_unwatch(kt__hub *hub, kt__watch *watch);

#endif
