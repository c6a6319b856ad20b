/* One head of one token after its product (NUMERICS, 7 and 8): norm, rotation, scale, its place.
 *
 * KIND: 0 a query to the rows that attention reads, 1 a key to its page, 2 a value. at: rows,
 * cosines and sines, norm weights, where to (queries: rows; else for each token the page of head 0
 * as an address, the slot, and how far heads lie apart), factors of tokens. n: floats of a token in rows, of a head, rotated
 * ones, 1 norm + 2 after the rotation + 4 by halves + 8 factors, bits of epsilon and of the scale,
 * heads of a group, tokens. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float x[1024];
shared float lanes[16];
shared float factor;

void norm_head(uint me, uint hd) {
    if (me < 16u) {
        float sum = opaque_zero();
        for (uint i = me; i < hd; i += 16u) sum = fma_exact(x[i], x[i], sum);
        lanes[me] = sum;
    }
    barrier();
    if (me == 0u) {
        float mean = add(divide(tree_sum(lanes), float(hd)), uintBitsToFloat(pc.n[4]));
        factor = divide(1.0, square_root(mean));
    }
    barrier();
    for (uint i = me; i < hd; i += 64u) x[i] = mul(mul(x[i], factor), Floats(pc.at[2]).v[i]);
    barrier();
}

void rotate_head(uint me, uint t, uint n_rot) {
    Floats cs = Floats(pc.at[1]);
    uint pairs = n_rot / 2u;
    bool halves = (pc.n[3] & 4u) != 0u;
    for (uint i = me; i < pairs; i += 64u) {
        uint a = halves ? i : 2u * i, b = halves ? i + pairs : 2u * i + 1u;
        float c = cs.v[t * n_rot + i], s = cs.v[t * n_rot + pairs + i], x0 = x[a], x1 = x[b];
        x[a] = fma_exact(negative(x1), s, mul(x0, c));
        x[b] = fma_exact(x0, s, mul(x1, c));
    }
    barrier();
}

/* A key's numbers lie 16 positions apart, two positions in a word, which another token's group may
 * write at the same time. */
void store_key(Words page, uint me, uint hd, uint slot) {
    uint shift = (slot & 1u) * 16u;
    for (uint d = me; d < hd; d += 64u) {
        uint at = (d * 16u + slot) >> 1;
        atomicAnd(page.v[at], 0xffff0000u >> shift);
        atomicOr(page.v[at], clamped_f16(x[d]) << shift);
    }
}

void store_value(Words page, uint me, uint hd, uint slot) {
    for (uint i = me; i < hd / 2u; i += 64u)
        page.v[slot * hd / 2u + i] = clamped_f16(x[2u * i]) | clamped_f16(x[2u * i + 1u]) << 16;
}

void main() {
    uint head = gl_WorkGroupID.x, t = gl_WorkGroupID.y, me = gl_LocalInvocationID.x, hd = pc.n[1];
    uint flags = pc.n[3];
    Floats rows = Floats(pc.at[0]);
    for (uint i = me; i < hd; i += 64u) x[i] = rows.v[t * pc.n[0] + head * hd + i];
    barrier();
    if ((flags & 3u) == 1u) norm_head(me, hd);
    if (pc.n[2] != 0u) rotate_head(me, t, pc.n[2]);
    if ((flags & 3u) == 3u) norm_head(me, hd);
    if (KIND == 0) {
        uint group = pc.n[6], n_tok = pc.n[7];
        float scale = uintBitsToFloat(pc.n[5]);
        if ((flags & 8u) != 0u) scale = mul(scale, Floats(pc.at[4]).v[t]);
        uint to = ((head / group * n_tok + t) * group + head % group) * hd;
        for (uint i = me; i < hd; i += 64u) Floats(pc.at[3]).v[to + i] = mul(x[i], scale);
        return;
    }
    Words table = Words(pc.at[3]);
    uvec2 address = moved(uvec2(table.v[4u * t], table.v[4u * t + 1u]), head * table.v[4u * t + 3u]);
    uint slot = table.v[4u * t + 2u];
    if ((table.v[4u * t] | table.v[4u * t + 1u]) == 0u) return; /* a row that is not computed any more */
    if (KIND == 1)
        store_key(Words(address), me, hd, slot);
    else
        store_value(Words(address), me, hd, slot);
}
