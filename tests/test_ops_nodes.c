/* ops: every worker's scratch lies on the node that it runs on, and K/V on all nodes. On a machine
 * with one node only that nobody touches a worker's scratch before the worker itself can be seen;
 * tests/numa.sh runs it on an emulated machine with two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/host.h"
#include "host/pages.h"
#include "kernels/dispatch.h"
#include "node_watch.h"
#include "ops/dev.h"

enum { N_WORKERS = 4, N_COL = 1024, N_ROW = 2048, N_TOK = 64, MOST_RUNS = 300 };

/* ---- workers that stay ---- */

typedef struct team {
    kt__pool *pool;
    size_t cpu[N_WORKERS]; /* neighbours by number are on different nodes, where there are some */
    int node[N_WORKERS];
    cpu_set_t before;
    atomic_int n_here;
    kt__dev *dev; /* for fill_rest */
} team;

/* A chunk for each worker: nobody gets a second one before all have one. */
static void wait_for_all(team *c) {
    atomic_fetch_add(&c->n_here, 1);
    while (atomic_load(&c->n_here) < N_WORKERS) sched_yield();
}

static void stay(void *arg, int64_t begin, int64_t end, int worker) {
    team *c = arg;
    (void)begin, (void)end;
    if (nw_hold_to(c->cpu[worker])) c->node[worker] = nw_this_node();
    wait_for_all(c);
}

static void fill_rest(void *arg, int64_t begin, int64_t end, int worker) {
    team *c = arg;
    (void)begin, (void)end;
    memset(kt__dev_kernel_scratch(c->dev, worker), 1, c->dev->scratch_stride);
    wait_for_all(c);
}

static void with_all(team *c, kt__pool_fn *fn) {
    atomic_store(&c->n_here, 0);
    kt__pool_run(c->pool, N_WORKERS, 1, fn, c);
}

static void workers_start(team *c) {
    kt_error err;
    size_t cpus[N_WORKERS];
    int n = nw_cpus(cpus, N_WORKERS);
    assert_true(n > 0);
    *c = (team){.n_here = 0};
    for (int i = 0; i < N_WORKERS; i++) c->cpu[i] = cpus[i % n];
    assert_int_equal(sched_getaffinity(0, sizeof c->before, &c->before), 0);
    assert_int_equal(kt__pool_create(N_WORKERS, &c->pool, &err), KT_OK);
    with_all(c, stay);
    for (int i = 0; i < N_WORKERS; i++)
        print_message("worker %d: processor %zu, node %d\n", i, c->cpu[i], c->node[i]);
}

static void workers_stop(team *c) {
    kt__pool_destroy(c->pool);
    assert_int_equal(sched_setaffinity(0, sizeof c->before, &c->before), 0);
}

/* ---- work that needs scratch ---- */

typedef struct work {
    kt__weight w;
    kt__acts acts, out;
    float *x, *rows;
} work;

static void *zeros(size_t bytes) {
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

static kt__acts acts_of(const kt__dev *dev, const kt__weight *w, int n_col) {
    kt__act_kind kind = kt__dev_act_kind(dev, w, N_TOK);
    kt__acts acts = {.n_tok = N_TOK, .n_col = n_col, .kinds = 1u << kind};
    acts.layout[kind] = kt__act_layout_of(kind, n_col);
    acts.data[kind] = aligned_alloc(64, N_TOK * acts.layout[kind].row_bytes);
    assert_non_null(acts.data[kind]);
    return acts;
}

static work work_new(const kt__dev *dev) {
    work k = {.w = {.type = KT__TYPE_Q4_K, .n_row = N_ROW, .n_col = N_COL}};
    k.w.row_bytes = kt__type_row_bytes(k.w.type, N_COL);
    k.w.data = zeros(N_ROW * k.w.row_bytes);
    k.acts = acts_of(dev, &k.w, N_COL);
    k.out = acts_of(dev, &k.w, N_ROW);
    k.x = zeros(N_TOK * N_ROW * sizeof(float));
    k.rows = zeros(KT__GLU_ROWWISE * N_ROW * sizeof(float));
    return k;
}

static void work_free(const kt__dev *dev, work *k) {
    free((void *)(uintptr_t)k->w.data);
    free(k->acts.data[kt__dev_act_kind(dev, &k->w, N_TOK)]);
    free(k->out.data[kt__dev_act_kind(dev, &k->w, N_TOK)]);
    free(k->x);
    free(k->rows);
}

static void compute(kt__dev *dev, work *k) {
    const kt__ops *ops = kt__dev_ops(dev);
    ops->quantize(dev, k->x, N_TOK, &k->acts);
    ops->matmul(dev, &k->w, &k->acts, NULL, NULL, NULL, KT__SITE_DOWN, k->x, N_ROW);
    kt__glu glu = {.gate = k->w, .up = k->w, .kind = KT__GLU_SILU, .rows = k->rows};
    ops->glu(dev, &k->acts, &glu, &k->out);
}

/* ---- where it lies ---- */

static int n_workers_seen(const kt__dev *dev) {
    int n = 0;
    for (int i = 0; i < N_WORKERS; i++) n += nw_node_of(kt__dev_tile(dev, i)) >= 0;
    return n;
}

static void assert_untouched(const kt__dev *dev) {
    size_t count[NW_MAX_NODES];
    if (nw_count(dev->scratch, dev->scratch_bytes, count) < dev->scratch_bytes / 4096)
        fail_msg("scratch is touched before any worker has run");
}

static void assert_own(const team *c, const char *when) {
    const kt__dev *dev = c->dev;
    for (int i = 0; i < N_WORKERS; i++) {
        size_t count[NW_MAX_NODES], all = 0;
        (void)nw_count(kt__dev_kernel_scratch(dev, i), dev->scratch_stride, count);
        for (int node = 0; node < NW_MAX_NODES; node++) all += count[node];
        size_t own = count[c->node[i]];
        print_message("worker %d on node %d, %s: %zu of %zu pages there\n", i, c->node[i], when,
                      own, all);
        if (own < all)
            fail_msg("worker %d runs on node %d, but %zu of %zu pages of its scratch lie elsewhere",
                     i, c->node[i], all - own, all);
    }
}

static kt__dev *dev_new(kt__pool *pool) {
    static const kt__dev_limits limits = {.n_tok = N_TOK,
                                          .n_col = N_ROW,
                                          .head_dim_k = 64,
                                          .head_dim_v = 64,
                                          .n_head = 8,
                                          .n_head_kv = 2,
                                          .n_ctx = 512};
    const kt__kernels *kernels;
    kt__dev *dev;
    kt__cpu cpu;
    char why[128];
    kt_error err;
    kt__cpu_detect(&cpu);
    assert_int_equal(kt__kernels_select(&cpu, NULL, &kernels, why, sizeof why, &err), KT_OK);
    assert_int_equal(kt__dev_create(pool, kernels, false, NULL, &limits, &dev, &err), KT_OK);
    return dev;
}

static void test_scratch_is_its_workers(void **state) {
    (void)state;
    team c;
    if (!nw_can_ask()) skip();
    workers_start(&c);
    c.dev = dev_new(c.pool);
    assert_int_equal(c.dev->scratch_stride % kt__pages_unit(), 0);
    work k = work_new(c.dev);
    assert_untouched(c.dev);
    for (int i = 0; i < MOST_RUNS && n_workers_seen(c.dev) < N_WORKERS; i++) compute(c.dev, &k);
    if (n_workers_seen(c.dev) < N_WORKERS)
        print_message("%d workers had no work\n", N_WORKERS - n_workers_seen(c.dev));
    assert_own(&c, "after work");
    with_all(&c, fill_rest);
    assert_own(&c, "all written");
    work_free(c.dev, &k);
    kt__dev_destroy(c.dev);
    workers_stop(&c);
}

/* Blocks that come from a file are written by one thread, whatever workers do later. */
static void test_kv_is_everybodys(void **state) {
    (void)state;
    static const kt__kv_shape shape = {
        .n_layer = 16, .n_head_kv = 4, .head_dim_k = 64, .head_dim_v = 64};
    enum { N_PAGES = 256 };
    cpu_set_t nodes;
    kt__kv *kv;
    kt_error err;
    if (!nw_can_ask() || nw_own_nodes(&nodes) == 0) skip();
    assert_int_equal(kt__kv_create(&shape, N_PAGES, &kv, &err), KT_OK);
    kt__kv_spread(kv, NULL);
    size_t block_bytes = kt__kv_block_bytes(&shape);
    void *block = zeros(block_bytes);
    for (int32_t page = 0; page < N_PAGES; page++) kt__kv_block_write(kv, page, block);
    nw_assert_spread(kt__kv_k(kv, 0, 0, 0), N_PAGES * kt__kv_page_bytes(&shape), &nodes);
    free(block);
    kt__kv_destroy(kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch_is_its_workers),
        cmocka_unit_test(test_kv_is_everybodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
