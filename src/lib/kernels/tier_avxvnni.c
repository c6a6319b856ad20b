/* The avxvnni tier's attention and its peak. Its quantised products are parts of their own (mm_avxvnni.inc);
 * its table, and all else, is in tier_avx2.c. */
#include "kernels/simd_avxvnni.h"
#include "kernels/mm_parts.h"
#include "kernels/vec_math.inc"

#include "kernels/attn_256.inc"

void kt__avxvnni_attn(const kt__attn *a, void *scratch) { vec_attn(a, scratch); }

uint64_t kt__avxvnni_peak_i8(uint64_t iterations, int32_t *sink) {
    vi acc[10], a = vi_bytes(3), b = vi_bytes(5);
    KT_UNROLL for (int i = 0; i < 10; i++) acc[i] = vi_set1(i);
    for (uint64_t n = 0; n < iterations; n++) {
        KT_UNROLL for (int i = 0; i < 10; i++) {
            acc[i] = vi_dot8(acc[i], a, b);
            __asm__ volatile(""
                             : "+x"(acc[i]), "+x"(a),
                               "+x"(b)); /* stays in a register, in the loop */
        }
    }
    KT_UNROLL for (int i = 1; i < 10; i++) acc[0] = vi_add(acc[0], acc[i]);
    *sink = _mm256_extract_epi32(acc[0], 0);
    return iterations * 10 * 32;
}
