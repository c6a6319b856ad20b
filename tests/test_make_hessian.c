/* Moments, their factor, and errors spread by a kernel: the same bytes as plainly, on every tier and
 * with any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "kernels_data.h"
#include "make/hessian.h"
#include "quant/quant.h"

enum { N_COL = 2048 + 256, N_INPUT = 96, N_ROW = KT__FEEDBACK_ROWS };

static float inputs[N_INPUT * N_COL], weights[N_ROW * N_COL];
static float room[2 * KT__FEEDBACK_ROWS * N_COL];
static uint8_t want[N_ROW * N_COL], got[N_ROW * N_COL];

static void fill_inputs(void) {
    kd_rng rng = {11};
    for (int i = 0; i < N_INPUT * N_COL; i++) inputs[i] = kd_normal(&rng);
    for (int i = 0; i < N_ROW * N_COL; i++) weights[i] = 0.02f * kd_normal(&rng);
}

typedef struct made {
    kt__pool *pool;
    kt__hessian h;
    kt__feedback fb;
} made;

static void make_feedback(const kt__kernels *kernels, int n_threads, made *m) {
    kt_error err;
    assert_int_equal(kt__pool_create(n_threads, &m->pool, &err), KT_OK);
    kt__pool_lock(m->pool);
    assert_int_equal(kt__hessian_make(N_COL, kernels, m->pool, &m->h, &err), KT_OK);
    kt__hessian_add(&m->h, inputs, N_INPUT / 3);
    kt__hessian_add(&m->h, inputs + N_INPUT / 3 * N_COL, N_INPUT - N_INPUT / 3);
    assert_true(kt__hessian_finish(&m->h, &m->fb));
}

static void free_feedback(made *m) {
    kt__hessian_free(&m->h);
    kt__pool_unlock(m->pool);
    kt__pool_destroy(m->pool);
}

static void round_rows(const kt__feedback *fb, const kt__kernels *kernels, uint8_t *out) {
    const kt__encoding how = {.importance = NULL};
    void *scratch = kt__aligned_alloc(64, kt__align_up(kernels->mm_scratch_bytes + 1, 64));
    assert_non_null(scratch);
    kt__quantize_rows_feedback(KT__TYPE_Q4_K, &how, fb, weights, N_ROW, out, room, scratch);
    kt__free(scratch);
}

static void expect_same(const kt__kernels *kernels, int n_threads) {
    made m;
    make_feedback(kernels, n_threads, &m);
    assert_non_null(m.fb.spread);
    memset(got, 0, sizeof got);
    round_rows(&m.fb, kernels, got);
    if (memcmp(got, want, N_ROW * kt__type_row_bytes(KT__TYPE_Q4_K, N_COL)) != 0)
        fail_msg("%s, %d threads: other bytes", kernels->name, n_threads);
    free_feedback(&m);
}

static void test_kernels_spread_as_plainly(void **unused) {
    (void)unused;
    made plain;
    make_feedback(kd_ref(), 1, &plain);
    plain.fb.spread = NULL;
    round_rows(&plain.fb, kd_ref(), want);
    free_feedback(&plain);
    expect_same(kd_ref(), 3);
    for (const kt__kernels **tier = kd_tiers(); *tier; tier++) expect_same(*tier, 2);
}

int main(void) {
    fill_inputs();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_spread_as_plainly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
