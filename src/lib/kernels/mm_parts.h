/* The parts of a tier that hold its quantised products.
 *
 * Owns: the declaration of their tables, one for each kind of activation and one for types that are
 * unpacked, indexed by type (rows of other types are empty), and the size of their scratch. For one tier's files
 * only; a tier defines KT_TIER. Any thread. */
#ifndef KT_KERNELS_MM_PARTS_H
#define KT_KERNELS_MM_PARTS_H

#include "kernels/kernels.h"
#include "kernels/unpacked.h"

enum { MM_SCRATCH_BYTES = 3 << 20 }; /* of a worker, in every vector tier */

extern const kt__mm_kernels KT_TIER(mm_Q32)[], KT_TIER(mm_Q256)[], KT_TIER(mm_unpacked)[];

/* Products of a type that `unpack` (unpacked.h; NULL: nothing) makes of mm's own. */
typedef void kt__mm_unpack_fn(const kt__mm *mm, void *scratch, kt__unpack_fn *unpack);
kt__mm_unpack_fn KT_TIER(rowdot_as_Q2_K), KT_TIER(gemm_as_Q2_K), KT_TIER(rowdot_as_Q8_0),
    KT_TIER(gemm_as_Q8_0);

#if defined(__x86_64__)
/* What the amx tier has of its own (tier_amx.c, tier_amx_unpacked.c), for the table in tier_avx512.c. Only where the
 * process may use tiles (kt__cpu_permit_tiles). */
extern const kt__mm_kernels kt__amx_mm[]; /* by type; rows of other types than LANES are empty */
extern const kt__mm_kernels kt__amx_mm_unpacked[]; /* rows of types unpacked to superblocks */
enum { TILES_FROM_UNPACKED = 32 };                 /* tokens, from which on these take tiles */
extern const uint8_t kt__amx_tiles_from[];
void kt__amx_tile(const uint8_t *act, int n_col, int n_tok, kt__tiles to);
uint64_t kt__amx_peak_i8(uint64_t iterations, int32_t *sink);

/* What the avxvnni tier has of its own: its attention and its peak (tier_avxvnni.c), for the table in tier_avx2.c. */
extern const kt__mm_kernels kt__avxvnni_mm_Q32[], kt__avxvnni_mm_Q256[], kt__avxvnni_mm_unpacked[];
void kt__avxvnni_attn(const kt__attn *a, void *scratch);
uint64_t kt__avxvnni_peak_i8(uint64_t iterations, int32_t *sink);
#endif

#endif
