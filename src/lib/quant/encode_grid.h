/* Encoders of the types with codebooks (IQ1, IQ2, IQ3).
 *
 * Owns: the search for scales, signs and entries. No state; any thread. */
#ifndef KT_QUANT_ENCODE_GRID_H
#define KT_QUANT_ENCODE_GRID_H

#include "quant/quant.h"

/* x[256] into a block; w[256]: what the squared errors count, not negative */
typedef void kt__encode_grid_fn(kt__effort effort, const float *x, const float *w, void *block);
kt__encode_grid_fn kt__encode_IQ2_XXS, kt__encode_IQ2_XS, kt__encode_IQ2_S, kt__encode_IQ3_XXS,
    kt__encode_IQ3_S, kt__encode_IQ1_S, kt__encode_IQ1_M;

/* Codes of the n weights from `first` on, both multiples of 8, chosen anew for x[n] and w[n]; now:
 * the block, whose scales stay. */
typedef void kt__choose_grid_fn(const kt__super *now, const float *x, const float *w, int first,
                                int n, void *block);
kt__choose_grid_fn kt__choose_IQ2_XXS, kt__choose_IQ2_XS, kt__choose_IQ2_S, kt__choose_IQ3_XXS,
    kt__choose_IQ3_S;

#endif
