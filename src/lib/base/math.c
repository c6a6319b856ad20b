#include "base/math.h"

#include <float.h>
#include <math.h> /* fma, fmaf, sqrt and rounding only: IEEE operations, not approximations */
#include <stdint.h>
#include <string.h>

/* ---- half precision ---- */

/* Shifts right by `shift` (1..24) and rounds to nearest, ties to even. */
static uint32_t shift_round(uint32_t value, unsigned shift) {
    uint32_t half = 1u << (shift - 1);
    uint32_t rest = value & ((1u << shift) - 1);
    uint32_t result = value >> shift;
    return result + (rest > half || (rest == half && (result & 1)));
}

kt__f16 kt__f16_from_f32(float f) {
    uint32_t bits = kt__f32_bits(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (kt__f16)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) return (kt__f16)(sign | 0x7c00u); /* 65536 and above */
    if (magnitude >= 0x38800000u) { /* normal; may carry to infinity */
        return (kt__f16)(sign | shift_round(magnitude - 0x38000000u, 13));
    }
    if (magnitude < 0x33000000u) return (kt__f16)sign; /* below half of the least subnormal */
    unsigned shift = 126u - (magnitude >> 23);
    return (kt__f16)(sign | shift_round((magnitude & 0x7fffffu) | 0x800000u, shift));
}

kt__bf16 kt__bf16_from_f32(float f) {
    uint32_t bits = kt__f32_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (kt__bf16)(bits >> 16 | 0x40u);
    return (kt__bf16)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* ---- elementary functions ---- */

/* The constants are in math.h because the kernel tiers repeat the sequence in vectors. */

float kt__expf(float x) {
    if (!(x >= KT__EXPF_MIN)) return x != x ? x : 0.0f;
    if (x > KT__EXPF_MAX) return INFINITY;
    /* x = n ln2 + r, |r| <= ln2/2; n by the shift trick, r in two fmas */
    float shifted = fmaf(x, KT__EXPF_LOG2E, KT__EXPF_SHIFT);
    float n = shifted - KT__EXPF_SHIFT;
    float r = fmaf(n, -KT__EXPF_LN2_HI, x);
    r = fmaf(n, -KT__EXPF_LN2_LO, r);
    float p = KT__EXPF_C6;
    p = fmaf(p, r, KT__EXPF_C5);
    p = fmaf(p, r, KT__EXPF_C4);
    p = fmaf(p, r, KT__EXPF_C3);
    p = fmaf(p, r, KT__EXPF_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* 2^n as 2^(n/2) * 2^(n - n/2): n reaches 128, one exponent field does not */
    int32_t whole = (int32_t)n;
    int32_t half = whole >> 1;
    float a = kt__f32_from_bits((uint32_t)(half + 127) << 23);
    float b = kt__f32_from_bits((uint32_t)(whole - half + 127) << 23);
    return (p * a) * b;
}

void kt__exp_weights(const float *x, float max, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) {
        float d = x[i] - max, y = d < KT__EXPF_MIN ? KT__EXPF_MIN : d;
        float whole = (y * KT__EXPF_LOG2E + KT__EXPF_SHIFT) - KT__EXPF_SHIFT;
        float r = (y - whole * KT__EXPF_LN2_HI) - whole * KT__EXPF_LN2_LO;
        float p = (KT__EXPF_C6 * r + KT__EXPF_C5) * r + KT__EXPF_C4;
        p = ((p * r + KT__EXPF_C3) * r + KT__EXPF_C2) * r + 1.0f;
        p = p * r + 1.0f;
        float scale = kt__f32_from_bits((uint32_t)((int32_t)whole + 127) << 23);
        out[i] = d < KT__EXPF_MIN ? 0.0f : p * scale;
    }
}

float kt__tanhf(float x) {
    float magnitude = fabsf(x);
    float x2 = x * x;
    if (magnitude < KT__TANHF_SMALL) {
        return fmaf(x2 * x, fmaf(KT__TANHF_C5, x2, KT__TANHF_C3), x);
    }
    float e = kt__expf(2.0f * magnitude);
    float t = 1.0f - 2.0f / (e + 1.0f);
    return copysignf(t, x);
}

float kt__softplusf(float x) {
    float t = kt__expf(-fabsf(x)), z = t / (2.0f + t), w = z * z, twice = z + z;
    float p = fmaf(KT__LOG1PF_C15, w, KT__LOG1PF_C13);
    p = fmaf(p, w, KT__LOG1PF_C11);
    p = fmaf(p, w, KT__LOG1PF_C9);
    p = fmaf(p, w, KT__LOG1PF_C7);
    p = fmaf(p, w, KT__LOG1PF_C5);
    p = fmaf(p, w, KT__LOG1PF_C3);
    return (x > 0.0f ? x : 0.0f) + fmaf(twice * w, p, twice);
}

float kt__siluf(float x) {
    return x / (1.0f + kt__expf(-x));
}

float kt__gelu_tanhf(float x) {
    float cube = x * x * x;
    float inner = KT__GELU_SQRT_2_PI * fmaf(KT__GELU_C3, cube, x);
    return 0.5f * x * (1.0f + kt__tanhf(inner));
}

static double double_from_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t double_bits(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* ln2 and pi/2 as sums of two or three doubles whose leading parts have spare low bits (Cody &
 * Waite 1980). */
static const double ln2_hi = 0x1.62e42fefa0000p-1, ln2_lo = 0x1.cf79abc9e3b3ap-40;
static const double pio2_1 = 0x1.921fb54400000p+0, pio2_2 = 0x1.0b4611a600000p-34,
                    pio2_3 = 0x1.3198a2e037073p-69;

double kt__exp(double x) {
    if (x != x) return x;
    if (x < -745.2) return 0.0;
    if (x > 709.782712893384) return INFINITY;
    double n = nearbyint(x * 0x1.71547652b82fep+0);
    double r = fma(n, -ln2_lo, fma(n, -ln2_hi, x));
    double p = 1.0; /* Taylor by Horner; |r| <= 0.347, the 13th term is below 2^-60 */
    for (int k = 13; k >= 1; k--) p = fma(p, r / k, 1.0);
    int whole = (int)n, half = whole >> 1;
    double a = double_from_bits((uint64_t)(half + 1023) << 52);
    double b = double_from_bits((uint64_t)(whole - half + 1023) << 52);
    return (p * a) * b;
}

double kt__log(double x) {
    if (x != x || x < 0.0) return NAN;
    if (x == 0.0) return -INFINITY;
    if (x > DBL_MAX) return x;
    int exponent = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        exponent = -54;
    }
    uint64_t bits = double_bits(x);
    exponent += (int)(bits >> 52) - 1023;
    double m = double_from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    /* log m = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.172: odd series to s^23 */
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, p = 1.0 / 23.0;
    for (int k = 21; k >= 3; k -= 2) p = fma(p, s2, 1.0 / k);
    double tail = s * s2 * p;
    double n = (double)exponent;
    return fma(n, ln2_hi, fma(n, ln2_lo, 2.0 * (s + tail)));
}

double kt__pow(double base, double exponent) {
    return kt__exp(exponent * kt__log(base));
}

/* sin and cos on [-pi/4, pi/4] by their Taylor series in Horner form (relative error below 2^-56).
 */
static double sin_poly(double r) {
    double r2 = r * r, p = 1.0;
    for (int k = 17; k >= 3; k -= 2) p = fma(p, -r2 / ((double)k * (k - 1)), 1.0);
    return r * p;
}

static double cos_poly(double r) {
    double r2 = r * r, p = 1.0;
    for (int k = 18; k >= 2; k -= 2) p = fma(p, -r2 / ((double)k * (k - 1)), 1.0);
    return p;
}

void kt__sincos(double x, double *sin_out, double *cos_out) {
    double n = nearbyint(x * 0x1.45f306dc9c883p-1);
    double r = fma(n, -pio2_3, fma(n, -pio2_2, fma(n, -pio2_1, x)));
    double s = sin_poly(r), c = cos_poly(r);
    switch ((int64_t)n & 3) {
    case 0: *sin_out = s, *cos_out = c; break;
    case 1: *sin_out = c, *cos_out = -s; break;
    case 2: *sin_out = -s, *cos_out = -c; break;
    default: *sin_out = -c, *cos_out = s; break;
    }
}
