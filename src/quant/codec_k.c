/* The K-quants: superblocks of 256 with integer group scales. */
#include <string.h>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/fit.h"

static void header_set(kt__super *out, kt__f16 d, kt__f16 dmin, bool has_min) {
    out->d = kt__f16_to_f32(d);
    out->dmin = has_min ? kt__f16_to_f32(dmin) : 0;
    out->has_min = has_min;
    if (!has_min) memset(out->min, 0, sizeof out->min);
}

/* ---- Q2_K ---- */

static void q2_k_unpack(const void *block, kt__super *out) {
    const kt__q2_k *b = block;
    header_set(out, b->d, b->dmin, true);
    for (int g = 0; g < 16; g++) {
        out->scale[g] = b->scales[g] & 15;
        out->min[g] = b->scales[g] >> 4;
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4;
        out->q[i] = b->qs[32 * half + i % 32] >> (2 * quarter) & 3;
    }
}

static void q2_k_encode(const float *x, void *block) {
    kt__q2_k *b = block;
    kt__fit_affine fit;
    kt__fit_super_affine(x, 16, 3, 15, &fit);
    memset(b, 0, sizeof *b);
    b->d = fit.d;
    b->dmin = fit.dmin;
    for (int g = 0; g < 16; g++) b->scales[g] = (uint8_t)(fit.scale[g] | fit.min[g] << 4);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4, at = 32 * half + i % 32;
        b->qs[at] = (uint8_t)(b->qs[at] | fit.q[i] << (2 * quarter));
    }
}

/* ---- Q3_K ---- */

/* Scale k: low nibbles of bytes 0-7, then their high nibbles; the two high bits in bytes 8-11. */
static int q3_k_scale(const uint8_t s[12], int k) {
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    int high = s[8 + k % 4] >> (2 * (k / 4)) & 3;
    return (low | high << 4) - 32;
}

static void q3_k_scale_set(uint8_t s[12], int k, int scale) {
    int bits = scale + 32, at = 8 + k % 4;
    s[k % 8] = (uint8_t)(s[k % 8] | (bits & 15) << (k < 8 ? 0 : 4));
    s[at] = (uint8_t)(s[at] | bits >> 4 << (2 * (k / 4)));
}

static void q3_k_unpack(const void *block, kt__super *out) {
    const kt__q3_k *b = block;
    header_set(out, b->d, 0, false);
    for (int g = 0; g < 16; g++) out->scale[g] = (int16_t)q3_k_scale(b->scales, g);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4;
        int low = b->qs[32 * half + i % 32] >> (2 * quarter) & 3;
        int high = b->hmask[i % 32] >> (4 * half + quarter) & 1;
        out->q[i] = (int8_t)(low + 4 * high - 4);
    }
}

static void q3_k_encode(const float *x, void *block) {
    static const kt__levels levels = {NULL, -4, 3, 0.1f};
    kt__q3_k *b = block;
    kt__fit_scaled fit;
    kt__fit_super_scaled(x, 16, &levels, -32, 31, &fit);
    memset(b, 0, sizeof *b);
    b->d = fit.d;
    for (int g = 0; g < 16; g++) q3_k_scale_set(b->scales, g, fit.scale[g]);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4, at = 32 * half + i % 32, q = fit.q[i] + 4;
        b->qs[at] = (uint8_t)(b->qs[at] | (q & 3) << (2 * quarter));
        b->hmask[i % 32] = (uint8_t)(b->hmask[i % 32] | q >> 2 << (4 * half + quarter));
    }
}

/* ---- Q4_K and Q5_K ---- */

/* Groups 0-3 hold their 6 bits in the low parts of bytes 0-3 (scale) and 4-7 (min); groups 4-7 hold
 * low nibbles in bytes 8-11 and their two high bits above those of groups 0-3. */
static void k_scales_unpack(const uint8_t s[12], kt__super *out) {
    for (int g = 0; g < 8; g++) {
        int scale = s[g] & 63, min = s[g + 4] & 63;
        if (g >= 4) {
            scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
            min = s[g + 4] >> 4 | s[g] >> 6 << 4;
        }
        out->scale[2 * g] = out->scale[2 * g + 1] = (int16_t)scale;
        out->min[2 * g] = out->min[2 * g + 1] = (int16_t)min;
    }
}

static void k_scales_pack(const kt__fit_affine *fit, uint8_t s[12]) {
    for (int g = 0; g < 4; g++) {
        s[g] = (uint8_t)(fit->scale[g] | fit->scale[g + 4] >> 4 << 6);
        s[g + 4] = (uint8_t)(fit->min[g] | fit->min[g + 4] >> 4 << 6);
        s[g + 8] = (uint8_t)((fit->scale[g + 4] & 15) | (fit->min[g + 4] & 15) << 4);
    }
}

/* Element i of 256 is in byte 32 * (i / 64) + i % 32, low nibble for even groups of 32. */
static int nibble_at(const uint8_t qs[128], int i) {
    return qs[32 * (i / 64) + i % 32] >> (i / 32 % 2 * 4) & 15;
}

static void nibble_set(uint8_t qs[128], int i, int value) {
    int at = 32 * (i / 64) + i % 32;
    qs[at] = (uint8_t)(qs[at] | (value & 15) << (i / 32 % 2 * 4));
}

static void q4_k_unpack(const void *block, kt__super *out) {
    const kt__q4_k *b = block;
    header_set(out, b->d, b->dmin, true);
    k_scales_unpack(b->scales, out);
    for (int i = 0; i < 256; i++) out->q[i] = (int8_t)nibble_at(b->qs, i);
}

static void q4_k_encode(const float *x, void *block) {
    kt__q4_k *b = block;
    kt__fit_affine fit;
    kt__fit_super_affine(x, 32, 15, 63, &fit);
    memset(b, 0, sizeof *b);
    b->d = fit.d;
    b->dmin = fit.dmin;
    k_scales_pack(&fit, b->scales);
    for (int i = 0; i < 256; i++) nibble_set(b->qs, i, fit.q[i]);
}

static void q5_k_unpack(const void *block, kt__super *out) {
    const kt__q5_k *b = block;
    header_set(out, b->d, b->dmin, true);
    k_scales_unpack(b->scales, out);
    for (int i = 0; i < 256; i++) {
        int fifth = b->qh[i % 32] >> (i / 32) & 1;
        out->q[i] = (int8_t)(nibble_at(b->qs, i) + 16 * fifth);
    }
}

static void q5_k_encode(const float *x, void *block) {
    kt__q5_k *b = block;
    kt__fit_affine fit;
    kt__fit_super_affine(x, 32, 31, 63, &fit);
    memset(b, 0, sizeof *b);
    b->d = fit.d;
    b->dmin = fit.dmin;
    k_scales_pack(&fit, b->scales);
    for (int i = 0; i < 256; i++) {
        nibble_set(b->qs, i, fit.q[i]);
        b->qh[i % 32] = (uint8_t)(b->qh[i % 32] | fit.q[i] >> 4 << (i / 32));
    }
}

/* ---- Q6_K ---- */

/* Element i: half i / 128, quarter i / 32 % 4. Quarters 0 and 1 are the low nibbles of ql[0..63] of
 * the half, 2 and 3 the high ones; the two high bits are in qh[0..31] of the half at twice the
 * quarter. */
static void q6_k_unpack(const void *block, kt__super *out) {
    const kt__q6_k *b = block;
    header_set(out, b->d, 0, false);
    for (int g = 0; g < 16; g++) out->scale[g] = b->scales[g];
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4, l = i % 32;
        int low = b->ql[64 * half + 32 * (quarter % 2) + l] >> (quarter / 2 * 4) & 15;
        int high = b->qh[32 * half + l] >> (2 * quarter) & 3;
        out->q[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void q6_k_encode(const float *x, void *block) {
    static const kt__levels levels = {NULL, -32, 31, 0.1f};
    kt__q6_k *b = block;
    kt__fit_scaled fit;
    kt__fit_super_scaled(x, 16, &levels, -128, 127, &fit);
    memset(b, 0, sizeof *b);
    b->d = fit.d;
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)fit.scale[g];
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i / 32 % 4, l = i % 32, q = fit.q[i] + 32;
        uint8_t *low = &b->ql[64 * half + 32 * (quarter % 2) + l], *high = &b->qh[32 * half + l];
        *low = (uint8_t)(*low | (q & 15) << (quarter / 2 * 4));
        *high = (uint8_t)(*high | q >> 4 << (2 * quarter));
    }
}

const kt__codec kt__codec_Q2_K = {.encode = q2_k_encode, .unpack256 = q2_k_unpack};
const kt__codec kt__codec_Q3_K = {.encode = q3_k_encode, .unpack256 = q3_k_unpack};
const kt__codec kt__codec_Q4_K = {.encode = q4_k_encode, .unpack256 = q4_k_unpack};
const kt__codec kt__codec_Q5_K = {.encode = q5_k_encode, .unpack256 = q5_k_unpack};
const kt__codec kt__codec_Q6_K = {.encode = q6_k_encode, .unpack256 = q6_k_unpack};
