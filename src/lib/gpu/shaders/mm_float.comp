/* Products with F32 (KIND 0), F16 (1) and BF16 (2) weights (NUMERICS, 6): an invocation has a row
 * and a token, and their 16 lanes. at and n as of mm.glsl. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

float weight_at(Words w, uint at, uint k) {
    if (KIND == 0) return uintBitsToFloat(word_at(w, at + 4u * k));
    uint two = half_at(w, at + 2u * k);
    return KIND == 1 ? from_f16(two) : uintBitsToFloat(two << 16);
}

void main() {
    uint r = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y;
    if (r >= pc.n[1]) return;
    Words w = Words(pc.at[0]);
    Floats x = Floats(pc.at[1]);
    uint at = r * pc.n[0], row = t * (pc.n[3] >> 2), n_col = pc.n[2];
    float lane[16];
    for (uint i = 0u; i < 16u; i++) lane[i] = opaque_zero();
    for (uint k = 0u; k < n_col; k += 16u)
        for (uint i = 0u; i < 16u; i++) {
            float by = k + i < n_col ? weight_at(w, at, k + i) : opaque_zero();
            lane[i] = fma_exact(by, x.v[row + k + i], lane[i]);
        }
    float y = tree_sum(lane);
    if ((pc.n[9] & 1u) != 0u) y = add(y, Floats(pc.at[3]).v[r]);
    if ((pc.n[9] & 2u) != 0u) y = add(y, Floats(pc.at[4]).v[t * pc.n[8] + r]);
    Floats(pc.at[2]).v[t * pc.n[7] + r] = y;
}
