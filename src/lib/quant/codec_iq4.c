/* IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 uneven levels. */
#include <string.h>

#include "quant/blocks.h"
#include "quant/codec.h"

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
