#include "kernels/quantise_page_ref.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/math.h"

static float round_even(float v) { return (v + 0x1.8p23f) - 0x1.8p23f; /* |v| < 2^22 */ }

float kt__ref_quantize_block(const float *x, int n, int8_t *q) {
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        if (!(magnitude <= FLT_MAX)) finite = false;
        if (magnitude > amax) amax = magnitude;
    }
    if (!finite || amax < 0x1p-100f) {
        for (int i = 0; i < n; i++) q[i] = 0;
        return finite ? 0.0f : kt__f32_from_bits(0x7fc00000u);
    }
    float inverse = 127.0f / amax;
    for (int i = 0; i < n; i++) {
        float v = round_even(x[i] * inverse);
        if (v > 127.0f) v = 127.0f;
        if (v < -127.0f) v = -127.0f;
        q[i] = (int8_t)v;
    }
    return amax / 127.0f;
}

/* The Hadamard transform of each block of `block` numbers, not normalised: stages of sums and
 * differences of neighbours 1, 2, 4, ... apart. */
static void rotate_blocks(float *x, int n, int block) {
    for (int apart = 1; apart < block; apart *= 2) {
        for (int i = 0; i < n; i++) {
            if (i & apart) continue;
            float a = x[i], b = x[i + apart];
            x[i] = a + b;
            x[i + apart] = a - b;
        }
    }
}

static void load_key(const kt__f16 *page, int head_dim, int slot, float *x) {
    for (int d = 0; d < head_dim; d++) x[d] = kt__f16_to_f32(page[d * KT__PAGE_POS + slot]);
    rotate_blocks(x, head_dim, kt__rotation_block(head_dim));
}

void kt__ref_quantise_k8(const kt__f16 *page, int head_dim, uint8_t *quantised, void *scratch) {
    float *x = scratch, *scale = (float *)(void *)quantised;
    int8_t *code = (int8_t *)quantised + kt__quantised_codes(KT__KV_Q8),
           *q = (int8_t *)(x + head_dim);
    memset(code, 0, (size_t)kt__code_dims(KT__KV_Q8, head_dim) * KT__PAGE_POS);
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        load_key(page, head_dim, slot, x);
        scale[slot] = kt__ref_quantize_block(x, head_dim, q);
        for (int d = 0; d < head_dim; d++) code[(d / 4 * KT__PAGE_POS + slot) * 4 + d % 4] = q[d];
    }
}

void kt__ref_quantise_v8(const kt__f16 *page, int head_dim, uint8_t *quantised, void *scratch) {
    float *x = scratch, *scale = (float *)(void *)quantised;
    int8_t *code = (int8_t *)quantised + kt__quantised_codes(KT__KV_Q8),
           *q = (int8_t *)(x + head_dim);
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        for (int d = 0; d < head_dim; d++) x[d] = kt__f16_to_f32(page[slot * head_dim + d]);
        scale[slot] = kt__ref_quantize_block(x, head_dim, q);
        for (int d = 0; d < head_dim; d++) code[(slot / 4 * head_dim + d) * 4 + slot % 4] = q[d];
    }
}

/* ---- 4 bits ---- */

/* q[n], -8 to 7: x ~ scale * unit * q. The number of the greatest magnitude, of equal ones that
 * above zero, is about -8. */
static kt__f16 quantize_block_4(const float *x, int n, float unit, int8_t *q) {
    float high = 0, low = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        if (!(fabsf(x[i]) <= FLT_MAX)) finite = false;
        if (x[i] > high) high = x[i];
        if (x[i] < low) low = x[i];
    }
    float most = finite ? high >= -low ? high : low : kt__f32_from_bits(0x7fc00000u);
    kt__f16 scale = kt__f16_from_f32(most * (-0.125f / unit));
    float d = kt__f16_to_f32(scale) * unit;
    for (int i = 0; i < n; i++) {
        float v = finite && d != 0 ? x[i] * (1.0f / d) : 0.0f;
        v = v > 7.0f ? 7.0f : v < -8.0f ? -8.0f : v;
        q[i] = (int8_t)round_even(v);
    }
    return scale;
}

static void put_half(uint8_t *byte, bool high, int code) {
    *byte = (uint8_t)(*byte | (unsigned)(code + KT__Q4_ZERO) << (high ? 4 : 0));
}

/* A slot's numbers, of keys rotated, into x[head_dim]. */
typedef void load_slot_fn(const void *page, int head_dim, int slot, float *x);

static void load_k16(const void *page, int head_dim, int slot, float *x) {
    load_key(page, head_dim, slot, x);
}

static void load_v16(const void *page, int head_dim, int slot, float *x) {
    const kt__f16 *row = (const kt__f16 *)page + slot * head_dim;
    for (int d = 0; d < head_dim; d++) x[d] = kt__f16_to_f32(row[d]);
}

/* What codes of 8 bits mean; those of keys are rotated already. */
static void load_k8(const void *page, int head_dim, int slot, float *x) {
    const float *scale = page;
    const int8_t *code = (const int8_t *)page + kt__quantised_codes(KT__KV_Q8);
    for (int d = 0; d < head_dim; d++)
        x[d] = scale[slot] * (float)code[(d / 4 * KT__PAGE_POS + slot) * 4 + d % 4];
}

static void load_v8(const void *page, int head_dim, int slot, float *x) {
    const float *scale = page;
    const int8_t *code = (const int8_t *)page + kt__quantised_codes(KT__KV_Q8);
    for (int d = 0; d < head_dim; d++)
        x[d] = scale[slot] * (float)code[(slot / 4 * head_dim + d) * 4 + slot % 4];
}

static void make_k4(load_slot_fn *load, const void *page, int head_dim, uint8_t *quantised,
                    void *scratch) {
    float *x = scratch;
    int dims = kt__code_dims(KT__KV_Q4, head_dim);
    int8_t *q = (int8_t *)(x + head_dim);
    kt__f16 *scale = (kt__f16 *)(void *)quantised;
    memset(quantised, 0, kt__quantised_k_bytes(KT__KV_Q4, head_dim));
    memset(q, 0, (size_t)dims);
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        load(page, head_dim, slot, x);
        scale[slot] = quantize_block_4(x, head_dim, (float)kt__rotation_block(head_dim), q);
        for (int d = 0; d < dims; d++) {
            uint8_t *four = quantised + kt__quantised_codes(KT__KV_Q4) +
                            (d / 8 * KT__PAGE_POS + slot) * 4;
            put_half(four + d % 4, d & 4, q[d]);
        }
    }
}

static void make_v4(load_slot_fn *load, const void *page, int head_dim, uint8_t *quantised,
                    void *scratch) {
    float *x = scratch;
    int8_t *q = (int8_t *)(x + head_dim);
    kt__f16 *scale = (kt__f16 *)(void *)quantised;
    memset(quantised, 0, kt__quantised_v_bytes(KT__KV_Q4, head_dim));
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        uint8_t *four = quantised + kt__quantised_codes(KT__KV_Q4) + slot % 8 / 4 * head_dim * 4 +
                        slot % 4;
        load(page, head_dim, slot, x);
        scale[slot] = quantize_block_4(x, head_dim, 1.0f, q);
        for (int d = 0; d < head_dim; d++) put_half(four + 4 * d, slot >= 8, q[d]);
    }
}

void kt__ref_quantise_k4(const kt__f16 *page, int head_dim, uint8_t *quantised, void *scratch) {
    make_k4(load_k16, page, head_dim, quantised, scratch);
}

void kt__ref_quantise_v4(const kt__f16 *page, int head_dim, uint8_t *quantised, void *scratch) {
    make_v4(load_v16, page, head_dim, quantised, scratch);
}

void kt__ref_narrow_k(const uint8_t *q8, int head_dim, uint8_t *q4, void *scratch) {
    make_k4(load_k8, q8, head_dim, q4, scratch);
}

void kt__ref_narrow_v(const uint8_t *q8, int head_dim, uint8_t *q4, void *scratch) {
    make_v4(load_v8, q8, head_dim, q4, scratch);
}

void kt__ref_code_query(const float *q, int head_dim, uint8_t *codes, void *scratch) {
    float *x = scratch;
    int dims = kt__query_dims(head_dim), block = kt__rotation_block(head_dim);
    int32_t sum = 0;
    memcpy(x, q, (size_t)head_dim * sizeof *x);
    rotate_blocks(x, head_dim, block);
    memset(codes, 0, kt__query_code_bytes(head_dim));
    float scale = kt__ref_quantize_block(x, head_dim, (int8_t *)codes) / (float)block;
    for (int d = 0; d < head_dim; d++) sum += (int8_t)codes[d];
    memcpy(codes + dims, &scale, sizeof scale);
    memcpy(codes + dims + 4, &sum, sizeof sum);
}
