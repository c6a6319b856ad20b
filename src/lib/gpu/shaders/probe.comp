/* Single operations of exact.glsl, for the self-test, of numbers a, b, c.
 *
 * KIND: 0 fma, 1 one result of each other operation, in the order of self_test.c. at: a, b, c, out,
 * where results of one operation follow those of another. n: how many numbers. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

void main() {
    uint i = gl_GlobalInvocationID.x, n = pc.n[0];
    if (i >= n) return;
    Floats y = Floats(pc.at[3]);
    float a = Floats(pc.at[0]).v[i], b = Floats(pc.at[1]).v[i], c = Floats(pc.at[2]).v[i];
    uint bits = Words(pc.at[0]).v[i];
    if (KIND == 0) {
        y.v[i] = fma_exact(a, b, c);
        return;
    }
    y.v[i] = add(a, b);
    y.v[n + i] = mul(a, b);
    y.v[2u * n + i] = divide(a, b);
    y.v[3u * n + i] = square_root(a);
    y.v[4u * n + i] = exp_exact(a);
    y.v[5u * n + i] = tanh_exact(a);
    y.v[6u * n + i] = uintBitsToFloat(clamped_f16(a));
    y.v[7u * n + i] = from_f16(bits & 0xffffu);
    y.v[8u * n + i] = float(int(bits));
}
