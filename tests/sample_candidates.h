/* What a sampler's chain leaves to draw from, with probabilities.
 *
 * Owns: nothing. For tests of the sample room; one thread. */
#ifndef KT_TESTS_SAMPLE_CANDIDATES_H
#define KT_TESTS_SAMPLE_CANDIDATES_H

#include <math.h>

#include "sample/chain.h"

typedef struct candidate {
    int32_t id;
    float p;
} candidate;

/* At most cap of *n candidates in the order the draw walks them; p sums to 1 over all *n. */
static inline kt_status candidates_of(kt__sampler *s, const float *logits, uint64_t position,
                                      candidate *out, size_t cap, size_t *n) {
    kt__cands c;
    kt_status status = kt__chain_run(s, logits, position, &c, NULL);
    *n = 0;
    if (status != KT_OK) return status;
    if (s->params.temperature <= 0.0f) {
        if (cap) out[0] = (candidate){kt__cands_id(&c, kt__cands_argmax(&c)), 1.0f};
        *n = 1;
        return KT_OK;
    }
    for (size_t i = 0; i < c.n; i++) {
        if (!(c.logit[i] > -INFINITY)) continue;
        double p = (double)s->scratch->weight[i] / c.total;
        if (*n < cap) out[*n] = (candidate){kt__cands_id(&c, i), (float)p};
        ++*n;
    }
    return KT_OK;
}

#endif
