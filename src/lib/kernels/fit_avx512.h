/* What the searches for scales (quant/fit_lanes.inc) have of their own in the avx512 tier.
 *
 * Owns: finding a level in a table by permutations. Knows no formats. For the tier's own file only; any
 * thread. */
#ifndef KT_KERNELS_FIT_AVX512_H
#define KT_KERNELS_FIT_AVX512_H

#include "kernels/simd_avx512.h"

/* level[k] for the greatest k with half[k - 1] <= t, else level[0]; half[15] ascends: its middle, the
 * middle of either side, and so on */
#define KT_OWN_RUNG
KT_INLINE v16 v16_rung(const float half[20], const float level[16], v16 t) {
    vi at = _mm512_maskz_set1_epi32(m16_le(v16_set1(half[7]), t), 8);
    m16 up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half + 3)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(4));
    up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half + 1)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(2));
    up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(1));
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(level));
}

#endif
