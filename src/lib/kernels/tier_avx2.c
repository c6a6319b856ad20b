/* The avx2 tier. Its quantised products are parts of their own (mm_avx2.inc). */
#include "kernels/kernels.h"
#include "kernels/simd_avx2.h"
#include "kernels/lanes.inc"
#include "kernels/tier_256.inc"

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
    *sink = _mm256_extract_epi32(acc[0], 0);
    return iterations * 10 * 32;
}

const kt__kernels kt__kernels_avx2 = {
    .name = "avx2",
    TIER_COMMON(mm_of_type),
    .peak_i8 = peak_i8,
};
