/* Quantised pages in plain C: the executable form of docs/NUMERICS.md, section 8.
 *
 * Owns: the reference of quantise_k, quantise_v and code_query (kernels.h), and of quantising one
 * block; and pages of 4 bits made of such of 8. The first are for tier_ref alone; any thread. */
#ifndef KT_KERNELS_QUANTISE_PAGE_REF_H
#define KT_KERNELS_QUANTISE_PAGE_REF_H

#include "kernels/kernels.h"

/* q[n] and the return value d: x ~ d * q. A block below 2^-100 is zero, one with a non-finite value
 * is NaN. */
float kt__ref_quantize_block(const float *x, int n, int8_t *q);
kt__quantise_page_fn kt__ref_quantise_k8, kt__ref_quantise_v8, kt__ref_quantise_k4,
    kt__ref_quantise_v4;
void kt__ref_code_query(const float *q, int head_dim, uint8_t *codes, void *scratch);
/* One head's part in q4, of that in q8: of the numbers that its codes mean. scratch as kt__quantise_page_fn's. */
void kt__ref_narrow_k(const uint8_t *q8, int head_dim, uint8_t *q4, void *scratch);
void kt__ref_narrow_v(const uint8_t *q8, int head_dim, uint8_t *q4, void *scratch);

#endif
