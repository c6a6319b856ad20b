/* Quantised pages in plain C: the executable form of docs/NUMERICS.md, section 8.
 *
 * Owns: the reference of quantise_k, quantise_v and code_query (kernels.h), and of quantising one
 * block. For tier_ref alone; any thread. */
#ifndef KT_KERNELS_QUANTISE_PAGE_REF_H
#define KT_KERNELS_QUANTISE_PAGE_REF_H

#include "kernels/kernels.h"

/* q[n] and the return value d: x ~ d * q. A block below 2^-100 is zero, one with a non-finite value
 * is NaN. */
float kt__ref_quantize_block(const float *x, int n, int8_t *q);
kt__quantise_page_fn kt__ref_quantise_k8, kt__ref_quantise_v8, kt__ref_quantise_k4,
    kt__ref_quantise_v4;
void kt__ref_code_query(const float *q, int head_dim, uint8_t *codes, void *scratch);

#endif
