/* Attention as the textbook has it, for comparison: a query's scores with every position that it
 * sees as one row in f32, the row's softmax, and the sum of all values, each in one pass. Its sums
 * run in another order than those of ops/attention.c, so that its last bits differ. */
#include <math.h>

#include "base/f16.h"
#include "ops/attention_range.h"
#include "ops/dev.h"

typedef struct plain_job {
    const kt__dev *dev;
    const kt__attention *d;
    const kt__seg *seg;
} plain_job;

static kt__f16 *page_k(const plain_job *job, int64_t pos, int head) {
    return kt__kv_k(job->d->kv, job->seg->table->pages[pos / KT__PAGE_POS], job->d->layer, head);
}

static kt__f16 *page_v(const plain_job *job, int64_t pos, int head) {
    return kt__kv_v(job->d->kv, job->seg->table->pages[pos / KT__PAGE_POS], job->d->layer, head);
}

static float score_at(const plain_job *job, const float *q, int64_t pos, int head) {
    const kt__f16 *k = page_k(job, pos, head) + pos % KT__PAGE_POS;
    float sum = 0, cap = job->d->softcap;
    for (int i = 0; i < job->d->head_dim_k; i++) sum += q[i] * kt__f16_to_f32(k[i * KT__PAGE_POS]);
    return cap > 0 ? cap * tanhf(sum / cap) : sum;
}

/* Makes scores[n] weights, which with the sink's, if there is one, add up to 1. */
static void softmax_row(float *scores, int64_t n, const float *sink) {
    float most = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = scores[i] > most ? scores[i] : most;
    for (int64_t i = 0; i < n; i++) sum += scores[i] = expf(scores[i] - most);
    if (sink) sum += expf(*sink - most);
    for (int64_t i = 0; i < n; i++) scores[i] /= sum;
}

static void add_values(const plain_job *job, const float *weights, int64_t from, int64_t to,
                       int head, float *out) {
    int dim = job->d->head_dim_v;
    for (int i = 0; i < dim; i++) out[i] = 0;
    for (int64_t pos = from; pos < to; pos++) {
        const kt__f16 *v = page_v(job, pos, head) + pos % KT__PAGE_POS * dim;
        for (int i = 0; i < dim; i++) out[i] += weights[pos - from] * kt__f16_to_f32(v[i]);
    }
}

/* Items are a segment's tokens with each head. */
static void run_queries(void *arg, int64_t begin, int64_t end, int worker) {
    const plain_job *job = arg;
    const kt__attention *d = job->d;
    int group = d->n_head / d->n_head_kv;
    float *scores = job->dev->partial + (int64_t)worker * job->dev->limits.n_ctx;
    for (int64_t item = begin; item < end; item++) {
        int t = (int)(item / d->n_head), h = (int)(item % d->n_head), head = h / group;
        int64_t row = job->seg->row0 + t, from = kt__attention_first(d, job->seg->pos0 + t);
        int64_t to = kt__attention_end(d, job->seg, job->seg->pos0 + t);
        const float *q = d->q + (((size_t)head * (size_t)d->n_tok + (size_t)row) * (size_t)group +
                                 (size_t)(h % group)) *
                                    (size_t)d->head_dim_k;
        for (int64_t pos = from; pos < to; pos++) scores[pos - from] = score_at(job, q, pos, head);
        softmax_row(scores, to - from, d->sinks ? &d->sinks[h] : NULL);
        add_values(job, scores, from, to, head,
                   d->out + ((size_t)row * (size_t)d->n_head + (size_t)h) * (size_t)d->head_dim_v);
    }
}

void kt__cpu_attention_plain(kt__dev *dev, const kt__attention *d) {
    for (int s = 0; s < d->n_seg; s++) {
        plain_job job = {dev, d, &d->segs[s]};
        kt__pool_run(dev->pool, (int64_t)d->segs[s].n_tok * d->n_head, 1, run_queries, &job);
    }
}
