/* Recurrent layers in plain C: the executable form of docs/NUMERICS.md, section 17.
 *
 * Owns: the reference of conv, delta, softplus and sigmoid_mul (kernels.h), and the sum of the contract's 16
 * lanes. For tier_ref alone; any thread. */
#ifndef KT_KERNELS_RECUR_REF_H
#define KT_KERNELS_RECUR_REF_H

#include "kernels/kernels.h"

enum { KT__REF_LANES = 16 };

/* lane i takes lane i + 8, then + 4, + 2, + 1 */
static inline float kt__ref_tree_sum(float lane[KT__REF_LANES]) {
    for (int half = KT__REF_LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    }
    return lane[0];
}

void kt__ref_conv(const kt__conv *conv);
void kt__ref_delta(const kt__delta *delta);
void kt__ref_softplus(float *x, int n);
void kt__ref_sigmoid_mul(const float *x, const float *gate, int n, float *out);

#endif
