/* What a block that proposes tokens reads: each token next to the state before it. */
#include <string.h>

#include "ops/dev.h"

typedef struct pairs_job {
    const kt__kernels *kernels;
    const kt__pairs *d;
} pairs_job;

/* The state before row t; NULL: zeros. */
static const float *state_before(const kt__pairs *d, int t) {
    for (int s = 0; s < d->n_seg; s++) {
        const kt__seg *seg = &d->segs[s];
        if (t < seg->row0 || t >= seg->row0 + seg->n_tok) continue;
        if (t == seg->row0) return d->first[s];
        return d->hidden ? d->hidden + (size_t)(t - 1) * (size_t)d->n : NULL;
    }
    return NULL;
}

static void norm_row(const pairs_job *job, const float *x, const float *norm, float *out) {
    int n = job->d->n;
    if (norm) /* the next norm looks whether they are finite */
        (void)job->kernels->rmsnorm(x, norm, n, job->d->eps, out);
    else
        memcpy(out, x, (size_t)n * sizeof *out);
}

static void pair_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const pairs_job *job = arg;
    const kt__pairs *d = job->d;
    size_t n = (size_t)d->n;
    (void)worker;
    for (size_t t = (size_t)begin; t < (size_t)end; t++) {
        const float *before = state_before(d, (int)t);
        float *out = d->out + t * 2 * n;
        norm_row(job, d->tokens + t * n, d->token_norm, out);
        if (before)
            norm_row(job, before, d->hidden_norm, out + n);
        else
            memset(out + n, 0, n * sizeof *out);
    }
}

void kt__cpu_pairs(kt__dev *dev, const kt__pairs *desc) {
    pairs_job job = {dev->kernels, desc};
    kt__dev_run_rows(dev, desc->n_tok, pair_rows, &job);
}
