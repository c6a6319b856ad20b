/* The arithmetic contract's own numbers (docs/NUMERICS.md, section 2): half precision and elementary functions.
 *
 * Owns: conversions between f32 and IEEE binary16 and bfloat16; exp, log, pow, sin, cos and tanh as fixed sequences
 * of IEEE operations, the same in every kernel tier and on every machine; their constants. libm is not used in a
 * forward pass or a sampler. Requires round-to-nearest and no flush-to-zero. Any thread. */
#ifndef KT_BASE_MATH_H
#define KT_BASE_MATH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Half precision, bit-exact everywhere: every tier must equal these conversions (rounding to nearest, ties to even;
 * NaN stays NaN and becomes quiet). */

typedef uint16_t kt__f16;  /* binary16 bits */
typedef uint16_t kt__bf16; /* upper half of an f32 */

static inline float kt__f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t kt__f32_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Subnormals are mantissa * 2^-24, which f32 holds exactly. */
static inline float kt__f16_to_f32(kt__f16 h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return kt__f32_from_bits(sign | kt__f32_bits(magnitude));
    }
    if (exponent == 31) {
        uint32_t quiet = mantissa ? 0x400000u : 0;
        return kt__f32_from_bits(sign | 0x7f800000u | quiet | mantissa << 13);
    }
    return kt__f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}
kt__f16 kt__f16_from_f32(float f);

static inline float kt__bf16_to_f32(kt__bf16 h) {
    return kt__f32_from_bits((uint32_t)h << 16);
}
kt__bf16 kt__bf16_from_f32(float f);

/* Elementary functions. Vector tiers repeat the f32 sequences operation for operation. */

/* e^x in f32, about 1 ulp: 0 for x < -87, infinity for x > 88.72, NaN for NaN. Sequence: see
 * math.c. */
float kt__expf(float x);
/* tanh(x) = 1 - 2/(e^{2x}+1), and its series to x^5 for |x| < 0.1. */
float kt__tanhf(float x);
/* log(1 + e^x) = max(x, 0) + log(1 + t) with t = e^-|x|, the latter as 2 artanh(t / (2 + t)). */
float kt__softplusf(float x);
/* x / (1 + e^-x) */
float kt__siluf(float x);
/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks & Gimpel 2016, the tanh form */
float kt__gelu_tanhf(float x);

/* out[i] = e^(x[i] - max) for x[i] <= max (0 below -87; NaN is not checked for), about 2 ulp.
 * Multiplications and additions only, no fma: compilers vectorise it for the baseline processor,
 * with the same bytes everywhere. For the weights of a whole vocabulary; out may be x. */
void kt__exp_weights(const float *x, float max, size_t n, float *out);

/* Double precision, about 1 ulp; for samplers, rotary tables and set-up. */
double kt__exp(double x);
double kt__log(double x);
double kt__pow(double base, double exponent); /* base > 0 */
/* |x| up to 2^31 or so: two-part reduction by pi/2. */
void kt__sincos(double x, double *sin_out, double *cos_out);

/* Constants of the f32 sequences, shared with the kernel tiers that repeat them in vectors. The polynomial of exp
 * interpolates (e^r - 1 - r)/r^2 at the five Chebyshev nodes of [-ln2/2, ln2/2]; its two leading coefficients are 1.
 * Those of log(1 + t) are Taylor's of 2 artanh(t / (2 + t)), odd powers to the fifteenth: exact to f32 for t from 0
 * to 1. */

#define KT__EXPF_MIN (-87.0f)
#define KT__EXPF_MAX 88.72283f
#define KT__EXPF_LOG2E 0x1.715476p+0f
#define KT__EXPF_SHIFT 0x1.8p23f
#define KT__EXPF_LN2_HI 0x1.62e4p-1f
#define KT__EXPF_LN2_LO 0x1.7f7d1cp-20f
#define KT__EXPF_C2 0.5f
#define KT__EXPF_C3 0x1.5554dep-3f
#define KT__EXPF_C4 0x1.55551ap-5f
#define KT__EXPF_C5 0x1.120b62p-7f
#define KT__EXPF_C6 0x1.6d10fcp-10f
#define KT__LOG1PF_C3 (1.0f / 3.0f)
#define KT__LOG1PF_C5 (1.0f / 5.0f)
#define KT__LOG1PF_C7 (1.0f / 7.0f)
#define KT__LOG1PF_C9 (1.0f / 9.0f)
#define KT__LOG1PF_C11 (1.0f / 11.0f)
#define KT__LOG1PF_C13 (1.0f / 13.0f)
#define KT__LOG1PF_C15 (1.0f / 15.0f)
#define KT__TANHF_SMALL 0.1f
#define KT__TANHF_C3 -0x1.555556p-2f
#define KT__TANHF_C5 0x1.111112p-3f
#define KT__GELU_SQRT_2_PI 0x1.988454p-1f
#define KT__GELU_C3 0.044715f

#endif
