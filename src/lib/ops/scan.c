/* Mamba's part with a state (Gu and Dao 2023): every channel has a state of its own, each number of
 * which decays by itself. */
#include "ops/dev.h"

typedef struct scan_job {
    kt__dev *dev;
    const kt__scan *d;
} scan_job;

static void step_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const scan_job *job = arg;
    const kt__scan *d = job->d;
    (void)worker;
    for (int64_t t = begin; t < end; t++)
        job->dev->kernels->softplus(d->step + (size_t)t * (size_t)d->n_ch, d->n_ch);
}

static kt__delta channels_from(const void *desc, int head, int ch) {
    const kt__scan *d = desc;
    size_t dim = (size_t)d->dim, n_ch = (size_t)d->n_ch, at = (size_t)ch;
    (void)head;
    return (kt__delta){.dim = d->dim,
                       .adds = true,
                       .q = d->pairs + dim,
                       .k = d->pairs,
                       .ld_qk = 2 * dim,
                       .v = d->x + at,
                       .ld_v = n_ch,
                       .beta = d->step + at,
                       .ld_g = n_ch,
                       .out = d->out + at,
                       .ld_out = n_ch,
                       .a = d->a + at * dim};
}

/* y = o + d x, times silu(gate). */
static void finish_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const scan_job *job = arg;
    const kt__scan *d = job->d;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *x = d->x + (size_t)t * (size_t)d->n_ch;
        float *out = d->out + (size_t)t * (size_t)d->n_ch;
        for (int c = 0; c < d->n_ch; c++) out[c] = out[c] + d->d[c] * x[c];
        job->dev->kernels->silu_mul(d->gate + (size_t)t * d->ld_gate, out, d->n_ch, out);
    }
}

void kt__cpu_scan(kt__dev *dev, const kt__scan *desc) {
    scan_job job = {dev, desc};
    const kt__state_walk walk = {.n_head = 1,
                                 .n_row = desc->n_ch,
                                 .kv = desc->kv,
                                 .state_at = desc->state_at,
                                 .segs = desc->segs,
                                 .n_seg = desc->n_seg,
                                 .rows = channels_from,
                                 .desc = desc};
    kt__dev_run_rows(dev, desc->n_tok, step_rows, &job);
    kt__cpu_walk_states(dev, &walk);
    kt__dev_run_rows(dev, desc->n_tok, finish_rows, &job);
}
