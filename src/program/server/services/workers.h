/* A few threads for what takes a while: reading requests, encoding prompts, loading models.
 *
 * Owns: the threads and a bounded queue. The event loop and HTTP's thread never wait for them. */
#ifndef KT_SERVICES_WORKERS_H
#define KT_SERVICES_WORKERS_H

#include <kentang.h>
#include <stdbool.h>

typedef struct kt__workers kt__workers;

typedef struct kt__work_item kt__work_item;
struct kt__work_item {
    void (*run)(kt__work_item *item);
    kt__work_item *next;
};

kt_status KT_CHECKED kt__workers_create(int n_threads, int queue_max, kt__workers **out,
                                        kt_error *err);
/* false: the queue is full, or the workers is being freed. Any thread. */
bool kt__workers_add(kt__workers *workers, kt__work_item *item);
/* Runs what is queued, then ends the threads; nothing is taken any more. */
void kt__workers_stop(kt__workers *workers);
void kt__workers_free(kt__workers *workers);

/* Short waits for threads that only answer.
 *
 * Owns: asking the kernel to let the calling thread interrupt threads that compute. All cores
 * compute while prompts are read; a thread that wakes then waits for the end of their time
 * slice, which on a kernel with 250 ticks a second is 4 ms or 8. A thread that asks for slices of
 * 0.1 ms goes first instead, and gets no more of the processor in all than others do: no privilege
 * is needed, and no neighbour is worse off. Linux 6.12 or later; elsewhere nothing happens. */

/* Of the calling thread, and of those that it creates from now on. true: it has changed. */
bool kt__sched_latency_begin(void);
/* Back to the usual, if `changed`. */
void kt__sched_latency_end(bool changed);

#endif
