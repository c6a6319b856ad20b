/* The i8mm tier's products of types of 32. */
#define KT_TIER(name) kt__i8mm_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_dotprod.h"
#include "kernels/lanes.inc"
#include "kernels/rowdot_neon.h"

#define KT_PREFETCH_BYTES 2048
#include "kernels/rowdot.inc"

#include "kernels/gemm_neon_i8mm.inc"
#include "kernels/gemm_neon.inc"

#include "kernels/mm_names.h"

KT_DEFINE_MM(Q4_0)
KT_DEFINE_MM(Q4_1)
KT_DEFINE_MM(Q5_0)
KT_DEFINE_MM(Q5_1)
KT_DEFINE_MM(Q8_0)
KT_DEFINE_MM(IQ4_NL)
