/* Operations on one token's row at a time: embedding, norms, quantisation. Few rows run on the
 * caller: waking a worker costs more than a row. */
#include <math.h>
#include <string.h>

#include "ops/dev.h"

enum { PARALLEL_FROM = 4 }; /* rows */

void kt__dev_run_rows(kt__dev *dev, int n_tok, kt__pool_fn *fn, void *arg) {
    if (n_tok < PARALLEL_FROM) {
        fn(arg, 0, n_tok, 0);
    } else {
        kt__pool_run(dev->pool, n_tok, 1, fn, arg);
    }
}

typedef struct embed_job {
    kt__dev *dev;
    const kt__weight *table;
    const int32_t *ids;
    float scale;
    float *out;
} embed_job;

static void embed_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const embed_job *job = arg;
    (void)worker;
    int n = job->table->n_col;
    for (int64_t t = begin; t < end; t++) {
        float *row = job->out + (size_t)t * (size_t)n;
        const uint8_t *src = job->table->data + (size_t)job->ids[t] * job->table->row_bytes;
        kt__dequantize_row(job->table->type, src, n, row);
        if (job->scale != 1.0f) job->dev->kernels->scale(row, n, job->scale);
    }
}

void kt__cpu_embed(kt__dev *dev, const kt__weight *table, const int32_t *ids, int n_tok,
                   float scale, float *out) {
    embed_job job = {dev, table, ids, scale, out};
    kt__dev_run_rows(dev, n_tok, embed_rows, &job);
}

typedef struct norm_job {
    kt__dev *dev;
    const float *x, *w;
    float eps;
    int n;
    kt__acts *acts; /* or */
    float *out;     /* plain rows, or */
    float *add_to;  /* rows to add to */
    bool plain;     /* no norm: quantise x itself */
    atomic_bool bad;
} norm_job;

static uint8_t *act_row(const kt__acts *acts, int kind, int64_t t) {
    return acts->data[kind] + (size_t)t * acts->layout[kind].row_bytes;
}

static void fill_kinds(const norm_job *job, const float *row, int64_t t) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(job->acts->kinds >> kind & 1)) continue;
        uint8_t *dst = act_row(job->acts, kind, t);
        if (dst != (const uint8_t *)row) job->dev->kernels->quantize[kind](row, job->n, dst);
    }
}

/* Where a row's norm goes before it is quantised or added: the f32 row that an adapter reads, where
 * that is as long as the norm (its padding is part of the last 16). */
static float *row_buffer(const norm_job *job, int64_t t, int worker) {
    if (job->out) return job->out + (size_t)t * (size_t)job->n;
    if (job->acts && job->acts->kinds >> KT__ACT_F32 & 1 && job->n % 16 == 0)
        return (float *)(void *)act_row(job->acts, KT__ACT_F32, t);
    return (float *)kt__dev_kernel_scratch(job->dev, worker);
}

static void norm_rows(void *arg, int64_t begin, int64_t end, int worker) {
    norm_job *job = arg;
    const kt__kernels *k = job->dev->kernels;
    size_t n = (size_t)job->n;
    for (int64_t t = begin; t < end; t++) {
        const float *x = job->x + (size_t)t * n;
        if (job->plain) {
            fill_kinds(job, x, t);
            continue;
        }
        float *y = row_buffer(job, t, worker);
        float sum = k->rmsnorm(x, job->w, job->n, job->eps, y);
        if (!isfinite(sum)) atomic_store_explicit(&job->bad, true, memory_order_relaxed);
        if (job->add_to)
            k->add(job->add_to + (size_t)t * n, y, job->n, job->add_to + (size_t)t * n);
        if (job->acts) fill_kinds(job, y, t);
    }
}

bool kt__cpu_norm(kt__dev *dev, const float *x, const float *w, float eps, int n_tok,
                  kt__acts *acts) {
    norm_job job = {.dev = dev, .x = x, .w = w, .eps = eps, .n = acts->n_col, .acts = acts};
    acts->n_tok = n_tok;
    kt__dev_run_rows(dev, n_tok, norm_rows, &job);
    return !job.bad;
}

void kt__cpu_quantize(kt__dev *dev, const float *x, int n_tok, kt__acts *acts) {
    norm_job job = {.dev = dev, .x = x, .n = acts->n_col, .acts = acts, .plain = true};
    acts->n_tok = n_tok;
    kt__dev_run_rows(dev, n_tok, norm_rows, &job);
}

bool kt__cpu_norm_f32(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                      float *out) {
    norm_job job = {.dev = dev, .x = x, .w = w, .eps = eps, .n = n, .out = out};
    kt__dev_run_rows(dev, n_tok, norm_rows, &job);
    return !job.bad;
}

bool kt__cpu_norm_add(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                      float *io) {
    norm_job job = {.dev = dev, .x = x, .w = w, .eps = eps, .n = n, .add_to = io};
    kt__dev_run_rows(dev, n_tok, norm_rows, &job);
    return !job.bad;
}

typedef struct centre_job {
    float *x;
    int n;
} centre_job;

static void centre_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const centre_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *row = job->x + (size_t)t * (size_t)job->n;
        double sum = 0.0;
        for (int i = 0; i < job->n; i++) sum += (double)row[i];
        float mean = (float)(sum / job->n);
        for (int i = 0; i < job->n; i++) row[i] -= mean;
    }
}

void kt__cpu_centre(kt__dev *dev, float *x, int n_tok, int n) {
    centre_job job = {x, n};
    kt__dev_run_rows(dev, n_tok, centre_rows, &job);
}

typedef struct add_job {
    const kt__kernels *kernels;
    const float *y;
    size_t ld;
    int n;
    float *io;
} add_job;

static void add_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const add_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *row = job->io + (size_t)t * (size_t)job->n;
        job->kernels->add(row, job->y + (size_t)t * job->ld, job->n, row);
    }
}

void kt__cpu_add(kt__dev *dev, const float *y, int ld, int n_tok, int n, float *io) {
    add_job job = {dev->kernels, y, (size_t)ld, n, io};
    kt__dev_run_rows(dev, n_tok, add_rows, &job);
}

/* One of the element-wise kernels over a long array. */
typedef struct map_job {
    void (*kernel)(float *x, int n, float by);
    float *x;
    int64_t n;
    float by;
} map_job;

enum { MAP_ITEM = 4096 };

static void map_part(void *arg, int64_t begin, int64_t end, int worker) {
    const map_job *job = arg;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        int64_t at = item * MAP_ITEM;
        int64_t n = job->n - at < MAP_ITEM ? job->n - at : MAP_ITEM;
        job->kernel(job->x + at, (int)n, job->by);
    }
}

static void map_array(kt__dev *dev, map_job job) {
    kt__pool_run(dev->pool, (job.n + MAP_ITEM - 1) / MAP_ITEM, 1, map_part, &job);
}

void kt__cpu_scale(kt__dev *dev, float *x, int64_t n, float factor) {
    map_array(dev, (map_job){dev->kernels->scale, x, n, factor});
}

void kt__cpu_softcap(kt__dev *dev, float *x, int64_t n, float cap) {
    map_array(dev, (map_job){dev->kernels->softcap, x, n, cap});
}

void kt__gelu(const kt__kernels *kernels, float *x, int64_t n) {
    enum { PIECE = 256 };
    float ones[PIECE];
    for (int i = 0; i < PIECE; i++) ones[i] = 1.0f;
    for (int64_t at = 0; at < n; at += PIECE)
        kernels->gelu_mul(x + at, ones, (int)(n - at < PIECE ? n - at : PIECE), x + at);
}

typedef struct gelu_job {
    const kt__kernels *kernels;
    float *x;
    int64_t n;
} gelu_job;

static void gelu_part(void *arg, int64_t begin, int64_t end, int worker) {
    const gelu_job *job = arg;
    int64_t at = begin * MAP_ITEM, to = end * MAP_ITEM < job->n ? end * MAP_ITEM : job->n;
    (void)worker;
    kt__gelu(job->kernels, job->x + at, to - at);
}

void kt__cpu_gelu(kt__dev *dev, float *x, int64_t n) {
    gelu_job job = {dev->kernels, x, n};
    kt__pool_run(dev->pool, (n + MAP_ITEM - 1) / MAP_ITEM, 1, gelu_part, &job);
}

void kt__square_positives(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float positive = x[i] > 0.0f ? x[i] : 0.0f;
        x[i] = positive * positive;
    }
}

static void relu2_part(void *arg, int64_t begin, int64_t end, int worker) {
    const gelu_job *job = arg;
    int64_t at = begin * MAP_ITEM, to = end * MAP_ITEM < job->n ? end * MAP_ITEM : job->n;
    (void)worker;
    kt__square_positives(job->x + at, to - at);
}

void kt__cpu_relu2(kt__dev *dev, float *x, int64_t n) {
    gelu_job job = {dev->kernels, x, n};
    kt__pool_run(dev->pool, (n + MAP_ITEM - 1) / MAP_ITEM, 1, relu2_part, &job);
}

typedef struct finite_job {
    const kt__kernels *kernels;
    const float *x;
    int n;
    atomic_bool bad;
} finite_job;

static void finite_rows(void *arg, int64_t begin, int64_t end, int worker) {
    finite_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        bool finite = true;
        (void)job->kernels->argmax(job->x + (size_t)t * (size_t)job->n, job->n, &finite);
        if (!finite) atomic_store_explicit(&job->bad, true, memory_order_relaxed);
    }
}

bool kt__cpu_finite(kt__dev *dev, const float *x, int n_row, int n) {
    finite_job job = {.kernels = dev->kernels, .x = x, .n = n};
    kt__dev_run_rows(dev, n_row, finite_rows, &job);
    return !job.bad;
}

/* What a block that proposes tokens reads: each token next to the state before it. */

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
