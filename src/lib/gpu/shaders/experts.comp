/* What a token's experts made, by their shares, in ascending order of experts (NUMERICS, 10).
 *
 * at: products of slots, for each token the slots and shares of its experts, what the sum begins with, that one's
 * factors, rows that the sum is added to or becomes. n: numbers of a row, experts of a token, 1: shares count here,
 * 2: the sum begins with a row, 4: which has factors, 8: it is added. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

void main() {
    uint r = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y, n = pc.n[0], how = pc.n[2];
    if (r >= n) return;
    Floats made = Floats(pc.at[0]), out_rows = Floats(pc.at[4]);
    Words chosen = Words(pc.at[1]);
    float sum = opaque_zero();
    if ((how & 2u) != 0u) sum = Floats(pc.at[2]).v[t * n + r];
    if ((how & 4u) != 0u) sum = mul(sum, Floats(pc.at[3]).v[t]);
    for (uint k = 0u; k < pc.n[1]; k++) {
        uint i = 2u * (t * pc.n[1] + k);
        float y = made.v[chosen.v[i] * n + r];
        if ((how & 1u) != 0u) y = mul(y, uintBitsToFloat(chosen.v[i + 1u]));
        sum = add(sum, y);
    }
    out_rows.v[t * n + r] = (how & 8u) != 0u ? add(out_rows.v[t * n + r], sum) : sum;
}
