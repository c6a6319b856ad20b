/* Rows of f32 as activations (NUMERICS, 5): a workgroup has 256 columns of a row.
 *
 * KIND: 0 F32, 1 Q32, 2 Q256. at: x, activations. n: columns, bytes of an activation row and where
 * its d, s16 and s32 begin. What lies between the parts becomes zeros. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float most[64];
shared uint bad[64];
shared int sums[64];

void fill_zeros(Words y, uint from, uint to) { /* words */
    for (uint i = from + gl_LocalInvocationID.x; i < to; i += 64u) y.v[i] = 0u;
}

/* The sums of `each` neighbours of 4 columns, as 16 bits, two in a word. */
void put_sums(Words y, uint at, uint col, uint each, uint n) {
    uint me = gl_LocalInvocationID.x, first = me * 2u * each;
    if (first >= 64u || col / 4u + first >= n / 4u) return;
    int a = 0, b = 0;
    for (uint i = 0u; i < each; i++) {
        a += sums[first + i];
        b += sums[first + each + i];
    }
    if (col / 4u + first + each >= n / 4u) b = 0;
    y.v[at + (col / 4u + first) / (2u * each)] = uint(a & 0xffff) | uint(b) << 16;
}

void main() {
    uint n = pc.n[0], me = gl_LocalInvocationID.x, t = gl_WorkGroupID.y;
    uint col = gl_WorkGroupID.x * 256u, mine = col + 4u * me, row = t * (pc.n[1] >> 2);
    bool here = mine < n, last = col + 256u >= n;
    Floats x = Floats(pc.at[0]);
    Words y = Words(pc.at[1]);
    if (KIND == 0) { /* columns may be no multiple of 4 */
        for (uint i = mine; i < min(mine + 4u, n); i++)
            y.v[row + i] = floatBitsToUint(x.v[t * n + i]);
        if (last) fill_zeros(y, row + n, row + (pc.n[1] >> 2));
        return;
    }
    float v[4];
    most[me] = 0.0;
    bad[me] = 0u;
    for (uint i = 0u; i < 4u; i++) {
        v[i] = here ? x.v[t * n + mine + i] : 0.0;
        float magnitude = uintBitsToFloat(floatBitsToUint(v[i]) & 0x7fffffffu);
        if (!is_finite(v[i])) bad[me] = 1u;
        if (magnitude > most[me]) most[me] = magnitude;
    }
    barrier();
    uint group = KIND == 1 ? 8u : 64u;
    for (uint apart = 1u; apart < group; apart *= 2u) {
        if (me % (2u * apart) == 0u) {
            most[me] = max(most[me], most[me + apart]);
            bad[me] |= bad[me + apart];
        }
        barrier();
    }
    float amax = most[me / group * group];
    bool finite = bad[me / group * group] == 0u;
    bool zeros = !finite || amax < uintBitsToFloat(0x0d800000u); /* 2^-100 */
    uint word = 0u;
    int sum = 0;
    if (here && !zeros) {
        float inverse = divide(127.0, amax);
        for (uint i = 0u; i < 4u; i++) {
            int q = int(clamp(round_even(mul(v[i], inverse)), -127.0, 127.0));
            sum += q;
            word |= uint(q & 0xff) << 8u * i;
        }
    }
    sums[me] = sum;
    if (here) y.v[row + (mine >> 2)] = word;
    if (here && me % group == 0u) {
        float d = divide(amax, 127.0);
        uint bits = zeros ? (finite ? 0u : 0x7fc00000u) : floatBitsToUint(d);
        y.v[row + (pc.n[2] >> 2) + mine / (4u * group)] = bits;
    }
    barrier();
    if (KIND == 2) put_sums(y, row + (pc.n[3] >> 2), col, 4u, n);
    put_sums(y, row + (pc.n[4] >> 2), col, 8u, n);
    if (!last) return;
    uint after_d = KIND == 2 ? pc.n[3] : pc.n[4];
    fill_zeros(y, row + n / 4u, row + (pc.n[2] >> 2));
    fill_zeros(y, row + (pc.n[2] >> 2) + n / (4u * group), row + (after_d >> 2));
    if (KIND == 2) fill_zeros(y, row + (pc.n[3] >> 2) + n / 32u, row + (pc.n[4] >> 2));
    fill_zeros(y, row + (pc.n[4] >> 2) + (n / 32u + 1u) / 2u, row + (pc.n[1] >> 2));
}
