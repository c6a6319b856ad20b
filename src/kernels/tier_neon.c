/* The neon tier: any 64-bit ARM processor. Quantised products are in tier_neon_q256.c and
 * tier_neon_q32.c, to compile side by side. */
#define KT_TIER(name) kt__neon_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_mull.h"
#include "kernels/lanes.inc"

/* eight products a step */
#define PEAK_MACS 8
#define PEAK_STEP(acc, w, x) \
    vreinterpretq_s32_s16(vmlal_s8(S16(acc), vget_low_s8(w), vget_low_s8(x)))
#include "kernels/tier_neon.inc"

/* the last numbers: from how many tokens on gemm is taken; counted from instructions, not measured
 */
const kt__kernels kt__kernels_neon = {
    .name = "neon",
    .mm = {FLOAT_TABLE(12), MM(Q4_0, 5), MM(Q4_1, 5), MM(Q5_0, 5), MM(Q5_1, 5), MM(Q8_0, 5),
           MM(IQ4_NL, 5), MM(Q2_K, 5), MM(Q3_K, 5), MM(Q4_K, 5), MM(Q5_K, 5), MM(Q6_K, 5),
           MM(IQ4_XS, 5)},
    TIER_COMMON,
    .peak_i8 = peak_i8,
};
