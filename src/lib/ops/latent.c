/* Attention over latent vectors: rows between the products, and products of each head. */
#include <string.h>

#include "ops/dev.h"

typedef struct latent_job {
    const kt__kernels *kernels;
    const kt__latent *d;
} latent_job;

static void split_queries(const kt__latent *d, size_t t) {
    size_t plain = (size_t)d->n_plain, rot = (size_t)d->n_rot, out = rot + (size_t)d->n_latent;
    for (size_t h = t * (size_t)d->n_head; h < (t + 1) * (size_t)d->n_head; h++) {
        const float *q = d->q + h * (plain + rot);
        memcpy(d->plain + h * plain, q, plain * sizeof *q);
        memcpy(d->q_rows + h * out, q + plain, rot * sizeof *q);
    }
}

static void latent_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const latent_job *job = arg;
    const kt__latent *d = job->d;
    size_t rot = (size_t)d->n_rot, n = (size_t)d->n_latent;
    (void)worker;
    for (size_t t = (size_t)begin; t < (size_t)end; t++) {
        const float *c = d->c + t * (n + rot);
        float *k = d->k_rows + t * (n + rot), *v = d->v_rows + t * n;
        if (d->q) split_queries(d, t);
        (void)job->kernels->rmsnorm(c, d->norm, d->n_latent, d->eps, v); /* the next norm looks */
        memcpy(k, c + n, rot * sizeof *k);
        memcpy(k + rot, v, n * sizeof *k);
    }
}

void kt__cpu_latent(kt__dev *dev, const kt__latent *desc) {
    latent_job job = {dev->kernels, desc};
    kt__dev_run_rows(dev, desc->n_tok, latent_rows, &job);
}

/* ---- products of each head ---- */

typedef struct heads_job {
    kt__dev *dev;
    const kt__acts *acts;
    const kt__heads *d;
    int per_head; /* items of KT__ROWS_ITEM rows */
} heads_job;

/* One head's rows of all tokens: each lies n_head rows after the last. */
static kt__acts acts_of(const heads_job *job, int head) {
    kt__acts acts = *job->acts;
    acts.n_tok /= job->d->n_head;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts.kinds >> kind & 1)) continue;
        acts.data[kind] += (size_t)head * acts.layout[kind].row_bytes;
        acts.layout[kind].row_bytes *= (size_t)job->d->n_head;
    }
    return acts;
}

static void head_items(void *arg, int64_t begin, int64_t end, int worker) {
    const heads_job *job = arg;
    const kt__heads *d = job->d;
    for (int64_t i = begin; i < end;) {
        int head = (int)(i / job->per_head), item = (int)(i % job->per_head);
        int64_t stop = item + end - i < job->per_head ? item + end - i : job->per_head;
        int row0 = item * KT__ROWS_ITEM, row1 = (int)stop * KT__ROWS_ITEM;
        kt__weight w = d->w;
        w.data += (size_t)head * d->stride;
        kt__acts acts = acts_of(job, head);
        if (row1 > w.n_row) row1 = w.n_row;
        kt__dev_mm(job->dev, &w, row0, row1 - row0, &acts, NULL, NULL, NULL,
                   d->out + (size_t)head * d->step + row0, d->ld_out, worker);
        i += stop - item;
    }
}

void kt__cpu_heads(kt__dev *dev, const kt__acts *acts, const kt__heads *desc) {
    heads_job job = {dev, acts, desc, (desc->w.n_row + KT__ROWS_ITEM - 1) / KT__ROWS_ITEM};
    int64_t grain = kt__dev_row_grain(dev, &desc->w, acts->n_tok / desc->n_head);
    kt__pool_run(dev->pool, (int64_t)desc->n_head * job.per_head, grain, head_items, &job);
}
