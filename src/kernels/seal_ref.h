/* Sealed pages in plain C: the executable form of docs/NUMERICS.md, section 8.
 *
 * Owns: the reference of seal_k, seal_v and code_query (kernels.h), and of quantising one block. For
 * tier_ref alone; any thread. */
#ifndef KT_KERNELS_SEAL_REF_H
#define KT_KERNELS_SEAL_REF_H

#include "kernels/kernels.h"

/* q[n] and the return value d: x ~ d * q. A block below 2^-100 is zero, one with a non-finite value
 * is NaN. */
float kt__ref_quantize_block(const float *x, int n, int8_t *q);
void kt__ref_seal_k(const kt__f16 *page, int head_dim, uint8_t *sealed, void *scratch);
void kt__ref_seal_v(const kt__f16 *page, int head_dim, uint8_t *sealed, void *scratch);
void kt__ref_code_query(const float *q, int head_dim, uint8_t *codes, void *scratch);

#endif
