/* The K-quants: superblocks of 256 with integer group scales. */
#include <string.h>

#include "quant/blocks.h"
#include "quant/codec.h"

static void header_set(kt__super *out, kt__f16 d, kt__f16 dmin, bool has_min) {
    out->d = kt__f16_to_f32(d);
    out->dmin = has_min ? kt__f16_to_f32(dmin) : 0;
    out->has_min = has_min;
    if (!has_min) memset(out->min, 0, sizeof out->min);
}

/* Levels are unpacked in groups of 32, side by side in bytes: loops that compilers make vectors of. */

/* ---- Q2_K ---- */

/* The two low bits of group g's levels: byte 32 * (g / 4) + l, at twice g % 4. */
static void pairs_of(const uint8_t qs[64], int g, int8_t *restrict q) {
    const uint8_t *from = qs + 32 * (g / 4);
    for (int l = 0; l < 32; l++) q[l] = (int8_t)(from[l] >> (2 * (g % 4)) & 3);
}

static void q2_k_unpack(const void *block, kt__super *out) {
    const kt__q2_k *b = block;
    header_set(out, b->d, b->dmin, true);
    for (int g = 0; g < 16; g++) {
        out->scale[g] = b->scales[g] & 15;
        out->min[g] = b->scales[g] >> 4;
    }
    for (int g = 0; g < 8; g++) pairs_of(b->qs, g, out->q + 32 * g);
}

static void q2_k_begin(const kt__fit *fit, void *block) {
    kt__q2_k *b = block;
    memset(b, 0, sizeof *b);
    b->d = fit->d;
    b->dmin = fit->dmin;
    for (int g = 0; g < 16; g++) b->scales[g] = (uint8_t)(fit->scale[g] | fit->min[g] << 4);
}

/* Four elements a byte, 32 apart: the two low bits of each level. */
static void set_pairs(const int8_t *q, int offset, uint8_t qs[64]) {
    for (int half = 0; half < 2; half++)
        for (int l = 0; l < 32; l++) {
            const int8_t *at = q + 128 * half + l;
            qs[32 * half + l] = (uint8_t)(((at[0] + offset) & 3) | ((at[32] + offset) & 3) << 2 |
                                          ((at[64] + offset) & 3) << 4 |
                                          ((at[96] + offset) & 3) << 6);
        }
}

static void q2_k_set_levels(const int8_t *q, void *block) {
    set_pairs(q, 0, ((kt__q2_k *)block)->qs);
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
    for (int g = 0; g < 8; g++) {
        int8_t *restrict q = out->q + 32 * g;
        pairs_of(b->qs, g, q);
        for (int l = 0; l < 32; l++) q[l] = (int8_t)(q[l] + 4 * (b->hmask[l] >> g & 1) - 4);
    }
}

static void q3_k_begin(const kt__fit *fit, void *block) {
    kt__q3_k *b = block;
    memset(b, 0, sizeof *b);
    b->d = fit->d;
    for (int g = 0; g < 16; g++) q3_k_scale_set(b->scales, g, fit->scale[g]);
}

static void q3_k_set_levels(const int8_t *q, void *block) {
    kt__q3_k *b = block;
    set_pairs(q, 4, b->qs);
    for (int l = 0; l < 32; l++) {
        int bits = 0;
        for (int g = 0; g < 8; g++) bits |= (q[32 * g + l] + 4) >> 2 << g;
        b->hmask[l] = (uint8_t)bits;
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

static void k_scales_pack(const kt__fit *fit, uint8_t s[12]) {
    for (int g = 0; g < 4; g++) {
        s[g] = (uint8_t)(fit->scale[g] | fit->scale[g + 4] >> 4 << 6);
        s[g + 4] = (uint8_t)(fit->min[g] | fit->min[g + 4] >> 4 << 6);
        s[g + 8] = (uint8_t)((fit->scale[g + 4] & 15) | (fit->min[g + 4] & 15) << 4);
    }
}

/* Group g's levels are in bytes 32 * (g / 2) + l, the low nibbles where g is even. */
static void nibbles_of(const uint8_t qs[128], int g, int8_t *restrict q) {
    const uint8_t *from = qs + 32 * (g / 2);
    for (int l = 0; l < 32; l++) q[l] = (int8_t)(from[l] >> (g % 2 * 4) & 15);
}

static void set_nibbles(const int8_t *q, uint8_t qs[128]) {
    for (int pair = 0; pair < 4; pair++)
        for (int l = 0; l < 32; l++) {
            const int8_t *at = q + 64 * pair + l;
            qs[32 * pair + l] = (uint8_t)((at[0] & 15) | (at[32] & 15) << 4);
        }
}

static void q4_k_unpack(const void *block, kt__super *out) {
    const kt__q4_k *b = block;
    header_set(out, b->d, b->dmin, true);
    k_scales_unpack(b->scales, out);
    for (int g = 0; g < 8; g++) nibbles_of(b->qs, g, out->q + 32 * g);
}

static void q4_k_begin(const kt__fit *fit, void *block) {
    kt__q4_k *b = block;
    b->d = fit->d;
    b->dmin = fit->dmin;
    k_scales_pack(fit, b->scales);
}

static void q4_k_set_levels(const int8_t *q, void *block) {
    set_nibbles(q, ((kt__q4_k *)block)->qs);
}

static void q5_k_unpack(const void *block, kt__super *out) {
    const kt__q5_k *b = block;
    header_set(out, b->d, b->dmin, true);
    k_scales_unpack(b->scales, out);
    for (int g = 0; g < 8; g++) {
        int8_t *restrict q = out->q + 32 * g;
        nibbles_of(b->qs, g, q);
        for (int l = 0; l < 32; l++) q[l] = (int8_t)(q[l] | (b->qh[l] >> g & 1) << 4);
    }
}

static void q5_k_begin(const kt__fit *fit, void *block) {
    kt__q5_k *b = block;
    b->d = fit->d;
    b->dmin = fit->dmin;
    k_scales_pack(fit, b->scales);
}

static void q5_k_set_levels(const int8_t *q, void *block) {
    kt__q5_k *b = block;
    set_nibbles(q, b->qs);
    for (int l = 0; l < 32; l++) {
        int bits = 0;
        for (int g = 0; g < 8; g++) bits |= q[32 * g + l] >> 4 << g;
        b->qh[l] = (uint8_t)bits;
    }
}

/* ---- Q6_K ---- */

/* Group g of 32: half g / 4, quarter g % 4. Quarters 0 and 1 are the low nibbles of ql[0..63] of
 * the half, 2 and 3 the high ones; the two high bits are in qh[0..31] of the half at twice the
 * quarter. */
static void q6_k_unpack(const void *block, kt__super *out) {
    const kt__q6_k *b = block;
    header_set(out, b->d, 0, false);
    for (int g = 0; g < 16; g++) out->scale[g] = b->scales[g];
    for (int g = 0; g < 8; g++) {
        int half = g / 4, quarter = g % 4;
        const uint8_t *low = b->ql + 64 * half + 32 * (quarter % 2), *high = b->qh + 32 * half;
        int8_t *restrict q = out->q + 32 * g;
        for (int l = 0; l < 32; l++)
            q[l] = (int8_t)(((low[l] >> (quarter / 2 * 4) & 15) | (high[l] >> (2 * quarter) & 3)
                                                                      << 4) -
                            32);
    }
}

static void q6_k_begin(const kt__fit *fit, void *block) {
    kt__q6_k *b = block;
    b->d = fit->d;
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)fit->scale[g];
}

static void q6_k_set_levels(const int8_t *q, void *block) {
    kt__q6_k *b = block;
    for (int half = 0; half < 2; half++)
        for (int l = 0; l < 32; l++) {
            const int8_t *at = q + 128 * half + l;
            int v[4];
            for (int k = 0; k < 4; k++) v[k] = at[32 * k] + 32;
            b->ql[64 * half + l] = (uint8_t)((v[0] & 15) | (v[2] & 15) << 4);
            b->ql[64 * half + 32 + l] = (uint8_t)((v[1] & 15) | (v[3] & 15) << 4);
            b->qh[32 * half + l] = (uint8_t)(v[0] >> 4 | v[1] >> 4 << 2 | v[2] >> 4 << 4 |
                                             v[3] >> 4 << 6);
        }
}

const kt__codec kt__codec_Q2_K = {
    .kind = KT__FIT_SUPER_AFFINE,
    .form = {.group = 16, .lo = 0, .hi = 3, .scale_hi = 15, .step = 0.05f},
    .begin = q2_k_begin,
    .set_levels = q2_k_set_levels,
    .unpack256 = q2_k_unpack,
};
const kt__codec kt__codec_Q3_K = {
    .kind = KT__FIT_SUPER_GROUPS,
    .form = {.group = 16,
             .lo = -4,
             .hi = 3,
             .scale_lo = -32,
             .scale_hi = 31,
             .step = 0.2f,
             .tries = 8,
             .reach = 5,
             .stride = 1},
    .begin = q3_k_begin,
    .set_levels = q3_k_set_levels,
    .unpack256 = q3_k_unpack,
};
const kt__codec kt__codec_Q4_K = {
    .kind = KT__FIT_SUPER_AFFINE,
    .form = {.group = 32, .lo = 0, .hi = 15, .scale_hi = 63, .step = 0.06f},
    .begin = q4_k_begin,
    .set_levels = q4_k_set_levels,
    .unpack256 = q4_k_unpack,
};
const kt__codec kt__codec_Q5_K = {
    .kind = KT__FIT_SUPER_AFFINE,
    .form = {.group = 32, .lo = 0, .hi = 31, .scale_hi = 63, .step = 0.06f},
    .begin = q5_k_begin,
    .set_levels = q5_k_set_levels,
    .unpack256 = q5_k_unpack,
};
const kt__codec kt__codec_Q6_K = {
    .kind = KT__FIT_SUPER_GROUPS,
    .form = {.group = 16,
             .lo = -32,
             .hi = 31,
             .scale_lo = -128,
             .scale_hi = 127,
             .step = 0.25f,
             .tries = 6,
             .reach = 4,
             .stride = 2},
    .begin = q6_k_begin,
    .set_levels = q6_k_set_levels,
    .unpack256 = q6_k_unpack,
};
