/* The reference tier against the same mathematics in double precision, and the choice of a tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/dispatch.h"
#include "kernels_data.h"

static void expect_near(const char *what, int at, double want, double got, double tolerance) {
    if (fabs(want - got) <= tolerance) return;
    fail_msg("%s, element %d: want %.9g, got %.9g, tolerance %.3g", what, at, want, got, tolerance);
}

/* ---- products ---- */

enum { ROWS = 5, TOKS = 3 };

/* What a quantised activation row stands for. */
static void act_values(kt__act_kind kind, const uint8_t *row, int n, double *x) {
    kt__act_layout layout = kt__act_layout_of(kind, n);
    int unit = kind == KT__ACT_Q32 ? 32 : 256;
    for (int i = 0; i < n; i++) {
        if (kind == KT__ACT_F32) {
            x[i] = (double)((const float *)(const void *)row)[i];
        } else {
            float d = ((const float *)(const void *)(row + layout.d))[i / unit];
            x[i] = (double)d * ((const int8_t *)row)[i];
        }
    }
}

/* fn against sum_k w x, with a bound from the sum of magnitudes: a float product's error is at most
 * about (number of roundings) * 2^-24 of it. */
static void check_product(kt__type type, kt__act_kind kind, kt__mm_fn *fn, int n_col, kd_rng *rng) {
    size_t row_bytes = kt__type_row_bytes(type, n_col),
           act_bytes = kt__act_layout_of(kind, n_col).row_bytes;
    uint8_t *w = malloc(row_bytes * ROWS), *act = aligned_alloc(64, act_bytes * TOKS);
    float *wf = malloc((size_t)n_col * sizeof *wf), *x = malloc((size_t)n_col * sizeof *x);
    double *xd = malloc((size_t)n_col * sizeof *xd);
    float out[TOKS * ROWS], bias[ROWS], residual[TOKS * ROWS];
    uint8_t scratch[64];
    for (int r = 0; r < ROWS; r++) {
        kd_weights(type, KD_BLOCKS_RANDOM, rng, n_col, w + (size_t)r * row_bytes);
        bias[r] = kd_normal(rng);
    }
    for (int t = 0; t < TOKS; t++) {
        kd_activations(KD_ACT_NORMAL, rng, n_col, x);
        kd_ref()->quantize[kind](x, n_col, act + (size_t)t * act_bytes);
        for (int r = 0; r < ROWS; r++) residual[t * ROWS + r] = kd_normal(rng);
    }
    kt__mm mm = {.type = type,
                 .w = w,
                 .w_row_bytes = row_bytes,
                 .n_row = ROWS,
                 .n_col = n_col,
                 .act = act,
                 .act_row_bytes = act_bytes,
                 .n_tok = TOKS,
                 .out = out,
                 .ld_out = ROWS,
                 .bias = bias,
                 .residual = residual,
                 .ld_residual = ROWS};
    fn(&mm, scratch);
    for (int t = 0; t < TOKS; t++) {
        act_values(kind, act + (size_t)t * act_bytes, n_col, xd);
        for (int r = 0; r < ROWS; r++) {
            kt__dequantize_row(type, w + (size_t)r * row_bytes, n_col, wf);
            double sum = (double)bias[r] + (double)residual[t * ROWS + r], size = fabs(sum) + 1;
            for (int k = 0; k < n_col; k++) {
                sum += (double)wf[k] * xd[k];
                size += fabs((double)wf[k] * xd[k]);
            }
            expect_near(kt__type_get(type)->name, t * ROWS + r, sum, (double)out[t * ROWS + r],
                        size * 0x1p-20);
        }
    }
    free(w), free(act), free(wf), free(x), free(xd);
}

static void test_products(void **state) {
    (void)state;
    kd_rng rng = {21};
    const kt__kernels *ref = kd_ref();
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        kt__act_kind kind = kt__type_get(type)->act;
        int n_col = kind == KT__ACT_Q256 ? 1024 : kind == KT__ACT_Q32 ? 896 : 173;
        check_product(type, kind, ref->mm[type]->rowdot, n_col, &rng);
        check_product(type, kind, ref->mm[type]->gemm, n_col, &rng);
        check_product(type, KT__ACT_F32, ref->exact, n_col, &rng);
    }
}

/* ---- activations ---- */

static void test_quantize(void **state) {
    (void)state;
    enum { N = 768 };
    float x[N];
    double back[N];
    uint8_t *row = aligned_alloc(64, 4096);
    kd_rng rng = {22};
    kd_activations(KD_ACT_NORMAL, &rng, N, x);
    for (kt__act_kind kind = 0; kind < KT__ACT_COUNT; kind++) {
        int unit = kind == KT__ACT_Q32 ? 32 : 256;
        kd_ref()->quantize[kind](x, N, row);
        act_values(kind, row, N, back);
        for (int i = 0; i < N; i++) {
            float amax = 0;
            for (int j = i / unit * unit; j < i / unit * unit + unit; j++)
                amax = fmaxf(amax, fabsf(x[j]));
            expect_near("quantize", i, (double)x[i], back[i],
                        kind == KT__ACT_F32 ? 0 : (double)amax / 253.9);
        }
    }
    free(row);
}

static void test_quantize_sums_and_borders(void **state) {
    (void)state;
    enum { N = 512 };
    kt__act_layout layout = kt__act_layout_of(KT__ACT_Q256, N);
    float x[N];
    uint8_t *row = aligned_alloc(64, layout.row_bytes);
    const float *d = (const float *)(const void *)(row + layout.d);
    const int16_t *s16 = (const int16_t *)(const void *)(row + layout.s16);
    const int16_t *s32 = (const int16_t *)(const void *)(row + layout.s32);
    for (int i = 0; i < N; i++) x[i] = i < 256 ? (float)(i % 16) - 127.0f : 0x1p-101f;
    kd_ref()->quantize[KT__ACT_Q256](x, N, row);
    assert_true(d[0] == 1.0f && d[1] == 0.0f);
    for (int g = 0; g < 32; g++) assert_int_equal(s16[g], g < 16 ? 120 - 16 * 127 : 0);
    for (int g = 0; g < 16; g++) assert_int_equal(s32[g], g < 8 ? 240 - 32 * 127 : 0);
    /* ties go to even: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, -0.5 -> 0, -1.5 -> -2 */
    memset(x, 0, sizeof x);
    x[0] = 127, x[1] = 0.5f, x[2] = 1.5f, x[3] = 2.5f, x[4] = -0.5f, x[5] = -1.5f;
    x[300] = NAN;
    kd_ref()->quantize[KT__ACT_Q256](x, N, row);
    const int8_t want[6] = {127, 0, 2, 2, 0, -2};
    assert_memory_equal(row, want, 6);
    assert_true(d[1] != d[1]);
    assert_int_equal(row[300], 0);
    free(row);
}

/* ---- norms, rotary, attention ---- */

static void test_rmsnorm(void **state) {
    (void)state;
    enum { N = 333 };
    float x[N], w[N], out[N];
    double sum = 0;
    kd_rng rng = {23};
    for (int i = 0; i < N; i++) {
        x[i] = kd_normal(&rng);
        w[i] = kd_normal(&rng);
        sum += (double)x[i] * (double)x[i];
    }
    float got = kd_ref()->rmsnorm(x, w, N, 1e-5f, out);
    expect_near("rmsnorm sum", 0, sum, (double)got, sum * 1e-6);
    for (int i = 0; i < N; i++) {
        double want = (double)x[i] * (double)w[i] / sqrt(sum / N + 1e-5);
        expect_near("rmsnorm", i, want, (double)out[i], fabs(want) * 1e-6);
    }
}

static void test_rope(void **state) {
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {1, 2, 3, 4, 5, 6};
    const float cs[4] = {0, 1, 1, 0}; /* a quarter turn, then none */
    kd_ref()->rope_neox(x, cs, 4);
    kd_ref()->rope_norm(y, cs, 4);
    const float neox[6] = {-3, 2, 1, 4, 5, 6}, norm[6] = {-2, 1, 3, 4, 5, 6};
    assert_memory_equal(x, neox, sizeof x);
    assert_memory_equal(y, norm, sizeof y);
}

static void test_activation_functions(void **state) {
    (void)state;
    enum { N = 401 };
    float x[N], one[N], silu[N], gelu[N], capped[N];
    for (int i = 0; i < N; i++) {
        x[i] = capped[i] = (float)(i - 200) * 0.1f;
        one[i] = 1;
    }
    kd_ref()->silu_mul(x, one, N, silu);
    kd_ref()->gelu_mul(x, one, N, gelu);
    kd_ref()->softcap(capped, N, 5.0f);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i];
        double inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        expect_near("silu", i, v / (1 + exp(-v)), (double)silu[i], 1e-6 * (fabs(v) + 1e-3));
        expect_near("gelu", i, 0.5 * v * (1 + tanh(inner)), (double)gelu[i],
                    1e-6 * (fabs(v) + 1e-3));
        expect_near("softcap", i, 5 * tanh(v / 5), (double)capped[i], 1e-6 * (fabs(v) + 1e-3));
    }
}

/* Three splits merged, the last one cut, against softmax(q K) V in double. */
static void test_attention(void **state) {
    (void)state;
    enum { DIM = 40, POS = 600 };
    static kt__f16 k[KT__SPLIT_PAGES * 3][DIM * 16], v[KT__SPLIT_PAGES * 3][DIM * 16];
    static float keys[POS][DIM], values[POS][DIM];
    kd_rng rng = {24};
    const kt__kernels *ref = kd_ref();
    float q[DIM], M = 0, L = 0, O[DIM], m, l, o[DIM], out[DIM];
    static float scratch[KT__SPLIT_POS * 2 * DIM];
    for (int d = 0; d < DIM; d++) q[d] = kd_normal(&rng) * 0.5f;
    for (int p = 0; p < POS; p++) {
        for (int d = 0; d < DIM; d++) {
            keys[p][d] = kt__f16_to_f32(kt__f16_from_f32(kd_normal(&rng)));
            values[p][d] = kt__f16_to_f32(kt__f16_from_f32(kd_normal(&rng)));
        }
        ref->store_k(keys[p], DIM, p % 16, k[p / 16]);
        ref->store_v(values[p], DIM, p % 16, v[p / 16]);
    }
    for (int split = 0; split < 3; split++) {
        int16_t lo = split == 0 ? 7 : 0, hi = (int16_t)(split == 2 ? POS - 512 : 256);
        kt__attn t = {.head_dim_k = DIM,
                      .head_dim_v = DIM,
                      .q = q,
                      .ld_q = DIM,
                      .n_q = 1,
                      .lo = &lo,
                      .hi = &hi,
                      .m = split ? &m : &M,
                      .l = split ? &l : &L,
                      .o = split ? o : O,
                      .ld_o = DIM};
        for (int p = 0; p < KT__SPLIT_PAGES; p++) {
            t.k[p] = k[split * KT__SPLIT_PAGES + p];
            t.v[p] = v[split * KT__SPLIT_PAGES + p];
        }
        ref->attn(&t, scratch);
        if (split) ref->attn_merge(&M, &L, O, m, l, o, DIM);
    }
    ref->attn_finish(O, L, DIM, out);
    double want[DIM] = {0}, total = 0;
    for (int p = 7; p < POS; p++) {
        double s = 0;
        for (int d = 0; d < DIM; d++) s += (double)q[d] * (double)keys[p][d];
        total += exp(s);
        for (int d = 0; d < DIM; d++) want[d] += exp(s) * (double)values[p][d];
    }
    for (int d = 0; d < DIM; d++)
        expect_near("attention", d, want[d] / total, (double)out[d], 1e-6);
}

static void test_store_clamps(void **state) {
    (void)state;
    const float x[4] = {1e9f, -INFINITY, 65519.0f, 1.0f};
    kt__f16 page[64] = {0};
    kd_ref()->store_v(x, 4, 2, page);
    const kt__f16 want[4] = {0x7bff, 0xfbff, 0x7bff, 0x3c00};
    assert_memory_equal(page + 8, want, sizeof want);
    kd_ref()->store_k(x, 4, 2, page);
    for (int d = 0; d < 4; d++) assert_int_equal(page[16 * d + 2], want[d]);
}

/* ---- the choice of a tier ---- */

static kt__prefetch prefetch_of(const char *tier, const char *vendor) {
    kt__cpu cpu = {.family = 25};
    kt__kernels kernels = {.name = tier};
    snprintf(cpu.vendor, sizeof cpu.vendor, "%s", vendor);
    return kt__kernels_prefetch(&kernels, &cpu);
}

static void test_prefetch(void **state) {
    (void)state;
    int count;
    const kt__tier *tiers = kt__tiers(&count);
    for (int i = 0; i < count; i++) assert_true(prefetch_of(tiers[i].name, "").near > 0);
    assert_int_equal(prefetch_of("avx512", "AuthenticAMD").near, 8192);
    assert_int_equal(prefetch_of("avx512", "AuthenticAMD").far, 0);
    assert_int_equal(prefetch_of("avx512", "GenuineIntel").near, 1024);
    assert_int_equal(prefetch_of("avx512", "GenuineIntel").far, 8192);
    assert_int_equal(prefetch_of("amx", "GenuineIntel").far, 8192);
    assert_int_equal(prefetch_of("avx2", "GenuineIntel").far, 8192);
    assert_int_equal(prefetch_of("sse41", "GenuineIntel").far, 0); /* not measured */
    kt__kernels kernels = {.name = "avx2"};
    kt__cpu zen = {.vendor = "AuthenticAMD", .family = 25, .avx512f = true};
    assert_int_equal(kt__kernels_prefetch(&kernels, &zen).far, 8192); /* Zen 4 */
    zen.family = 26;
    assert_int_equal(kt__kernels_prefetch(&kernels, &zen).far, 0);
}

static void test_select(void **state) {
    (void)state;
    kt__cpu none = {0}, all;
    const kt__kernels *got = NULL;
    char why[200];
    kt_error err;
    int count;
    memset(&all, 1, sizeof all);
    const kt__tier *tiers = kt__tiers(&count);
    assert_null(tiers[count].name);
    assert_int_equal(kt__kernels_select(&none, NULL, &got, why, sizeof why, &err), KT_OK);
    assert_string_equal(got->name, "ref");
    /* this machine's operating system may refuse tiles to a processor that has everything */
    int best = count - 1;
    bool refused = strcmp(tiers[best].name, "amx") == 0 && !tiers[best].supported(&all);
    best -= refused;
    assert_int_equal(kt__kernels_select(&all, "auto", &got, why, sizeof why, &err), KT_OK);
    assert_string_equal(got->name, tiers[best].name);
    assert_true(strlen(why) > 5);
    assert_true(!refused || strstr(why, "the operating system refuses"));
    for (int i = 0; i < count; i++) {
        assert_string_equal(tiers[i].kernels->name, tiers[i].name);
        if (i > best) continue;
        assert_int_equal(kt__kernels_select(&all, tiers[i].name, &got, why, sizeof why, &err),
                         KT_OK);
        assert_ptr_equal(got, tiers[i].kernels);
        if (i == 0) continue;
        assert_int_equal(kt__kernels_select(&none, tiers[i].name, &got, why, sizeof why, &err),
                         KT_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, tiers[i].needs));
    }
    assert_int_equal(kt__kernels_select(&all, "mmx", &got, why, sizeof why, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "ref"));
}

/* No entry of any tier's table is missing. */
static void test_tables_are_complete(void **state) {
    (void)state;
    int count;
    const kt__tier *tiers = kt__tiers(&count);
    for (int i = 0; i < count; i++) {
        const kt__kernels *k = tiers[i].kernels;
        for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
            assert_true(k->mm[type] && k->mm[type]->rowdot && k->mm[type]->gemm);
            assert_true(k->mm[type]->gemm_min_tok > 0);
        }
        for (kt__act_kind kind = 0; kind < KT__ACT_COUNT; kind++)
            assert_true(k->quantize[kind] != NULL);
        assert_true(k->rmsnorm && k->add && k->scale && k->silu_mul && k->gelu_mul && k->softcap);
        assert_true(k->rope_neox && k->rope_norm && k->store_k && k->store_v);
        assert_true(k->attn && k->attn_scratch_bytes && k->attn_merge && k->attn_finish);
        assert_true(k->exact && k->argmax && k->peak_i8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_quantize_sums_and_borders),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_activation_functions),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_store_clamps),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_tables_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
