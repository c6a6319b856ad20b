/* Element by element of rows (NUMERICS, 2 and 7).
 *
 * KIND: 0 silu(x) * y, 1 gelu(x) * y, 2 gpt-oss' gate, 3 relu(x)^2, 4 gelu(x), 5 x + y,
 * 6 x * factor, 7 softcap, 8 x * y, 9 x by its gate's sigmoid. at: x, which becomes the result, y,
 * factors of rows. n: numbers of a row, floats of a row of x and of y, 1: there are factors of x
 * and y, bits of the factor or cap. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

const bool GELU = KIND == 1 || KIND == 4;
const bool PLAIN = KIND == 3 || KIND == 5 || KIND == 6 || KIND == 8;

float plain(float x, float y, float by) {
    if (KIND == 3) {
        x = x > 0.0 ? x : 0.0;
        return mul(x, x);
    }
    return KIND == 5 ? add(x, y) : KIND == 6 ? mul(x, by) : mul(x, y);
}

/* x with gates of all kinds through one exponential: compilers copy a function to each call. */
float gated(float x, float y, float by) {
    if (KIND == 2) {
        float a = uintBitsToFloat(0x3fd9db23u); /* 1.702 */
        float u = y > 7.0 ? 7.0 : y < -7.0 ? -7.0 : y;
        y = mul(add(u, 1.0), uintBitsToFloat(0x3f16694au)); /* 1 / 1.702 */
        x = mul(x > 7.0 ? 7.0 : x, a);
    }
    float z = x; /* what tanh or the sigmoid is of */
    if (GELU)
        z = mul(uintBitsToFloat(0x3f4c422au),
                fma_exact(uintBitsToFloat(0x3d372713u), mul(mul(x, x), x), x));
    if (KIND == 7) z = divide(x, by);
    if (KIND == 9) z = y;
    bool by_tanh = GELU || KIND == 7;
    float magnitude = uintBitsToFloat(floatBitsToUint(z) & 0x7fffffffu);
    float e = exp_exact(by_tanh ? mul(2.0, magnitude) : negative(z));
    float share = divide(by_tanh ? 2.0 : x, add(1.0, e));
    if (!by_tanh) return KIND == 9 ? share : mul(share, y);
    float t = tanh_from(z, magnitude, share);
    if (KIND == 7) return mul(by, t);
    return mul(mul(mul(0.5, x), add(1.0, t)), KIND == 4 ? 1.0 : y);
}

void main() {
    uint i = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y;
    if (i >= pc.n[0]) return;
    Floats xs = Floats(pc.at[0]), ys = Floats(pc.at[1]);
    uint at = t * pc.n[1] + i;
    bool alone = KIND == 3 || KIND == 4 || KIND == 6 || KIND == 7;
    float x = xs.v[at], y = alone ? 0.0 : ys.v[t * pc.n[2] + i], by = uintBitsToFloat(pc.n[4]);
    if (pc.n[3] != 0u) {
        float f = Floats(pc.at[2]).v[t];
        x = mul(x, f);
        y = mul(y, f);
    }
    xs.v[at] = PLAIN ? plain(x, y, by) : gated(x, y, by);
}
