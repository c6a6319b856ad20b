/* The amx tier's products on tiles. Few tokens, and all else, are the avx512 tier's. */
#include "kernels/simd_avx512.h"
#include "kernels/lanes.inc"
#include "kernels/mm_parts.h"

#include "kernels/gemm_tiles.inc"

/* tokens, from which on tiles were measured to be faster than VNNI; 0: never */
enum {
    TILES_FROM_Q4_0 = 32,
    TILES_FROM_Q4_1 = 0,
    TILES_FROM_Q5_0 = 32,
    TILES_FROM_Q5_1 = 0,
    TILES_FROM_Q8_0 = 32,
    TILES_FROM_IQ4_NL = 32,
    TILES_FROM_MXFP4 = 32,
    TILES_FROM_NVFP4 = 0,
    TILES_FROM_Q2_K = 12,
    TILES_FROM_Q3_K = 12,
    TILES_FROM_Q4_K = 24,
    TILES_FROM_Q5_K = 24,
    TILES_FROM_Q6_K = 32,
    TILES_FROM_IQ4_XS = 24
};

void kt__amx_tile(const uint8_t *act, int n_col, int n_tok, kt__tiles to) {
    tile_all(act, n_col, n_tok, to);
}

_Static_assert(sizeof(tile_room) <= MM_SCRATCH_BYTES, "a worker's scratch");

#define MM_FLOAT(define, name, act)
#define MM_REF(define, name, act)
#define MM_COARSE(define, name, act)
#define MM_FINE(define, name, act)
#define MM_CRUMBS(define, name, act)
#define MM_BYTES(define, name, act)
#define MM_LANES(define, name, act) define(name, act)

#define FUNCTIONS(name, act)                                             \
    kt__mm_unpack_fn KT_TIER(rowdot_as_##name), KT_TIER(gemm_as_##name); \
    static void rowdot_##name(const kt__mm *mm, void *scratch) {         \
        KT_TIER(rowdot_as_##name)(mm, scratch, NULL);                    \
    }                                                                    \
    static void gemm_##name(const kt__mm *mm, void *scratch) {           \
        if (TILES_FROM_##name > 0 && mm->n_tok >= TILES_FROM_##name)     \
            gemm_tiles(KT__TYPE_##name, mm, scratch, NULL);              \
        else                                                             \
            KT_TIER(gemm_as_##name)(mm, scratch, NULL);                  \
    }
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(FUNCTIONS, name, act)
#include "quant/types.def"
#undef X

#define ROW(name, act) [KT__TYPE_##name] = {rowdot_##name, gemm_##name, GEMM_FROM_##name},
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(ROW, name, act)
const kt__mm_kernels kt__amx_mm[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X

#define FROM(name, act) FROM_##act(name)
#define FROM_Q32(name) /* read as rows */
#define FROM_Q256(name) [KT__TYPE_##name] = TILES_FROM_##name,
#undef MM_COARSE
#undef MM_FINE
#undef MM_CRUMBS
#define MM_COARSE(define, name, act) [KT__TYPE_##name] = TILES_FROM_UNPACKED,
#define MM_FINE(define, name, act) [KT__TYPE_##name] = TILES_FROM_UNPACKED,
#define MM_CRUMBS(define, name, act) [KT__TYPE_##name] = TILES_FROM_UNPACKED,
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(FROM, name, act)
const uint8_t kt__amx_tiles_from[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X

uint64_t kt__amx_peak_i8(uint64_t iterations, int32_t *sink) {
    int32_t sums[TILE_SUMS / 4];
    tiles_begin(TILE_LINE);
    for (uint64_t n = 0; n < iterations; n++) {
        TILE_DOT_UNSIGNED(0, 4, 6);
        TILE_DOT_UNSIGNED(1, 4, 7);
        TILE_DOT_UNSIGNED(2, 5, 6);
        TILE_DOT_UNSIGNED(3, 5, 7);
    }
    TILE_STORE(0, sums);
    tiles_end();
    *sink = sums[0];
    return iterations * 4 * TILE_ROWS * KT__TILE_TOKENS * TILE_LINE;
}
