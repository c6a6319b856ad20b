#include "learn/adam.h"

#include <math.h>

#include "base/alloc.h"
#include "base/error.h"

static const float beta1 = 0.9f, beta2 = 0.99f, tiny = 1e-8f;

kt_status kt__adam_init(kt__adam *a, size_t n, kt_error *err) {
    *a = (kt__adam){.n = n};
    a->m = kt__calloc(n, sizeof *a->m);
    a->v = kt__calloc(n, sizeof *a->v);
    if (a->m && a->v) return KT_OK;
    kt__adam_free(a);
    return kt__fail_nomem(err, "the optimiser's moments", 2 * n * sizeof(float));
}

void kt__adam_free(kt__adam *a) {
    kt__free(a->m);
    kt__free(a->v);
    *a = (kt__adam){0};
}

bool kt__adam_step(kt__adam *a, float *values, float *grads, float rate) {
    double square = 0.0;
    for (size_t i = 0; i < a->n; i++) square += (double)grads[i] * (double)grads[i];
    if (!isfinite(square)) {
        a->n_dropped++;
        return false;
    }
    double norm = sqrt(square);
    float clip = norm > 1.0 ? (float)(1.0 / norm) : 1.0f;
    a->n_step++;
    float c1 = 1.0f, c2 = 1.0f;
    for (int i = 0; i < a->n_step && i < 4096; i++) c1 *= beta1, c2 *= beta2;
    c1 = 1.0f / (1.0f - c1), c2 = 1.0f / (1.0f - c2);
    for (size_t i = 0; i < a->n; i++) {
        float g = grads[i] * clip;
        a->m[i] = beta1 * a->m[i] + (1.0f - beta1) * g;
        a->v[i] = beta2 * a->v[i] + (1.0f - beta2) * g * g;
        values[i] -= rate * (a->m[i] * c1) / (sqrtf(a->v[i] * c2) + tiny);
    }
    return true;
}
