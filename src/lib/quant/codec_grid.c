/* IQ2, IQ3 and IQ1: indices into codebooks of 8 or 4 weights, their signs, and scales. */
#include <string.h>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/grids.h"

static void super_clear(kt__super *out, float d) {
    out->d = d;
    out->dmin = 0;
    out->has_min = false;
    memset(out->min, 0, sizeof out->min);
}

/* n bytes of an entry, those whose bit is set in `signs` negative */
static void put_entry(uint64_t entry, int n, int signs, int8_t *q) {
    for (int j = 0; j < n; j++) {
        int level = (int)(entry >> 8 * j & 255) - KT__GRID_BIAS;
        q[j] = (int8_t)(signs >> j & 1 ? -level : level);
    }
}

static int16_t odd_scale(int s) {
    return (int16_t)(2 * s + 1);
}

/* the scale of each 16 weights from nibbles, the low one first */
static void put_nibble_scales(const uint8_t *nibbles, int16_t *scale) {
    for (int g = 0; g < 16; g++) scale[g] = odd_scale(nibbles[g / 2] >> g % 2 * 4 & 15);
}

static void iq2_xxs_unpack(const void *block, kt__super *out) {
    const kt__iq2_xxs *b = block;
    super_clear(out, kt__f16_to_f32(b->d) * 0.125f);
    for (int g = 0; g < 8; g++) {
        uint64_t signs = kt__signs_of_sevens(b->group[g].rest);
        out->scale[2 * g] = out->scale[2 * g + 1] = odd_scale((int)(b->group[g].rest >> 28));
        for (int v = 0; v < 4; v++)
            put_entry(kt__grid_iq2_xxs[b->group[g].index[v]], 8, (int)(signs >> 8 * v & 255),
                      out->q + 32 * g + 8 * v);
    }
}

static void iq2_xs_unpack(const void *block, kt__super *out) {
    const kt__iq2_xs *b = block;
    super_clear(out, kt__f16_to_f32(b->d) * 0.125f);
    put_nibble_scales(b->scales, out->scale);
    for (int v = 0; v < 32; v++)
        put_entry(kt__grid_iq2_xs[b->qs[v] & 511], 8, (int)kt__signs_of_sevens(b->qs[v] >> 9),
                  out->q + 8 * v);
}

static void iq2_s_unpack(const void *block, kt__super *out) {
    const kt__iq2_s *b = block;
    super_clear(out, kt__f16_to_f32(b->d) * 0.125f);
    put_nibble_scales(b->scales, out->scale);
    for (int v = 0; v < 32; v++) {
        int index = b->qs[v] | (b->qh[v / 4] >> v % 4 * 2 & 3) << 8;
        put_entry(kt__grid_iq2_s[index], 8, b->signs[v], out->q + 8 * v);
    }
}

static void iq3_xxs_unpack(const void *block, kt__super *out) {
    const kt__iq3_xxs *b = block;
    super_clear(out, kt__f16_to_f32(b->d) * 0.25f);
    for (int g = 0; g < 8; g++) {
        uint64_t signs = kt__signs_of_sevens(b->rest[g]);
        out->scale[2 * g] = out->scale[2 * g + 1] = odd_scale((int)(b->rest[g] >> 28));
        for (int v = 0; v < 8; v++)
            put_entry(kt__grid_iq3_xxs[b->qs[8 * g + v]], 4, (int)(signs >> 4 * v & 15),
                      out->q + 32 * g + 4 * v);
    }
}

static void iq3_s_unpack(const void *block, kt__super *out) {
    const kt__iq3_s *b = block;
    super_clear(out, kt__f16_to_f32(b->d));
    for (int g = 0; g < 8; g++)
        out->scale[2 * g] = out->scale[2 * g + 1] = odd_scale(b->scales[g / 2] >> g % 2 * 4 & 15);
    for (int v = 0; v < 64; v++) {
        int index = b->qs[v] | (b->qh[v / 8] >> v % 8 & 1) << 8;
        put_entry(kt__grid_iq3_s[index], 4, b->signs[v / 2] >> v % 2 * 4 & 15, out->q + 4 * v);
    }
}

/* Entries are eighths of d, to which one is added, or from which it is taken. */
static void put_shifted(uint64_t entry, bool down, int8_t *q) {
    for (int j = 0; j < 8; j++)
        q[j] = (int8_t)((int)(entry >> 8 * j & 255) - KT__GRID_BIAS + (down ? -1 : 1));
}

static void iq1_s_unpack(const void *block, kt__super *out) {
    const kt__iq1_s *b = block;
    super_clear(out, kt__f16_to_f32(b->d) * 0.125f);
    for (int g = 0; g < 8; g++)
        out->scale[2 * g] = out->scale[2 * g + 1] = odd_scale(b->qh[g] >> 12 & 7);
    for (int v = 0; v < 32; v++) {
        int index = b->qs[v] | (b->qh[v / 4] >> v % 4 * 3 & 7) << 8;
        put_shifted(kt__grid_iq1[index], b->qh[v / 4] >> 15, out->q + 8 * v);
    }
}

static void iq1_m_unpack(const void *block, kt__super *out) {
    const kt__iq1_m *b = block;
    int d = 0;
    for (int i = 0; i < 4; i++) d |= (b->scales[i] >> 12) << 4 * i;
    super_clear(out, kt__f16_to_f32((kt__f16)d) * 0.125f);
    for (int g = 0; g < 16; g++) out->scale[g] = odd_scale(b->scales[g / 4] >> g % 4 * 3 & 7);
    for (int v = 0; v < 32; v++) {
        int high = b->qh[v / 2] >> v % 2 * 4 & 15;
        put_shifted(kt__grid_iq1[b->qs[v] | (high & 7) << 8], high >> 3, out->q + 8 * v);
    }
}

#define CODEC(NAME, unpack)              \
    const kt__codec kt__codec_##NAME = { \
        .encode_block = kt__encode_##NAME, .choose_again = kt__choose_##NAME, .unpack256 = unpack}
CODEC(IQ2_XXS, iq2_xxs_unpack);
CODEC(IQ2_XS, iq2_xs_unpack);
CODEC(IQ2_S, iq2_s_unpack);
CODEC(IQ3_XXS, iq3_xxs_unpack);
CODEC(IQ3_S, iq3_s_unpack);
const kt__codec kt__codec_IQ1_S = {.encode_block = kt__encode_IQ1_S, .unpack256 = iq1_s_unpack};
const kt__codec kt__codec_IQ1_M = {.encode_block = kt__encode_IQ1_M, .unpack256 = iq1_m_unpack};
