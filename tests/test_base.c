/* base: arenas, buffers, half precision and the contract's math, against libm where an oracle
 * helps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

static void test_arena_caps_and_aligns(void **state) {
    (void)state;
    kt__arena arena;
    kt__arena_init(&arena, 256, 1000);
    for (int i = 0; i < 3; i++) {
        void *p = kt__arena_alloc_aligned(&arena, 100, 64);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
    }
    assert_null(kt__arena_alloc(&arena, 701));
    assert_non_null(kt__arena_alloc(&arena, 700));
    assert_null(kt__arena_calloc(&arena, SIZE_MAX / 2, 4));
    kt__arena_reset(&arena);
    assert_non_null(kt__arena_alloc(&arena, 1000));
    kt__arena_free(&arena);
}

static void test_buf_keeps_its_cap(void **state) {
    (void)state;
    kt__buf buf;
    kt__buf_init(&buf, 10);
    assert_true(kt__buf_puts(&buf, "12345"));
    assert_true(kt__buf_printf(&buf, "%d", 67890));
    assert_false(kt__buf_putc(&buf, 'x'));
    assert_true(buf.failed);
    assert_string_equal(buf.data, "1234567890");
    kt__buf_free(&buf);
    char *empty = kt__buf_take(&buf, NULL);
    assert_string_equal(empty, "");
    kt__free(empty);
}

static void test_errors_name_code_and_place(void **state) {
    (void)state;
    kt_error err;
    assert_int_equal(kt__fail_at(&err, KT_E_FORMAT, "a.gguf", 12, "bad %s", "magic"), KT_E_FORMAT);
    assert_string_equal(err.message, "bad magic");
    assert_string_equal(err.where, "a.gguf");
    assert_int_equal(err.offset, 12);
    assert_int_equal(kt__fail(NULL, KT_E_IO, "x"), KT_E_IO);
    assert_string_equal(kt_status_name(KT_E_TRUNCATED), "KT_E_TRUNCATED");
    assert_string_equal(kt_status_name((kt_status)999), "KT_E_INTERNAL");
}

static void test_f16_round_trips_every_value(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = kt__f16_to_f32((kt__f16)h);
        if (f != f) continue;
        assert_int_equal(kt__f16_from_f32(f), h);
#ifdef __FLT16_MAX__
        assert_true((float)(_Float16)f == f);
#endif
    }
    assert_int_equal(kt__f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(kt__f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(kt__f16_from_f32(0x1p-25f), 0);
    assert_int_equal(kt__f16_from_f32(0x1.8p-25f), 1);
    assert_int_equal(kt__bf16_from_f32(1.00390625f), 0x3f80);
    assert_int_equal(kt__bf16_from_f32(1.01171875f), 0x3f82);
}

/* error of `got` in units in the last place of an f32 near `want` */
static double ulps(float got, double want) {
    double ulp = ldexp(1.0, ilogb(want) - 23);
    return fabs((double)got - want) / ulp;
}

static void test_f32_math_is_near_libm(void **state) {
    (void)state;
    double worst_exp = 0, worst_tanh = 0;
    for (float x = -86.9f; x < 88.7f; x += 0.00371f) {
        worst_exp = fmax(worst_exp, ulps(kt__expf(x), exp((double)x)));
    }
    for (float x = -12.0f; x < 12.0f; x += 0.00093f) {
        if (x != 0.0f) worst_tanh = fmax(worst_tanh, ulps(kt__tanhf(x), tanh((double)x)));
    }
    assert_true(worst_exp < 3.0);
    assert_true(worst_tanh <
                40.0); /* by cancellation near TANHF_SMALL: 40 ulp there is 5e-6 relative */
    assert_true(kt__expf(-100.0f) == 0.0f);
    assert_true(kt__expf(0.0f) == 1.0f);
    assert_true(isinf(kt__expf(89.0f)));
    assert_true(isnan(kt__expf(NAN)));
    assert_true(kt__tanhf(100.0f) == 1.0f && kt__tanhf(-100.0f) == -1.0f);
}

/* Against their definitions in double, from where they vanish to where they are the identity. */
static void test_activations_are_their_formulas(void **state) {
    (void)state;
    for (float f = -60.0f; f < 60.0f; f += 0.0137f) {
        double x = (double)f, silu = x / (1.0 + exp(-x));
        double gelu = 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
        assert_true(fabs((double)kt__siluf(f) - silu) <= 1e-6 * fabs(silu));
        assert_true(fabs((double)kt__gelu_tanhf(f) - gelu) <= 1e-6 * fabs(x));
        double softplus = fmax(x, 0.0) + log1p(exp(-fabs(x)));
        assert_true(fabs((double)kt__softplusf(f) - softplus) <= 3e-7 * softplus);
    }
    assert_true(kt__softplusf(-200.0f) == 0.0f && kt__softplusf(200.0f) == 200.0f);
    assert_true(kt__siluf(0.0f) == 0.0f && kt__gelu_tanhf(0.0f) == 0.0f);
    assert_true(kt__siluf(200.0f) == 200.0f && kt__gelu_tanhf(200.0f) == 200.0f);
    assert_true(fabsf(kt__siluf(-200.0f)) < 1e-30f && kt__gelu_tanhf(-200.0f) == 0.0f);
    assert_true(isnan(kt__siluf(NAN)) && isnan(kt__gelu_tanhf(NAN)) && isnan(kt__softplusf(NAN)));
}

static void test_double_math_is_near_libm(void **state) {
    (void)state;
    for (double x = -700; x < 700; x += 0.7313) {
        assert_true(fabs(kt__exp(x) / exp(x) - 1.0) < 1e-15);
    }
    for (double x = 1e-300; x < 1e300; x *= 1.937) {
        double want = log(x);
        assert_true(fabs(kt__log(x) - want) <= 4e-16 * fmax(fabs(want), 1.0));
    }
    for (double x = -3e6; x < 3e6; x += 1234.5678) {
        double s, c;
        kt__sincos(x, &s, &c);
        assert_true(fabs(s - sin(x)) < 1e-15 && fabs(c - cos(x)) < 1e-15);
    }
    assert_true(fabs(kt__pow(10000.0, -0.73) / pow(10000.0, -0.73) - 1.0) < 1e-14);
    assert_true(isinf(kt__log(0.0)) && isnan(kt__log(-1.0)) && kt__exp(-1000) == 0.0);
}

static void test_utf8(void **state) {
    (void)state;
    uint32_t cp;
    char out[4];
    assert_int_equal(kt__utf8_decode("\xf0\x9f\xa5\x94", 4, &cp), 4);
    assert_int_equal(cp, 0x1f954);
    assert_int_equal(kt__utf8_decode("\xc0\x80", 2, &cp), 0);
    assert_int_equal(kt__utf8_decode("\xed\xa0\x80", 3, &cp), 0);
    assert_int_equal(kt__utf8_decode("\xe2\x82", 2, &cp), 0);
    assert_int_equal(kt__utf8_incomplete_tail("ab\xe2\x82", 4), 2);
    assert_int_equal(kt__utf8_incomplete_tail("ab\xe2\x82\xac", 5), 0);
    assert_int_equal(kt__utf8_incomplete_tail("\xf0\x9f\xa5", 3), 3);
    assert_int_equal(kt__utf8_incomplete_tail("\xed\xa0", 2), 0);
    for (uint32_t c = 0; c < 0x110000; c += 7) {
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t n = kt__utf8_encode(c, out);
        assert_int_equal(kt__utf8_decode(out, n, &cp), n);
        assert_int_equal(cp, c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_caps_and_aligns),
        cmocka_unit_test(test_buf_keeps_its_cap),
        cmocka_unit_test(test_errors_name_code_and_place),
        cmocka_unit_test(test_f16_round_trips_every_value),
        cmocka_unit_test(test_f32_math_is_near_libm),
        cmocka_unit_test(test_activations_are_their_formulas),
        cmocka_unit_test(test_double_math_is_near_libm),
        cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
