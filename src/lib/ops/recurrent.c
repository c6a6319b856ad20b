/* Operations of layers with a state: short convolutions and gated delta nets.
 *
 * What depends on earlier tokens is divided by channels and by rows of the state, each of which goes
 * through its segment's tokens in order, so that slices of a prompt change nothing. */
#include <math.h>
#include <string.h>

#include "base/math.h"
#include "ops/dev.h"

enum { CHANNELS = 128 };

/* ---- element by element ---- */

typedef struct mul_job {
    const float *y;
    size_t ld_y, ld_io;
    int n;
    float *io;
} mul_job;

static void mul_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const mul_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *y = job->y + (size_t)t * job->ld_y;
        float *io = job->io + (size_t)t * job->ld_io;
        for (int i = 0; i < job->n; i++) io[i] *= y[i];
    }
}

void kt__cpu_mul(kt__dev *dev, const float *y, size_t ld_y, int n_tok, int n, float *io,
                 size_t ld_io) {
    mul_job job = {y, ld_y, ld_io, n, io};
    kt__dev_run_rows(dev, n_tok, mul_rows, &job);
}

typedef struct split_job {
    const float *x;
    int n_head, n;
    float *out, *gate;
} split_job;

static void split_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const split_job *job = arg;
    size_t n = (size_t)job->n;
    (void)worker;
    for (size_t h = (size_t)begin * (size_t)job->n_head; h < (size_t)end * (size_t)job->n_head;
         h++) {
        memcpy(job->out + h * n, job->x + 2 * h * n, n * sizeof *job->out);
        memcpy(job->gate + h * n, job->x + (2 * h + 1) * n, n * sizeof *job->gate);
    }
}

void kt__cpu_split(kt__dev *dev, const float *x, int n_tok, int n_head, int n, float *out,
                   float *gate) {
    split_job job = {x, n_head, n, out, gate};
    kt__dev_run_rows(dev, n_tok, split_rows, &job);
}

typedef struct unweave_job {
    const float *x;
    int n_group, n;
    float *beta, *alpha;
} unweave_job;

static void unweave_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const unweave_job *job = arg;
    size_t in_group = (size_t)(job->n / job->n_group), bytes = in_group * sizeof(float);
    (void)worker;
    for (size_t g = (size_t)begin * (size_t)job->n_group; g < (size_t)end * (size_t)job->n_group;
         g++) {
        memcpy(job->beta + g * in_group, job->x + 2 * g * in_group, bytes);
        memcpy(job->alpha + g * in_group, job->x + (2 * g + 1) * in_group, bytes);
    }
}

void kt__cpu_unweave(kt__dev *dev, const float *x, int n_tok, int n_group, int n, float *beta,
                     float *alpha) {
    unweave_job job = {x, n_group, n, beta, alpha};
    kt__dev_run_rows(dev, n_tok, unweave_rows, &job);
}

typedef struct sigmoid_job {
    const kt__kernels *kernels;
    const float *gate;
    int n;
    float *io;
} sigmoid_job;

static void sigmoid_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const sigmoid_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *io = job->io + (size_t)t * (size_t)job->n;
        job->kernels->sigmoid_mul(io, job->gate + (size_t)t * (size_t)job->n, job->n, io);
    }
}

void kt__cpu_sigmoid_mul(kt__dev *dev, const float *gate, int n_tok, int n, float *io) {
    sigmoid_job job = {dev->kernels, gate, n, io};
    kt__dev_run_rows(dev, n_tok, sigmoid_rows, &job);
}

/* ---- short convolutions ---- */

typedef struct conv_job {
    const kt__kernels *kernels;
    const kt__short_conv *d;
    int n_chunk;
} conv_job;

/* The channels that an item has, and their inputs before the segment's first row. */
typedef struct channels {
    const kt__seg *seg;
    size_t first;
    int n;
    const float *before; /* of a state, or NULL */
    float zeros[CHANNELS];
} channels;

/* Inputs of row t of the segment; of one before it for a negative t. */
static const float *input_at(const kt__short_conv *d, const channels *c, int t) {
    if (t >= 0) return d->x + (size_t)(c->seg->row0 + t) * d->ld_x + c->first;
    if (!c->before) return c->zeros;
    return c->before + (size_t)(t + d->width - 1) * (size_t)d->n_ch + c->first;
}

static void write_inputs(const kt__short_conv *d, const channels *c, int mark) {
    float *to = kt__state_after(d->kv, c->seg, mark, d->state_at) + c->first;
    int n_tok = c->seg->states[mark].n_tok;
    for (int j = 0; j < d->width - 1; j++, to += d->n_ch)
        memcpy(to, input_at(d, c, n_tok - d->width + 1 + j), (size_t)c->n * sizeof *to);
}

static void conv_items(void *arg, int64_t begin, int64_t end, int worker) {
    const conv_job *job = arg;
    const kt__short_conv *d = job->d;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const float *x[KT__MAX_CONV];
        channels c = {.seg = &d->segs[item / job->n_chunk]};
        c.first = (size_t)(item % job->n_chunk) * CHANNELS;
        c.n = d->n_ch - (int)c.first < CHANNELS ? d->n_ch - (int)c.first : CHANNELS;
        if (c.seg->n_tok == 0) continue;
        c.before = kt__state_before(d->kv, c.seg, d->state_at);
        for (int t = 0; t < c.seg->n_tok; t++) {
            for (int j = 0; j < d->width; j++) x[j] = input_at(d, &c, t - d->width + 1 + j);
            float *out = d->out + (size_t)(c.seg->row0 + t) * d->ld_out + c.first;
            const kt__conv conv = {x,
                                   d->w + c.first,
                                   (size_t)d->n_ch,
                                   d->bias ? d->bias + c.first : NULL,
                                   d->width,
                                   c.n,
                                   d->silu,
                                   out};
            job->kernels->conv(&conv);
        }
        for (int m = 0; m < c.seg->n_states; m++) write_inputs(d, &c, m);
    }
}

void kt__cpu_short_conv(kt__dev *dev, const kt__short_conv *desc) {
    conv_job job = {dev->kernels, desc, (desc->n_ch + CHANNELS - 1) / CHANNELS};
    kt__pool_run(dev->pool, (int64_t)job.n_chunk * desc->n_seg, 1, conv_items, &job);
}

/* ---- delta nets ---- */

typedef struct delta_job {
    kt__dev *dev;
    const kt__delta_net *d;
} delta_job;

static size_t row_floats(const kt__delta_net *d) {
    return (size_t)2 * (size_t)(d->n_key * d->dim_k) + (size_t)(d->n_value * d->dim_v);
}

/* x / max(|x|, eps), times scale */
static void unit_length(const kt__kernels *k, float *x, int n, float eps, float scale,
                        float *scratch) {
    float length = sqrtf(k->rmsnorm(x, NULL, n, 1.0f, scratch));
    k->scale(x, n, 1.0f / (length > eps ? length : eps));
    if (scale != 1.0f) k->scale(x, n, scale);
}

/* exp(a * softplus(x + dt)), rounded once */
static float decay_of(float x, float a, float dt) {
    double y = (double)(x + dt);
    double softplus = y > 20.0 ? y : kt__log(1.0 + kt__exp(y));
    return (float)kt__exp((double)a * softplus);
}

static void prepare_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const delta_job *job = arg;
    const kt__delta_net *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    float *scratch = kt__dev_kernel_scratch(job->dev, worker);
    float q_scale = 1.0f / sqrtf((float)d->dim_k);
    for (int64_t t = begin; t < end; t++) {
        float *row = d->qkv + (size_t)t * row_floats(d);
        for (int h = 0; h < 2 * d->n_key; h++)
            unit_length(k, row + (size_t)h * (size_t)d->dim_k, d->dim_k, d->eps,
                        h < d->n_key ? q_scale : 1.0f, scratch);
        float *decay = d->decay + (size_t)t * (size_t)d->n_value;
        float *beta = d->beta + (size_t)t * (size_t)d->n_value;
        for (int h = 0; h < d->n_value; h++) {
            decay[h] = decay_of(decay[h], d->a[h], d->dt[h]);
            beta[h] = 1.0f / (1.0f + kt__expf(-beta[h]));
        }
    }
}

static kt__delta delta_rows(const void *desc, int head, int row0) {
    const kt__delta_net *d = desc;
    int key_head = d->grouped ? head / (d->n_value / d->n_key) : head % d->n_key;
    size_t key = (size_t)key_head * (size_t)d->dim_k, queries = (size_t)(d->n_key * d->dim_k);
    size_t value = (size_t)(head * d->dim_v + row0), inner = (size_t)(d->n_value * d->dim_v);
    return (kt__delta){.dim = d->dim_k,
                       .q = d->qkv + key,
                       .k = d->qkv + queries + key,
                       .ld_qk = row_floats(d),
                       .v = d->qkv + 2 * queries + value,
                       .ld_v = row_floats(d),
                       .decay = d->decay + head,
                       .beta = d->beta + head,
                       .ld_g = (size_t)d->n_value,
                       .out = d->out + value,
                       .ld_out = inner};
}

/* Each head's norm, times silu(z). */
static void finish_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const delta_job *job = arg;
    const kt__delta_net *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    (void)worker;
    size_t heads = (size_t)d->n_value, dim = (size_t)d->dim_v;
    for (size_t h = (size_t)begin * heads; h < (size_t)end * heads; h++) {
        float *out = d->out + h * dim;
        (void)k->rmsnorm(out, d->norm, d->dim_v, d->eps, out); /* the next norm looks */
        k->silu_mul(d->z + h * dim, out, d->dim_v, out);
    }
}

void kt__cpu_delta_net(kt__dev *dev, const kt__delta_net *desc) {
    delta_job job = {dev, desc};
    const kt__state_walk walk = {.n_head = desc->n_value,
                                 .n_row = desc->dim_v,
                                 .kv = desc->kv,
                                 .state_at = desc->state_at,
                                 .segs = desc->segs,
                                 .n_seg = desc->n_seg,
                                 .rows = delta_rows,
                                 .desc = desc};
    kt__dev_run_rows(dev, desc->n_tok, prepare_rows, &job);
    kt__cpu_walk_states(dev, &walk);
    kt__dev_run_rows(dev, desc->n_tok, finish_rows, &job);
}
