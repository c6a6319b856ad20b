/* The avx512 tier: AVX-512 F, BW, VL, DQ and VNNI. Its quantised products are parts of their own
 * (mm_avx512.inc). And the amx tier, which has products of its own, attention of many queries on tiles, and shares the
 * rest. */
#include "kernels/kernels.h"
#include "kernels/simd_avx512.h"
#include "kernels/lanes.inc"
#include "kernels/vec.inc"

#define ATTN_CHAINS 24
#define ATTN_VECS_1 8
#define ATTN_VECS_2 8
#define ATTN_VECS_3 4
#define ATTN_VECS_4 4
#define ATTN_VECS_6 4
#include "kernels/attn.inc"
#include "kernels/attn_merge.inc"
#include "kernels/attn_quantised.inc"
#include "kernels/attn_tiles.inc"
#include "kernels/quantise_page.inc"
#include "kernels/recur.inc"

#define FLOAT_ROWS 6
#define FLOAT_TOKENS 4
#include "kernels/float.inc"
/* Zen 4, F32, 256 tokens, 1152 to 4304 columns: 1.3 to 1.4 times 8 rows, 3 tokens and 1024 columns, F16 1.1 times */
#define FLOAT_TILE_ROWS 4
#define FLOAT_TILE_TOKENS 6
#define FLOAT_STRETCH 4608
#define FLOAT_GEMM_FROM 12
#include "kernels/float_gemm.inc"
#define OUTER_GROUPS 3
#define OUTER_ROWS 4
#define OUTER_VECS 2
#include "kernels/outer.inc"

/* ---- what the searches for scales (quant/fit_lanes.inc) have of their own here: a level is found by permutations ---- */

/* level[k] for the greatest k with half[k - 1] <= t, else level[0]; half[15] ascends: its middle, the
 * middle of either side, and so on */
#define KT_OWN_RUNG
KT_INLINE v16 v16_rung(const float half[20], const float level[16], v16 t) {
    vi at = _mm512_maskz_set1_epi32(m16_le(v16_set1(half[7]), t), 8);
    m16 up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half + 3)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(4));
    up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half + 1)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(2));
    up = m16_le(_mm512_permutexvar_ps(at, _mm512_loadu_ps(half)), t);
    at = _mm512_mask_or_epi32(at, up, at, vi_set1(1));
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(level));
}

#include "kernels/tier.inc"

static uint64_t peak_i8(uint64_t iterations, int32_t *sink) {
    vi acc[12], a = vi_bytes(3), b = vi_bytes(5);
    KT_UNROLL for (int i = 0; i < 12; i++) acc[i] = vi_set1(i);
    for (uint64_t n = 0; n < iterations; n++) {
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* the loop's work may not be hoisted */
        KT_UNROLL for (int i = 0; i < 12; i++) acc[i] = vi_dot8(acc[i], a, b);
    }
    for (int i = 1; i < 12; i++) acc[0] = vi_add(acc[0], acc[i]);
    *sink = _mm512_reduce_add_epi32(acc[0]);
    return iterations * 12 * 64;
}

const kt__kernels kt__kernels_avx512 = {
    .name = "avx512",
    TIER_COMMON(mm_of_type, vec_attn),
    .peak_i8 = peak_i8,
};

/* ---- the amx tier: all of it but its own products (tier_amx.c, tier_amx_unpacked.c) ---- */

#undef MM_LANES
#undef MM_COARSE
#undef MM_FINE
#undef MM_CRUMBS
#define MM_LANES(name, act) &kt__amx_mm[KT__TYPE_##name]
#define MM_COARSE(name, act) &kt__amx_mm_unpacked[KT__TYPE_##name]
#define MM_FINE(name, act) &kt__amx_mm_unpacked[KT__TYPE_##name]
#define MM_CRUMBS(name, act) &kt__amx_mm_unpacked[KT__TYPE_##name]
#define X(name, ggml_id, elems, bytes, act, products) [KT__TYPE_##name] = MM_##products(name, act),
static const kt__mm_kernels *const mm_on_tiles[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X

static size_t tiles_attn_scratch_bytes(int n_q, int head_dim_k, int head_dim_v) {
    size_t vec = vec_attn_scratch_bytes(n_q, head_dim_k, head_dim_v);
    size_t tiles = tiles_attn_room(n_q, head_dim_k);
    return vec > tiles ? vec : tiles;
}

const kt__kernels kt__kernels_amx = {
    .name = "amx",
    TIER_COMMON(mm_on_tiles, tiles_attn),
    .tiles_from = kt__amx_tiles_from,
    .tile = kt__amx_tile,
    .peak_i8 = kt__amx_peak_i8,
};
