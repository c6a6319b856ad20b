/* Attention over latent vectors: where each number of its rows comes from, and products of each head with its own
 * rows, byte for byte as NUMERICS.md has a product, for any number of threads and tokens. */
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

/* Rows that are no multiple of what a worker takes at a time, in heads that lie apart. */
enum {
    MAX_TOK = 40,
    N_HEAD = 3,
    PLAIN = 24,
    ROT = 8,
    LATENT = 32,
    N_ROW = 21,
    STEP = 25,
    LD = N_HEAD * STEP + 3,
    KEY = ROT + LATENT
};
#define EPS 1e-6f

static kt__pool *pool;
static kt__dev *dev;
static const kt__ops *ops;
static float q[MAX_TOK * N_HEAD * (PLAIN + ROT)], c[MAX_TOK * KEY], norm[LATENT];

static void open_device(int n_threads) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    const kt__kernels *kernels;
    const kt__dev_limits limits = {.n_tok = MAX_TOK * N_HEAD,
                                   .n_col = N_HEAD * KEY,
                                   .head_dim_k = KEY,
                                   .head_dim_v = LATENT,
                                   .n_head = N_HEAD,
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

static void fill_random(float *to, size_t n, uint32_t *seed) {
    for (size_t i = 0; i < n; i++) to[i] = (float)(2.0 * lcg_unit(seed) - 1.0);
}

static int make_inputs(void **state) {
    uint32_t seed = 17;
    (void)state;
    fill_random(q, sizeof q / sizeof *q, &seed);
    fill_random(c, sizeof c / sizeof *c, &seed);
    fill_random(norm, LATENT, &seed);
    return 0;
}

static void check_token(int t, const float *plain, const float *q_row, const float *k,
                        const float *v) {
    const float *in = c + t * KEY;
    double sum = 0;
    for (int h = 0; h < N_HEAD; h++) {
        const float *head = q + (t * N_HEAD + h) * (PLAIN + ROT);
        assert_memory_equal(plain + h * PLAIN, head, PLAIN * sizeof *head);
        assert_memory_equal(q_row + h * KEY, head + PLAIN, ROT * sizeof *head);
    }
    for (int i = 0; i < LATENT; i++) sum += (double)in[i] * (double)in[i];
    for (int i = 0; i < LATENT; i++) {
        double want = (double)in[i] * (double)norm[i] / sqrt(sum / LATENT + (double)EPS);
        assert_true(fabs((double)v[i] - want) <= 1e-6 * (1.0 + fabs(want)));
    }
    assert_memory_equal(k, in + LATENT, ROT * sizeof *k);
    assert_memory_equal(k + ROT, v, LATENT * sizeof *k);
}

static void test_rows(void **state) {
    (void)state;
    static float plain[MAX_TOK * N_HEAD * PLAIN], q_rows[MAX_TOK * N_HEAD * KEY];
    static float k_rows[MAX_TOK * KEY], v_rows[MAX_TOK * LATENT];
    const kt__latent rows = {.q = q,
                             .c = c,
                             .norm = norm,
                             .eps = EPS,
                             .n_tok = MAX_TOK,
                             .n_head = N_HEAD,
                             .n_plain = PLAIN,
                             .n_rot = ROT,
                             .n_latent = LATENT,
                             .plain = plain,
                             .q_rows = q_rows,
                             .k_rows = k_rows,
                             .v_rows = v_rows};
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        open_device(n_threads);
        memset(plain, 0, sizeof plain);
        memset(k_rows, 0, sizeof k_rows);
        ops->latent(dev, &rows);
        for (int t = 0; t < MAX_TOK; t++)
            check_token(t, plain + t * N_HEAD * PLAIN, q_rows + t * N_HEAD * KEY, k_rows + t * KEY,
                        v_rows + t * LATENT);
        close_device();
    }
}

/* ---- products of each head ---- */

static float weights[N_HEAD * N_ROW * LATENT];
static _Alignas(64) uint8_t act_rows[MAX_TOK * N_HEAD * (LATENT * 4 + 64)];

static float product(const float *w, const float *in) {
    float lane[16] = {0};
    for (int k = 0; k < LATENT; k++) lane[k % 16] = fmaf(w[k], in[k], lane[k % 16]);
    for (int step = 8; step; step /= 2)
        for (int i = 0; i < step; i++) lane[i] += lane[i + step];
    return lane[0];
}

static void check_heads(const float *in, int n_tok) {
    static float out[MAX_TOK * LD];
    kt__acts acts = {.n_tok = n_tok * N_HEAD, .n_col = LATENT, .kinds = 1u << KT__ACT_F32};
    acts.layout[KT__ACT_F32] = kt__act_layout_of(KT__ACT_F32, LATENT);
    acts.data[KT__ACT_F32] = act_rows;
    const kt__heads heads = {
        .w = {(const uint8_t *)weights, KT__TYPE_F32, N_ROW, LATENT, LATENT * sizeof *weights},
        .stride = N_ROW * LATENT * sizeof *weights,
        .n_head = N_HEAD,
        .out = out,
        .ld_out = LD,
        .step = STEP};
    for (int i = 0; i < MAX_TOK * LD; i++) out[i] = -7.0f;
    ops->quantize(dev, in, n_tok * N_HEAD, &acts);
    ops->heads(dev, &acts, &heads);
    for (int i = 0; i < MAX_TOK * LD; i++) {
        int t = i / LD, h = i % LD / STEP, r = i % LD % STEP;
        float want = -7.0f; /* between the heads, and after the last token */
        if (t < n_tok && h < N_HEAD && r < N_ROW)
            want = product(weights + (h * N_ROW + r) * LATENT, in + (t * N_HEAD + h) * LATENT);
        if (memcmp(&out[i], &want, sizeof want) != 0)
            fail_msg("token %d, head %d, row %d: %g, not %g", t, h, r, (double)out[i],
                     (double)want);
    }
}

static void test_products_of_heads(void **state) {
    (void)state;
    static float in[MAX_TOK * N_HEAD * LATENT];
    static const int counts[] = {1, 2, 5, 16, MAX_TOK};
    uint32_t seed = 23;
    fill_random(in, sizeof in / sizeof *in, &seed);
    fill_random(weights, sizeof weights / sizeof *weights, &seed);
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        open_device(n_threads);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_heads(in, counts[i]);
        close_device();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_products_of_heads)};
    return cmocka_run_group_tests(tests, make_inputs, NULL);
}
