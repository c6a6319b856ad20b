/* What the avxvnni tier has of its own.
 *
 * Owns: declarations of its products' tables (tier_part.c.in, tier_unpacked.c.in), its attention and its peak
 * (tier_avxvnni.c), for the table in tier_avx2.c. Any thread. */
#ifndef KT_KERNELS_AVXVNNI_H
#define KT_KERNELS_AVXVNNI_H

#include "kernels/kernels.h"

extern const kt__mm_kernels kt__avxvnni_mm_Q32[], kt__avxvnni_mm_Q256[], kt__avxvnni_mm_unpacked[];
void kt__avxvnni_attn(const kt__attn *a, void *scratch);
uint64_t kt__avxvnni_peak_i8(uint64_t iterations, int32_t *sink);

#endif
