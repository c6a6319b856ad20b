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

/* Mamba's part with a state (Gu and Dao 2023): every channel has a state of its own, each number of
 * which decays by itself. */

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
static void finish_scan_rows(void *arg, int64_t begin, int64_t end, int worker) {
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
    kt__dev_run_rows(dev, desc->n_tok, finish_scan_rows, &job);
}

/* Mamba-2's part with a state. */

typedef struct mamba_job {
    kt__dev *dev;
    const kt__mamba *d;
} mamba_job;

static size_t inner_of(const kt__mamba *d) {
    return (size_t)d->n_head * (size_t)d->n_row;
}

static size_t mamba_row_floats(const kt__mamba *d) {
    return inner_of(d) + 2 * (size_t)d->n_group * (size_t)d->dim;
}

/* softplus, and the decay over such a step, each rounded once */
static void prepare_mamba_rows(void *arg, int64_t begin, int64_t end, int worker) {
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
                       .ld_qk = mamba_row_floats(d),
                       .v = d->x + value,
                       .ld_v = mamba_row_floats(d),
                       .decay = d->decay + head,
                       .beta = d->step + head,
                       .ld_g = (size_t)d->n_head,
                       .out = d->out + value,
                       .ld_out = inner};
}

/* y = o + d x, times silu(gate), then each group's norm. */
static void finish_mamba_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const mamba_job *job = arg;
    const kt__mamba *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    size_t inner = inner_of(d), in_group = inner / (size_t)d->n_group;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *x = d->x + (size_t)t * mamba_row_floats(d);
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
    kt__dev_run_rows(dev, desc->n_tok, prepare_mamba_rows, &job);
    kt__cpu_walk_states(dev, &walk);
    kt__dev_run_rows(dev, desc->n_tok, finish_mamba_rows, &job);
}

/* Rows of recurrent heads' states through their segments' tokens, for delta nets and both kinds of
 * Mamba. A state is divided by heads and rows, each of which goes through its segment's tokens in
 * order. */

typedef struct walk_job {
    kt__dev *dev;
    const kt__state_walk *d;
    int per_head; /* items */
} walk_job;

/* From the state before the segment; after so many tokens as a mark says, it is kept. */
static void walk_rows(const walk_job *job, const kt__seg *seg, size_t at, kt__delta first) {
    const kt__kv *kv = job->d->kv;
    size_t bytes = (size_t)first.n_row * (size_t)first.dim * sizeof(float);
    const float *before = kt__state_before(kv, seg, at);
    if (before) {
        memcpy(first.s, before, bytes);
    } else {
        memset(first.s, 0, bytes);
    }
    for (int m = 0, done = 0; done < seg->n_tok; m++) {
        int end = m < seg->n_states ? seg->states[m].n_tok : seg->n_tok;
        size_t t = (size_t)(seg->row0 + done);
        kt__delta part = first;
        part.n_tok = end - done;
        part.q += t * part.ld_qk;
        part.k += t * part.ld_qk;
        part.v += t * part.ld_v;
        part.decay += t * part.ld_g;
        part.beta += t * part.ld_g;
        part.out += t * part.ld_out;
        job->dev->kernels->delta(&part);
        if (m < seg->n_states) memcpy(kt__state_after(kv, seg, m, at), first.s, bytes);
        done = end;
    }
}

static void walk_items(void *arg, int64_t begin, int64_t end, int worker) {
    const walk_job *job = arg;
    const kt__state_walk *d = job->d;
    int per_seg = job->per_head * d->n_head;
    for (int64_t item = begin; item < end; item++) {
        const kt__seg *seg = &d->segs[item / per_seg];
        int in_seg = (int)(item % per_seg), row0 = in_seg % job->per_head * KT__STATE_ROWS;
        int head = in_seg / job->per_head;
        if (seg->n_tok == 0) continue;
        kt__delta rows = d->rows(d->desc, head, row0);
        rows.s = kt__dev_kernel_scratch(job->dev, worker);
        rows.n_row = d->n_row - row0 < KT__STATE_ROWS ? d->n_row - row0 : KT__STATE_ROWS;
        size_t before = ((size_t)head * (size_t)d->n_row + (size_t)row0) * (size_t)rows.dim;
        walk_rows(job, seg, d->state_at + before, rows);
    }
}

void kt__cpu_walk_states(kt__dev *dev, const kt__state_walk *desc) {
    walk_job job = {dev, desc, (desc->n_row + KT__STATE_ROWS - 1) / KT__STATE_ROWS};
    kt__pool_run(dev->pool, (int64_t)desc->n_seg * desc->n_head * job.per_head, 1, walk_items,
                 &job);
}
