/* The thread pool.
 *
 * Owns: worker threads, dynamic chunks and waiting (a short spin, then a futex; the spin budget adapts).
 * Knows nothing of models. One run at a time: the owner of a run (an engine's step) serialises runs with
 * kt__pool_lock. The calling thread takes part as worker 0. Every worker sets the floating-point
 * environment of the arithmetic contract (round to nearest, no flush to zero). */
#ifndef KT_HOST_POOL_H
#define KT_HOST_POOL_H

#include <kentang.h>
#include <stdint.h>

typedef struct kt__pool kt__pool;

/* Computes items [begin, end). worker: 0..n_threads-1, never two calls at once with the same number. */
typedef void kt__pool_fn(void *arg, int64_t begin, int64_t end, int worker);

enum { KT__POOL_MAX_THREADS = 256 };

/* Starts n_threads - 1 threads, asleep. 1 <= n_threads <= KT__POOL_MAX_THREADS. */
kt_status kt__pool_create(int n_threads, kt__pool **out, kt_error *err) KT_CHECKED;
void kt__pool_destroy(kt__pool *pool); /* no run may be in progress; NULL allowed */
int kt__pool_size(const kt__pool *pool);

/* Engines of one context take turns. */
void kt__pool_lock(kt__pool *pool);
void kt__pool_unlock(kt__pool *pool);

/* Between begin and end workers stay awake a little longer between runs (a step of many runs). */
void kt__pool_begin(kt__pool *pool, int n_threads);
void kt__pool_end(kt__pool *pool);

/* Calls fn over [0, n_items) in chunks that are multiples of `grain` items (the last may be short), taken
 * dynamically: guided, large first, never below `grain`; at most n_threads workers. Returns when all is done;
 * what the workers wrote is visible to the caller. No allocation. n_items = 0 is allowed. */
void kt__pool_run(kt__pool *pool, int64_t n_items, int64_t grain, kt__pool_fn *fn, void *arg);

#endif
