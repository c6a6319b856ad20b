/* The parts of a tier that hold its quantised products.
 *
 * Owns: the declaration of their tables, one for each kind of activation, indexed by type (rows of
 * other types are empty). For one tier's files only; a tier defines KT_TIER. Any thread. */
#ifndef KT_KERNELS_MM_PARTS_H
#define KT_KERNELS_MM_PARTS_H

#include "kernels/kernels.h"

extern const kt__mm_kernels KT_TIER(mm_Q32)[], KT_TIER(mm_Q256)[];

#endif
