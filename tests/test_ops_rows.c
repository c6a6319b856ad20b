/* Operations on rows against plain evaluations; the same bytes for any number of threads and for a row alone as among
 * others; and what is not finite is noticed wherever it is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/dispatch.h"
#include "ops/ops.h"
#include "support.h"

enum { N_TOK = 9, N = 96, LONG = 3 * 4096 + 77, WIDTH = 4, N_HEAD = 4 };
#define EPS 1e-5f

static kt__pool *pool;
static kt__dev *dev;
static const kt__ops *ops;
static float x[N_TOK * N], y[N_TOK * N], w[N];

static void open_device(int n_threads) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    const kt__kernels *kernels;
    const kt__dev_limits limits = {.n_tok = N_TOK,
                                   .n_col = N,
                                   .head_dim_k = 32,
                                   .head_dim_v = 32,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .n_ctx = 512};
    kt__cpu_detect(&cpu);
    die_on(kt__kernels_select(&cpu, NULL, &kernels, why, sizeof why, &err), &err);
    die_on(kt__pool_create(n_threads, &pool, &err), &err);
    die_on(kt__dev_create(pool, kernels, false, NULL, &limits, &dev, &err), &err);
    ops = kt__dev_ops(dev);
}

static void close_device(void) {
    kt__dev_destroy(dev);
    kt__pool_destroy(pool);
}

static void fill_random(float *to, size_t n, float scale, uint32_t *seed) {
    for (size_t i = 0; i < n; i++) to[i] = scale * (float)(2.0 * lcg_unit(seed) - 1.0);
}

static int make_inputs(void **state) {
    uint32_t seed = 3;
    (void)state;
    fill_random(x, N_TOK * N, 3.0f, &seed);
    fill_random(y, N_TOK * N, 3.0f, &seed);
    fill_random(w, N, 1.0f, &seed);
    return 0;
}

static void assert_near(const float *got, const double *want, int n) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 3e-6 * (1.0 + fabs(want[i]))))
            fail_msg("%d: %g, not %g", i, (double)got[i], want[i]);
}

/* ---- rows ---- */

/* One of the operations on n_tok rows from token t0 on, into out's. */
typedef void row_fn(int t0, int n_tok, float *out);
/* What it should make of token t. */
typedef void plain_fn(int t, double *out);

static void check_rows(row_fn *fn, plain_fn *plain) {
    float whole[N_TOK * N], alone[N_TOK * N];
    double want[N];
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        open_device(n_threads);
        memcpy(whole, y, sizeof whole);
        fn(0, N_TOK, whole);
        for (int t = 0; t < N_TOK; t++) {
            plain(t, want);
            assert_near(whole + t * N, want, N);
            memcpy(alone + t * N, y + t * N, N * sizeof *alone);
            fn(t, 1, alone + t * N);
        }
        assert_memory_equal(alone, whole, sizeof whole);
        close_device();
    }
}

static void run_norm(int t0, int n_tok, float *out) {
    assert_true(ops->norm_f32(dev, x + t0 * N, w, EPS, n_tok, N, out));
}

static void plain_norm(int t, double *out) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)x[t * N + i] * (double)x[t * N + i];
    double scale = 1.0 / sqrt(sum / N + (double)EPS);
    for (int i = 0; i < N; i++) out[i] = (double)x[t * N + i] * scale * (double)w[i];
}

static void run_norm_add(int t0, int n_tok, float *out) {
    assert_true(ops->norm_add(dev, x + t0 * N, w, EPS, n_tok, N, out));
}

static void plain_norm_add(int t, double *out) {
    plain_norm(t, out);
    for (int i = 0; i < N; i++) out[i] += (double)y[t * N + i];
}

static void run_centre(int t0, int n_tok, float *out) {
    (void)t0;
    ops->centre(dev, out, n_tok, N);
}

static void plain_centre(int t, double *out) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)y[t * N + i];
    for (int i = 0; i < N; i++) out[i] = (double)y[t * N + i] - sum / N;
}

static void run_add(int t0, int n_tok, float *out) {
    ops->add(dev, x + t0 * N, N, n_tok, N, out);
}

static void plain_add(int t, double *out) {
    for (int i = 0; i < N; i++) out[i] = (double)y[t * N + i] + (double)x[t * N + i];
}

static void run_add_row(int t0, int n_tok, float *out) {
    (void)t0;
    ops->add(dev, w, 0, n_tok, N, out);
}

static void plain_add_row(int t, double *out) {
    for (int i = 0; i < N; i++) out[i] = (double)y[t * N + i] + (double)w[i];
}

static void run_mul(int t0, int n_tok, float *out) {
    ops->mul(dev, x + t0 * N, N, n_tok, N, out, N);
}

static void plain_mul(int t, double *out) {
    for (int i = 0; i < N; i++) out[i] = (double)y[t * N + i] * (double)x[t * N + i];
}

static void run_sigmoid(int t0, int n_tok, float *out) {
    ops->sigmoid_mul(dev, x + t0 * N, n_tok, N, out);
}

static void plain_sigmoid(int t, double *out) {
    for (int i = 0; i < N; i++) out[i] = (double)y[t * N + i] / (1.0 + exp(-(double)x[t * N + i]));
}

static void test_rows(void **state) {
    (void)state;
    check_rows(run_norm, plain_norm);
    check_rows(run_norm_add, plain_norm_add);
    check_rows(run_centre, plain_centre);
    check_rows(run_add, plain_add);
    check_rows(run_add_row, plain_add_row);
    check_rows(run_mul, plain_mul);
    check_rows(run_sigmoid, plain_sigmoid);
}

static void test_embedding(void **state) {
    (void)state;
    const int32_t ids[] = {8, 0, 3, 3, 5};
    const kt__weight table = {(const uint8_t *)x, KT__TYPE_F32, N_TOK, N, N * sizeof *x};
    float out[5 * N];
    open_device(2);
    ops->embed(dev, &table, ids, 5, 2.5f, out);
    for (int t = 0; t < 5; t++)
        for (int i = 0; i < N; i++) assert_true(out[t * N + i] == 2.5f * x[ids[t] * N + i]);
    close_device();
}

/* Queries and their gates, head by head; beta and alpha, group by group. */
static void test_parts_of_rows(void **state) {
    (void)state;
    enum { HALF = N / 2, HEAD = HALF / N_HEAD };
    float first[N_TOK * HALF], second[N_TOK * HALF];
    open_device(2);
    ops->split(dev, x, N_TOK, N_HEAD, HEAD, first, second);
    for (int t = 0; t < N_TOK; t++) {
        for (int i = 0; i < HALF; i++) {
            const float *head = x + t * N + i / HEAD * 2 * HEAD;
            assert_true(first[t * HALF + i] == head[i % HEAD]);
            assert_true(second[t * HALF + i] == head[HEAD + i % HEAD]);
        }
    }
    memset(first, 0, sizeof first);
    ops->unweave(dev, x, N_TOK, N_HEAD, HALF, second, first);
    for (int t = 0; t < N_TOK; t++) {
        for (int i = 0; i < HALF; i++) {
            const float *group = x + t * N + i / HEAD * 2 * HEAD;
            assert_true(second[t * HALF + i] == group[i % HEAD]);
            assert_true(first[t * HALF + i] == group[HEAD + i % HEAD]);
        }
    }
    close_device();
}

/* ---- long arrays ---- */

static double plain_gelu(double v) {
    return 0.5 * v * (1.0 + tanh(sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
}

static void test_long_arrays(void **state) {
    (void)state;
    static float in[LONG], scaled[LONG], capped[LONG], gelu[LONG], again[LONG];
    uint32_t seed = 9;
    fill_random(in, LONG, 6.0f, &seed);
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        open_device(n_threads);
        memcpy(scaled, in, sizeof in);
        memcpy(capped, in, sizeof in);
        memcpy(n_threads == 1 ? gelu : again, in, sizeof in);
        ops->scale(dev, scaled, LONG, 0.3f);
        ops->softcap(dev, capped, LONG, 4.0f);
        ops->gelu(dev, n_threads == 1 ? gelu : again, LONG);
        for (int i = 0; i < LONG; i++) {
            double v = (double)in[i], cap = 4.0 * tanh(v / 4.0), g = plain_gelu(v);
            assert_true(scaled[i] == 0.3f * in[i]);
            assert_near(&capped[i], &cap, 1);
            assert_near(n_threads == 1 ? &gelu[i] : &again[i], &g, 1);
        }
        close_device();
    }
    assert_memory_equal(again, gelu, sizeof gelu);
}

/* ---- what is not finite ---- */

static void test_numbers_that_are_not_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float rows[N_TOK * N], out[N_TOK * N];
    static const int places[] = {0, N - 1, 4 * N + 33, N_TOK * N - 1};
    open_device(3);
    memcpy(rows, x, sizeof rows);
    assert_true(ops->finite(dev, rows, N_TOK, N));
    for (size_t b = 0; b < 3; b++) {
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            rows[places[p]] = bad[b];
            assert_false(ops->finite(dev, rows, N_TOK, N));
            assert_false(ops->norm_f32(dev, rows, w, EPS, N_TOK, N, out));
            memcpy(out, y, sizeof out);
            assert_false(ops->norm_add(dev, rows, w, EPS, N_TOK, N, out));
            rows[places[p]] = x[places[p]];
        }
    }
    assert_true(ops->norm_f32(dev, rows, w, EPS, N_TOK, N, out));
    close_device();
}

/* ---- short convolutions ---- */

static kt__kv *kv;

static void open_store(void) {
    kt_error err;
    const kt__kv_shape shape = {.n_layer = 1,
                                .n_head_kv = 1,
                                .head_dim_k = 32,
                                .head_dim_v = 32,
                                .state_bytes = (WIDTH - 1) * N * sizeof(float)};
    die_on(kt__kv_create(&shape, 4, &kv, &err), &err);
}

static void convolve(const kt__seg *seg, int t0, const float *taps, float *out) {
    const kt__short_conv conv = {.x = x + t0 * N,
                                 .ld_x = N,
                                 .w = taps,
                                 .bias = w,
                                 .width = WIDTH,
                                 .n_ch = N,
                                 .silu = true,
                                 .kv = kv,
                                 .segs = seg,
                                 .n_seg = 1,
                                 .out = out,
                                 .ld_out = N};
    ops->short_conv(dev, &conv);
}

/* A prompt at once and a token at a time, of which each begins with the inputs that the last one left. */
static void test_short_convolution(void **state) {
    (void)state;
    static float taps[WIDTH * N], whole[N_TOK * N], alone[N_TOK * N];
    const kt__kv_table none = {.state = KT__NO_STATE};
    const kt__seg prompt = {.table = &none, .n_tok = N_TOK};
    uint32_t seed = 5;
    fill_random(taps, WIDTH * N, 1.0f, &seed);
    open_device(2);
    open_store();
    int32_t piece[] = {kt__kv_state_take(kv), kt__kv_state_take(kv)};
    convolve(&prompt, 0, taps, whole);
    for (int t = 0; t < N_TOK; t++) {
        const kt__kv_table table = {.state = t ? piece[t % 2] : KT__NO_STATE};
        const kt__seg_state mark = {1, piece[1 - t % 2]};
        const kt__seg seg = {.table = &table, .n_tok = 1, .states = &mark, .n_states = 1};
        convolve(&seg, t, taps, alone + t * N);
        for (int i = 0; i < N; i++) {
            double sum = (double)w[i];
            for (int j = 0; j < WIDTH && j <= t; j++)
                sum += (double)x[(t - j) * N + i] * (double)taps[(WIDTH - 1 - j) * N + i];
            sum /= 1.0 + exp(-sum);
            assert_near(&whole[t * N + i], &sum, 1);
        }
    }
    assert_memory_equal(alone, whole, sizeof whole);
    for (int i = 0; i < 2; i++) kt__kv_state_drop(kv, piece[i]);
    kt__kv_destroy(kv);
    close_device();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_parts_of_rows),
        cmocka_unit_test(test_long_arrays),
        cmocka_unit_test(test_numbers_that_are_not_finite),
        cmocka_unit_test(test_short_convolution),
    };
    return cmocka_run_group_tests(tests, make_inputs, NULL);
}
