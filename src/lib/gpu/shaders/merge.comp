/* A query's splits in ascending order, the sink, and the division (NUMERICS, 9).
 *
 * at: results of attention.comp, tokens, sinks, out. n: heads, numbers of a value, the first token
 * and split of the results, splits, 1: there are sinks. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

const uint MOST = 1024u; /* splits */

shared float a[MOST + 1u], b[MOST + 1u];
shared float inverse;

/* M, L and how much the parts count, from the first visible split on. */
void weigh(Floats part, uint at, uint step, uint first, uint end, uint head) {
    float M = part.v[at + first * step], L = part.v[at + first * step + 1u];
    for (uint s = first + 1u; s <= end; s++) {
        if (s == end && pc.n[5] == 0u) break;
        float m, l;
        if (s < end) {
            m = part.v[at + s * step];
            l = part.v[at + s * step + 1u];
        } else {
            m = Floats(pc.at[2]).v[head];
            l = 1.0;
        }
        float top = m > M ? m : M;
        a[s] = exp_exact(sub(M, top));
        b[s] = exp_exact(sub(m, top));
        M = top;
        L = fma_exact(a[s], L, mul(b[s], l));
    }
    inverse = divide(1.0, L);
}

void main() {
    uint head = gl_WorkGroupID.x, t = gl_WorkGroupID.y + pc.n[2], me = gl_LocalInvocationID.x;
    uint hv = pc.n[1], step = hv + 2u;
    Words token = Words(pc.at[1]);
    Floats part = Floats(pc.at[0]);
    uint from = token.v[4u * t], to = token.v[4u * t + 1u];
    if (from >= to) return;
    uint first = from / 256u - pc.n[3], end = (to - 1u) / 256u + 1u - pc.n[3];
    uint at = (gl_WorkGroupID.y * pc.n[0] + head) * pc.n[4] * step;
    if (me == 0u) weigh(part, at, step, first, end, head);
    barrier();
    for (uint d = me; d < hv; d += 64u) {
        float o = part.v[at + first * step + 2u + d];
        for (uint s = first + 1u; s < end; s++)
            o = fma_exact(a[s], o, mul(b[s], part.v[at + s * step + 2u + d]));
        if (pc.n[5] != 0u) o = fma_exact(a[end], o, mul(b[end], opaque_zero()));
        Floats(pc.at[3]).v[(t * pc.n[0] + head) * hv + d] = mul(o, inverse);
    }
}
