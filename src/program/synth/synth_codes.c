#include "synth/synth_codes.h"

#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/blocks.h"

bool kt__synth_has_codes(kt__type type) {
    return (type >= KT__TYPE_IQ3_S && type <= KT__TYPE_IQ1_S) || type == KT__TYPE_TQ1_0 ||
           type == KT__TYPE_TQ2_0 || type == KT__TYPE_NVFP4 || type == KT__TYPE_Q1_0 ||
           type == KT__TYPE_Q2_0;
}

/* ---- scales ---- */

/* NVFP4's scales of 16: the code whose half, in units of 2^-10, is nearest to d. */
static uint8_t nvfp4_scale(float d) {
    float units = d * 0x1p10f;
    int exponent = 0;
    while (units >= 15.5f && exponent < 14) units *= 0.5f, exponent++;
    int whole = (int)lrintf(units < 15.0f ? units : 15.0f);
    return (uint8_t)(whole < 8 ? whole : (exponent + 1) << 3 | (whole - 8));
}

static void put_iq1_m_scale(kt__iq1_m *b, kt__f16 d) {
    for (int i = 0; i < 4; i++)
        b->scales[i] = (uint16_t)((b->scales[i] & 0xfff) | (d >> 4 * i & 15) << 12);
}

static void put_scale(kt__type type, float d, uint8_t *block) {
    kt__f16 half = kt__f16_from_f32(d);
    size_t at = type == KT__TYPE_TQ1_0   ? offsetof(kt__tq1_0, d)
                : type == KT__TYPE_TQ2_0 ? offsetof(kt__tq2_0, d)
                                         : 0;
    if (type == KT__TYPE_IQ1_M) {
        put_iq1_m_scale((kt__iq1_m *)(void *)block, half);
    } else if (type == KT__TYPE_NVFP4) {
        for (int i = 0; i < 4; i++) block[i] = nvfp4_scale(fabsf(d));
    } else {
        memcpy(block + at, &half, sizeof half);
    }
}

/* ---- codes ---- */

/* Pairs of bits from 0 to 2: those of TQ2_0 and Q2_0, which has 3 as well but uses it as little. */
static void draw_ternary(uint64_t (*random)(void *), void *state, uint8_t *out, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t r = random(state);
        for (int k = 0; k < 4; k++)
            out[i] = (uint8_t)(out[i] << 2 | (r >> (16 * k) & 0xffff) * 3 >> 16);
    }
}

void kt__synth_draw_codes(kt__type type, float d, uint64_t (*random)(void *), void *state,
                          void *block) {
    uint8_t *out = block;
    int n = kt__type_get(type)->block_bytes;
    for (int i = 0; i < n; i += 8) {
        uint64_t r = random(state);
        memcpy(out + i, &r, (size_t)(n - i < 8 ? n - i : 8));
    }
    if (type == KT__TYPE_TQ2_0) draw_ternary(random, state, out, 64);
    if (type == KT__TYPE_Q2_0) draw_ternary(random, state, out + offsetof(kt__q2_0, qs), 16);
    put_scale(type, d, out);
}

static uint64_t next_of_counter(void *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = *(uint64_t *)state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float kt__synth_codes_rms(kt__type type) {
    enum { BLOCKS = 256 };
    const int n = kt__type_get(type)->block_elems;
    uint64_t counter = 1;
    double sum = 0;
    for (int b = 0; b < BLOCKS; b++) {
        uint8_t block[128];
        float x[256];
        kt__synth_draw_codes(type, 1.0f, next_of_counter, &counter, block);
        kt__dequantize_row(type, block, n, x);
        for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    }
    return (float)sqrt(sum / BLOCKS / n);
}
