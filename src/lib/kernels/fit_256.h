/* What the searches for scales (quant/fit_lanes.inc) have of their own in the 256-bit tiers.
 *
 * Owns: finding a level in a table by permutations. Knows no formats. For the tier's own file only;
 * any thread. */
#ifndef KT_KERNELS_FIT_256_H
#define KT_KERNELS_FIT_256_H

#include "kernels/simd_256.h"

/* -k for the number k of thresholds passed so far, doubled, and one more where t passes the
 * next. */
KT_INLINE vi rung_down(vi minus, __m256 next, __m256 t) {
    return vi_add(vi_add(minus, minus), _mm256_castps_si256(_mm256_cmp_ps(next, t, _CMP_LE_OQ)));
}
KT_INLINE __m256 rung_half(const float half[20], const float level[16], __m256 t) {
    /* at the place of -k in 3 bits: what is at k */
    const __m256 quarter = _mm256_setr_ps(half[1], 0, 0, 0, 0, half[13], half[9], half[5]);
    const __m256 eighth = _mm256_setr_ps(half[0], half[14], half[12], half[10], half[8], half[6],
                                         half[4], half[2]);
    const __m256 low = _mm256_setr_ps(level[0], level[7], level[6], level[5], level[4], level[3],
                                      level[2], level[1]);
    const __m256 high = _mm256_setr_ps(level[8], level[15], level[14], level[13], level[12],
                                       level[11], level[10], level[9]);
    __m256 upper = _mm256_cmp_ps(_mm256_set1_ps(half[7]), t, _CMP_LE_OQ);
    vi minus = _mm256_castps_si256(upper);
    minus = rung_down(
        minus, _mm256_blendv_ps(_mm256_set1_ps(half[3]), _mm256_set1_ps(half[11]), upper), t);
    minus = rung_down(minus, _mm256_permutevar8x32_ps(quarter, minus), t);
    minus = rung_down(minus, _mm256_permutevar8x32_ps(eighth, minus), t);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, minus),
                            _mm256_permutevar8x32_ps(high, minus), upper);
}
/* level[k] for the greatest k with half[k - 1] <= t, else level[0]; half[15] ascends */
#define KT_OWN_RUNG
KT_INLINE v16 v16_rung(const float half[20], const float level[16], v16 t) {
    return V16(rung_half(half, level, t.a), rung_half(half, level, t.b));
}

#endif
