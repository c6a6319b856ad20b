/* ops: products through OpenBLAS, close to ours; clear errors without it. What needs it is skipped
 * where it is not installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels_data.h"
#include "ops/blas.h"

static kt__blas *open_or_skip(void) {
    kt__blas *blas;
    kt_error err;
    kt_status status = kt__blas_open(NULL, &blas, &err);
    if (status == KT_OK) return blas;
    assert_int_equal(status, KT_E_UNSUPPORTED);
    print_message("skipped: %s\n", err.message);
    skip();
    return NULL;
}

static void refused(const char *soname) {
    kt__blas *blas;
    kt_error err;
    assert_int_equal(kt__blas_open(soname, &blas, &err), KT_E_UNSUPPORTED);
    assert_null(blas);
    assert_non_null(strstr(err.message, "--blas"));
    assert_non_null(strstr(err.message, "libopenblas0-pthread"));
}

static void test_missing_or_another_library(void **state) {
    (void)state;
    refused("libkentang-no-such-library.so.0");
    refused("libm.so.6");
    kt__blas_close(NULL);
}

/* A library may be asked for by its name; another one is not taken in its place. */
static void test_by_name(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"openblas", "OpenBLAS"}, {"mkl", "MKL"}, {"blis", "BLIS"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        kt__blas *blas;
        kt_error err;
        if (kt__blas_open(names[i][0], &blas, &err) == KT_OK) {
            assert_string_equal(kt__blas_name(blas), names[i][1]);
        } else {
            assert_non_null(strstr(err.message, names[i][0]));
            assert_non_null(strstr(err.message, "on Debian install"));
        }
        kt__blas_close(blas);
    }
}

static void test_takes(void **state) {
    (void)state;
    assert_true(kt__blas_takes(KT__BLAS_MIN_TOK));
    assert_false(kt__blas_takes(KT__BLAS_MIN_TOK - 1));
}

static void *filled(size_t bytes) {
    void *p = malloc(bytes);
    assert_non_null(p);
    return p;
}

/* n_row rows of weights, `shift` bytes off alignment: what they decode to in `plain`, encoded at the
 * result. */
static uint8_t *weights(kt__type type, int n_row, int n_col, size_t shift, kd_rng *rng,
                        float *plain) {
    size_t row = kt__type_row_bytes(type, n_col), cols = (size_t)n_col;
    uint8_t *w = filled((size_t)n_row * row + shift), *one = filled(row);
    for (int r = 0; r < n_row; r++) {
        float *x = plain + (size_t)r * cols;
        for (size_t i = 0; i < cols; i++) x[i] = kd_normal(rng);
        kt__quantize_row(type, x, n_col, one);
        kt__dequantize_row(type, one, n_col, x);
        memcpy(w + shift + (size_t)r * row, one, row);
    }
    free(one);
    return w;
}

typedef struct shape {
    int n_row, n_col, n_tok;
    size_t shift;
    bool bias, residual, in_place;
} shape;

static void check_product(const kt__blas *blas, kt__type type, const shape *s, kd_rng *rng) {
    size_t rows = (size_t)s->n_row, cols = (size_t)s->n_col, toks = (size_t)s->n_tok;
    size_t ld = rows + 5, act_bytes = kt__act_layout_of(KT__ACT_F32, s->n_col).row_bytes;
    float *plain = filled(rows * cols * 4), *bias = filled(rows * 4), *more = filled(toks * ld * 4);
    float *out = filled(toks * ld * 4), *panel = filled(KT__BLAS_ROWS * cols * 4);
    uint8_t *w = weights(type, s->n_row, s->n_col, s->shift, rng, plain);
    uint8_t *acts = filled(toks * act_bytes);
    for (size_t i = 0; i < rows; i++) bias[i] = kd_normal(rng);
    for (size_t i = 0; i < toks * ld; i++) out[i] = more[i] = kd_normal(rng);
    for (size_t i = 0; i < toks * act_bytes / 4; i++) ((float *)(void *)acts)[i] = kd_normal(rng);
    kt__mm mm = {.w = w + s->shift,
                 .w_row_bytes = kt__type_row_bytes(type, s->n_col),
                 .n_row = s->n_row,
                 .n_col = s->n_col,
                 .act = acts,
                 .act_row_bytes = act_bytes,
                 .n_tok = s->n_tok,
                 .out = out,
                 .ld_out = ld,
                 .bias = s->bias ? bias : NULL,
                 .residual = s->in_place   ? out
                             : s->residual ? more
                                           : NULL,
                 .ld_residual = ld};
    kt__blas_mm(blas, type, &mm, panel);
    for (size_t t = 0; t < toks; t++) {
        const float *x = (const float *)(const void *)(acts + t * act_bytes);
        for (size_t r = 0; r < ld; r++) {
            double want = more[t * ld + r], size = 1;
            if (r < rows) {
                want = s->residual || s->in_place ? want : 0;
                if (s->bias) want += bias[r];
                for (size_t k = 0; k < cols; k++) {
                    want += (double)plain[r * cols + k] * x[k];
                    size += fabs((double)plain[r * cols + k] * x[k]);
                }
            }
            if (fabs(out[t * ld + r] - want) > 1e-6 * size)
                fail_msg("%s row %zu token %zu: %g, expected %g", kt__type_get(type)->name, r, t,
                         (double)out[t * ld + r], want);
        }
    }
    free(plain), free(bias), free(more), free(out), free(panel), free(w), free(acts);
}

static void test_products(void **state) {
    (void)state;
    kt__blas *blas = open_or_skip();
    kd_rng rng = {7};
    static const kt__type types[] = {KT__TYPE_F32, KT__TYPE_F16, KT__TYPE_BF16};
    static const shape shapes[] = {
        {.n_row = 64, .n_col = 96, .n_tok = 70},
        {.n_row = KT__BLAS_ROWS + 37, .n_col = 50, .n_tok = 33, .bias = true},
        {.n_row = 2 * KT__BLAS_ROWS, .n_col = 32, .n_tok = 5, .residual = true},
        {.n_row = 31, .n_col = 300, .n_tok = 17, .bias = true, .in_place = true},
        {.n_row = 40, .n_col = 64, .n_tok = 9, .shift = 2, .bias = true, .residual = true},
    };
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_product(blas, types[t], &shapes[i], &rng);
    static const kt__type quantised[] = {KT__TYPE_Q8_0, KT__TYPE_Q4_K, KT__TYPE_Q6_K};
    static const shape whole = {
        .n_row = KT__BLAS_ROWS + 37, .n_col = 512, .n_tok = 33, .bias = true};
    for (size_t t = 0; t < sizeof quantised / sizeof *quantised; t++)
        check_product(blas, quantised[t], &whole, &rng);
    kt__blas_close(blas);
}

/* Times one: every finite half comes out as itself, subnormals too. */
static void test_every_half(void **state) {
    (void)state;
    kt__blas *blas = open_or_skip();
    enum { N = 256 };
    float *out = filled(N * 4), *panel = filled(KT__BLAS_ROWS * 4);
    float one[16] = {1};
    kt__f16 w[N];
    for (int high = 0; high < 256; high++) {
        if ((high & 0x7c) == 0x7c) continue; /* infinities and NaNs */
        for (int i = 0; i < N; i++) w[i] = (kt__f16)(high << 8 | i);
        kt__mm mm = {.w = (const uint8_t *)w,
                     .w_row_bytes = 2,
                     .n_row = N,
                     .n_col = 1,
                     .act = (const uint8_t *)one,
                     .act_row_bytes = 64,
                     .n_tok = 1,
                     .out = out,
                     .ld_out = N};
        kt__blas_mm(blas, KT__TYPE_F16, &mm, panel);
        for (int i = 0; i < N; i++) assert_true(out[i] == kt__f16_to_f32(w[i]));
    }
    free(out), free(panel);
    kt__blas_close(blas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_or_another_library),
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_every_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
