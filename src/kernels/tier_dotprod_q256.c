/* The dotprod tier's products of types of 256. */
#define KT_TIER(name) kt__dotprod_##name
#include "kernels/kernels.h"
#include "kernels/simd_neon_dotprod.h"
#include "kernels/lanes.inc"
#include "kernels/rowdot_neon.h"

#define KT_PREFETCH_BYTES 2048
#include "kernels/rowdot.inc"

#include "kernels/gemm_neon_dotprod.inc"
#include "kernels/gemm_neon.inc"

#include "kernels/mm_names.h"

KT_DEFINE_MM(Q2_K)
KT_DEFINE_MM(Q3_K)
KT_DEFINE_MM(Q4_K)
KT_DEFINE_MM(Q5_K)
KT_DEFINE_MM(Q6_K)
KT_DEFINE_MM(IQ4_XS)
