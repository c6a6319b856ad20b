/* Mamba-2's part with a state. */
#include "base/math.h"
#include "ops/dev.h"

typedef struct mamba_job {
    kt__dev *dev;
    const kt__mamba *d;
} mamba_job;

static size_t inner_of(const kt__mamba *d) {
    return (size_t)d->n_head * (size_t)d->n_row;
}

static size_t row_floats(const kt__mamba *d) {
    return inner_of(d) + 2 * (size_t)d->n_group * (size_t)d->dim;
}

/* softplus, and the decay over such a step, each rounded once */
static void prepare_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const kt__mamba *d = ((const mamba_job *)arg)->d;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *dt = d->dt + (size_t)t * d->ld_in;
        float *step = d->step + (size_t)t * (size_t)d->n_head;
        float *decay = d->decay + (size_t)t * (size_t)d->n_head;
        for (int h = 0; h < d->n_head; h++) {
            double y = (double)(dt[h] + d->dt_bias[h]);
            step[h] = (float)(y > 20.0 ? y : kt__log(1.0 + kt__exp(y)));
            decay[h] = (float)kt__exp((double)step[h] * (double)d->a[h]);
        }
    }
}

static kt__delta mamba_rows(const void *desc, int head, int row0) {
    const kt__mamba *d = desc;
    size_t inner = inner_of(d), value = (size_t)head * (size_t)d->n_row + (size_t)row0;
    size_t group = (size_t)(head / (d->n_head / d->n_group)) * (size_t)d->dim;
    return (kt__delta){.dim = d->dim,
                       .adds = true,
                       .q = d->x + inner + (size_t)(d->n_group * d->dim) + group,
                       .k = d->x + inner + group,
                       .ld_qk = row_floats(d),
                       .v = d->x + value,
                       .ld_v = row_floats(d),
                       .decay = d->decay + head,
                       .beta = d->step + head,
                       .ld_g = (size_t)d->n_head,
                       .out = d->out + value,
                       .ld_out = inner};
}

/* y = o + d x, times silu(gate), then each group's norm. */
static void finish_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const mamba_job *job = arg;
    const kt__mamba *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    size_t inner = inner_of(d), in_group = inner / (size_t)d->n_group;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *x = d->x + (size_t)t * row_floats(d);
        float *out = d->out + (size_t)t * inner;
        for (size_t i = 0; i < inner; i++) out[i] = out[i] + d->d[i / (size_t)d->n_row] * x[i];
        k->silu_mul(d->in + (size_t)t * d->ld_in, out, (int)inner, out);
        for (size_t g = 0; d->norm && g < (size_t)d->n_group; g++)
            (void)k->rmsnorm(out + g * in_group, d->norm + g * in_group, (int)in_group, d->eps,
                             out + g * in_group); /* the next norm looks whether it is finite */
    }
}

void kt__cpu_mamba(kt__dev *dev, const kt__mamba *desc) {
    mamba_job job = {dev, desc};
    const kt__state_walk walk = {.n_head = desc->n_head,
                                 .n_row = desc->n_row,
                                 .kv = desc->kv,
                                 .state_at = desc->state_at,
                                 .segs = desc->segs,
                                 .n_seg = desc->n_seg,
                                 .rows = mamba_rows,
                                 .desc = desc};
    kt__dev_run_rows(dev, desc->n_tok, prepare_rows, &job);
    kt__cpu_walk_states(dev, &walk);
    kt__dev_run_rows(dev, desc->n_tok, finish_rows, &job);
}
