/* Operations on several residual streams, token by token. */
#include <math.h>

#include "ops/dev.h"

/* ---- blending ---- */

/* factors[o] . routes, for n_out of them */
static void factors_of(const kt__blend *d, const float *routes, int n_out, float *out) {
    for (int o = 0; o < n_out; o++) {
        const float *w = d->factors + (size_t)o * (size_t)d->n_stream;
        out[o] = w[0] * routes[0];
        for (int k = 1; k < d->n_stream; k++) out[o] += w[k] * routes[k];
    }
}

/* Each stream and what all of them count in it. */
static void mix_token(const kt__blend *d, int64_t t, const float *by) {
    size_t plane = (size_t)d->n_tok * (size_t)d->n;
    float *row = d->streams + (size_t)t * (size_t)d->n, in[KT__MAX_STREAMS];
    for (int i = 0; i < d->n; i++) {
        for (int s = 0; s < d->n_stream; s++) in[s] = row[(size_t)s * plane + (size_t)i];
        for (int s = 0; s < d->n_stream; s++) {
            const float *w = by + s * d->n_stream;
            float sum = w[0] * in[0];
            for (int k = 1; k < d->n_stream; k++) sum += w[k] * in[k];
            row[(size_t)s * plane + (size_t)i] = in[s] + sum;
        }
    }
}

/* Each stream and, by its factor, how far what was made is from the first. */
static void pass_on_token(const kt__blend *d, int64_t t, const float *by) {
    size_t plane = (size_t)d->n_tok * (size_t)d->n, at = (size_t)t * (size_t)d->n;
    for (int i = 0; i < d->n; i++) {
        float *stream = d->streams + at + (size_t)i, news = d->made[at + (size_t)i] - *stream;
        for (int s = 0; s < d->n_stream; s++, stream += plane) *stream += news * (by[s] + 1.0f);
    }
}

static void blend_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const kt__blend *d = arg;
    float by[KT__MAX_STREAMS * KT__MAX_STREAMS];
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *routes = d->routes + (size_t)t * (size_t)d->n_stream;
        factors_of(d, routes, d->n_stream * (d->made ? 1 : d->n_stream), by);
        if (d->made)
            pass_on_token(d, t, by);
        else
            mix_token(d, t, by);
    }
}

void kt__cpu_blend(kt__dev *dev, const kt__blend *desc) {
    kt__blend d = *desc;
    kt__dev_run_rows(dev, d.n_tok, blend_rows, &d);
}

/* ---- lengths ---- */

typedef struct row_job {
    const float *like;
    float *io;
    int n;
    float by;
} row_job;

enum { LANES = 8 };

/* The sum of (x - mean)^2, in double: element i goes to lane i % 8, lanes are added in order. */
static double spread_of(const float *x, int n, double mean) {
    double lane[LANES] = {0}, sum = 0.0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double off = (double)x[i + k] - mean;
            lane[k] += off * off;
        }
    for (; i < n; i++) lane[i % LANES] += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

static void resize_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const row_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *row = job->io + (size_t)t * (size_t)job->n;
        double want = spread_of(job->like + (size_t)t * (size_t)job->n, job->n, 0.0);
        double have = spread_of(row, job->n, 0.0);
        float by = have > 0.0 ? (float)sqrt(want / have) : 1.0f;
        for (int i = 0; i < job->n; i++) row[i] *= by;
    }
}

void kt__cpu_resize(kt__dev *dev, const float *like, int n_tok, int n, float *io) {
    row_job job = {.like = like, .io = io, .n = n};
    kt__dev_run_rows(dev, n_tok, resize_rows, &job);
}

/* ---- cutting ----
 *
 * The deviation is of a sample: over n - 1, as llama.cpp has it (transformers: n; 6e-5 of it at n = 8192). */

static double mean_of(const float *x, int n) {
    double lane[LANES] = {0}, sum = 0.0;
    for (int i = 0; i < n; i++) lane[i % LANES] += (double)x[i];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum / n;
}

static void cut_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const row_job *job = arg;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *row = job->io + (size_t)t * (size_t)job->n;
        double mean = mean_of(row, job->n);
        float from = (float)(mean +
                             (double)job->by * sqrt(spread_of(row, job->n, mean) / (job->n - 1)));
        for (int i = 0; i < job->n; i++) row[i] = row[i] > from ? row[i] - from : 0.0f;
    }
}

void kt__cpu_cut(kt__dev *dev, float *x, int n_tok, int n, float by) {
    row_job job = {.io = x, .n = n, .by = by};
    kt__dev_run_rows(dev, n_tok, cut_rows, &job);
}
