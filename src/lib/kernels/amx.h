/* What the amx tier has of its own.
 *
 * Owns: the declarations of tier_amx.c and tier_amx_unpacked.c, for the table of the tier (tier_avx512.c). Only where the process may
 * use tiles (kt__cpu_permit_tiles); any thread. */
#ifndef KT_KERNELS_AMX_H
#define KT_KERNELS_AMX_H

#include "kernels/kernels.h"

extern const kt__mm_kernels kt__amx_mm[]; /* by type; rows of other types than LANES are empty */
extern const kt__mm_kernels kt__amx_mm_unpacked[]; /* rows of types unpacked to superblocks */
enum { TILES_FROM_UNPACKED = 32 };                 /* tokens, from which on these take tiles */
extern const uint8_t kt__amx_tiles_from[];
void kt__amx_tile(const uint8_t *act, int n_col, int n_tok, kt__tiles to);
uint64_t kt__amx_peak_i8(uint64_t iterations, int32_t *sink);

#endif
