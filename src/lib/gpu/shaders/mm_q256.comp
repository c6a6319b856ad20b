/* Products with types of 256 weights (NUMERICS, 6): an invocation has a row, and TOK tokens.
 *
 * KIND: 0 Q4_K, 1 Q5_K, 2 Q6_K, 3 Q2_K, 4 Q3_K; 8 more for a single token. at: weights, activations,
 * out, bias, residual.
 * n: the first row's byte from at[0], bytes of a row, rows, columns, bytes of an activation row and
 * where its d and s16 are, floats of a row of out and of residual, 1 bias + 2 residual, tokens. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

const uint TOK = KIND >= 8 ? 1u : 4u;
const int TYPE = KIND & 7;

const uint BLOCK[5] = uint[](144u, 176u, 210u, 84u, 110u);

/* Bytes of 0 to 127, each less by `by`, as signed ones. */
uint less(uint bytes, uint by) { return ((bytes | 0x80808080u) - by * 0x01010101u) ^ 0x80808080u; }

/* A scale or a minimum of six bits (Q4_K, Q5_K): of 32 weights. */
void six_bits(Words w, uint s, uint g, out int scale, out int low) {
    uint a = byte_at(w, s + g), b = byte_at(w, s + g + 4u);
    if (g < 4u) {
        scale = int(a & 63u);
        low = int(b & 63u);
    } else {
        uint c = byte_at(w, s + g - 4u);
        scale = int((b & 15u) | c >> 6 << 4);
        low = int(b >> 4 | a >> 6 << 4);
    }
}

/* Of 16 weights; Q3_K's are 32 less. */
int q3_scale(Words w, uint s, uint g) {
    uint low = byte_at(w, s + (g & 7u)) >> (g >= 8u ? 4u : 0u) & 15u;
    uint high = byte_at(w, s + 8u + (g & 3u)) >> 2u * (g >> 2) & 3u;
    return int(low | high << 4) - 32;
}

/* The g-th 16 weights of the block at a byte: q, their scale, their minimum. */
void group_of(Words w, uint at, uint g, out uint q[4], out int scale, out int low) {
    uint part = 16u * (g & 1u);
    low = 0;
    scale = 0;
    if (TYPE <= 1) {
        uint qs = at + (TYPE == 0 ? 16u : 48u) + 32u * (g >> 2) + part;
        uint shift = (g >> 1 & 1u) * 4u;
        six_bits(w, at + 4u, g >> 1, scale, low);
        for (uint i = 0u; i < 4u; i++) {
            q[i] = word_at(w, qs + 4u * i) >> shift & 0x0f0f0f0fu;
            if (TYPE == 1)
                q[i] |= (word_at(w, at + 16u + part + 4u * i) >> (g >> 1) & 0x01010101u) << 4;
        }
    } else if (TYPE == 2) {
        uint in_half = g >> 3, quarter = g >> 1 & 3u;
        uint ql = at + 64u * in_half + 32u * (quarter & 1u) + part;
        uint qh = at + 128u + 32u * in_half + part;
        scale = bitfieldExtract(int(byte_at(w, at + 192u + g)), 0, 8);
        for (uint i = 0u; i < 4u; i++) {
            uint lo = word_at(w, ql + 4u * i) >> (quarter >> 1) * 4u & 0x0f0f0f0fu;
            uint hi = word_at(w, qh + 4u * i) >> 2u * quarter & 0x03030303u;
            q[i] = less(lo | hi << 4, 32u);
        }
    } else {
        uint in_half = g >> 3, quarter = g >> 1 & 3u;
        uint qs = at + (TYPE == 3 ? 16u : 32u) + 32u * in_half + part;
        if (TYPE == 3) {
            uint both = byte_at(w, at + g);
            scale = int(both & 15u);
            low = int(both >> 4);
        } else {
            scale = q3_scale(w, at + 96u, g);
        }
        for (uint i = 0u; i < 4u; i++) {
            q[i] = word_at(w, qs + 4u * i) >> 2u * quarter & 0x03030303u;
            if (TYPE == 4) {
                uint third = word_at(w, at + part + 4u * i) >> (4u * in_half + quarter);
                q[i] = less(q[i] | (third & 0x01010101u) << 2, 4u);
            }
        }
    }
}

/* d, and what minima count. */
void header_of(Words w, uint at, out float d, out float dmin) {
    dmin = 0.0;
    if (TYPE <= 1) {
        d = from_f16(half_at(w, at));
        dmin = from_f16(half_at(w, at + 2u));
    } else if (TYPE == 2) {
        d = from_f16(half_at(w, at + 208u));
    } else if (TYPE == 3) {
        d = from_f16(half_at(w, at + 80u));
        dmin = from_f16(half_at(w, at + 82u));
    } else {
        d = from_f16(half_at(w, at + 108u));
    }
}

const bool HAS_MIN = TYPE <= 1 || TYPE == 3;

void main() {
    uint r = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * TOK, n_tok = pc.n[10];
    if (r >= pc.n[2]) return;
    Words w = Words(pc.at[0]), x = Words(pc.at[1]);
    float acc[TOK];
    uint row[TOK]; /* words before each token's activations */
    for (uint t = 0u; t < TOK; t++) {
        acc[t] = opaque_zero();
        row[t] = min(t0 + t, n_tok - 1u) * (pc.n[4] >> 2);
    }
    uint n_block = pc.n[3] / 256u;
    for (uint b = 0u; b < n_block; b++) {
        uint at = pc.n[0] + r * pc.n[1] + b * BLOCK[TYPE];
        int isum[TOK], msum[TOK];
        for (uint t = 0u; t < TOK; t++) isum[t] = msum[t] = 0;
        for (uint g = 0u; g < 16u; g++) {
            uint q[4];
            int scale, low;
            group_of(w, at, g, q, scale, low);
            for (uint t = 0u; t < TOK; t++) {
                uint from = row[t] + b * 64u + g * 4u;
                int sum = dot4(q[0], x.v[from]) + dot4(q[1], x.v[from + 1u]) +
                          dot4(q[2], x.v[from + 2u]) + dot4(q[3], x.v[from + 3u]);
                isum[t] += scale * sum;
                if (HAS_MIN) {
                    uint two = x.v[row[t] + (pc.n[6] >> 2) + b * 8u + (g >> 1)];
                    msum[t] += low * bitfieldExtract(int(two), int(g & 1u) * 16, 16);
                }
            }
        }
        float d, dmin;
        header_of(w, at, d, dmin);
        for (uint t = 0u; t < TOK; t++) {
            float v = mul(d, float(isum[t]));
            if (HAS_MIN) v = fma_exact(negative(dmin), float(msum[t]), v);
            float xd = uintBitsToFloat(x.v[row[t] + (pc.n[5] >> 2) + b]);
            acc[t] = fma_exact(xd, v, acc[t]);
        }
    }
    for (uint t = 0u; t < TOK && t0 + t < n_tok; t++) {
        float y = acc[t];
        if ((pc.n[9] & 1u) != 0u) y = add(y, Floats(pc.at[3]).v[r]);
        if ((pc.n[9] & 2u) != 0u) y = add(y, Floats(pc.at[4]).v[(t0 + t) * pc.n[8] + r]);
        Floats(pc.at[2]).v[(t0 + t) * pc.n[7] + r] = y;
    }
}
