/* The i8mm tier: SDOT, and SMMLA for many tokens (ARMv8.2 with dotprod and i8mm). Its quantised products are parts of their own (mm_i8mm.inc). */
#define KT_TIER(name) kt__i8mm_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_dotprod.h"
#include "kernels/lanes.inc"

#define PEAK_MACS 32
#define PEAK_STEP vmmlaq_s32
#include "kernels/tier_neon.inc"

const kt__kernels kt__kernels_i8mm = {
    .name = "i8mm",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};
