/* How fast these threads are at what generation mostly is: products of one token with weights that lie in memory.
 *
 * Owns: the weights that are read for it, for the time of the call. Knows no models. One thread; the pool must not be in use
 * meanwhile. */
#ifndef KT_OPS_SPEED_H
#define KT_OPS_SPEED_H

#include "host/pool.h"
#include "kernels/kernels.h"

/* Bytes of weights a second, the best of the passes of about limit_us (three at least). 0: no memory is left. */
double kt__product_speed(kt__pool *pool, int n_threads, const kt__kernels *kernels,
                         int64_t limit_us);

#endif
