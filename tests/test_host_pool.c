/* host: the pool computes every item once, ends under any load, and hands its results over. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/host.h"
#include "host/pool.h"

static kt__pool *new_pool(int n_threads) {
    kt__pool *pool = NULL;
    kt_error err;
    assert_int_equal(kt__pool_create(n_threads, &pool, &err), KT_OK);
    assert_int_equal(kt__pool_size(pool), n_threads);
    return pool;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

enum { MAX_ITEMS = 5000 };

typedef struct cover {
    int64_t n_items, grain;
    int n_threads;
    uint8_t seen[MAX_ITEMS]; /* not atomic: each item has one owner, and the caller reads after the
                                run */
    atomic_int busy[KT__POOL_MAX_THREADS];
    atomic_int bad;
} cover;

static void cover_items(void *arg, int64_t begin, int64_t end, int worker) {
    cover *c = arg;
    bool ok = 0 <= begin && begin < end && end <= c->n_items && begin % c->grain == 0 &&
              (end % c->grain == 0 || end == c->n_items) && 0 <= worker && worker < c->n_threads;
    if (!ok) {
        atomic_fetch_add(&c->bad, 1);
        return;
    }
    if (atomic_exchange(&c->busy[worker], 1)) atomic_fetch_add(&c->bad, 1);
    for (int64_t i = begin; i < end; i++) c->seen[i]++;
    atomic_store(&c->busy[worker], 0);
}

static void check_cover(kt__pool *pool, cover *c, int64_t n_items, int64_t grain, int n_threads) {
    c->n_items = n_items;
    c->grain = grain;
    c->n_threads = n_threads;
    memset(c->seen, 0, sizeof c->seen);
    kt__pool_run(pool, n_items, grain, cover_items, c);
    assert_int_equal(c->bad, 0);
    for (int64_t i = 0; i < n_items; i++)
        if (c->seen[i] != 1) fail_msg("item %d done %d times", (int)i, c->seen[i]);
}

static void test_every_item_once(void **state) {
    (void)state;
    cover *c = test_calloc(1, sizeof *c);
    uint64_t seed = 1;
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        kt__pool *pool = new_pool(n_threads);
        for (int i = 0; i < 300; i++) {
            int64_t n_items = (int64_t)(next_random(&seed) % MAX_ITEMS);
            int64_t grain = 1 + (int64_t)(next_random(&seed) % (i % 3 ? 40 : 6000));
            check_cover(pool, c, n_items, grain, n_threads);
        }
        kt__pool_destroy(pool);
    }
    test_free(c);
}

static void test_steps_limit_the_workers(void **state) {
    (void)state;
    cover *c = test_calloc(1, sizeof *c);
    kt__pool *pool = new_pool(6);
    uint64_t seed = 2;
    for (int step = 0; step < 60; step++) {
        int asked = (int)(next_random(&seed) % 9);
        int n_threads = asked < 1 ? 1 : asked > 6 ? 6 : asked;
        kt__pool_begin(pool, asked);
        for (int i = 0; i < 20; i++)
            check_cover(pool, c, (int64_t)(next_random(&seed) % 500), 1 + (i & 7), n_threads);
        kt__pool_end(pool);
        check_cover(pool, c, 100, 3, 6);
        if (step % 20 == 0) usleep(2000); /* everyone asleep */
    }
    kt__pool_destroy(pool);
    test_free(c);
}

/* The next run starts at once with other parameters in other memory: a worker that is late for one
 * run must not touch the next with what it knew of the last. */
typedef struct sum_job {
    const int64_t *values;
    int64_t *partial; /* [n_items] */
    int64_t factor;
} sum_job;

static void sum_items(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    sum_job *job = arg;
    for (int64_t i = begin; i < end; i++) job->partial[i] += job->factor * job->values[i];
}

static void test_thousands_of_small_runs(void **state) {
    (void)state;
    enum { N = 64, RUNS = 20000 };
    int64_t values[N], partial[2][N];
    for (int i = 0; i < N; i++) values[i] = i * i + 1;
    for (int n_threads = 2; n_threads <= 8; n_threads += 3) {
        kt__pool *pool = new_pool(n_threads);
        kt__pool_begin(pool, n_threads);
        for (int run = 0; run < RUNS / n_threads; run++) {
            int64_t n = 1 + run % N;
            sum_job job = {values, partial[run & 1], run};
            memset(partial[run & 1], 0, sizeof partial[0]);
            kt__pool_run(pool, n, 1 + run % 3, sum_items, &job);
            for (int64_t i = 0; i < N; i++)
                assert_int_equal(partial[run & 1][i], i < n ? run * values[i] : 0);
        }
        kt__pool_end(pool);
        kt__pool_destroy(pool);
    }
}

static void count_only(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    atomic_fetch_add((_Atomic int64_t *)arg, end - begin);
}

static void test_extreme_counts(void **state) {
    (void)state;
    kt__pool *pool = new_pool(3);
    _Atomic int64_t n = 0;
    kt__pool_run(pool, 0, 1, count_only, &n);
    kt__pool_run(pool, -5, 1, count_only, &n);
    assert_int_equal(n, 0);
    kt__pool_run(pool, 7, 0, count_only, &n);
    assert_int_equal(n, 7);
    n = 0;
    kt__pool_run(pool, INT64_MAX, 1, count_only, &n);
    assert_true(n == INT64_MAX);
    n = 0;
    kt__pool_run(pool, INT64_MAX, INT64_MAX / 2, count_only, &n);
    assert_true(n == INT64_MAX);
    n = 0;
    kt__pool_run(pool, INT64_MAX, INT64_MAX, count_only, &n);
    assert_true(n == INT64_MAX);
    kt__pool_destroy(pool);
}

static void test_sizes_are_checked(void **state) {
    (void)state;
    kt__pool *pool;
    kt_error err;
    assert_int_equal(kt__pool_create(0, &pool, &err), KT_E_ARG);
    assert_null(pool);
    assert_int_equal(kt__pool_create(KT__POOL_MAX_THREADS + 1, &pool, &err), KT_E_ARG);
    kt__pool_destroy(NULL);
    pool = new_pool(70); /* more than one word of sleepers, shared futex bits */
    cover *c = test_calloc(1, sizeof *c);
    for (int i = 0; i < 20; i++) {
        check_cover(pool, c, 3000, 1, 70);
        usleep(500);
    }
    test_free(c);
    kt__pool_destroy(pool);
}

/* ---- the environment of workers ---- */

static void check_environment(void *arg, int64_t begin, int64_t end, int worker) {
    (void)begin, (void)end;
    /* A subnormal survives a multiplication only without flush-to-zero. */
    volatile float tiny = 1e-39f, one = 1.0f;
    if (worker > 0) atomic_fetch_add((atomic_int *)arg, tiny * one == 0.0f);
    usleep(200);
}

static void test_workers_keep_subnormals(void **state) {
    (void)state;
    kt__pool *pool = new_pool(4);
    atomic_int flushed = 0;
    kt__pool_run(pool, 40, 1, check_environment, &flushed);
    assert_int_equal(flushed, 0);
    kt__pool_destroy(pool);
}

/* ---- several owners ---- */

typedef struct owner {
    kt__pool *pool;
    int n_runs;
    int64_t sum;
    int *in_turn; /* not atomic: the pool's lock protects it */
} owner;

static void *own_steps(void *arg) {
    owner *o = arg;
    int64_t values[32], partial[32];
    for (int i = 0; i < 32; i++) values[i] = i;
    for (int run = 0; run < o->n_runs; run++) {
        kt__pool_lock(o->pool);
        o->sum += ++*o->in_turn != 1;
        kt__pool_begin(o->pool, 1 + run % 4);
        memset(partial, 0, sizeof partial);
        sum_job job = {values, partial, 1};
        kt__pool_run(o->pool, 32, 2, sum_items, &job);
        for (int i = 0; i < 32; i++) o->sum += partial[i] != i;
        kt__pool_end(o->pool);
        --*o->in_turn;
        kt__pool_unlock(o->pool);
    }
    return NULL;
}

static void test_owners_take_turns(void **state) {
    (void)state;
    kt__pool *pool = new_pool(4);
    int in_turn = 0;
    owner owners[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        owners[i] = (owner){pool, 300, 0, &in_turn};
        assert_int_equal(pthread_create(&threads[i], NULL, own_steps, &owners[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(owners[i].sum, 0);
    }
    kt__pool_destroy(pool);
}

/* ---- a busy neighbour ---- */

static void *busy_loop(void *arg) {
    while (!atomic_load_explicit((atomic_bool *)arg, memory_order_relaxed)) continue;
    return NULL;
}

static void test_ends_beside_busy_neighbours(void **state) {
    (void)state;
    enum { NEIGHBOURS = 4, N = 256 };
    atomic_bool stop = false;
    pthread_t neighbours[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++)
        assert_int_equal(pthread_create(&neighbours[i], NULL, busy_loop, &stop), 0);
    kt__pool *pool = new_pool(8);
    cover *c = test_calloc(1, sizeof *c);
    int64_t start = kt__now_us();
    int n_runs = 0;
    kt__pool_begin(pool, 8);
    while (kt__now_us() - start < 1000000 && n_runs < 2000) {
        check_cover(pool, c, N, 1, 8);
        n_runs++;
    }
    kt__pool_end(pool);
    atomic_store(&stop, true);
    for (int i = 0; i < NEIGHBOURS; i++) pthread_join(neighbours[i], NULL);
    assert_true(n_runs >= 5); /* a pool that waits for every thread to be scheduled manages fewer */
    kt__pool_destroy(pool);
    test_free(c);
}

/* threads of this process */
static int count_threads(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void test_creation_and_destruction(void **state) {
    (void)state;
    int before = count_threads();
    for (int i = 0; i < 100; i++) {
        kt__pool *pool = new_pool(1 + i % 8);
        _Atomic int64_t n = 0;
        if (i & 1) kt__pool_run(pool, 100, 1, count_only, &n);
        kt__pool_destroy(pool);
        assert_int_equal(n, i & 1 ? 100 : 0); /* every item ran, and before the run returned */
    }
    /* a thread that was joined may be listed a moment longer */
    for (int i = 0; i < 1000 && count_threads() != before; i++) usleep(1000);
    assert_int_equal(count_threads(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_once),
        cmocka_unit_test(test_steps_limit_the_workers),
        cmocka_unit_test(test_thousands_of_small_runs),
        cmocka_unit_test(test_extreme_counts),
        cmocka_unit_test(test_sizes_are_checked),
        cmocka_unit_test(test_workers_keep_subnormals),
        cmocka_unit_test(test_owners_take_turns),
        cmocka_unit_test(test_ends_beside_busy_neighbours),
        cmocka_unit_test(test_creation_and_destruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
