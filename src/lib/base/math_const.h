/* Constants of the f32 sequences in math.c, shared with the kernel tiers that repeat them in
 * vectors.
 *
 * Owns: numbers only. The polynomial of exp interpolates (e^r - 1 - r)/r^2 at the
 * five Chebyshev nodes of [-ln2/2, ln2/2]; its two leading coefficients are 1. Those of log(1 + t)
 * are Taylor's of 2 artanh(t / (2 + t)), odd powers to the fifteenth: exact to f32 for t from 0 to
 * 1. */
#ifndef KT_BASE_MATH_CONST_H
#define KT_BASE_MATH_CONST_H

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
