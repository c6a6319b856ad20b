/* The avxvnni tier. Quantised products are in tier_avxvnni_q256.c and tier_avxvnni_q32.c, to
 * compile side by side. */
#include "kernels/kernels.h"
#include "kernels/simd_avxvnni.h"
#include "kernels/lanes.inc"
#include "kernels/tier_256.inc"

static uint64_t peak_i8(uint64_t iterations, int32_t *sink) {
    vi acc[12], a = vi_bytes(3), b = vi_bytes(5);
    KT_UNROLL for (int i = 0; i < 12; i++) acc[i] = vi_set1(i);
    for (uint64_t n = 0; n < iterations; n++) {
        __asm__ volatile("" : "+x"(a), "+x"(b)); /* the loop's work may not be hoisted */
        KT_UNROLL for (int i = 0; i < 12; i++) acc[i] = vi_dot8(acc[i], a, b);
    }
    for (int i = 1; i < 12; i++) acc[0] = vi_add(acc[0], acc[i]);
    *sink = _mm256_extract_epi32(acc[0], 0);
    return iterations * 12 * 32;
}

/* the last numbers: from how many tokens on gemm was measured to be faster (bench/bench_kernels) */
const kt__kernels kt__kernels_avxvnni = {
    .name = "avxvnni",
    .mm = {FLOAT_TABLE(6), MM(Q4_0, 3), MM(Q4_1, 3), MM(Q5_0, 5), MM(Q5_1, 5), MM(Q8_0, 2),
           MM(IQ4_NL, 3), MM(Q2_K, 2), MM(Q3_K, 3), MM(Q4_K, 3), MM(Q5_K, 3), MM(Q6_K, 3),
           MM(IQ4_XS, 2)},
    TIER_COMMON,
    .peak_i8 = peak_i8,
};
