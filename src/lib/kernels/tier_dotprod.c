/* The dotprod tier: SDOT (ARMv8.2 with dotprod). Its quantised products are parts of their own (mm_dotprod.inc). */
#define KT_TIER(name) kt__dotprod_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_dotprod.h"
#include "kernels/lanes.inc"

#define PEAK_MACS 16
#define PEAK_STEP vdotq_s32
#include "kernels/tier_neon.inc"

const kt__kernels kt__kernels_dotprod = {
    .name = "dotprod",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};
