#include <string.h>

#include "base/f16.h"
#include "quant/codec.h"

/* Rows in files need not be aligned for their elements: every access goes through memcpy. */

static void f32_copy(const void *src, int64_t n, float *dst) {
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void f32_encode(const float *src, int64_t n, void *dst) {
    memcpy(dst, src, (size_t)n * sizeof *src);
}

static void f16_decode(const void *src, int64_t n, float *dst) {
    const uint8_t *bytes = src;
    for (int64_t i = 0; i < n; i++) {
        kt__f16 h;
        memcpy(&h, bytes + 2 * i, sizeof h);
        dst[i] = kt__f16_to_f32(h);
    }
}

static void f16_encode(const float *src, int64_t n, void *dst) {
    uint8_t *bytes = dst;
    for (int64_t i = 0; i < n; i++) {
        kt__f16 h = kt__f16_from_f32(src[i]);
        memcpy(bytes + 2 * i, &h, sizeof h);
    }
}

static void bf16_decode(const void *src, int64_t n, float *dst) {
    const uint8_t *bytes = src;
    for (int64_t i = 0; i < n; i++) {
        kt__bf16 h;
        memcpy(&h, bytes + 2 * i, sizeof h);
        dst[i] = kt__bf16_to_f32(h);
    }
}

static void bf16_encode(const float *src, int64_t n, void *dst) {
    uint8_t *bytes = dst;
    for (int64_t i = 0; i < n; i++) {
        kt__bf16 h = kt__bf16_from_f32(src[i]);
        memcpy(bytes + 2 * i, &h, sizeof h);
    }
}

const kt__codec kt__codec_F32 = {.encode_row = f32_encode, .decode_row = f32_copy};
const kt__codec kt__codec_F16 = {.encode_row = f16_encode, .decode_row = f16_decode};
const kt__codec kt__codec_BF16 = {.encode_row = bf16_encode, .decode_row = bf16_decode};
