/* Monotonic time, and waiting by it. Any thread. */
#ifndef KT_BASE_CLOCK_H
#define KT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/thread.h"

int64_t kt__now_us(void);
int64_t kt__now_ns(void);

/* A condition that pthread_cond_timedwait waits for by this clock, until kt__time_in_ms (a
 * thousand years at most). An error number, 0: none. */
int kt__cond_init(pthread_cond_t *cond);
struct timespec kt__time_in_ms(int64_t ms);

#endif
