/* The amx tier's products of types that are unpacked to superblocks of 256 weights. One token's gather the
 * entries of codebooks; the avx512 tier does without: gathers are slow on older processors that have it, whose
 * microcode holds them back (Gather Data Sampling), and fast on all that have tiles. Many tokens are multiplied on
 * tiles. The rest is the avx512 tier's. */
#include "kernels/simd_avx512.h"
#include "kernels/lanes.inc"
#include "kernels/rowdot_avx512.h"
#include "kernels/mm_parts.h"

#include "kernels/gemm_tiles.inc"
#include "kernels/rowdot.inc"
#include "kernels/unpack.inc"
#include "kernels/rowdot_grids_avx512.h"

KT_ONCE static void tiles_COARSE(const kt__mm *mm, void *scratch, kt__unpack_fn *unpack) {
    gemm_tiles(UNPACKED_COARSE, mm, scratch, unpack);
}
KT_ONCE static void tiles_FINE(const kt__mm *mm, void *scratch, kt__unpack_fn *unpack) {
    gemm_tiles(UNPACKED_FINE, mm, scratch, unpack);
}
KT_ONCE static void tiles_CRUMBS(const kt__mm *mm, void *scratch, kt__unpack_fn *unpack) {
    gemm_tiles(KT__TYPE_Q2_K, mm, scratch, unpack);
}

#define MM_FLOAT(define, name)
#define MM_REF(define, name)
#define MM_LANES(define, name)
#define MM_BYTES(define, name)
#define MM_CRUMBS(define, name) define(name, CRUMBS)
#define MM_COARSE(define, name) define(name, COARSE)
#define MM_FINE(define, name) define(name, FINE)

#define FUNCTIONS(name, form)                                          \
    static void rowdot_##name(const kt__mm *mm, void *scratch) {       \
        if (has_codebook(KT__TYPE_##name) && mm->n_tok == 1)           \
            one_stream(KT__TYPE_##name, mm, scratch);                  \
        else                                                           \
            KT_TIER(mm_unpacked)[KT__TYPE_##name].rowdot(mm, scratch); \
    }                                                                  \
    static void gemm_##name(const kt__mm *mm, void *scratch) {         \
        if (mm->n_tok < TILES_FROM_UNPACKED)                           \
            KT_TIER(mm_unpacked)[KT__TYPE_##name].gemm(mm, scratch);   \
        else                                                           \
            tiles_##form(mm, scratch, unpack_##name);                  \
    }
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(FUNCTIONS, name)
#include "quant/types.def"
#undef X

#define ROW(name, form) [KT__TYPE_##name] = {rowdot_##name, gemm_##name, GEMM_FROM_##form},
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(ROW, name)
const kt__mm_kernels kt__amx_mm_unpacked[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X
