/* The amx tier's products of types with codebooks: one token's gather the entries. The avx512 tier does without: gathers
 * are slow on older processors that have it, whose microcode holds them back (Gather Data Sampling), and fast on
 * all that have tiles. More tokens are the avx512 tier's. */
#include "kernels/amx.h"
#include "kernels/mm_avx512.inc"
#include "kernels/mm_parts.h"
#include "kernels/rowdot_grids_avx512.h"

#define MM_FLOAT(define, name)
#define MM_REF(define, name)
#define MM_LANES(define, name)
#define MM_CRUMBS(define, name)
#define MM_BYTES(define, name)
#define MM_COARSE(define, name) define(name, COARSE)
#define MM_FINE(define, name) define(name, FINE)

#define FUNCTIONS(name, form)                                          \
    static void rowdot_##name(const kt__mm *mm, void *scratch) {       \
        if (mm->n_tok == 1)                                            \
            one_stream(KT__TYPE_##name, mm, scratch);                  \
        else                                                           \
            KT_TIER(mm_unpacked)[KT__TYPE_##name].rowdot(mm, scratch); \
    }                                                                  \
    static void gemm_##name(const kt__mm *mm, void *scratch) {         \
        KT_TIER(mm_unpacked)[KT__TYPE_##name].gemm(mm, scratch);       \
    }
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(FUNCTIONS, name)
#include "quant/types.def"
#undef X

#define ROW(name, form) \
    [KT__TYPE_##name] = {rowdot_##name, gemm_##name, GEMM_FROM_##form, GEMM_ROWS},
#define X(name, ggml_id, elems, bytes, act, products) MM_##products(ROW, name)
const kt__mm_kernels kt__amx_mm_grids[KT__TYPE_COUNT] = {
#include "quant/types.def"
};
#undef X
