/* Products with types of 32 weights (NUMERICS, 6): an invocation has a row, and TOK tokens.
 *
 * KIND: 0 Q4_0, 1 Q4_1, 2 Q5_0, 3 Q5_1, 4 Q8_0, 5 IQ4_NL; 8 more for a single token. at and n as of mm_q256.comp, with s32 in
 * place of s16. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

const uint TOK = KIND >= 8 ? 1u : 4u;
const int TYPE = KIND & 7;

const uint BLOCK[6] = uint[](18u, 20u, 22u, 24u, 34u, 18u);
const bool HAS_MIN = TYPE == 1 || TYPE == 3;
const bool HAS_FIFTH = TYPE == 2 || TYPE == 3;

uint less(uint bytes, uint by) { return ((bytes | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u; }

/* quant/blocks.h: the levels of IQ4_NL */
const int LEVELS[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

uint level_of(uint nibbles) {
    uint q = 0u;
    for (int i = 0; i < 32; i += 8)
        q |= (uint(LEVELS[bitfieldExtract(nibbles, i, 4)]) & 0xffu) << i;
    return q;
}

/* The block's weights i .. i + 3 of 4 * word. */
uint levels_at(Words w, uint at, uint word) {
    if (TYPE == 4) return word_at(w, at + 2u + 4u * word);
    uint qs = at + (TYPE == 0 || TYPE == 5 ? 2u : TYPE == 1 ? 4u : TYPE == 2 ? 6u : 8u);
    uint q = word_at(w, qs + 4u * (word & 3u)) >> (word >> 2) * 4u & 0x0f0f0f0fu;
    if (TYPE == 5) return level_of(q);
    if (HAS_FIFTH) {
        uint fifth = word_at(w, at + (TYPE == 2 ? 2u : 4u)) >> 4u * word & 15u;
        q |= (fifth * 0x00204081u & 0x01010101u) << 4;
    }
    if (TYPE == 0) q = less(q, 8u);
    if (TYPE == 2) q = less(q, 16u);
    return q;
}

void main() {
    uint r = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * TOK, n_tok = pc.n[10];
    if (r >= pc.n[2]) return;
    Words w = Words(pc.at[0]), x = Words(pc.at[1]);
    float acc[TOK], v[TOK];
    uint row[TOK];
    for (uint t = 0u; t < TOK; t++) {
        acc[t] = opaque_zero();
        v[t] = 0.0;
        row[t] = min(t0 + t, n_tok - 1u) * (pc.n[4] >> 2);
    }
    uint n_block = pc.n[3] / 32u;
    for (uint b = 0u; b < n_block; b++) {
        uint at = pc.n[0] + r * pc.n[1] + b * BLOCK[TYPE];
        int sum[TOK];
        for (uint t = 0u; t < TOK; t++) sum[t] = 0;
        for (uint i = 0u; i < 8u; i++) {
            uint q = levels_at(w, at, i);
            for (uint t = 0u; t < TOK; t++) sum[t] += dot4(q, x.v[row[t] + b * 8u + i]);
        }
        float d = from_f16(half_at(w, at)), m = HAS_MIN ? from_f16(half_at(w, at + 2u)) : 0.0;
        for (uint t = 0u; t < TOK; t++) {
            float xd = uintBitsToFloat(x.v[row[t] + (pc.n[5] >> 2) + b]);
            float c = mul(d, xd);
            if (b % 8u == 0u)
                v[t] = mul(c, float(sum[t]));
            else
                v[t] = fma_exact(c, float(sum[t]), v[t]);
            if (HAS_MIN) {
                uint two = x.v[row[t] + (pc.n[6] >> 2) + (b >> 1)];
                int s32 = bitfieldExtract(int(two), int(b & 1u) * 16, 16);
                v[t] = fma_exact(mul(m, xd), float(s32), v[t]);
            }
            if (b % 8u == 7u || b == n_block - 1u) acc[t] = add(acc[t], v[t]);
        }
    }
    for (uint t = 0u; t < TOK && t0 + t < n_tok; t++) {
        float y = acc[t];
        if ((pc.n[9] & 1u) != 0u) y = add(y, Floats(pc.at[3]).v[r]);
        if ((pc.n[9] & 2u) != 0u) y = add(y, Floats(pc.at[4]).v[(t0 + t) * pc.n[8] + r]);
        Floats(pc.at[2]).v[(t0 + t) * pc.n[7] + r] = y;
    }
}
