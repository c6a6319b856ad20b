/* The avx2 tier. Its quantised products are parts of their own (mm_avx2.inc). And the avxvnni tier, which has
 * products and an attention of its own (tier_avxvnni.c) and shares the rest. */
#include "kernels/kernels.h"
#include "kernels/simd_avx2.h"
#include "kernels/lanes.inc"
#include "kernels/vec.inc"

#include "kernels/attn_256.inc"
#include "kernels/attn_merge.inc"
#include "kernels/quantise_page.inc"
#include "kernels/recur.inc"

#define FLOAT_ROWS 3
#define FLOAT_TOKENS 2
#include "kernels/float.inc"
#define FLOAT_TILE_ROWS 4
#define FLOAT_TILE_TOKENS 3
#define FLOAT_STRETCH 1024
#define FLOAT_GEMM_FROM 6
#include "kernels/float_gemm.inc"
#define OUTER_GROUPS 2
#define OUTER_ROWS 3
#define OUTER_VECS 2
#include "kernels/outer.inc"

/* ---- what the searches for scales (quant/fit_lanes.inc) have of their own here: a level is found by permutations ---- */

/* -k for the number k of thresholds passed so far, doubled, and one more where t passes the
 * next. */
KT_INLINE vi rung_down(vi minus, __m256 next, __m256 t) {
    return vi_add(vi_add(minus, minus), _mm256_castps_si256(_mm256_cmp_ps(next, t, _CMP_LE_OQ)));
}
KT_INLINE __m256 rung_half(const float half[20], const float level[16], __m256 t) {
    /* at the place of -k in 3 bits: what is at k */
    const __m256 quarter = _mm256_setr_ps(half[1], 0, 0, 0, 0, half[13], half[9], half[5]);
    const __m256 eighth = _mm256_setr_ps(half[0], half[14], half[12], half[10], half[8], half[6],
                                         half[4], half[2]);
    const __m256 low = _mm256_setr_ps(level[0], level[7], level[6], level[5], level[4], level[3],
                                      level[2], level[1]);
    const __m256 high = _mm256_setr_ps(level[8], level[15], level[14], level[13], level[12],
                                       level[11], level[10], level[9]);
    __m256 upper = _mm256_cmp_ps(_mm256_set1_ps(half[7]), t, _CMP_LE_OQ);
    vi minus = _mm256_castps_si256(upper);
    minus = rung_down(
        minus, _mm256_blendv_ps(_mm256_set1_ps(half[3]), _mm256_set1_ps(half[11]), upper), t);
    minus = rung_down(minus, _mm256_permutevar8x32_ps(quarter, minus), t);
    minus = rung_down(minus, _mm256_permutevar8x32_ps(eighth, minus), t);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, minus),
                            _mm256_permutevar8x32_ps(high, minus), upper);
}
/* level[k] for the greatest k with half[k - 1] <= t, else level[0]; half[15] ascends */
#define KT_OWN_RUNG
KT_INLINE v16 v16_rung(const float half[20], const float level[16], v16 t) {
    return V16(rung_half(half, level, t.a), rung_half(half, level, t.b));
}

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
    *sink = _mm256_extract_epi32(acc[0], 0);
    return iterations * 10 * 32;
}

const kt__kernels kt__kernels_avx2 = {
    .name = "avx2",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};

/* ---- the avxvnni tier: all of it but its own products and attention ---- */

#ifndef KT_WITHOUT_AVXVNNI
#undef MM_LANES
#undef MM_COARSE
#undef MM_FINE
#undef MM_CRUMBS
#undef MM_BYTES
#define MM_LANES(name, act) &kt__avxvnni_mm_##act[KT__TYPE_##name]
#define MM_COARSE(name, act) &kt__avxvnni_mm_unpacked[KT__TYPE_##name]
#define MM_FINE(name, act) &kt__avxvnni_mm_unpacked[KT__TYPE_##name]
#define MM_CRUMBS(name, act) &kt__avxvnni_mm_unpacked[KT__TYPE_##name]
#define MM_BYTES(name, act) &kt__avxvnni_mm_unpacked[KT__TYPE_##name]
#define X(name, ggml_id, elems, bytes, act, products) [KT__TYPE_##name] = MM_##products(name, act),
static const kt__mm_kernels *const mm_by_vnni[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X

#define kt__avxvnni_attn_scratch_bytes vec_attn_scratch_bytes

const kt__kernels kt__kernels_avxvnni = {
    .name = "avxvnni",
    TIER_COMMON(mm_by_vnni, kt__avxvnni_attn),
    .peak_i8 = kt__avxvnni_peak_i8,
};

#endif
