/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32 with one scale, and one minimum in the _1 types. */
#include <string.h>

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
