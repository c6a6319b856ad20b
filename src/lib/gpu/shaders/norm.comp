/* RMS norm of rows (NUMERICS, 7): a workgroup has one. KIND: 0 to out, 1 added to it.
 *
 * at: x, weights, out, a word that becomes other than 0 where a sum is not finite. n: numbers of a
 * row, bits of epsilon, 1: there are weights. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float lanes[16];
shared float factor;

void main() {
    uint n = pc.n[0], row = gl_WorkGroupID.x * n, me = gl_LocalInvocationID.x;
    Floats x = Floats(pc.at[0]), w = Floats(pc.at[1]), y = Floats(pc.at[2]);
    if (me < 16u) {
        float sum = opaque_zero();
        for (uint i = me; i < n; i += 16u) sum = fma_exact(x.v[row + i], x.v[row + i], sum);
        lanes[me] = sum;
    }
    barrier();
    if (me == 0u) {
        float sum = tree_sum(lanes);
        if (!is_finite(sum)) atomicOr(Words(pc.at[3]).v[0], 1u);
        float mean = add(divide(sum, float(n)), uintBitsToFloat(pc.n[1]));
        factor = divide(1.0, square_root(mean));
    }
    barrier();
    for (uint i = me; i < n; i += 64u) {
        float v = mul(x.v[row + i], factor);
        if (pc.n[2] != 0u) v = mul(v, w.v[i]);
        y.v[row + i] = KIND == 0 ? v : add(y.v[row + i], v);
    }
}
