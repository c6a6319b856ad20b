/* Mamba's part with a state (Gu and Dao 2023): every channel has a state of its own, each number of
 * which decays by itself. */
#include <string.h>

#include "base/math.h"
#include "ops/dev.h"

enum { CHANNELS = 64 }; /* of an item */

typedef struct scan_job {
    kt__dev *dev;
    const kt__scan *d;
    int n_block;
} scan_job;

/* softplus, rounded once */
static void step_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const kt__scan *d = ((const scan_job *)arg)->d;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *step = d->step + (size_t)t * (size_t)d->n_ch;
        for (int c = 0; c < d->n_ch; c++) {
            double y = (double)step[c];
            step[c] = (float)(y > 20.0 ? y : kt__log(1.0 + kt__exp(y)));
        }
    }
}

/* e^u in f32 (docs/NUMERICS.md, section 17), of what is held to -87..87. */
static inline float decay_of(float u) {
    u = u < -87.0f ? -87.0f : u > 87.0f ? 87.0f : u;
    float k = u * 1.44269504f + 12582912.0f - 12582912.0f;
    float r = u - k * 0.693359375f + k * 2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* s = decay s + (step x) b; the sum of s c, number i in lane i % 16, lanes added in order. */
static float channel_step(const float *a, const float *b, const float *c, float step, float x,
                          int dim, float *s) {
    enum { LANES = 16 };
    float lane[LANES] = {0}, sum = 0.0f, in = step * x;
    for (int at = 0; at < dim; at += LANES)
        for (int i = 0; i < LANES; i++) {
            s[at + i] = decay_of(step * a[at + i]) * s[at + i] + in * b[at + i];
            lane[i] += s[at + i] * c[at + i];
        }
    for (int i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

/* A channel through a segment's tokens, with the states that are asked for between them. */
static void walk_channel(const kt__scan *d, const kt__seg *seg, int ch) {
    float s[KT__MAX_STATE_DIM];
    size_t dim = (size_t)d->dim, at = d->state_at + (size_t)ch * dim, n_ch = (size_t)d->n_ch;
    const float *before = kt__state_before(d->kv, seg, at);
    int mark = 0;
    if (before)
        memcpy(s, before, dim * sizeof *s);
    else
        memset(s, 0, dim * sizeof *s);
    for (int i = 0; i < seg->n_tok; i++) {
        size_t t = (size_t)(seg->row0 + i);
        const float *b = d->pairs + t * 2 * dim;
        float x = d->x[t * n_ch + (size_t)ch], step = d->step[t * n_ch + (size_t)ch];
        float y = channel_step(d->a + (size_t)ch * dim, b, b + dim, step, x, d->dim, s);
        d->out[t * n_ch + (size_t)ch] = y + d->d[ch] * x;
        for (; mark < seg->n_states && seg->states[mark].n_tok == i + 1; mark++)
            memcpy(kt__state_after(d->kv, seg, mark, at), s, dim * sizeof *s);
    }
}

static void walk_items(void *arg, int64_t begin, int64_t end, int worker) {
    const scan_job *job = arg;
    const kt__scan *d = job->d;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        const kt__seg *seg = &d->segs[item / job->n_block];
        int first = (int)(item % job->n_block) * CHANNELS;
        for (int ch = first; ch < first + CHANNELS && ch < d->n_ch; ch++) walk_channel(d, seg, ch);
    }
}

static void gate_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const scan_job *job = arg;
    const kt__scan *d = job->d;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        float *out = d->out + (size_t)t * (size_t)d->n_ch;
        job->dev->kernels->silu_mul(d->gate + (size_t)t * d->ld_gate, out, d->n_ch, out);
    }
}

void kt__cpu_scan(kt__dev *dev, const kt__scan *desc) {
    scan_job job = {dev, desc, (desc->n_ch + CHANNELS - 1) / CHANNELS};
    kt__dev_run_rows(dev, desc->n_tok, step_rows, &job);
    kt__pool_run(dev->pool, (int64_t)job.n_block * desc->n_seg, 1, walk_items, &job);
    kt__dev_run_rows(dev, desc->n_tok, gate_rows, &job);
}
