/* Short waits for threads that only answer.
 *
 * Owns: asking the kernel to let the calling thread interrupt threads that compute. All cores
 * compute while prompts are read; a thread that wakes then waits for the end of their time
 * slice, which on a kernel with 250 ticks a second is 4 ms or 8. A thread that asks for slices of
 * 0.1 ms goes first instead, and gets no more of the processor in all than others do: no privilege
 * is needed, and no neighbour is worse off. Linux 6.12 or later; elsewhere nothing happens. */
#ifndef KT_SERVICES_SCHED_LATENCY_H
#define KT_SERVICES_SCHED_LATENCY_H

#include <stdbool.h>

/* Of the calling thread, and of those that it creates from now on. true: it has changed. */
bool kt__sched_latency_begin(void);
/* Back to the usual, if `changed`. */
void kt__sched_latency_end(bool changed);

#endif
