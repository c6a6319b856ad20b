/* Products with F32 (KIND 0), F16 (1) and BF16 (2) weights (NUMERICS, 6): an invocation has a row
 * and a token, and their 16 lanes. at and n as of mm.glsl. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "runs.glsl"

float weight_at(Words w, uint at, uint k) {
    if (KIND == 0) return uintBitsToFloat(word_at(w, at + 4u * k));
    uint two = half_at(w, at + 2u * k);
    return KIND == 1 ? from_f16(two) : uintBitsToFloat(two << 16);
}

void main() {
    uint r = gl_GlobalInvocationID.x;
    if (r >= pc.n[1]) return;
    Run run = run_here(1u);
    Words w = Words(run.weights);
    Floats x = Floats(pc.at[1]);
    uint at = r * pc.n[0], row = act_row(run.first) * (pc.n[3] >> 2), n_col = pc.n[2];
    float lane[16];
    for (uint i = 0u; i < 16u; i++) lane[i] = opaque_zero();
    for (uint k = 0u; k < n_col; k += 16u)
        for (uint i = 0u; i < 16u; i++) {
            float by = k + i < n_col ? weight_at(w, at, k + i) : opaque_zero();
            lane[i] = fma_exact(by, x.v[row + k + i], lane[i]);
        }
    put_result(run, run.first, r, tree_sum(lane));
}
