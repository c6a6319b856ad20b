/* TQ1_0, TQ2_0, Q1_0, Q2_0: one scale, and weights that are -1, 0 and 1 times it, or -1 and 1. */
#include <math.h>
#include <string.h>

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
