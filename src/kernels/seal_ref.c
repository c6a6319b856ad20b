#include "kernels/seal_ref.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/math.h"

static float round_even(float v) {
    return (v + 0x1.8p23f) - 0x1.8p23f; /* |v| < 2^22 */
}

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

void kt__ref_seal_k(const kt__f16 *page, int head_dim, uint8_t *sealed, void *scratch) {
    float *x = scratch, *scale = (float *)(void *)sealed;
    int8_t *code = (int8_t *)sealed + KT__SEALED_CODES, *q = (int8_t *)(x + head_dim);
    memset(code, 0, (size_t)kt__code_dims(head_dim) * KT__PAGE_POS);
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        for (int d = 0; d < head_dim; d++) x[d] = kt__f16_to_f32(page[d * KT__PAGE_POS + slot]);
        rotate_blocks(x, head_dim, kt__rotation_block(head_dim));
        scale[slot] = kt__ref_quantize_block(x, head_dim, q);
        for (int d = 0; d < head_dim; d++) code[(d / 4 * KT__PAGE_POS + slot) * 4 + d % 4] = q[d];
    }
}

void kt__ref_seal_v(const kt__f16 *page, int head_dim, uint8_t *sealed, void *scratch) {
    float *x = scratch, *scale = (float *)(void *)sealed;
    int8_t *code = (int8_t *)sealed + KT__SEALED_CODES;
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        for (int d = 0; d < head_dim; d++) x[d] = kt__f16_to_f32(page[slot * head_dim + d]);
        scale[slot] = kt__ref_quantize_block(x, head_dim, code + slot * head_dim);
    }
}

void kt__ref_code_query(const float *q, int head_dim, uint8_t *codes, void *scratch) {
    float *x = scratch;
    int dims = kt__code_dims(head_dim), block = kt__rotation_block(head_dim);
    int32_t sum = 0;
    memcpy(x, q, (size_t)head_dim * sizeof *x);
    rotate_blocks(x, head_dim, block);
    memset(codes, 0, kt__query_code_bytes(head_dim));
    float scale = kt__ref_quantize_block(x, head_dim, (int8_t *)codes) / (float)block;
    for (int d = 0; d < head_dim; d++) sum += (int8_t)codes[d];
    memcpy(codes + dims, &scale, sizeof scale);
    memcpy(codes + dims + 4, &sum, sizeof sum);
}
