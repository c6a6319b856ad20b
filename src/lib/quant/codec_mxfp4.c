/* MXFP4: 4-bit floats (E2M1) with a power of two for 32 of them (OCP Microscaling Formats 1.0).
 * NVFP4: the same with an 8-bit float (E4M3, without a sign) for 16. */
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/blocks.h"
#include "quant/codec.h"

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
