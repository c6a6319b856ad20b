/* The sse41 tier: processors without AVX. Its quantised products are parts of their own
 * (mm_sse41.inc). */
#include "kernels/kernels.h"
#include "kernels/simd_sse41.h"
#include "kernels/lanes.inc"
#include "kernels/vec.inc"

/* With an fma of many instructions, chains are kept in memory at little cost. */
#define ATTN_CHAINS 8
#define ATTN_VECS_1 2
#define ATTN_VECS_2 1
#define ATTN_VECS_3 1
#define ATTN_VECS_4 1
#define ATTN_VECS_6 1
#include "kernels/attn.inc"
#include "kernels/attn_merge.inc"
#include "kernels/attn_quantised.inc"
#include "kernels/quantise_page.inc"
#include "kernels/recur.inc"

#define FLOAT_ROWS 2
#define FLOAT_TOKENS 2
#include "kernels/float.inc"
#define FLOAT_TILE_ROWS 4
#define FLOAT_TILE_TOKENS 3
#define FLOAT_STRETCH 1024
#define FLOAT_GEMM_FROM 6
#include "kernels/float_gemm.inc"
#define OUTER_GROUPS 1
#define OUTER_ROWS 2
#define OUTER_VECS 2
#include "kernels/outer.inc"

#include "kernels/tier.inc"

static uint64_t peak_i8(uint64_t iterations, int32_t *sink) {
    vi acc[10], a = vi_bytes(3), b = vi_bytes(5);
    KT_UNROLL for (int i = 0; i < 10; i++) acc[i] = vi_set1(i);
    for (uint64_t n = 0; n < iterations; n++) {
        KT_UNROLL for (int i = 0; i < 10; i++) {
            __asm__ volatile("" : "+x"(a), "+x"(b)); /* no two products may be shared */
            acc[i] = vi_add16(acc[i], vi_pairs(a, b));
        }
    }
    for (int i = 1; i < 10; i++) acc[0] = vi_add(acc[0], acc[i]);
    *sink = _mm_cvtsi128_si32(acc[0]);
    return iterations * 10 * 16;
}

const kt__kernels kt__kernels_sse41 = {
    .name = "sse41",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};
