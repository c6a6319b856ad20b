/* Tile instructions (AMX-TILE, AMX-INT8).
 *
 * Owns: the eight tile registers of 16 rows of 64 bytes as gemm_tiles.inc uses them, in assembly: the
 * intrinsics of gcc 12 do not say which memory they read. Registers: 0 to 3 sums of [group of
 * tokens][which weights], 4 and 5 activations of either group, 6 and 7 weights; attn_tiles.inc has queries or
 * weights in 4 and 5, keys or values in 6 and 7. For tiers' own files
 * only; a thread has the registers between tiles_begin and tiles_end, once the process may use them
 * (kt__cpu_permit_tiles). */
#ifndef KT_KERNELS_TILES_H
#define KT_KERNELS_TILES_H

#include "kernels/simd.h"

enum { TILE_ROWS = 16, TILE_LINE = 64, TILE_BYTES = TILE_ROWS * TILE_LINE };

/* What an instruction reads or writes. */
typedef struct __attribute__((may_alias)) tile_memory {
    uint8_t bytes[TILE_BYTES];
} tile_memory;

/* Intel SDM vol. 2A, LDTILECFG */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "the instruction's operand");

/* columns: of a tile of activations */
KT_INLINE void tiles_begin(int columns) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.line_bytes[i] = (uint16_t)(i == 4 || i == 5 ? columns : TILE_LINE);
        config.rows[i] = (uint8_t)(i < 6 ? TILE_ROWS : columns / 4);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

/* A thread that keeps tiles has 8 KB more to save at each switch. */
KT_INLINE void tiles_end(void) { __asm__ volatile("tilerelease"); }

#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define TILE_LOAD(tile, from)                                             \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                   \
                     :                                                    \
                     : "r"((const void *)(from)), "r"((size_t)TILE_LINE), \
                       "m"(*(const tile_memory *)(const void *)(from)))
/* lines `pitch` apart */
#define TILE_LOAD_ROWS(tile, from, pitch)                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile       \
                     :                                        \
                     : "r"((const void *)(from)), "r"(pitch), \
                       "m"(*(const uint8_t(*)[1 << 16])(const void *)(from)))
#define TILE_STORE(tile, to)                                \
    __asm__ volatile("tilestored %%tmm" #tile ", (%1,%2,1)" \
                     : "=m"(*(tile_memory *)(void *)(to))   \
                     : "r"((void *)(to)), "r"((size_t)TILE_LINE))
/* sums += products of activations, signed, and weights, unsigned or signed */
#define TILE_DOT_UNSIGNED(sums, act, w) \
    __asm__ volatile("tdpbsud %%tmm" #w ", %%tmm" #act ", %%tmm" #sums : :)
#define TILE_DOT_SIGNED(sums, act, w) \
    __asm__ volatile("tdpbssd %%tmm" #w ", %%tmm" #act ", %%tmm" #sums : :)

#endif
