/* The thread pool.
 *
 * Owns: worker threads, dynamic chunks and waiting (a short spin, then a futex; the spin budget
 * adapts to how long waits turn out to be, so that next to a busy neighbour our share of the
 * processor is not burnt by spinning). Knows nothing of models.
 *
 * Threads: one run at a time. The owner of a run (an engine's step) serialises runs with
 * kt__pool_lock; begin, run and end are called by the thread that holds the lock, or by the only
 * user of a private pool. The calling thread takes part as worker 0. A run is never started from
 * inside a chunk. Every worker sets the floating-point environment of the arithmetic contract
 * (round to nearest, no flush to zero); the caller has set its own at the library's entry. Workers
 * block all signals except the synchronous ones. */
#ifndef KT_HOST_POOL_H
#define KT_HOST_POOL_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/affinity.h"

typedef struct kt__pool kt__pool;

/* Computes items [begin, end). worker: 0..n_threads-1, never two calls at once with the same
 * number. */
typedef void kt__pool_fn(void *arg, int64_t begin, int64_t end, int worker);

enum { KT__POOL_MAX_THREADS = KT_THREADS_MAX };

/* Starts n_threads - 1 threads, asleep. 1 <= n_threads <= KT__POOL_MAX_THREADS. */
kt_status kt__pool_create(int n_threads, kt__pool **out, kt_error *err) KT_CHECKED;
/* The same with threads on the given processors and of the given priority (NULL: as the caller's).
 * Between begin and end the calling thread is on these processors, too; its priority is its own. */
kt_status kt__pool_create_at(int n_threads, const kt__affinity *affinity, kt__pool **out,
                             kt_error *err) KT_CHECKED;
void kt__pool_destroy(kt__pool *pool); /* no run may be in progress; NULL allowed */
int kt__pool_size(const kt__pool *pool);

/* Engines of one context take turns, in the order of their requests. Not recursive. */
void kt__pool_lock(kt__pool *pool);
void kt__pool_unlock(kt__pool *pool);

/* A step of many runs: between begin and end runs use at most n_threads workers (clamped to the
 * pool's size), which are woken at once and stay awake a little between runs. Outside a step a run
 * uses the whole pool. */
void kt__pool_begin(kt__pool *pool, int n_threads);
void kt__pool_end(kt__pool *pool);

/* Calls fn over [0, n_items) in chunks that are multiples of `grain` items (the last may be short;
 * above 16 million grains the grain is multiplied), taken dynamically: guided, large first, never
 * below `grain`; at most n_threads workers. Returns when all is done; what the workers wrote is
 * visible to the caller. It waits only for chunks that a worker has begun, never for a worker to
 * arrive. No allocation. n_items = 0 is allowed; a grain below 1 counts as 1. */
void kt__pool_run(kt__pool *pool, int64_t n_items, int64_t grain, kt__pool_fn *fn, void *arg);

/* From inside a chunk: the first item that no worker has taken yet, or -1. This worker will
 * probably take it next: a guess, for prefetching. */
int64_t kt__pool_peek(const kt__pool *pool);

/* For a profile, all under the lock: how long callers have waited at the end of runs since the pool
 * was created; and, while timed is on, how long another thread has worked (two looks at the
 * clock a chunk). */
int64_t kt__pool_waited_ns(const kt__pool *pool);
void kt__pool_set_timed(kt__pool *pool, bool on);
int64_t kt__pool_busy_ns(const kt__pool *pool, int thread); /* from 1 on */

#endif
