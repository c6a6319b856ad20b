/* The arithmetic contract's own elementary functions (docs/NUMERICS.md section 2).
 *
 * Owns: exp, log, pow, sin, cos and tanh as fixed sequences of IEEE operations, the same in every
 * kernel tier and on every machine; libm is not used in a forward pass or a sampler. Vector tiers
 * repeat the f32 sequences operation for operation. Requires round-to-nearest and no flush-to-zero.
 * Any thread. */
#ifndef KT_BASE_MATH_H
#define KT_BASE_MATH_H

#include <stddef.h>

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

#endif
