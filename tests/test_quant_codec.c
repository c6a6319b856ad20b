/* Block formats: hand-derived blocks, error bounds of the encoders, the integer view, hostile
 * blocks. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/math.h"
#include "quant/quant.h"

/* ---- golden blocks: bytes other than those listed are zero ---- */

typedef struct golden {
    kt__type type;
    struct {
        int at, value;
    } bytes[16]; /* {0, 0} entries change nothing */
    struct {
        int index;
        float value;
    } want[6];
    int n_want;
} golden;

static const golden goldens[] = {
    {KT__TYPE_F32, {{2, 0xc0}, {3, 0x3f}}, {{0, 1.5f}}, 1},
    {KT__TYPE_F16, {{0, 0x01}, {1, 0x80}}, {{0, -0x1p-24f}}, 1},
    {KT__TYPE_BF16, {{0, 0x49}, {1, 0x40}}, {{0, 3.140625f}}, 1},
    /* d = 1; qs[0] = 1f: 15 - 8 and 1 - 8; qs[15] = 80: 0 - 8 and 8 - 8 */
    {KT__TYPE_Q4_0,
     {{1, 0x3c}, {2, 0x1f}, {17, 0x80}},
     {{0, 7}, {16, -7}, {15, -8}, {31, 0}, {1, -8}},
     5},
    /* d = 0.5, m = -1 */
    {KT__TYPE_Q4_1, {{1, 0x38}, {3, 0xbc}, {4, 0x2f}}, {{0, 6.5f}, {16, 0}, {1, -1}}, 3},
    /* d = 2; qh bits 0 and 31; qs[0] = 03, qs[15] = f0 */
    {KT__TYPE_Q5_0,
     {{1, 0x40}, {2, 0x01}, {5, 0x80}, {6, 0x03}, {21, 0xf0}},
     {{0, 6}, {16, -32}, {31, 30}, {15, -32}},
     4},
    /* d = 1, m = 10; qh bit 16; qs[0] = 21 */
    {KT__TYPE_Q5_1, {{1, 0x3c}, {3, 0x49}, {6, 0x01}, {8, 0x21}}, {{0, 11}, {16, 28}, {1, 10}}, 3},
    {KT__TYPE_Q8_0, {{1, 0x34}, {2, 0x80}, {33, 0x7f}}, {{0, -32}, {31, 31.75f}, {1, 0}}, 3},
    {KT__TYPE_IQ4_NL, {{1, 0x3c}, {2, 0x8f}}, {{0, 113}, {16, 1}, {1, -127}}, 3},
    /* d = 2^(129 - 128); qs[0] = f7, qs[1] = 18 */
    {KT__TYPE_MXFP4, {{0, 129}, {1, 0xf7}, {2, 0x18}}, {{0, 24}, {16, -24}, {1, 0}, {17, 2}}, 4},
    /* d = 1, dmin = 0.5; qs[0] = e4: levels 0, 1, 2, 3 of elements 0, 32, 64, 96; qs[48] = 02:
       element 144 */
    {KT__TYPE_Q2_K,
     {{81, 0x3c},
      {83, 0x38},
      {0, 0x23},
      {2, 0x01},
      {4, 0x0f},
      {6, 0x11},
      {9, 0xf2},
      {16, 0xe4},
      {64, 2}},
     {{0, -1}, {32, 1}, {64, 30}, {96, 2.5f}, {144, -3.5f}, {145, -7.5f}},
     6},
    /* d = 1; scale 0 = 5 | 2 << 4, scale 8 = 1 | 3 << 4, both less 32; the others are -32 */
    {KT__TYPE_Q3_K,
     {{109, 0x3c}, {96, 0x15}, {104, 0x32}, {0, 0x01}, {32, 0x03}, {64, 0x02}},
     {{0, 15}, {1, -20}, {128, -34}, {64, 128}, {129, -68}},
     5},
    /* d = 1, dmin = 2; group 0: scale 1, min 2; group 1: scale 63; group 4: 3 | 3 << 4, 5 | 2 << 4
     */
    {KT__TYPE_Q4_K,
     {{1, 0x3c}, {3, 0x40}, {4, 0xc1}, {5, 0x3f}, {8, 0x82}, {12, 0x53}, {16, 0x97}, {80, 0x0a}},
     {{0, 3}, {1, -4}, {32, 567}, {128, 436}, {129, -74}},
     5},
    /* d = dmin = 1; group 0: scale 2, min 1; group 7: scale 3; fifth bits of elements 0 and 224 */
    {KT__TYPE_Q5_K,
     {{1, 0x3c}, {3, 0x3c}, {4, 2}, {8, 1}, {15, 3}, {16, 0x81}, {48, 0x04}, {144, 0xf0}},
     {{0, 39}, {1, -1}, {224, 93}, {225, 0}},
     4},
    /* d = 0.5; ql[0] = 5f, qh[0] = e4: high bits 0, 1, 2, 3 of the four quarters */
    {KT__TYPE_Q6_K,
     {{209, 0x38},
      {0, 0x5f},
      {128, 0xe4},
      {192, 2},
      {194, 0xfd},
      {196, 1},
      {198, 127},
      {207, 0x80}},
     {{0, -17}, {32, 24}, {64, 2.5f}, {96, 1016}, {255, 2048}},
     5},
    /* d = 1; scales: group 0: 1 | 2 << 4, group 1: 2 | 1 << 4, group 7: 15 | 3 << 4, all less 32 */
    {KT__TYPE_IQ4_XS,
     {{1, 0x3c}, {2, 0x06}, {3, 0xc0}, {4, 0x21}, {7, 0xf0}, {8, 0x1f}, {135, 0x80}},
     {{0, 113}, {16, -104}, {32, 1778}, {255, 31}, {239, -3937}},
     5},
    /* d = 1; weight 0 negative; scales 1 and 2 of groups 0 and 1; the last entry, 1 1 15 15, by its
       ninth bit */
    {KT__TYPE_IQ3_S,
     {{1, 0x3c}, {74, 1}, {106, 0x21}, {65, 0xff}, {73, 0x80}},
     {{0, -3}, {1, 3}, {32, 5}, {252, 1}, {253, 1}, {255, 15}},
     6},
    /* d = 1; group 0: entry 1, 20 4 4 4, signs 1 (so of weights 0 and 7), scale 15; the last entry:
       4 28 52 62 */
    {KT__TYPE_IQ3_XXS,
     {{1, 0x3c}, {2, 1}, {65, 0xff}, {66, 1}, {69, 0xf0}},
     {{0, -155}, {1, 31}, {7, -31}, {253, 7}, {254, 13}, {255, 15.5f}},
     6},
    /* d = 1; the last entry, eight of 43, of vector 3 by its two high bits; a sign of weight 31;
       scales 1 and 2 */
    {KT__TYPE_IQ2_S,
     {{1, 0x3c}, {5, 0xff}, {37, 0x80}, {66, 0xc0}, {74, 0x21}},
     {{0, 3}, {16, 5}, {31, -26.875f}, {24, 26.875f}, {32, 1}, {255, 1}},
     6},
    /* d = 1; vector 0: the last entry, signs 3; vector 1: entry 1, signs 1; scales 0 and 15 */
    {KT__TYPE_IQ2_XS,
     {{1, 0x3c}, {2, 0xff}, {3, 0x07}, {4, 1}, {5, 2}, {66, 0xf0}},
     {{0, -5.375f}, {2, 5.375f}, {8, -5.375f}, {9, 1}, {15, -1}, {16, 31}},
     6},
    /* d = 1; the last entry, 8 25 8 8 25 43 43 43, of vector 0; signs 7f, of all but weight 7's, whose
       is even; scale 1 */
    {KT__TYPE_IQ2_XXS,
     {{1, 0x3c}, {2, 0xff}, {6, 0x7f}, {9, 0x10}},
     {{0, -3}, {1, -9.375f}, {6, -16.125f}, {7, -16.125f}, {8, 3}, {32, 1}},
     6},
    /* d = 1 in the high nibbles; scales 1 and 2; vector 0: the last entry, shifted up; vector 1: entry
       0, shifted down */
    {KT__TYPE_IQ1_M,
     {{0, 0xff}, {32, 0x87}, {48, 0x11}, {53, 0xc0}, {55, 0x30}},
     {{0, 3.375f}, {7, 3.375f}, {8, -3.375f}, {16, -4.375f}, {32, -0.875f}, {255, -0.875f}},
     6},
    /* d = 1; group 0: scale 7, shifted down, the last entry of vector 3; group 1: entry 0 */
    {KT__TYPE_IQ1_S,
     {{1, 0x3c}, {5, 0xff}, {34, 0x00}, {35, 0xfe}},
     {{0, -16.875f}, {24, 13.125f}, {31, 13.125f}, {32, -0.875f}},
     4},
    /* d = 2; qs[0] = e4: levels 0, 1, 2, 3, less 1 */
    {KT__TYPE_TQ2_0,
     {{65, 0x40}, {0, 0xe4}, {63, 0x02}},
     {{0, -2}, {32, 0}, {64, 2}, {96, 4}, {159, 2}, {255, -2}},
     6},
    /* d = 2; digits 2 0 1 2 0 of byte 0: (2 * 81 + 9 + 2 * 3) * 256 / 243; 0 2 of the last byte */
    {KT__TYPE_TQ1_0,
     {{53, 0x40}, {0, 187}, {51, 57}},
     {{0, 2}, {32, -2}, {64, 0}, {96, 2}, {128, -2}, {247, 2}},
     6},
    /* half of 1.5 * 2^2 and of 2^-9; level 12 of weight 0, -1.5 doubled of weight 8, 0.5 doubled of 16 */
    {KT__TYPE_NVFP4,
     {{0, 0x4c}, {1, 0x01}, {4, 0xb7}, {12, 0x01}},
     {{0, 36}, {8, -9}, {16, 0x1p-10f}, {1, 0}, {63, 0}},
     5},
    /* d = 1; e4: -1, 0, 1, 2 */
    {KT__TYPE_Q2_0,
     {{1, 0x3c}, {2, 0xe4}, {17, 0x40}},
     {{0, -1}, {1, 0}, {2, 1}, {3, 2}, {62, -1}, {63, 0}},
     6},
    {KT__TYPE_Q1_0, {{1, 0x3c}, {2, 2}, {17, 0x80}}, {{0, -1}, {1, 1}, {126, -1}, {127, 1}}, 4},
};

static void test_golden_blocks(void **state) {
    (void)state;
    enum { N = sizeof goldens / sizeof *goldens };
    assert_int_equal(N, KT__TYPE_COUNT);
    for (int i = 0; i < N; i++) {
        const golden *g = &goldens[i];
        const kt__type_info *info = kt__type_get(g->type);
        uint8_t block[256] = {0};
        float out[256];
        assert_int_equal(g->type, i);
        for (int b = 0; b < 16; b++) {
            if (g->bytes[b].value) block[g->bytes[b].at] = (uint8_t)g->bytes[b].value;
        }
        kt__dequantize_row(g->type, block, info->block_elems, out);
        for (int w = 0; w < g->n_want; w++) {
            int at = g->want[w].index;
            if (out[at] == g->want[w].value) continue;
            fail_msg("%s element %d: want %g, got %g", info->name, at, (double)g->want[w].value,
                     (double)out[at]);
        }
    }
}

/* ---- types ---- */

static void test_type_table(void **state) {
    (void)state;
    assert_int_equal(kt__type_from_ggml(12), KT__TYPE_Q4_K);
    assert_int_equal(kt__type_from_ggml(16), KT__TYPE_IQ2_XXS);
    assert_int_equal(kt__type_from_ggml(43), KT__TYPE_COUNT);
    assert_int_equal(kt__type_from_ggml(UINT32_MAX), KT__TYPE_COUNT);
    assert_int_equal(kt__type_from_name("q4_k"), KT__TYPE_Q4_K);
    assert_int_equal(kt__type_from_name("Iq4_Xs"), KT__TYPE_IQ4_XS);
    assert_int_equal(kt__type_from_name(""), KT__TYPE_COUNT);
    assert_int_equal(kt__type_row_bytes(KT__TYPE_Q6_K, 1536), 6 * 210);
    assert_int_equal(kt__type_row_bytes(KT__TYPE_F16, 3), 6);
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        const kt__type_info *info = kt__type_get(type);
        assert_int_equal(kt__type_from_name(info->name), type);
        assert_int_equal(kt__type_from_ggml(info->ggml_id), type);
    }
}

/* ---- encoders ---- */

static uint32_t next(uint32_t *state) { /* xorshift32 (Marsaglia 2003) */
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static float uniform(uint32_t *state) {
    return (float)(next(state) >> 8) * 0x1p-24f;
}

static float normal(uint32_t *state) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += uniform(state);
    return sum - 6;
}

typedef enum shape { NORMAL, UNIFORM, HEAVY, SPARSE, POSITIVE, SHAPES } shape;
static const char *const shape_names[] = {"normal", "uniform", "heavy-tailed", "sparse",
                                          "positive"};

static float draw(shape s, uint32_t *state) {
    float z = normal(state);
    switch (s) {
    case UNIFORM: return 2 * uniform(state) - 1;
    case HEAVY: return z * z * z;
    case SPARSE: return next(state) % 8 ? 0 : z;
    case POSITIVE: return 3 + z * 0.5f;
    default: return z;
    }
}

/* Largest relative rms error allowed, in percent: what the encoders reached when written, and 4 %
 * of it */
static const float allowed[KT__TYPE_COUNT][SHAPES] = {
    /*                 normal uniform heavy sparse positive */
    [KT__TYPE_F32] = {0, 0, 0, 0, 0},
    [KT__TYPE_F16] = {0.022f, 0.023f, 0.021f, 0.022f, 0.022f},
    [KT__TYPE_BF16] = {0.173f, 0.184f, 0.173f, 0.167f, 0.18f},
    [KT__TYPE_Q4_0] = {8.9f, 6.8f, 11.6f, 5.6f, 5.0f},
    [KT__TYPE_Q4_1] = {8.1f, 6.4f, 11.9f, 11.6f, 1.4f},
    [KT__TYPE_Q5_0] = {4.4f, 3.3f, 6.2f, 2.9f, 2.5f},
    [KT__TYPE_Q5_1] = {4.0f, 3.1f, 5.9f, 5.7f, 0.636f},
    [KT__TYPE_Q8_0] = {0.543f, 0.39f, 0.881f, 0.344f, 0.308f},
    [KT__TYPE_IQ4_NL] = {7.9f, 6.7f, 9.6f, 6.0f, 5.9f},
    [KT__TYPE_MXFP4] = {11.5f, 12.5f, 14.0f, 11.2f, 10.4f},
    [KT__TYPE_Q2_K] = {28.2f, 23.3f, 27.9f, 20.2f, 10.6f},
    [KT__TYPE_Q3_K] = {15.4f, 12.6f, 15.6f, 7.6f, 8.1f},
    [KT__TYPE_Q4_K] = {7.4f, 5.8f, 9.3f, 5.2f, 2.4f},
    [KT__TYPE_Q5_K] = {3.7f, 2.9f, 5.2f, 3.5f, 1.2f},
    [KT__TYPE_Q6_K] = {1.8f, 1.4f, 2.6f, 0.958f, 1.1f},
    [KT__TYPE_IQ4_XS] = {7.9f, 6.8f, 9.7f, 6.2f, 5.9f},
    [KT__TYPE_IQ3_S] = {13.7f, 12.3f, 25.9f, 31.0f, 11.5f},
    [KT__TYPE_IQ3_XXS] = {18.8f, 17.9f, 29.2f, 34.6f, 13.1f},
    [KT__TYPE_IQ2_S] = {25.4f, 23.2f, 52.5f, 63.1f, 16.4f},
    [KT__TYPE_IQ2_XS] = {30.3f, 28.7f, 53.2f, 62.8f, 16.5f},
    [KT__TYPE_IQ2_XXS] = {35.0f, 33.4f, 68.9f, 79.5f, 31.9f},
    [KT__TYPE_IQ1_M] = {44.5f, 38.4f, 47.3f, 44.6f, 16.7f},
    [KT__TYPE_IQ1_S] = {49.2f, 40.3f, 60.4f, 54.7f, 16.8f},
    [KT__TYPE_TQ2_0] = {48.4f, 35.2f, 65.4f, 49.6f, 16.9f},
    [KT__TYPE_TQ1_0] = {48.4f, 35.2f, 64.0f, 49.9f, 16.9f},
    [KT__TYPE_NVFP4] = {9.3f, 10.1f, 7.9f, 6.3f, 8.1f},
    [KT__TYPE_Q2_0] = {47.5f, 34.7f, 53.9f, 42.4f, 16.9f},
    [KT__TYPE_Q1_0] = {71.9f, 55.1f, 224.0f, 234.9f, 16.9f},
};

static void test_encoders_keep_their_error(void **state) {
    (void)state;
    enum { N = 256 * 64 };
    static float x[N], back[N];
    static uint8_t bytes[N * 4];
    uint32_t seed = 12345;
    bool ok = true;
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        for (shape s = 0; s < SHAPES; s++) {
            double error = 0, power = 0;
            for (int i = 0; i < N; i++) x[i] = 0.02f * draw(s, &seed);
            kt__quantize_row(type, x, N, bytes);
            kt__dequantize_row(type, bytes, N, back);
            for (int i = 0; i < N; i++) {
                double miss = (double)x[i] - (double)back[i];
                error += miss * miss;
                power += (double)x[i] * (double)x[i];
            }
            double percent = 100 * sqrt(error / power);
            if (percent > (double)allowed[type][s]) {
                print_error("%s, %s weights: relative error %.3f %% > %.3f %%\n",
                            kt__type_get(type)->name, shape_names[s], percent,
                            (double)allowed[type][s]);
                ok = false;
            }
        }
    }
    assert_true(ok);
}

static void encode_decode(kt__type type, const float *x, float *back) {
    uint8_t bytes[1024];
    kt__quantize_row(type, x, 256, bytes);
    kt__dequantize_row(type, bytes, 256, back);
}

/* How far from a constant a weight may be: levels of 4-bit floats are that far apart. */
static float constant_error(kt__type type) {
    return type == KT__TYPE_MXFP4 || type == KT__TYPE_NVFP4 ? 0.25f : 0.02f;
}

static void test_encoders_at_the_borders(void **state) {
    (void)state;
    static const float constants[] = {1.0f, -3.0f, 0.001f, 1000.0f};
    float x[256], back[256];
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        memset(x, 0, sizeof x);
        encode_decode(type, x, back);
        for (int i = 0; i < 256; i++) assert_true(back[i] == 0);
        for (int c = 0; c < 4; c++) {
            for (int i = 0; i < 256; i++) x[i] = constants[c];
            encode_decode(type, x, back);
            for (int i = 0; i < 256; i++) {
                float miss = fabsf(back[i] - constants[c]);
                float most = constant_error(type);
                if (miss > most * fabsf(constants[c])) {
                    fail_msg("%s: constant %g became %g", kt__type_get(type)->name,
                             (double)constants[c], (double)back[i]);
                }
            }
        }
        /* one value in a sea of zeros */
        memset(x, 0, sizeof x);
        x[100] = -0.7f;
        encode_decode(type, x, back);
        if (type == KT__TYPE_Q1_0) continue; /* it has no zeros */
        bool floats = type == KT__TYPE_MXFP4 || type == KT__TYPE_NVFP4;
        float most = floats ? 0.06f : 0.03f;
        if (!(fabsf(back[100] + 0.7f) < most))
            fail_msg("%s: -0.7 became %g", kt__type_get(type)->name, (double)back[100]);
    }
}

/* No crash, no undefined conversion; finite input stays finite. */
static void test_encoders_survive_extremes(void **state) {
    (void)state;
    uint32_t seed = 99;
    float x[256], back[256];
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        if (type == KT__TYPE_F16 || type == KT__TYPE_BF16) continue; /* infinity is right there */
        for (int kind = 0; kind < 8; kind++) {
            for (int i = 0; i < 256; i++) {
                float z = normal(&seed);
                if (kind == 0) z *= 1e37f;
                if (kind == 1) z *= 1e-42f;
                if (kind == 2 && i % 64 == 3) z *= 1e37f;
                if (kind == 3) z = i % 2 ? 3.4e38f : -3.4e38f;
                if (kind == 4) z *= i % 32 ? 1e-30f : 1e30f;
                if (kind == 5 && i == 7) z = INFINITY;
                if (kind == 6 && i % 16 == 7) z = NAN;
                if (kind == 7) z = i % 2 ? NAN : -INFINITY;
                x[i] = z;
            }
            encode_decode(type, x, back);
            for (int i = 0; i < 256 && kind < 5; i++) {
                if (!(fabsf(back[i]) < INFINITY)) {
                    fail_msg("%s, kind %d: %g became %g", kt__type_get(type)->name, kind,
                             (double)x[i], (double)back[i]);
                }
            }
        }
    }
}

/* ---- the integer view ---- */

/* Weight i of a block by the view's definition, in double, and the size of its terms. */
static double by_view(kt__type type, const uint8_t *block, int i, double *size) {
    double product, min;
    if (kt__type_get(type)->act == KT__ACT_Q256) {
        kt__super s;
        kt__super_unpack(type, block, &s);
        product = (double)s.d * s.scale[i / 16] * s.q[i];
        min = (double)s.dmin * s.min[i / 16];
        if (!s.has_min) assert_true(s.dmin == 0 && s.min[i / 16] == 0);
    } else {
        kt__block32 all[KT__MAX_BLOCK32];
        kt__block32_unpack(type, block, all);
        const kt__block32 *b = &all[i / 32];
        product = (double)(b->has_halves && i % 32 >= 16 ? b->d_high : b->d) * b->q[i % 32];
        min = -(double)b->m;
        if (!b->has_min) assert_true(b->m == 0);
    }
    *size = fabs(product) + fabs(min);
    return product - min;
}

static void test_view_is_the_weight(void **state) {
    (void)state;
    uint32_t seed = 5;
    uint8_t block[256];
    float out[256];
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        const kt__type_info *info = kt__type_get(type);
        if (info->act == KT__ACT_F32) continue;
        for (int round = 0; round < 200; round++) {
            for (int b = 0; b < info->block_bytes; b++) block[b] = (uint8_t)next(&seed);
            kt__dequantize_row(type, block, info->block_elems, out);
            for (int i = 0; i < info->block_elems; i++) {
                double size, want = by_view(type, block, i, &size);
                bool finite = fabsf(out[i]) < INFINITY;
                if (!(size <=
                      (double)FLT_MAX)) { /* nor does one beyond f32 or NaN give a finite weight */
                    assert_false(finite);
                    continue;
                }
                if (fabs(want - (double)out[i]) > size * 0x1p-22) {
                    fail_msg("%s element %d: view %g, weight %g", info->name, i, want,
                             (double)out[i]);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_blocks),
        cmocka_unit_test(test_type_table),
        cmocka_unit_test(test_encoders_keep_their_error),
        cmocka_unit_test(test_encoders_at_the_borders),
        cmocka_unit_test(test_encoders_survive_extremes),
        cmocka_unit_test(test_view_is_the_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
