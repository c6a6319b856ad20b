/* The amx tier's products on tiles in AVX2's vectors, for a processor that has no AVX-512: everything around the tile
 * instructions runs as it is, these in amx_emulated.h. */
#include "kernels/kernels.h"
#include "kernels/simd_avx2.h"

#include "kernels/lanes.inc"

#include "kernels/gemm_tiles.inc"

#include "kernels/mm_parts.h"

#ifndef TABLE
#define TABLE amx_on_avx2
#define NAME "amx on avx2"
#endif

_Static_assert(sizeof(tile_room) <= MM_SCRATCH_BYTES, "a worker's scratch");

#define TILED(define) \
    define(Q2_K) define(Q3_K) define(Q4_K) define(Q5_K) define(Q6_K) define(IQ4_XS)
#define TILED_32(define) define(Q4_0) define(Q5_0) define(Q8_0) define(IQ4_NL) define(MXFP4)

#define FUNCTION(name)                                         \
    static void gemm_##name(const kt__mm *mm, void *scratch) { \
        gemm_tiles(KT__TYPE_##name, mm, scratch, NULL);        \
    }
TILED(FUNCTION)
TILED_32(FUNCTION)

extern const kt__kernels kt__kernels_avx2;
const kt__kernels *TABLE(void);

static void tile(const uint8_t *act, int n_col, int n_tok, kt__tiles to) {
    tile_all(act, n_col, n_tok, to);
}

const kt__kernels *TABLE(void) {
    static uint8_t from[KT__TYPE_COUNT];
    static const kt__mm_kernels *mm[KT__TYPE_COUNT];
    static kt__mm_kernels tiled[KT__TYPE_COUNT];
    static kt__kernels kernels;
    kernels = kt__kernels_avx2;
    kernels.name = NAME;
    kernels.mm = mm;
    memcpy(mm, kt__kernels_avx2.mm, sizeof mm);
#define ROW(type)                                  \
    tiled[KT__TYPE_##type] = *mm[KT__TYPE_##type]; \
    tiled[KT__TYPE_##type].gemm = gemm_##type;     \
    mm[KT__TYPE_##type] = &tiled[KT__TYPE_##type];
    TILED(ROW)
    TILED_32(ROW)
#define FROM(type) from[KT__TYPE_##type] = 32;
    TILED(FROM)
    kernels.tiles_from = from;
    kernels.tile = tile;
    return &kernels;
}
