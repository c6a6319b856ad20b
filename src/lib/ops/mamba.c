/* Mamba-2's part with a state. As in delta nets, every row of a head's state goes through its segment's
 * tokens in order. */
#include <string.h>

#include "base/math.h"
#include "ops/dev.h"

typedef struct mamba_job {
    kt__dev *dev;
    const kt__mamba *d;
    int per_head; /* items */
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

/* Rows [row0, row0 + n_row) of a head's state through the segment's tokens. */
static void state_rows(const mamba_job *job, const kt__seg *seg, int head, int row0, int n_row,
                       float *s) {
    const kt__mamba *d = job->d;
    size_t n = (size_t)n_row * (size_t)d->dim, ld = row_floats(d), inner = inner_of(d);
    size_t value = (size_t)head * (size_t)d->n_row + (size_t)row0;
    size_t at = d->state_at + value * (size_t)d->dim;
    size_t group = (size_t)(head / (d->n_head / d->n_group)) * (size_t)d->dim;
    const float *before = kt__state_before(d->kv, seg, at);
    if (before) {
        memcpy(s, before, n * sizeof *s);
    } else {
        memset(s, 0, n * sizeof *s);
    }
    for (int m = 0, done = 0; done < seg->n_tok; m++) {
        int end = m < seg->n_states ? seg->states[m].n_tok : seg->n_tok;
        size_t t = (size_t)(seg->row0 + done), heads = (size_t)d->n_head;
        const float *row = d->x + t * ld;
        const kt__delta part = {.s = s,
                                .n_row = n_row,
                                .dim = d->dim,
                                .n_tok = end - done,
                                .adds = true,
                                .q = row + inner + (size_t)(d->n_group * d->dim) + group,
                                .k = row + inner + group,
                                .ld_qk = ld,
                                .v = row + value,
                                .ld_v = ld,
                                .decay = d->decay + t * heads + (size_t)head,
                                .beta = d->step + t * heads + (size_t)head,
                                .ld_g = heads,
                                .out = d->out + t * inner + value,
                                .ld_out = inner};
        job->dev->kernels->delta(&part);
        if (m < seg->n_states) memcpy(kt__state_after(d->kv, seg, m, at), s, n * sizeof *s);
        done = end;
    }
}

static void state_items(void *arg, int64_t begin, int64_t end, int worker) {
    const mamba_job *job = arg;
    const kt__mamba *d = job->d;
    int per_seg = job->per_head * d->n_head;
    for (int64_t item = begin; item < end; item++) {
        const kt__seg *seg = &d->segs[item / per_seg];
        int in_seg = (int)(item % per_seg), row0 = in_seg % job->per_head * KT__STATE_ROWS;
        int n_row = d->n_row - row0 < KT__STATE_ROWS ? d->n_row - row0 : KT__STATE_ROWS;
        if (seg->n_tok == 0) continue;
        state_rows(job, seg, in_seg / job->per_head, row0, n_row,
                   kt__dev_kernel_scratch(job->dev, worker));
    }
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
    mamba_job job = {dev, desc, (desc->n_row + KT__STATE_ROWS - 1) / KT__STATE_ROWS};
    int64_t items = (int64_t)desc->n_seg * desc->n_head * job.per_head;
    kt__dev_run_rows(dev, desc->n_tok, prepare_rows, &job);
    kt__pool_run(dev->pool, items, 1, state_items, &job);
    kt__dev_run_rows(dev, desc->n_tok, finish_rows, &job);
}
