/* MXFP4: 4-bit floats (E2M1) with a power of two for 32 of them (OCP Microscaling Formats 1.0). */
#include <math.h>

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
