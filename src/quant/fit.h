/* Scale searches of the encoders.
 *
 * Owns: the least-squares fits that K-quants and IQ4 share. Inside the quant room only; no state.
 */
#ifndef KT_QUANT_FIT_H
#define KT_QUANT_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/f16.h"

/* To f16, finite inputs staying finite. */
kt__f16 kt__f16_saturate(float f);

/* The levels a weight may take, before its scale. */
typedef struct kt__levels {
    const int8_t *table; /* 16 ascending values, or NULL: every integer from lo to hi */
    int lo, hi;
    float step; /* how far apart, in levels, the search tries ends of the range */
} kt__levels;

/* x[n] ~ scale * q[n], q among the levels; the scale of least weighted error. */
float kt__fit_scale(const float *x, int n, const kt__levels *levels, int8_t *q);

/* 256 weights, x ~ d * scale[g] * q with 256/group groups; d as it will be read back. */
typedef struct kt__fit_scaled {
    kt__f16 d;
    int scale[16]; /* lo..hi of the caller */
    int8_t q[256];
} kt__fit_scaled;
void kt__fit_super_scaled(const float *x, int group, const kt__levels *levels, int scale_lo,
                          int scale_hi, kt__fit_scaled *out);

/* 256 weights, x ~ d * scale[g] * q - dmin * min[g]; q in 0..q_max, scale and min in 0..scale_max.
 */
typedef struct kt__fit_affine {
    kt__f16 d, dmin;
    int scale[16], min[16];
    uint8_t q[256];
} kt__fit_affine;
void kt__fit_super_affine(const float *x, int group, int q_max, int scale_max, kt__fit_affine *out);

#endif
