/* The quantised products of one tier, which its files define and its table names.
 *
 * Owns: declarations, by KT_TIER(rowdot_TYPE) and KT_TIER(gemm_TYPE), and the macro that defines a
 * pair. For one tier's files only, after its simd header. Any thread. */
#ifndef KT_KERNELS_MM_NAMES_H
#define KT_KERNELS_MM_NAMES_H

#include "kernels/kernels.h"

#define X(name, ggml_id, elems, bytes, act) kt__mm_fn KT_TIER(rowdot_##name), KT_TIER(gemm_##name);
#include "quant/types.def"
#undef X

#define KT_DEFINE_MM(name)                                         \
    void KT_TIER(rowdot_##name)(const kt__mm *mm, void *scratch) { \
        rowdot(KT__TYPE_##name, mm, scratch);                      \
    }                                                              \
    void KT_TIER(gemm_##name)(const kt__mm *mm, void *scratch) {   \
        gemm(KT__TYPE_##name, mm, scratch);                        \
    }

#endif
