/* The neon tier: any 64-bit ARM processor. Its quantised products are parts of their own (mm_neon.inc). */
#define KT_TIER(name) kt__neon_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_mull.h"
#include "kernels/lanes.inc"

/* eight products a step */
#define PEAK_MACS 8
#define PEAK_STEP(acc, w, x) \
    vreinterpretq_s32_s16(vmlal_s8(S16(acc), vget_low_s8(w), vget_low_s8(x)))
#include "kernels/tier_neon.inc"

const kt__kernels kt__kernels_neon = {
    .name = "neon",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};
