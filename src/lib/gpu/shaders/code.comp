/* Queries as the codes that scores with quantised keys take (NUMERICS, 9): a workgroup has one.
 *
 * at: queries, codes. n: numbers of a query, bytes of its codes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float x[1024];
shared float most[64];
shared uint bad[64];
shared int sums[64];

void main() {
    uint me = gl_LocalInvocationID.x, hd = pc.n[0], row = gl_WorkGroupID.x;
    uint block = hd & (~hd + 1u), dims = (hd + 7u) / 8u * 8u, to = row * (pc.n[1] >> 2);
    Words y = Words(pc.at[1]);
    for (uint d = me; d < dims; d += 64u) x[d] = d < hd ? Floats(pc.at[0]).v[row * hd + d] : 0.0;
    barrier();
    for (uint apart = 1u; apart < block; apart *= 2u) {
        for (uint i = me; i < hd / 2u; i += 64u) {
            uint at = i / apart * 2u * apart + i % apart;
            float a = x[at], b = x[at + apart];
            x[at] = add(a, b);
            x[at + apart] = sub(a, b);
        }
        barrier();
    }
    most[me] = 0.0;
    bad[me] = 0u;
    for (uint d = me; d < hd; d += 64u) {
        float magnitude = uintBitsToFloat(floatBitsToUint(x[d]) & 0x7fffffffu);
        if (!is_finite(x[d])) bad[me] = 1u;
        if (magnitude > most[me]) most[me] = magnitude;
    }
    barrier();
    for (uint apart = 32u; apart > 0u; apart /= 2u) {
        if (me < apart) {
            if (most[me + apart] > most[me]) most[me] = most[me + apart];
            bad[me] |= bad[me + apart];
        }
        barrier();
    }
    bool finite = bad[0] == 0u, zeros = !finite || most[0] < uintBitsToFloat(0x0d800000u);
    float inverse = zeros ? 0.0 : divide(127.0, most[0]);
    int sum = 0;
    for (uint i = me; i < dims / 4u; i += 64u) {
        uint word = 0u;
        for (uint j = 0u; j < 4u; j++) {
            float v = x[4u * i + j];
            int q = zeros ? 0 : int(clamp(round_even(mul(v, inverse)), -127.0, 127.0));
            sum += q;
            word |= uint(q & 0xff) << 8u * j;
        }
        y.v[to + i] = word;
    }
    sums[me] = sum;
    barrier();
    if (me != 0u) return;
    for (uint i = 1u; i < 64u; i++) sum += sums[i];
    float scale = zeros ? uintBitsToFloat(finite ? 0u : 0x7fc00000u) : divide(most[0], 127.0);
    y.v[to + dims / 4u] = floatBitsToUint(divide(scale, float(block)));
    y.v[to + dims / 4u + 1u] = uint(sum);
    for (uint i = dims / 4u + 2u; i < pc.n[1] >> 2; i++) y.v[to + i] = 0u;
}
