/* Error feedback: the error of products gets smaller, columns that go with no others change nothing,
 * and rows may be grouped in any way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "quant/feedback.h"

enum { N = 512, ROWS = 16, RANK = 40 };

static uint32_t state = 7;

static float bell(void) { /* xorshift32 (Marsaglia 2003), twelve of them */
    float sum = 0;
    for (int i = 0; i < 12; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        sum += (float)(state >> 8) * 0x1p-24f;
    }
    return sum - 6.0f;
}

/* Inputs that mostly lie in RANK directions: h = F^T F + a little of the identity, in two stretches. */
static double moments[N][N];
static float follow[N][256], importance[N];

static void make_moments(void) {
    static double f[RANK][N];
    for (int r = 0; r < RANK; r++)
        for (int i = 0; i < N; i++) f[r][i] = (double)bell() * (1 + i % 5);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = i == j ? 2.0 : 0.0;
            for (int r = 0; r < RANK && i / 256 == j / 256; r++) sum += f[r][i] * f[r][j];
            moments[i][j] = sum;
        }
    for (int i = 0; i < N; i++) importance[i] = (float)moments[i][i];
}

/* h = v v^T with v upper triangular, from the last column back, plainly. */
static void make_follow(int first) {
    static double v[256][256];
    memset(v, 0, sizeof v);
    for (int k = 255; k >= 0; k--)
        for (int j = k; j >= 0; j--) {
            double sum = moments[first + j][first + k];
            for (int t = k + 1; t < 256; t++) sum -= v[j][t] * v[k][t];
            v[j][k] = j == k ? sqrt(sum) : sum / v[k][k];
        }
    for (int j = 0; j < 256; j++)
        for (int k = 0; k < 256; k++) follow[first + j][k] = k > j ? (float)(v[j][k] / v[k][k]) : 0;
}

static const kt__feedback feedback = {
    .n_col = N, .width = 256, .ld = 256, .follow = &follow[0][0], .importance = importance};

static double product_error(kt__type type, const float *w, const void *blocks) {
    float back[N];
    double error = 0;
    for (int r = 0; r < ROWS; r++) {
        kt__dequantize_row(type, (const char *)blocks + (size_t)r * kt__type_row_bytes(type, N), N,
                           back);
        for (int i = 0; i < N; i++)
            for (int j = i / 256 * 256; j < i / 256 * 256 + 256; j++)
                error += (double)(w[r * N + i] - back[i]) * moments[i][j] *
                         (double)(w[r * N + j] - back[j]);
    }
    return error;
}

static float weights[ROWS * N], room[2 * KT__FEEDBACK_ROWS * N];
static uint8_t alone[ROWS * N * 4], together[ROWS * N * 4];

static void test_products_are_nearer(void **unused) {
    (void)unused;
    const kt__encoding how = {.importance = NULL};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        kt__levels levels;
        bool codes = kt__block_choose_again(type, NULL, NULL, 0, 0, NULL);
        if (!kt__type_levels(type, &levels) && !codes) continue;
        kt__encoding careful = {.importance = importance};
        for (int r = 0; r < ROWS; r++)
            kt__quantize_row_by(type, &careful, weights + r * N, N,
                                alone + (size_t)r * kt__type_row_bytes(type, N));
        double before = product_error(type, weights, alone);
        kt__quantize_rows_feedback(type, &how, &feedback, weights, ROWS, together, room, NULL);
        double after = product_error(type, weights, together);
        if (!(after <
              0.6 * before)) /* codes: 16 columns at a time, of which only later ones make good */
            fail_msg("%s: error %g of %g", kt__type_get(type)->name, after, before);
    }
}

static void test_rows_in_any_groups(void **unused) {
    (void)unused;
    const kt__encoding how = {.importance = NULL};
    size_t row = kt__type_row_bytes(KT__TYPE_Q5_K, N);
    kt__quantize_rows_feedback(KT__TYPE_Q5_K, &how, &feedback, weights, ROWS, together, room, NULL);
    for (int r = 0; r < ROWS; r += 3) {
        int n = ROWS - r < 3 ? ROWS - r : 3;
        kt__quantize_rows_feedback(KT__TYPE_Q5_K, &how, &feedback, weights + r * N, n,
                                   alone + (size_t)r * row, room, NULL);
    }
    assert_memory_equal(alone, together, ROWS * row);
}

/* Without anything that follows, what is left is the careful fit's scales, each level the nearest. */
static void test_alone_it_is_the_careful_fit(void **unused) {
    (void)unused;
    static float none[N][256];
    const kt__feedback apart = {
        .n_col = N, .width = 256, .ld = 256, .follow = &none[0][0], .importance = importance};
    const kt__encoding how = {.importance = importance};
    kt__quantize_rows_feedback(KT__TYPE_Q4_K, &how, &apart, weights, ROWS, together, room, NULL);
    for (int r = 0; r < ROWS; r++)
        kt__quantize_row_by(KT__TYPE_Q4_K, &how, weights + r * N, N,
                            alone + (size_t)r * kt__type_row_bytes(KT__TYPE_Q4_K, N));
    assert_memory_equal(alone, together, ROWS * kt__type_row_bytes(KT__TYPE_Q4_K, N));
}

int main(void) {
    make_moments();
    make_follow(0);
    make_follow(256);
    for (int i = 0; i < ROWS * N; i++) weights[i] = 0.02f * bell();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_nearer),
        cmocka_unit_test(test_rows_in_any_groups),
        cmocka_unit_test(test_alone_it_is_the_careful_fit),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
