/* The i8mm tier: SDOT, and SMMLA for many tokens (ARMv8.2 with dotprod and i8mm). Quantised
 * products are in tier_i8mm_q256.c and tier_i8mm_q32.c, to compile side by side. */
#define KT_TIER(name) kt__i8mm_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_dotprod.h"
#include "kernels/lanes.inc"

#define PEAK_MACS 32
#define PEAK_STEP vmmlaq_s32
#include "kernels/tier_neon.inc"

/* the last numbers: from how many tokens on gemm is taken; counted from instructions, not measured
 */
const kt__kernels kt__kernels_i8mm = {
    .name = "i8mm",
    .mm = {FLOAT_TABLE(12), MM(Q4_0, 5), MM(Q4_1, 5), MM(Q5_0, 5), MM(Q5_1, 5), MM(Q8_0, 5),
           MM(IQ4_NL, 5), MM(Q2_K, 5), MM(Q3_K, 5), MM(Q4_K, 5), MM(Q5_K, 5), MM(Q6_K, 5),
           MM(IQ4_XS, 5)},
    TIER_COMMON,
    .peak_i8 = peak_i8,
};
