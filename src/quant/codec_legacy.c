/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32 with one scale, and one minimum in the _1 types. */
#include <math.h>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/fit.h"

/* ---- unpacking ---- */

static void unpack_nibbles(const uint8_t qs[16], int offset, int8_t q[32]) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((qs[i] & 15) - offset);
        q[i + 16] = (int8_t)((qs[i] >> 4) - offset);
    }
}

static void unpack_fives(const uint8_t qs[16], const uint8_t qh[4], int offset, int8_t q[32]) {
    unpack_nibbles(qs, offset, q);
    for (int i = 0; i < 32; i++) {
        int fifth = qh[i / 8] >> (i % 8) & 1;
        q[i] = (int8_t)(q[i] + 16 * fifth);
    }
}

static void q4_0_unpack(const void *block, kt__block32 *out) {
    const kt__q4_0 *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = 0;
    out->has_min = false;
    unpack_nibbles(b->qs, 8, out->q);
}

static void q4_1_unpack(const void *block, kt__block32 *out) {
    const kt__q4_1 *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = kt__f16_to_f32(b->m);
    out->has_min = true;
    unpack_nibbles(b->qs, 0, out->q);
}

static void q5_0_unpack(const void *block, kt__block32 *out) {
    const kt__q5_0 *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = 0;
    out->has_min = false;
    unpack_fives(b->qs, b->qh, 16, out->q);
}

static void q5_1_unpack(const void *block, kt__block32 *out) {
    const kt__q5_1 *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = kt__f16_to_f32(b->m);
    out->has_min = true;
    unpack_fives(b->qs, b->qh, 0, out->q);
}

static void q8_0_unpack(const void *block, kt__block32 *out) {
    const kt__q8_0 *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = 0;
    out->has_min = false;
    for (int i = 0; i < 32; i++) out->q[i] = b->qs[i];
}

/* ---- encoding ---- */

/* The element of largest magnitude, with its sign: it gets the lowest level, of which there is one
 * more than of the highest. */
static float signed_max(const float *x) {
    float extreme = 0;
    for (int i = 0; i < 32; i++) {
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    }
    return extreme;
}

static void range_of(const float *x, float *lo, float *hi) {
    *lo = *hi = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < *lo) *lo = x[i];
        if (x[i] > *hi) *hi = x[i];
    }
}

/* floor(v), held to 0..max; NaN gives 0. */
static int level_of(float v, int max) {
    if (!(v > 0)) return 0;
    return v < (float)max ? (int)v : max;
}

static float inverse_or_zero(float d) {
    return d != 0 ? 1.0f / d : 0;
}

static void pack_nibbles(const int levels[32], uint8_t qs[16]) {
    for (int i = 0; i < 16; i++) {
        qs[i] = (uint8_t)((levels[i] & 15) | (levels[i + 16] & 15) << 4);
    }
}

static void pack_fifths(const int levels[32], uint8_t qh[4]) {
    for (int byte = 0; byte < 4; byte++) {
        int bits = 0;
        for (int i = 0; i < 8; i++) bits |= (levels[8 * byte + i] >> 4 & 1) << i;
        qh[byte] = (uint8_t)bits;
    }
}

/* Levels 0..2*zero-1 around `zero`; returns the scale. */
static kt__f16 encode_signed(const float *x, int zero, int levels[32]) {
    float d = signed_max(x) / (float)-zero, id = inverse_or_zero(d);
    for (int i = 0; i < 32; i++) {
        levels[i] = level_of(x[i] * id + ((float)zero + 0.5f), 2 * zero - 1);
    }
    return kt__f16_saturate(d);
}

static void encode_min(const float *x, int max, int levels[32], kt__f16 *d_out, kt__f16 *m_out) {
    float lo, hi;
    range_of(x, &lo, &hi);
    float d = (hi - lo) / (float)max, id = inverse_or_zero(d);
    for (int i = 0; i < 32; i++) levels[i] = level_of((x[i] - lo) * id + 0.5f, max);
    *d_out = kt__f16_saturate(d);
    *m_out = kt__f16_saturate(lo);
}

static void q4_0_encode(const float *x, void *block) {
    kt__q4_0 *b = block;
    int levels[32];
    b->d = encode_signed(x, 8, levels);
    pack_nibbles(levels, b->qs);
}

static void q5_0_encode(const float *x, void *block) {
    kt__q5_0 *b = block;
    int levels[32];
    b->d = encode_signed(x, 16, levels);
    pack_nibbles(levels, b->qs);
    pack_fifths(levels, b->qh);
}

static void q4_1_encode(const float *x, void *block) {
    kt__q4_1 *b = block;
    int levels[32];
    kt__f16 d, m;
    encode_min(x, 15, levels, &d, &m);
    b->d = d;
    b->m = m;
    pack_nibbles(levels, b->qs);
}

static void q5_1_encode(const float *x, void *block) {
    kt__q5_1 *b = block;
    int levels[32];
    kt__f16 d, m;
    encode_min(x, 31, levels, &d, &m);
    b->d = d;
    b->m = m;
    pack_nibbles(levels, b->qs);
    pack_fifths(levels, b->qh);
}

static void q8_0_encode(const float *x, void *block) {
    kt__q8_0 *b = block;
    float d = fabsf(signed_max(x)) / 127.0f, id = inverse_or_zero(d);
    b->d = kt__f16_saturate(d);
    for (int i = 0; i < 32; i++) {
        int magnitude = level_of(fabsf(x[i]) * id + 0.5f, 127);
        b->qs[i] = (int8_t)(x[i] < 0 ? -magnitude : magnitude);
    }
}

const kt__codec kt__codec_Q4_0 = {.encode = q4_0_encode, .unpack32 = q4_0_unpack};
const kt__codec kt__codec_Q4_1 = {.encode = q4_1_encode, .unpack32 = q4_1_unpack};
const kt__codec kt__codec_Q5_0 = {.encode = q5_0_encode, .unpack32 = q5_0_unpack};
const kt__codec kt__codec_Q5_1 = {.encode = q5_1_encode, .unpack32 = q5_1_unpack};
const kt__codec kt__codec_Q8_0 = {.encode = q8_0_encode, .unpack32 = q8_0_unpack};
