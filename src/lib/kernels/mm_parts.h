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

#endif
