/* Everything in the kernel table but the matrix products: every tier against the reference, byte
 * for byte. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels_data.h"

enum { MAX_N = 1100 };

/* Names what differed. The arrays may hold NaN. */
static void expect_same(const char *what, const kt__kernels *tier, int n, float *want, float *got) {
    kd_unify_nan(want, (size_t)n);
    kd_unify_nan(got, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (memcmp(&want[i], &got[i], sizeof *want) == 0) continue;
        fail_msg("%s, tier %s: element %d of %d: want %a, got %a", what, tier->name, i, n,
                 (double)want[i], (double)got[i]);
    }
}

#define FOR_TIERS(tier)                                                                  \
    for (const kt__kernels **tier##_at = kd_tiers(), *tier; (tier = *tier##_at) != NULL; \
         tier##_at++)

/* ---- activations ---- */

/* q lands halfway between integers: amax 127 makes the factor 1 */
static void halfway(int n, float *x) {
    for (int i = 0; i < n; i++) x[i] = (float)(i * 37 % 254 - 127) + (i % 256 ? 0.5f : 0.0f);
    for (int i = 0; i < n; i++) {
        if (x[i] > 127.0f || i % 32 == 5) x[i] = i % 2 ? 127.0f : -127.0f;
    }
}

static void fill_for_quantize(int kind, kd_rng *rng, int n, float *x) {
    kd_activations((kd_act_kind)(kind % KD_ACT_KINDS), rng, n, x);
    if (kind == KD_ACT_KINDS) halfway(n, x);
    if (kind == KD_ACT_KINDS + 1) x[kd_below(rng, n)] = INFINITY;
    if (kind == KD_ACT_KINDS + 2) x[kd_below(rng, n)] = -NAN;
    if (kind == KD_ACT_KINDS + 3) x[0] = 3.4e38f;
    if (kind == KD_ACT_KINDS + 4) x[n - 1] = 0x1p-100f, x[0] = -0x1.fffffep-101f;
}

static void check_quantize(kt__act_kind kind, int n, const float *x) {
    size_t bytes = kt__act_layout_of(kind, n).row_bytes;
    uint8_t *want = aligned_alloc(64, bytes + 64), *got = aligned_alloc(64, bytes + 64);
    memset(want, 0x5a, bytes + 64);
    kd_ref()->quantize[kind](x, n, want);
    FOR_TIERS(tier) {
        memset(got, 0x5a, bytes + 64);
        memset(got, 0xa5, bytes);
        tier->quantize[kind](x, n, got);
        if (memcmp(want, got, bytes + 64) != 0) {
            size_t at = 0;
            while (want[at] == got[at]) at++;
            fail_msg("quantize %d, tier %s, n %d: byte %zu of %zu: want %d, got %d", (int)kind,
                     tier->name, n, at, bytes, want[at], got[at]);
        }
    }
    free(want);
    free(got);
}

static void test_quantize(void **state) {
    (void)state;
    static const int units[KT__ACT_COUNT] = {1, 32, 256};
    kd_rng rng = {11};
    kd_guard guard = kd_guard_open(40 * 256 * sizeof(float));
    for (kt__act_kind kind = 0; kind < KT__ACT_COUNT; kind++) {
        for (int blocks = 1; blocks <= 40; blocks++) {
            int n = blocks * units[kind];
            float *x = kd_guard_last(&guard, (size_t)n * sizeof *x);
            for (int data = 0; data < KD_ACT_KINDS + 5; data++) {
                fill_for_quantize(data, &rng, n, x);
                check_quantize(kind, n, x);
            }
        }
    }
    kd_guard_close(&guard);
}

/* ---- norms and elementwise ---- */

/* Input sets for elementwise functions: everyday values, the whole exponent range, borders. */
static void fill_values(int kind, kd_rng *rng, int n, float *x) {
    static const float borders[] = {0.0f,           -0.0f, 1.0f,   -1.0f,  0.1f,    -0.1f,
                                    0x1.99999ap-4f, 88.7f, -88.7f, 87.0f,  -87.0f,  88.722839f,
                                    -88.73f,        43.5f, -43.5f, 1e-38f, -1e-42f, 3.3e38f,
                                    -3.3e38f,       1e10f, -1e10f};
    for (int i = 0; i < n; i++) {
        float v = kd_normal(rng);
        if (kind == 1) v *= 40.0f;
        if (kind == 2) v = kt__f32_from_bits((uint32_t)kd_next(rng));
        if (kind == 2 && !(fabsf(v) < INFINITY)) v = 1.5f;
        if (kind == 3) v = borders[kd_below(rng, (int)(sizeof borders / sizeof *borders))];
        x[i] = v;
    }
}

typedef struct vectors {
    kd_guard a, b, c;
    float *want, *got;
} vectors;

static vectors vectors_open(void) {
    size_t bytes = MAX_N * sizeof(float);
    return (vectors){kd_guard_open(bytes), kd_guard_open(bytes), kd_guard_open(bytes),
                     malloc(bytes), malloc(bytes)};
}

static void vectors_close(vectors *v) {
    kd_guard_close(&v->a);
    kd_guard_close(&v->b);
    kd_guard_close(&v->c);
    free(v->want);
    free(v->got);
}

static int length(int step) { /* 1..70, then model widths */
    static const int widths[] = {96, 127, 128, 172, 256, 511, 896, 1024, MAX_N};
    return step < 70 ? step + 1 : widths[(step - 70) % 9];
}

static void test_rmsnorm(void **state) {
    (void)state;
    vectors v = vectors_open();
    kd_rng rng = {12};
    for (int step = 0; step < 158; step++) {
        int n = length(step % 79);
        size_t bytes = (size_t)n * sizeof(float);
        float *x = kd_guard_last(&v.a, bytes), *w = kd_guard_last(&v.b, bytes);
        float *out = kd_guard_last(&v.c, bytes);
        fill_values(step % 2, &rng, n, x);
        fill_values(0, &rng, n, w);
        if (step % 3 == 0) w = NULL;
        float sum = kd_ref()->rmsnorm(x, w, n, 1e-6f, v.want);
        FOR_TIERS(tier) {
            memcpy(out, x, bytes);
            float got = tier->rmsnorm(step % 2 ? out : x, w, n, 1e-6f, out);
            assert_memory_equal(&sum, &got, sizeof sum);
            expect_same("rmsnorm", tier, n, v.want, out);
        }
    }
    vectors_close(&v);
}

/* Two inputs, one output, in place when asked. */
typedef enum binary_op { ADD, SILU_MUL, GELU_MUL } binary_op;

static void binary_call(const kt__kernels *tier, binary_op op, const float *a, const float *b,
                        int n, float *out) {
    if (op == ADD) tier->add(a, b, n, out);
    if (op == SILU_MUL) tier->silu_mul(a, b, n, out);
    if (op == GELU_MUL) tier->gelu_mul(a, b, n, out);
}

static void test_binary(void **state) {
    (void)state;
    static const char *const names[] = {"add", "silu_mul", "gelu_mul"};
    vectors v = vectors_open();
    kd_rng rng = {13};
    for (int step = 0; step < 4 * 79 * 3; step++) {
        int n = length(step / 12 % 79);
        size_t bytes = (size_t)n * sizeof(float);
        float *a = kd_guard_last(&v.a, bytes), *b = kd_guard_last(&v.b, bytes);
        float *out = kd_guard_last(&v.c, bytes);
        binary_op op = (binary_op)(step % 3);
        fill_values(step / 3 % 4, &rng, n, a);
        fill_values(0, &rng, n, b);
        binary_call(kd_ref(), op, a, b, n, v.want);
        FOR_TIERS(tier) {
            memcpy(out, a, bytes);
            binary_call(tier, op, step % 2 ? out : a, b, n, out);
            expect_same(names[op], tier, n, v.want, out);
        }
    }
    vectors_close(&v);
}

/* Any range of outputs, any rank, a few tokens. */
static void check_low_rank(kd_rng *rng, int rank, int first, int n, int n_tok) {
    size_t panels = (size_t)(first + n + KT__PANEL_ROWS - 1) / KT__PANEL_ROWS;
    size_t n_b = panels * KT__PANEL_ROWS * (size_t)rank, n_out = (size_t)(n + 3) * (size_t)n_tok;
    kt__f16 *b = malloc(n_b * sizeof *b);
    float *u = malloc((size_t)(rank + 5) * (size_t)n_tok * sizeof *u);
    float *out = malloc(n_out * sizeof *out), *want = malloc(n_out * sizeof *want);
    float *got = malloc(n_out * sizeof *got);
    for (size_t i = 0; i < n_b; i++) b[i] = kt__f16_from_f32((float)(kd_below(rng, 4001) - 2000));
    fill_values(0, rng, (rank + 5) * n_tok, u);
    fill_values(0, rng, (int)n_out, out);
    kt__low_rank term = {.b = b, .rank = rank, .first = first, .n = n};
    term.u = u, term.ld_u = (size_t)rank + 5, term.n_tok = n_tok, term.ld_out = (size_t)n + 3;
    memcpy(want, out, n_out * sizeof *out);
    term.out = want;
    kd_ref()->low_rank_add(&term);
    FOR_TIERS(tier) {
        memcpy(got, out, n_out * sizeof *out);
        term.out = got;
        tier->low_rank_add(&term);
        expect_same("low_rank_add", tier, (int)n_out, want, got);
    }
    free(b), free(u), free(out), free(want), free(got);
}

static void test_low_rank(void **state) {
    (void)state;
    kd_rng rng = {21};
    for (int step = 0; step < 600; step++) {
        check_low_rank(&rng, 1 + kd_below(&rng, 40), kd_below(&rng, 70), 1 + kd_below(&rng, 130),
                       1 + step % 9);
    }
}

/* Any shape, a as rows or as columns, nothing beyond the operands read or written. */
static void check_outer_mm(kd_rng *rng, int n_row, int n_step, int n_col, bool turned, bool add) {
    size_t pad = (size_t)kd_below(rng, 5), n_out = (size_t)n_row * ((size_t)n_col + pad);
    size_t ld_b = (size_t)n_col + pad, n_b = (size_t)(n_step - 1) * ld_b + (size_t)n_col;
    kd_guard guard_a = kd_guard_open((size_t)(n_row * n_step) * sizeof(float));
    kd_guard guard_b = kd_guard_open(n_b * sizeof(float));
    float *a = kd_guard_last(&guard_a, (size_t)(n_row * n_step) * sizeof *a);
    float *b = kd_guard_last(&guard_b, n_b * sizeof *b);
    float *out = malloc(n_out * sizeof *out), *want = malloc(n_out * sizeof *want);
    float *got = malloc(n_out * sizeof *got);
    fill_values(0, rng, n_row * n_step, a);
    fill_values(kd_below(rng, 2), rng, (int)n_b, b);
    fill_values(0, rng, (int)n_out, out);
    kt__outer_mm mm = {.a = a, .b = b, .ld_b = ld_b, .ld_out = (size_t)n_col + pad, .add = add};
    mm.n_row = n_row, mm.n_step = n_step, mm.n_col = n_col;
    mm.a_row = turned ? 1 : (size_t)n_step, mm.a_step = turned ? (size_t)n_row : 1;
    memcpy(want, out, n_out * sizeof *out);
    mm.out = want;
    kd_ref()->outer_mm(&mm, NULL);
    FOR_TIERS(tier) {
        void *scratch = aligned_alloc(64, tier->mm_scratch_bytes);
        memcpy(got, out, n_out * sizeof *out);
        mm.out = got;
        tier->outer_mm(&mm, scratch);
        expect_same("outer_mm", tier, (int)n_out, want, got);
        free(scratch);
    }
    kd_guard_close(&guard_a), kd_guard_close(&guard_b);
    free(out), free(want), free(got);
}

static void test_outer_mm(void **state) {
    (void)state;
    kd_rng rng = {22};
    for (int step = 0; step < 400; step++) {
        int n_row = 1 + kd_below(&rng, 60), n_col = 1 + kd_below(&rng, 110);
        check_outer_mm(&rng, n_row, 1 + kd_below(&rng, step % 9 ? 50 : 600), n_col, step % 2 == 0,
                       step % 4 < 2);
    }
}

static void test_scale_and_softcap(void **state) {
    (void)state;
    vectors v = vectors_open();
    kd_rng rng = {14};
    for (int step = 0; step < 4 * 79; step++) {
        int n = length(step / 4 % 79);
        size_t bytes = (size_t)n * sizeof(float);
        float *x = kd_guard_last(&v.a, bytes), *out = kd_guard_last(&v.b, bytes);
        fill_values(step % 4, &rng, n, x);
        for (int cap = 0; cap < 2; cap++) {
            memcpy(v.want, x, bytes);
            if (cap)
                kd_ref()->softcap(v.want, n, 30.0f);
            else
                kd_ref()->scale(v.want, n, 1.7f);
            FOR_TIERS(tier) {
                memcpy(out, x, bytes);
                if (cap)
                    tier->softcap(out, n, 30.0f);
                else
                    tier->scale(out, n, 1.7f);
                expect_same(cap ? "softcap" : "scale", tier, n, v.want, out);
            }
        }
    }
    vectors_close(&v);
}

/* ---- fma, as the rotary embedding has it: x0' = fma(-x1, s, x0 * c), x1' = fma(x0, s, x1 * c) with
 * c = 1 ---- */

/* what fma(a, b, c) is asked for */
typedef struct fma_terms {
    float a, b, c;
} fma_terms;

static float either_sign(kd_rng *rng, float x) {
    return kd_below(rng, 2) ? x : -x;
}
/* 1 or a few units in the last place beside it */
static float about_one(kd_rng *rng) {
    return 1.0f + (float)(kd_below(rng, 9) - 4) * 0x1p-24f;
}
static float any_mantissa(kd_rng *rng, int exponent) {
    return either_sign(rng, ldexpf(1.0f + (float)(kd_next(rng) & 0x7fffff) * 0x1p-23f, exponent));
}
static float any_border(kd_rng *rng) {
    static const float borders[] = {0.0f,    1.0f,      INFINITY,         NAN,     FLT_MIN,
                                    FLT_MAX, 0x1p-149f, 0x1.fffffcp-127f, 0x1p64f, 0x1p-75f};
    return either_sign(rng, borders[kd_below(rng, (int)(sizeof borders / sizeof *borders))]);
}

/* Sums that a rounding before the last one spoils: halfway between two floats but for very little,
 * in all places where such ties stand. */
static fma_terms hostile_terms(int kind, kd_rng *rng) {
    int e = kd_below(rng, 200) - 100, odd = 0x1001 | kd_below(rng, 0x1000);
    float one = about_one(rng), same = about_one(rng), sign = either_sign(rng, 1);
    float a = any_mantissa(rng, e / 2), b = any_mantissa(rng, e / 3);
    if (kd_below(rng, 2)) one = 0x1.001p0f, same = 0x1.ffe002p-1f; /* whose product is 1 + 2^-36 */
    switch (kind) {
    case 0: return (fma_terms){one, sign * ldexpf(same, e - 24), any_mantissa(rng, e)};
    case 1: /* a product of 25 bits, and a small addend */
        return (fma_terms){ldexpf((float)odd, e / 4),
                           sign * (float)(0x1001 | kd_below(rng, 0x1000)),
                           either_sign(rng, ldexpf(one, e / 4 - kd_below(rng, 60)))};
    case 2: /* subnormal results */
        return (fma_terms){ldexpf(one, -75), sign * ldexpf(same * (float)(odd & 255), -75),
                           either_sign(rng, ldexpf((float)(kd_next(rng) & 0x7fffff), -149))};
    case 3: return (fma_terms){one, sign * ldexpf(same, 103), sign * FLT_MAX};
    case 4: return (fma_terms){ldexpf(one, -75), sign * ldexpf(same, -75), -sign * FLT_MIN};
    case 5: return (fma_terms){a, b, -(a * b)}; /* the product's rounding is left */
    case 6: return (fma_terms){any_border(rng), any_border(rng), any_border(rng)};
    default:
        return (fma_terms){kt__f32_from_bits((uint32_t)kd_next(rng)),
                           kt__f32_from_bits((uint32_t)kd_next(rng)),
                           kt__f32_from_bits((uint32_t)kd_next(rng))};
    }
}

static void test_fma(void **state) {
    (void)state;
    enum { HALF = 64, KINDS = 8 };
    kd_rng rng = {21};
    float x[2 * HALF], cs[2 * HALF], want[2 * HALF], got[2 * HALF];
    for (int round = 0; round < KINDS * 400; round++) {
        for (int i = 0; i < HALF; i++) { /* in every second round the other of the two fma */
            fma_terms f = hostile_terms(round % KINDS, &rng);
            if (kd_below(&rng, 8) == 0) f = hostile_terms(KINDS - 1, &rng);
            x[i] = round / KINDS % 2 ? f.a : f.c;
            x[HALF + i] = round / KINDS % 2 ? f.c : -f.a;
            cs[i] = 1.0f;
            cs[HALF + i] = f.b;
        }
        for (int i = 0; i < HALF; i++) {
            want[i] = fmaf(-x[HALF + i], cs[HALF + i], x[i]);
            want[HALF + i] = fmaf(x[i], cs[HALF + i], x[HALF + i]);
        }
        FOR_TIERS(tier) {
            memcpy(got, x, sizeof got);
            tier->rope_neox(got, cs, 2 * HALF);
            expect_same("fma", tier, 2 * HALF, want, got);
        }
    }
}

static void test_rope(void **state) {
    (void)state;
    vectors v = vectors_open();
    kd_rng rng = {15};
    for (int n_rot = 2; n_rot <= 256; n_rot += n_rot < 80 ? 2 : 16) {
        int n = n_rot + (n_rot % 3 == 0 ? 7 : 0);
        size_t bytes = (size_t)n * sizeof(float);
        float *cs = kd_guard_last(&v.b, (size_t)n_rot * sizeof *cs),
              *x = kd_guard_last(&v.a, bytes);
        float in[300];
        fill_values(0, &rng, n, in);
        for (int i = 0; i < n_rot / 2; i++) {
            float angle = kd_normal(&rng);
            cs[i] = cosf(angle);
            cs[n_rot / 2 + i] = sinf(angle);
        }
        for (int neox = 0; neox < 2; neox++) {
            memcpy(v.want, in, bytes);
            (neox ? kd_ref()->rope_neox : kd_ref()->rope_norm)(v.want, cs, n_rot);
            FOR_TIERS(tier) {
                memcpy(x, in, bytes);
                (neox ? tier->rope_neox : tier->rope_norm)(x, cs, n_rot);
                expect_same(neox ? "rope_neox" : "rope_norm", tier, n, v.want, x);
            }
        }
    }
    vectors_close(&v);
}

static void test_argmax(void **state) {
    (void)state;
    vectors v = vectors_open();
    kd_rng rng = {16};
    for (int step = 0; step < 8 * 79; step++) {
        int n = length(step / 8 % 79);
        float *x = kd_guard_last(&v.a, (size_t)n * sizeof *x);
        for (int i = 0; i < n; i++) x[i] = (float)kd_below(&rng, step % 8 < 4 ? 5 : 1000) - 2.0f;
        if (step % 8 == 1) x[kd_below(&rng, n)] = NAN;
        if (step % 8 == 2) x[kd_below(&rng, n)] = -INFINITY;
        if (step % 8 == 3) x[kd_below(&rng, n)] = INFINITY;
        if (step % 8 == 4) memset(x, 0, (size_t)n * sizeof *x), x[0] = -0.0f;
        if (step % 8 == 5) {
            for (int i = 0; i < n; i++) x[i] = -INFINITY;
        }
        bool finite, got_finite;
        int want = kd_ref()->argmax(x, n, &finite);
        FOR_TIERS(tier) {
            int got = tier->argmax(x, n, &got_finite);
            if (want != got || finite != got_finite) {
                fail_msg("argmax, tier %s, n %d, case %d: want %d (finite %d), got %d (finite %d)",
                         tier->name, n, step % 8, want, finite, got, got_finite);
            }
        }
    }
    vectors_close(&v);
}

/* ---- keys and values ---- */

static const int head_dims[] = {2, 6, 16, 18, 32, 40, 64, 80, 96, 100, 128, 160, 192, 256};
enum { N_HEAD_DIM = sizeof head_dims / sizeof *head_dims };

static void store_cases(bool exact) {
    kd_rng rng = {17};
    kd_guard in = kd_guard_open(256 * sizeof(float)),
             page = kd_guard_open(256 * 16 * sizeof(kt__f16));
    kt__f16 want[256 * 16];
    for (int i = 0; i < N_HEAD_DIM * 16 * 3; i++) {
        int dim = head_dims[i % N_HEAD_DIM], slot = i / N_HEAD_DIM % 16, data = i / N_HEAD_DIM / 16;
        size_t bytes = (size_t)dim * 16 * sizeof(kt__f16);
        float *x = kd_guard_last(&in, (size_t)dim * sizeof *x);
        kt__f16 *got = kd_guard_last(&page, bytes);
        fill_values(data, &rng, dim, x);
        if (data == 2) x[0] = INFINITY, x[dim - 1] = 65520.0f;
        for (int d = 0; d < dim && exact; d++) x[d] = kt__f16_to_f32(kt__f16_from_f32(x[d]));
        for (int v = 0; v < 2; v++) {
            memset(want, 0xcd, bytes);
            (v ? kd_ref()->store_v : kd_ref()->store_k)(x, dim, slot, want);
            FOR_TIERS(tier) {
                memset(got, 0xcd, bytes);
                (v ? tier->store_v : tier->store_k)(x, dim, slot, got);
                if (memcmp(want, got, bytes) != 0) {
                    fail_msg("store_%c, tier %s, head_dim %d, slot %d", v ? 'v' : 'k', tier->name,
                             dim, slot);
                }
            }
        }
    }
    kd_guard_close(&in);
    kd_guard_close(&page);
}

static void test_store(void **state) {
    (void)state;
    store_cases(false);
}

/* values that need no rounding: an emulator may round to F16 in its own way */
static void test_store_exact(void **state) {
    (void)state;
    store_cases(true);
}

/* ---- attention ---- */

enum { MAX_Q = 70, MAX_DIM = 256 };

typedef struct attn_data {
    kd_guard k[KT__SPLIT_PAGES], v[KT__SPLIT_PAGES], q;
    float *want_o, *got_o;
    uint8_t *scratch, *ref_scratch;
    size_t scratch_bytes;
} attn_data;

static attn_data *attn_open(void) {
    attn_data *a = calloc(1, sizeof *a);
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        a->k[p] = kd_guard_open(MAX_DIM * KT__PAGE_POS * sizeof(kt__f16));
        a->v[p] = kd_guard_open(MAX_DIM * KT__PAGE_POS * sizeof(kt__f16));
    }
    a->q = kd_guard_open((MAX_DIM + 16) * MAX_Q * sizeof(float));
    a->want_o = malloc((MAX_DIM + 16) * MAX_Q * sizeof(float));
    a->got_o = malloc((MAX_DIM + 16) * MAX_Q * sizeof(float));
    FOR_TIERS(tier) {
        size_t bytes = tier->attn_scratch_bytes(MAX_Q, MAX_DIM, MAX_DIM);
        if (bytes > a->scratch_bytes) a->scratch_bytes = bytes;
    }
    a->scratch_bytes = (a->scratch_bytes + 127) / 64 * 64;
    a->scratch = aligned_alloc(64, a->scratch_bytes);
    a->ref_scratch = malloc(kd_ref()->attn_scratch_bytes(MAX_Q, MAX_DIM, MAX_DIM));
    return a;
}

static void attn_close(attn_data *a) {
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        kd_guard_close(&a->k[p]);
        kd_guard_close(&a->v[p]);
    }
    kd_guard_close(&a->q);
    free(a->want_o);
    free(a->got_o);
    free(a->scratch);
    free(a->ref_scratch);
    free(a);
}

/* Slots 0..n_written-1 hold numbers; all others NaN, and pages without any written slot are absent.
 */
static void fill_pages(attn_data *a, kt__attn *t, int first, int n_written, float k_size,
                       kd_rng *rng) {
    float x[MAX_DIM];
    size_t k_bytes = (size_t)t->head_dim_k * 32, v_bytes = (size_t)t->head_dim_v * 32;
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        kt__f16 *k = kd_guard_last(&a->k[p], k_bytes), *v = kd_guard_last(&a->v[p], v_bytes);
        memset(k, 0xff, k_bytes);
        memset(v, 0xff, v_bytes);
        bool present = 16 * p < n_written && 16 * p + 15 >= first;
        t->k[p] = present ? k : NULL;
        t->v[p] = present ? v : NULL;
        for (int slot = 0; slot < 16 && 16 * p + slot < n_written; slot++) {
            if (16 * p + slot < first) continue;
            for (int d = 0; d < t->head_dim_k; d++) x[d] = kd_normal(rng) * k_size;
            kd_ref()->store_k(x, t->head_dim_k, slot, k);
            for (int d = 0; d < t->head_dim_v; d++) x[d] = kd_normal(rng);
            kd_ref()->store_v(x, t->head_dim_v, slot, v);
        }
    }
}

typedef struct attn_case {
    int dim_k, dim_v, n_q, first, n_written; /* visible slots lie in first..n_written-1 */
    float softcap, k_size;
    bool decode; /* every query sees all */
} attn_case;

static void check_attn(attn_data *a, const attn_case *c, kd_rng *rng) {
    int16_t lo[MAX_Q], hi[MAX_Q];
    float want_m[MAX_Q], want_l[MAX_Q], got_m[MAX_Q], got_l[MAX_Q];
    kt__attn t = {
        .head_dim_k = c->dim_k, .head_dim_v = c->dim_v, .n_q = c->n_q, .softcap = c->softcap};
    t.ld_q = (size_t)c->dim_k + (c->n_q % 2 ? 5 : 0);
    t.ld_o = (size_t)c->dim_v + (c->n_q % 3 ? 0 : 3);
    fill_pages(a, &t, c->first, c->n_written, c->k_size, rng);
    size_t n_q_floats = t.ld_q * (size_t)(c->n_q - 1) + (size_t)c->dim_k;
    float *q = kd_guard_last(&a->q, n_q_floats * sizeof *q);
    for (size_t i = 0; i < n_q_floats; i++) q[i] = kd_normal(rng) * 0.3f;
    for (int i = 0; i < c->n_q; i++) {
        int span = c->n_written - c->first;
        lo[i] = (int16_t)(c->first + (c->decode ? 0 : kd_below(rng, span)));
        hi[i] = (int16_t)(c->decode ? c->n_written
                                    : lo[i] + 1 + kd_below(rng, c->n_written - lo[i]));
    }
    t.q = q, t.lo = lo, t.hi = hi;
    size_t n_o = t.ld_o * (size_t)c->n_q;
    memset(a->want_o, 0x3c, n_o * sizeof(float));
    t.m = want_m, t.l = want_l, t.o = a->want_o;
    kd_ref()->attn(&t, a->ref_scratch);
    FOR_TIERS(tier) {
        memset(a->got_o, 0x3c, n_o * sizeof(float));
        memset(a->scratch, 0xff, a->scratch_bytes);
        t.m = got_m, t.l = got_l, t.o = a->got_o;
        tier->attn(&t, a->scratch);
        expect_same("attn m", tier, c->n_q, want_m, got_m);
        expect_same("attn l", tier, c->n_q, want_l, got_l);
        expect_same("attn o", tier, (int)n_o, a->want_o, a->got_o);
    }
}

static void test_attention(void **state) {
    (void)state;
    attn_data *a = attn_open();
    kd_rng rng = {18};
    for (int i = 0; i < 420; i++) {
        attn_case c = {.dim_k = head_dims[i % N_HEAD_DIM],
                       .n_q = 1 + i % 40,
                       .softcap = i % 5 == 0 ? 50.0f : 0.0f,
                       .k_size = i % 7 == 0 ? 30.0f : 1.0f,
                       .decode = i % 2};
        c.dim_v = i % 11 == 0 ? head_dims[i / 11 % N_HEAD_DIM] : c.dim_k;
        c.n_written = i % 4 == 0 ? KT__SPLIT_POS : 1 + kd_below(&rng, KT__SPLIT_POS);
        c.first = i % 3 == 0 ? kd_below(&rng, c.n_written) : 0;
        if (!kd_left_out()) check_attn(a, &c, &rng);
    }
    attn_case many = {64, 64, MAX_Q, 0, KT__SPLIT_POS, 0, 1, false};
    check_attn(a, &many, &rng);
    attn_close(a);
}

static void test_merge_and_finish(void **state) {
    (void)state;
    kd_rng rng = {19};
    for (int i = 0; i < 300; i++) {
        int dim = head_dims[i % N_HEAD_DIM];
        float O[MAX_DIM], o[MAX_DIM], want[MAX_DIM + 2], got[MAX_DIM + 2], done[MAX_DIM];
        float M = kd_normal(&rng) * (i % 5 ? 1.0f : 100.0f), L = 1.0f + fabsf(kd_normal(&rng));
        float m = i % 9 ? kd_normal(&rng) : M, l = 1.0f + fabsf(kd_normal(&rng));
        fill_values(0, &rng, dim, O);
        fill_values(0, &rng, dim, o);
        memcpy(want, O, sizeof O);
        want[dim] = M, want[dim + 1] = L;
        kd_ref()->attn_merge(&want[dim], &want[dim + 1], want, m, l, o, dim);
        FOR_TIERS(tier) {
            memcpy(got, O, sizeof O);
            got[dim] = M, got[dim + 1] = L;
            tier->attn_merge(&got[dim], &got[dim + 1], got, m, l, o, dim);
            expect_same("attn_merge", tier, dim + 2, want, got);
            kd_ref()->attn_finish(O, L, dim, done);
            tier->attn_finish(O, L, dim, got);
            expect_same("attn_finish", tier, dim, done, got);
        }
    }
}

/* ---- the encoders' searches ---- */

static void check_encoding(kt__type type, const float *x, const float *importance, int n) {
    uint8_t want[4 * MAX_N], got[4 * MAX_N];
    size_t bytes = kt__type_row_bytes(type, n);
    for (int effort = KT__EFFORT_CAREFUL; effort <= KT__EFFORT_FAST; effort++) {
        kt__encoding how = {NULL, (kt__effort)effort, importance};
        kt__quantize_row_by(type, &how, x, n, want);
        FOR_TIERS(tier) {
            how.fitter = tier->fitter;
            kt__quantize_row_by(type, &how, x, n, got);
            if (memcmp(want, got, bytes) != 0)
                fail_msg("encoding %s, tier %s: other bytes", kt__type_get(type)->name, tier->name);
        }
    }
}

static void test_encoders(void **state) {
    (void)state;
    enum { N = 768 };
    kd_rng rng = {23};
    float x[N], importance[N];
    for (int kind = 0; kind < KD_ACT_KINDS; kind++) {
        for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
            kd_activations((kd_act_kind)kind, &rng, N, x);
            for (int i = 0; i < N; i++) {
                float z = kd_normal(&rng);
                importance[i] = i < 256 ? z * z : i < 512 ? (float)(i % 5 == 0) : 0.0f;
            }
            check_encoding(type, x, NULL, N);
            check_encoding(type, x, importance, N);
        }
    }
}

static void test_peak_counts(void **state) {
    (void)state;
    int32_t sink = 0;
    FOR_TIERS(tier) {
        assert_true(tier->peak_i8(1000, &sink) >= 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_low_rank),
        cmocka_unit_test(test_outer_mm),
        cmocka_unit_test(test_scale_and_softcap),
        cmocka_unit_test(test_fma),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_store_exact),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_merge_and_finish),
        cmocka_unit_test(test_encoders),
        cmocka_unit_test(test_peak_counts),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    cmocka_set_skip_filter(getenv("KT_TEST_SKIP"));
    kd_print_tiers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
