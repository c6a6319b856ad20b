/* TQ1_0, TQ2_0, Q1_0, Q2_0: one scale, and weights that are -1, 0 and 1 times it, or -1 and 1. */
#include <math.h>
#include <string.h>

#include "base/math.h"
#include "quant/blocks.h"
#include "quant/codec.h"

/* ---- 256 weights: levels 0 to 2, less a minimum of one ---- */

static void ternary_clear(kt__super *out, kt__f16 d) {
    out->d = out->dmin = kt__f16_to_f32(d);
    out->has_min = true;
    for (int g = 0; g < 16; g++) out->scale[g] = out->min[g] = 1;
}

/* Digit n of a byte that holds a fraction of 256 in base 3, the highest first. */
static int8_t digit_of(int byte, int n) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (int8_t)((byte * power[n] & 255) * 3 >> 8);
}

/* The byte of five digits. */
static uint8_t byte_of_digits(const int8_t digit[5]) {
    int number = 0;
    for (int n = 0; n < 5; n++) number = 3 * number + digit[n];
    return (uint8_t)((number * 256 + 242) / 243);
}

/* Which weight digit n of byte m of qs and qh is. */
static int tq1_0_at(int m, int n) {
    if (m < 32) return m + 32 * n;
    return m < 48 ? 160 + m - 32 + 16 * n : 240 + m - 48 + 4 * n;
}

static void tq1_0_unpack(const void *block, kt__super *out) {
    const kt__tq1_0 *b = block;
    ternary_clear(out, b->d);
    for (int m = 0; m < 52; m++)
        for (int n = 0; n < (m < 48 ? 5 : 4); n++)
            out->q[tq1_0_at(m, n)] = digit_of(m < 48 ? b->qs[m] : b->qh[m - 48], n);
}

static void tq1_0_pack(const int8_t *level, kt__f16 d, void *block) {
    kt__tq1_0 *b = block;
    b->d = d;
    for (int m = 0; m < 52; m++) {
        int8_t digit[5] = {0};
        for (int n = 0; n < (m < 48 ? 5 : 4); n++) digit[n] = level[tq1_0_at(m, n)];
        *(m < 48 ? &b->qs[m] : &b->qh[m - 48]) = byte_of_digits(digit);
    }
}

static void tq2_0_unpack(const void *block, kt__super *out) {
    const kt__tq2_0 *b = block;
    ternary_clear(out, b->d);
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)(b->qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3);
}

static void tq2_0_pack(const int8_t *level, kt__f16 d, void *block) {
    kt__tq2_0 *b = block;
    memset(b->qs, 0, sizeof b->qs);
    b->d = d;
    for (int i = 0; i < 256; i++)
        b->qs[i / 128 * 32 + i % 32] |= (uint8_t)(level[i] << i % 128 / 32 * 2);
}

/* ---- 128 and 64 weights ---- */

static void share_scale(kt__block32 *out, int n, kt__f16 d) {
    for (int i = 0; i < n; i++) {
        out[i].d = kt__f16_to_f32(d);
        out[i].m = 0;
        out[i].has_min = false;
    }
}

static void q1_0_unpack(const void *block, kt__block32 *out) {
    const kt__q1_0 *b = block;
    share_scale(out, 4, b->d);
    for (int i = 0; i < 128; i++) out[i / 32].q[i % 32] = b->qs[i / 8] >> i % 8 & 1 ? 1 : -1;
}

static void q2_0_unpack(const void *block, kt__block32 *out) {
    const kt__q2_0 *b = block;
    share_scale(out, 2, b->d);
    for (int i = 0; i < 64; i++)
        out[i / 32].q[i % 32] = (int8_t)((b->qs[i / 4] >> i % 4 * 2 & 3) - 1);
}

static void q1_0_encode(kt__effort effort, const float *x, const float *w, void *block) {
    (void)effort;
    kt__q1_0 *b = block;
    float sum = 0, weight = 0;
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 128; i++) {
        sum += w[i] * fabsf(x[i]);
        weight += w[i];
        if (x[i] > 0) b->qs[i / 8] |= (uint8_t)(1 << i % 8);
    }
    b->d = kt__f16_saturate(weight > 0 ? sum / weight : 0);
}

/* ---- the best scale of -1, 0 and 1 ---- */

/* What the n weights lose less than nothing at all would, with d: those above d/2 count. */
static float ternary_gain(const float *x, const float *w, int n, float limit, float *d) {
    float sum = 0, weight = 0;
    for (int i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        if (!(size > limit)) continue;
        sum += w[i] * size;
        weight += w[i];
    }
    *d = weight > 0 ? sum / weight : 0;
    return sum * *d;
}

/* Levels 0 to 2. The limit between 0 and the others is tried in steps of the largest weight. */
static kt__f16 ternary_fit(const float *x, const float *w, int n, int8_t *level) {
    enum { STEPS = 48 };
    float top = 0, best = -1, best_d = 0;
    for (int i = 0; i < n; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    for (int k = 0; k < STEPS; k++) {
        float d, gain = ternary_gain(x, w, n, top * (float)k / STEPS, &d);
        if (gain > best) best = gain, best_d = d;
    }
    kt__f16 half = kt__f16_saturate(best_d);
    float limit = 0.5f * kt__f16_to_f32(half);
    for (int i = 0; i < n; i++) level[i] = (int8_t)(1 + (x[i] > limit) - (x[i] < -limit));
    return half;
}

static void tq1_0_encode(kt__effort effort, const float *x, const float *w, void *block) {
    (void)effort;
    int8_t level[256];
    kt__f16 d = ternary_fit(x, w, 256, level);
    tq1_0_pack(level, d, block);
}

static void tq2_0_encode(kt__effort effort, const float *x, const float *w, void *block) {
    (void)effort;
    int8_t level[256];
    kt__f16 d = ternary_fit(x, w, 256, level);
    tq2_0_pack(level, d, block);
}

static void q2_0_encode(kt__effort effort, const float *x, const float *w, void *block) {
    (void)effort;
    kt__q2_0 *b = block;
    int8_t level[64];
    memset(b, 0, sizeof *b);
    b->d = ternary_fit(x, w, 64, level);
    for (int i = 0; i < 64; i++) b->qs[i / 4] |= (uint8_t)(level[i] << i % 4 * 2);
}

static void tq1_0_set_levels(const int8_t *q, void *block) {
    tq1_0_pack(q, ((kt__tq1_0 *)block)->d, block);
}

static void tq2_0_set_levels(const int8_t *q, void *block) {
    tq2_0_pack(q, ((kt__tq2_0 *)block)->d, block);
}

const kt__codec kt__codec_TQ1_0 = {.encode_block = tq1_0_encode,
                                   .form = {.group = 32, .lo = 0, .hi = 2},
                                   .set_levels = tq1_0_set_levels,
                                   .unpack256 = tq1_0_unpack};
const kt__codec kt__codec_TQ2_0 = {.encode_block = tq2_0_encode,
                                   .form = {.group = 32, .lo = 0, .hi = 2},
                                   .set_levels = tq2_0_set_levels,
                                   .unpack256 = tq2_0_unpack};
const kt__codec kt__codec_Q1_0 = {.encode_block = q1_0_encode, .unpack32 = q1_0_unpack};
const kt__codec kt__codec_Q2_0 = {.encode_block = q2_0_encode, .unpack32 = q2_0_unpack};

/* MXFP4: 4-bit floats (E2M1) with a power of two for 32 of them (OCP Microscaling Formats 1.0).
 * NVFP4: the same with an 8-bit float (E4M3, without a sign) for 16. */

/* Twice E2M1's values, so that they are whole; the scale is halved for it. Codes 0 and 8 are +-0. */
const int8_t kt__mxfp4_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128), which is subnormal for e below 2. */
static float scale_of(int e) {
    return kt__f32_from_bits(e < 2 ? (uint32_t)(e + 1) << 21 : (uint32_t)(e - 1) << 23);
}

static void mxfp4_unpack(const void *block, kt__block32 *out) {
    const kt__mxfp4 *b = block;
    out->d = scale_of(b->e);
    out->m = 0;
    out->has_min = false;
    for (int i = 0; i < 16; i++) {
        out->q[i] = kt__mxfp4_table[b->qs[i] & 15];
        out->q[i + 16] = kt__mxfp4_table[b->qs[i] >> 4];
    }
}

/* The nearest level's code of x in units of the scale, the smaller level on ties. */
static int code_of(float x) {
    float size = fabsf(x);
    int code = 0;
    for (int k = 1; k < 8; k++)
        if (size * 2.0f > (float)(kt__mxfp4_table[k] + kt__mxfp4_table[k - 1])) code = k;
    return x < 0.0f && code > 0 ? code + 8 : code;
}

/* The block's squared error with the scale of e, in units of the scale of `unit`. */
static float encode_with(const float *x, int e, int unit, kt__mxfp4 *b) {
    float inverse = 1.0f / scale_of(e), ratio = ldexpf(1.0f, e - unit), error = 0;
    int code[32];
    for (int i = 0; i < 32; i++) {
        float in_units = x[i] * inverse;
        code[i] = code_of(in_units);
        float miss = (in_units - (float)kt__mxfp4_table[code[i]]) * ratio;
        error += miss * miss;
    }
    b->e = (uint8_t)e;
    for (int i = 0; i < 16; i++) b->qs[i] = (uint8_t)(code[i] | code[i + 16] << 4);
    return error;
}

/* The largest weight's own power of two cuts off what is above 12, the next one has coarser levels:
 * the better of both. */
static void encode_block(const float *x, kt__mxfp4 *b) {
    enum { LEAST = 2, MOST = 252 }; /* whose inverses are normal, and whose weights are finite */
    kt__mxfp4 wide;
    float top = 0;
    for (int i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[i]));
    int exponent = 0;
    (void)frexpf(top, &exponent); /* top in [2^(exponent - 1), 2^exponent) */
    int e = isfinite(top) && top > 0 ? exponent - 4 + 128 : LEAST;
    if (e < LEAST) e = LEAST;
    if (e > MOST - 1) e = MOST - 1;
    float narrow_error = encode_with(x, e, e, b), wide_error = encode_with(x, e + 1, e, &wide);
    if (wide_error < narrow_error) *b = wide;
}

static void mxfp4_encode_row(const float *src, int64_t n, void *dst) {
    kt__mxfp4 *b = dst;
    for (int64_t i = 0; i < n; i += 32) encode_block(src + i, b++);
}

const kt__codec kt__codec_MXFP4 = {.encode_row = mxfp4_encode_row, .unpack32 = mxfp4_unpack};

/* ---- NVFP4 ---- */

/* Half of what an E4M3 code without sign says, since the table has twice the values; the code that
 * would be a NaN counts as 0. */
static float half_e4m3(int code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    if (code == 0x7f) return 0;
    if (exponent == 0) return (float)mantissa * 0x1p-10f;
    return kt__f32_from_bits((uint32_t)(exponent + 127 - 8) << 23 | (uint32_t)mantissa << 20);
}

static void nvfp4_unpack(const void *block, kt__block32 *out) {
    const kt__nvfp4 *b = block;
    for (int i = 0; i < 4; i++) {
        kt__block32 *o = &out[i / 2];
        float d = half_e4m3(b->scales[i]);
        if (i % 2 == 0) {
            *o = (kt__block32){.d = d, .has_halves = true};
        } else {
            o->d_high = d;
        }
        for (int j = 0; j < 8; j++) {
            o->q[i % 2 * 16 + j] = kt__mxfp4_table[b->qs[8 * i + j] & 15];
            o->q[i % 2 * 16 + 8 + j] = kt__mxfp4_table[b->qs[8 * i + j] >> 4];
        }
    }
}

/* The least code whose scale is at least d. */
static int code_of_scale(float d) {
    int lo = 0, hi = 0x7e;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (half_e4m3(mid) < d)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The weighted squared error of 16 weights with a scale. */
static float error_with(const float *x, const float *w, float d, int code[16]) {
    float error = 0;
    for (int i = 0; i < 16; i++) {
        code[i] = d > 0 ? code_of(x[i] / d) : 0;
        float miss = x[i] - d * (float)kt__mxfp4_table[code[i]];
        error += w[i] * miss * miss;
    }
    return error;
}

/* Of the scales around that which makes the largest weight the largest level: the best. */
static void nvfp4_encode(kt__effort effort, const float *x, const float *w, void *block) {
    kt__nvfp4 *b = block;
    int below = effort == KT__EFFORT_CAREFUL ? 6 : 1, above = 5;
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 4; i++) {
        float top = 0, least = INFINITY;
        for (int j = 0; j < 16; j++) top = fmaxf(top, fabsf(x[16 * i + j]));
        int first = code_of_scale(top / 12.0f), code[16];
        for (int s = first - below < 0 ? 0 : first - below; s <= first + above && s < 0x7f; s++) {
            float error = error_with(x + 16 * i, w + 16 * i, half_e4m3(s), code);
            if (!(error < least)) continue;
            least = error;
            b->scales[i] = (uint8_t)s;
            for (int j = 0; j < 8; j++) b->qs[8 * i + j] = (uint8_t)(code[j] | code[j + 8] << 4);
        }
    }
}

const kt__codec kt__codec_NVFP4 = {.encode_block = nvfp4_encode, .unpack32 = nvfp4_unpack};
