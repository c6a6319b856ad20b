#include "kernels/recur_ref.h"

#include <math.h> /* fmaf: an IEEE operation */

#include "base/math.h"

void kt__ref_conv(const kt__conv *c) {
    for (size_t i = 0; i < (size_t)c->n; i++) {
        float y = c->bias ? c->bias[i] : 0;
        for (size_t j = 0; j < (size_t)c->width; j++)
            y = fmaf(c->w[j * c->ld_w + i], c->x[j][i], y);
        c->out[i] = c->silu ? y / (1.0f + kt__expf(-y)) : y;
    }
}

/* One row of the state meets one token. */
static float delta_step(const kt__delta *d, float *s, size_t t, size_t row) {
    const float *q = d->q + t * d->ld_qk, *k = d->k + t * d->ld_qk;
    const float *a = d->a ? d->a + row * (size_t)d->dim : NULL;
    float beta = d->beta[t * d->ld_g + (a ? row : 0)], v = d->v[t * d->ld_v + row];
    float known[KT__REF_LANES] = {0}, out[KT__REF_LANES] = {0};
    for (int i = 0; i < d->dim; i++) {
        s[i] = (a ? kt__expf(beta * a[i]) : d->decay[t * d->ld_g]) * s[i];
        known[i % KT__REF_LANES] = fmaf(s[i], k[i], known[i % KT__REF_LANES]);
    }
    float change = beta * (d->adds ? v : v - kt__ref_tree_sum(known));
    for (int i = 0; i < d->dim; i++) {
        s[i] = fmaf(k[i], change, s[i]);
        out[i % KT__REF_LANES] = fmaf(s[i], q[i], out[i % KT__REF_LANES]);
    }
    return kt__ref_tree_sum(out);
}

void kt__ref_delta(const kt__delta *d) {
    for (int r = 0; r < d->n_row; r++) {
        float *s = d->s + (size_t)r * (size_t)d->dim;
        for (size_t t = 0; t < (size_t)d->n_tok; t++)
            d->out[t * d->ld_out + (size_t)r] = delta_step(d, s, t, (size_t)r);
    }
}

void kt__ref_softplus(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = kt__softplusf(x[i]);
}

void kt__ref_sigmoid_mul(const float *x, const float *gate, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = x[i] / (1.0f + kt__expf(-gate[i]));
}
