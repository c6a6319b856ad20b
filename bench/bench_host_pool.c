/* What a run of the thread pool costs, and what is left of its rate beside busy neighbours.
 *
 *     bench_host_pool [THREADS [NEIGHBOURS]]
 *
 * A step is 200 runs of 32 items, as a decoded token is some hundred matrices. The table gives runs
 * per second for items of several lengths: alone with one thread, alone with THREADS, and with
 * THREADS beside NEIGHBOURS endless loops (default: one for each thread). On a quiet machine the
 * last should be about half of the one before. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "host/pool.h"

enum { RUNS_PER_STEP = 200, ITEMS = 32, SECONDS = 1 };

typedef struct load {
    int64_t n_iterations; /* of one item */
    _Atomic double sum;
} load;

static void compute(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    load *l = arg;
    double x = 1;
    for (int64_t i = 0; i < (end - begin) * l->n_iterations; i++) x = x * 1.0000001 + 1e-9;
    atomic_store_explicit(&l->sum, x, memory_order_relaxed);
}

static double runs_per_second(int n_threads, int64_t n_iterations) {
    kt__pool *pool;
    kt_error err;
    if (kt__pool_create(n_threads, &pool, &err) != KT_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    load l = {n_iterations, 0};
    int64_t start = kt__now_us(), took = 0;
    int64_t n_runs = 0;
    while (took < SECONDS * 1000000) {
        kt__pool_begin(pool, n_threads);
        for (int i = 0; i < RUNS_PER_STEP; i++) kt__pool_run(pool, ITEMS, 1, compute, &l);
        kt__pool_end(pool);
        n_runs += RUNS_PER_STEP;
        took = kt__now_us() - start;
    }
    kt__pool_destroy(pool);
    return (double)n_runs * 1e6 / (double)took;
}

static void *endless(void *stop) {
    while (!atomic_load_explicit((atomic_bool *)stop, memory_order_relaxed)) continue;
    return NULL;
}

static double beside_neighbours(int n_neighbours, int n_threads, int64_t n_iterations) {
    atomic_bool stop = false;
    pthread_t threads[64];
    for (int i = 0; i < n_neighbours; i++)
        if (pthread_create(&threads[i], NULL, endless, &stop) != 0) exit(1);
    double rate = runs_per_second(n_threads, n_iterations);
    atomic_store(&stop, true);
    for (int i = 0; i < n_neighbours; i++) pthread_join(threads[i], NULL);
    return rate;
}

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? atoi(argv[1]) : 2;
    int n_neighbours = argc > 2 ? atoi(argv[2]) : n_threads;
    if (n_threads < 1 || n_threads > KT__POOL_MAX_THREADS || n_neighbours < 0 ||
        n_neighbours > 64) {
        fprintf(stderr, "usage: bench_host_pool [THREADS [NEIGHBOURS (at most 64)]]\n");
        return 2;
    }
    printf("%10s %14s %14s %8s %14s %10s\n", "item", "1 thread", "n threads", "speedup",
           "neighbours", "of quiet");
    static const int64_t lengths[] = {1, 100, 1000, 10000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        double one = runs_per_second(1, lengths[i]);
        double all = runs_per_second(n_threads, lengths[i]);
        double crowded = beside_neighbours(n_neighbours, n_threads, lengths[i]);
        printf("%10lld %12.0f/s %12.0f/s %8.2f %12.0f/s %9.0f%%\n", (long long)lengths[i], one, all,
               all / one, crowded, 100 * crowded / all);
    }
    return 0;
}
