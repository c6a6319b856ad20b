/* The avx2 tier's products of types of 32. */
#include "kernels/kernels.h"
#include "kernels/simd_avx2.h"
#include "kernels/lanes.inc"
#include "kernels/rowdot_256.h"

#define KT_PREFETCH_BYTES 8192
#include "kernels/rowdot.inc"

#define GEMM_TILE 4
#include "kernels/gemm_maddubs.inc"

#include "kernels/mm_names.h"

KT_DEFINE_MM(Q4_0)
KT_DEFINE_MM(Q4_1)
KT_DEFINE_MM(Q5_0)
KT_DEFINE_MM(Q5_1)
KT_DEFINE_MM(Q8_0)
KT_DEFINE_MM(IQ4_NL)
