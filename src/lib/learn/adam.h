/* Adam (Kingma & Ba 2015), with the gradient's norm held to 1.
 *
 * Owns: the moments of an adapter's values. An update that is not finite is dropped, whole, and
 * counted. One user at a time. */
#ifndef KT_LEARN_ADAM_H
#define KT_LEARN_ADAM_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct kt__adam {
    size_t n;
    float *m, *v;
    int n_step, n_dropped;
} kt__adam;

kt_status kt__adam_init(kt__adam *adam, size_t n, kt_error *err) KT_CHECKED;
void kt__adam_free(kt__adam *adam); /* also of a zeroed one */
/* values[n] take a step of the given rate against grads[n], which is scaled. false: dropped. */
bool kt__adam_step(kt__adam *adam, float *values, float *grads, float rate);

#endif
