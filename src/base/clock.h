/* Monotonic time. Any thread. */
#ifndef KT_BASE_CLOCK_H
#define KT_BASE_CLOCK_H

#include <stdint.h>

int64_t kt__now_us(void);
int64_t kt__now_ns(void);

#endif
