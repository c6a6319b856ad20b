/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32 with one scale, and one minimum in the _1 types. */
#include <string.h>

#include "base/math.h"
#include "quant/blocks.h"
#include "quant/codec.h"

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

static void pack_nibbles(const int8_t *q, int offset, uint8_t qs[16]) {
    for (int i = 0; i < 16; i++)
        qs[i] = (uint8_t)(((q[i] + offset) & 15) | ((q[i + 16] + offset) & 15) << 4);
}

static void pack_fifths(const int8_t *q, int offset, uint8_t qh[4]) {
    for (int byte = 0; byte < 4; byte++) {
        int bits = 0;
        for (int i = 0; i < 8; i++) bits |= ((q[8 * byte + i] + offset) >> 4 & 1) << i;
        qh[byte] = (uint8_t)bits;
    }
}

/* All these begin with d; the types with a minimum have m after it, as what is added. */
static void scale_begin(const kt__fit *fit, void *block) {
    ((kt__q4_0 *)block)->d = fit->d;
}

static void line_begin(const kt__fit *fit, void *block) {
    kt__q4_1 *b = block;
    b->d = fit->d;
    b->m = fit->dmin ^ 0x8000u;
}

static void q4_0_set_levels(const int8_t *q, void *block) {
    pack_nibbles(q, 8, ((kt__q4_0 *)block)->qs);
}

static void q4_1_set_levels(const int8_t *q, void *block) {
    pack_nibbles(q, 0, ((kt__q4_1 *)block)->qs);
}

static void q5_0_set_levels(const int8_t *q, void *block) {
    kt__q5_0 *b = block;
    pack_nibbles(q, 16, b->qs);
    pack_fifths(q, 16, b->qh);
}

static void q5_1_set_levels(const int8_t *q, void *block) {
    kt__q5_1 *b = block;
    pack_nibbles(q, 0, b->qs);
    pack_fifths(q, 0, b->qh);
}

static void q8_0_set_levels(const int8_t *q, void *block) {
    memcpy(((kt__q8_0 *)block)->qs, q, 32);
}

const kt__codec kt__codec_Q4_0 = {
    .kind = KT__FIT_BLOCK_GROUPS,
    .form = {.group = 32, .lo = -8, .hi = 7, .step = 0.2f, .tries = 8},
    .begin = scale_begin,
    .set_levels = q4_0_set_levels,
    .unpack32 = q4_0_unpack,
};
const kt__codec kt__codec_Q4_1 = {
    .kind = KT__FIT_BLOCK_AFFINE,
    .form = {.group = 32, .lo = 0, .hi = 15, .step = 0.06f, .signed_min = true},
    .begin = line_begin,
    .set_levels = q4_1_set_levels,
    .unpack32 = q4_1_unpack,
};
const kt__codec kt__codec_Q5_0 = {
    .kind = KT__FIT_BLOCK_GROUPS,
    .form = {.group = 32, .lo = -16, .hi = 15, .step = 0.2f, .tries = 8},
    .begin = scale_begin,
    .set_levels = q5_0_set_levels,
    .unpack32 = q5_0_unpack,
};
const kt__codec kt__codec_Q5_1 = {
    .kind = KT__FIT_BLOCK_AFFINE,
    .form = {.group = 32, .lo = 0, .hi = 31, .step = 0.06f, .signed_min = true},
    .begin = line_begin,
    .set_levels = q5_1_set_levels,
    .unpack32 = q5_1_unpack,
};
const kt__codec kt__codec_Q8_0 = {
    .kind = KT__FIT_BLOCK_ROUND,
    .form = {.group = 32, .lo = -127, .hi = 127},
    .begin = scale_begin,
    .set_levels = q8_0_set_levels,
    .unpack32 = q8_0_unpack,
};

/* ---- codec float ---- */

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

/* IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 uneven levels. */

const int8_t kt__iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
static const kt__fit_rungs rungs = {
    .level = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    .half = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101}};
/* The index of each level, by how far it is above the lowest. */
static const uint8_t index_above[113 + 127 + 1] = {
    [23] = 1,  [44] = 2,   [62] = 3,   [78] = 4,   [92] = 5,   [105] = 6,  [117] = 7, [128] = 8,
    [140] = 9, [152] = 10, [165] = 11, [180] = 12, [196] = 13, [216] = 14, [240] = 15};

static void unpack_table(const uint8_t qs[16], int8_t q[32]) {
    for (int i = 0; i < 16; i++) {
        q[i] = kt__iq4_table[qs[i] & 15];
        q[i + 16] = kt__iq4_table[qs[i] >> 4];
    }
}

static int index_of(int8_t value) {
    return index_above[value + 127];
}

static void pack_table(const int8_t q[32], uint8_t qs[16]) {
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)(index_of(q[i]) | index_of(q[i + 16]) << 4);
}

static void iq4_nl_unpack(const void *block, kt__block32 *out) {
    const kt__iq4_nl *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->m = 0;
    out->has_min = false;
    unpack_table(b->qs, out->q);
}

static void iq4_nl_begin(const kt__fit *fit, void *block) {
    ((kt__iq4_nl *)block)->d = fit->d;
}

static void iq4_nl_set_levels(const int8_t *q, void *block) {
    pack_table(q, ((kt__iq4_nl *)block)->qs);
}

static void iq4_xs_unpack(const void *block, kt__super *out) {
    const kt__iq4_xs *b = block;
    out->d = kt__f16_to_f32(b->d);
    out->dmin = 0;
    out->has_min = false;
    memset(out->min, 0, sizeof out->min);
    for (int g = 0; g < 8; g++) {
        int low = b->scales_l[g / 2] >> (4 * (g % 2)) & 15, high = b->scales_h >> (2 * g) & 3;
        out->scale[2 * g] = out->scale[2 * g + 1] = (int16_t)((low | high << 4) - 32);
        unpack_table(b->qs + 16 * g, out->q + 32 * g);
    }
}

static void iq4_xs_begin(const kt__fit *fit, void *block) {
    kt__iq4_xs *b = block;
    memset(b, 0, sizeof *b);
    b->d = fit->d;
    for (int g = 0; g < 8; g++) {
        int scale = fit->scale[g] + 32;
        b->scales_l[g / 2] = (uint8_t)(b->scales_l[g / 2] | (scale & 15) << (4 * (g % 2)));
        b->scales_h = (uint16_t)(b->scales_h | scale >> 4 << (2 * g));
    }
}

static void iq4_xs_set_levels(const int8_t *q, void *block) {
    for (int g = 0; g < 8; g++) pack_table(q + 32 * g, ((kt__iq4_xs *)block)->qs + 16 * g);
}

const kt__codec kt__codec_IQ4_NL = {
    .kind = KT__FIT_BLOCK_SCALED,
    .form =
        {.group = 32, .table = kt__iq4_table, .rungs = &rungs, .lo = -127, .hi = 113, .step = 1.0f},
    .begin = iq4_nl_begin,
    .set_levels = iq4_nl_set_levels,
    .unpack32 = iq4_nl_unpack,
};
const kt__codec kt__codec_IQ4_XS = {
    .kind = KT__FIT_SUPER_SCALED,
    .form = {.group = 32,
             .table = kt__iq4_table,
             .rungs = &rungs,
             .lo = -127,
             .hi = 113,
             .scale_lo = -32,
             .scale_hi = 31,
             .step = 1.0f},
    .begin = iq4_xs_begin,
    .set_levels = iq4_xs_set_levels,
    .unpack256 = iq4_xs_unpack,
};
