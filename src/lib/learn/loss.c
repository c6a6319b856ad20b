#include "learn/learner.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "host/pages.h"

enum { LOGITS_BYTES = 64 << 20, ROWS_LEAST = 16 };
static const double unlike_max = 0.95;

struct kt__losses {
    const kt__net *net;
    kt__panels *panels;
    int n_chunk;          /* rows at a time */
    float *logits, *base; /* [n_chunk][kt__pad(n_vocab)] */
    float *weights;       /* [n_worker][2][kt__pad(n_vocab)] */
    void *memory;
    size_t memory_bytes;
};

kt_status kt__losses_create(const kt__net *net, kt__panels *panels, int n_row_max, kt__losses **out,
                            kt_error *err) {
    size_t ld = kt__pad(net->hp.n_vocab), row_bytes = ld * sizeof(float);
    size_t fit = LOGITS_BYTES / (2 * row_bytes), n_worker;
    kt__losses *l = kt__calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return kt__fail_nomem(err, "a training's losses", sizeof *l);
    if (fit < ROWS_LEAST) fit = ROWS_LEAST;
    if (fit > (size_t)n_row_max) fit = (size_t)n_row_max;
    l->net = net;
    l->panels = panels;
    l->n_chunk = (int)fit;
    n_worker = (size_t)kt__pool_size(kt__panels_pool(panels));
    l->memory_bytes = 2 * (fit + n_worker) * row_bytes;
    l->memory = kt__pages_alloc(l->memory_bytes);
    if (!l->memory) {
        kt__free(l);
        return kt__fail_nomem(err, "a training's logits", 2 * (fit + n_worker) * row_bytes);
    }
    l->logits = l->memory;
    l->base = l->logits + fit * ld;
    l->weights = l->base + fit * ld;
    *out = l;
    return KT_OK;
}

void kt__losses_destroy(kt__losses *l) {
    if (!l) return;
    kt__pages_free(l->memory, l->memory_bytes);
    kt__free(l);
}

typedef struct loss_job {
    kt__losses *l;
    kt__loss_row *rows;
    float *logits;
    const float *base; /* of the job's first row of kind KL */
    int first_kl;
    bool back; /* logits become their gradients */
} loss_job;

/* Logits as the model has them, in place. */
static void finish_logits(const kt__losses *l, float *z) {
    const kt__hparams *hp = &l->net->hp;
    const kt__kernels *k = kt__panels_kernels(l->panels);
    if (hp->logit_scale != 1.0f) k->scale(z, hp->n_vocab, hp->logit_scale);
    if (hp->final_softcap > 0.0f) k->softcap(z, hp->n_vocab, hp->final_softcap);
}

/* e[i] = exp(z[i] - max); the logarithm of the sum of exp(z), and 1 / sum of e. */
static double soft_sum(const float *z, int n, float *e, double *share, int *best) {
    double sum = 0.0;
    int at = 0;
    for (int i = 1; i < n; i++)
        if (z[i] > z[at]) at = i;
    kt__exp_weights(z, z[at], (size_t)n, e);
    for (int i = 0; i < n; i++) sum += (double)e[i];
    *share = 1.0 / sum;
    *best = at;
    return (double)z[at] + kt__log(sum);
}

static double divergence_of(const float *z, double lse, const float *zb, double lse_b,
                            const float *eb, double share_b, int n) {
    double kl = 0.0;
    for (int i = 0; i < n; i++)
        if (eb[i] > 0.0f)
            kl += (double)eb[i] * share_b * (((double)zb[i] - lse_b) - ((double)z[i] - lse));
    return kl;
}

/* What the gradient by the logits is: factor * (e * share - the target's 1, or the base's). */
typedef struct slope {
    double factor, share, share_b;
    const float *eb; /* KL, or NULL */
} slope;

/* z becomes the gradient. */
static void logits_back(const kt__losses *l, const kt__loss_row *row, const slope *s,
                        const float *e, float *z) {
    const kt__hparams *hp = &l->net->hp;
    float cap = hp->final_softcap, scale = hp->logit_scale;
    float f = (float)(s->factor * (double)row->weight), share = (float)s->share;
    float share_b = (float)s->share_b;
    for (int i = 0; i < hp->n_vocab; i++) {
        float p = e[i] * share, want = s->eb ? s->eb[i] * share_b : 0.0f;
        float slope_z = cap > 0.0f ? 1.0f - (z[i] / cap) * (z[i] / cap) : 1.0f;
        if (!s->eb && i == row->target) want = 1.0f;
        z[i] = f * (p - want) * slope_z * scale;
    }
}

static void loss_row(const loss_job *job, int i, float *e, float *eb) {
    const kt__losses *l = job->l;
    int n = l->net->hp.n_vocab;
    size_t ld = kt__pad(n);
    kt__loss_row *row = &job->rows[i];
    float *z = job->logits + (size_t)i * ld;
    slope s = {.factor = 1.0};
    finish_logits(l, z);
    double lse = soft_sum(z, n, e, &s.share, &row->best);
    row->hit = row->best == row->target;
    if (row->kind == KT__LOSS_KL) {
        float *zb = (float *)(uintptr_t)job->base + (size_t)(i - job->first_kl) * ld;
        int best;
        finish_logits(l, zb);
        double lse_b = soft_sum(zb, n, eb, &s.share_b, &best);
        row->loss = (float)divergence_of(z, lse, zb, lse_b, eb, s.share_b, n);
        s.eb = eb;
    } else if (row->kind == KT__LOSS_UNLIKE) {
        double p = kt__exp((double)z[row->target] - lse);
        if (p > unlike_max) p = unlike_max;
        row->loss = (float)-kt__log(1.0 - p);
        s.factor = -p / (1.0 - p);
    } else {
        row->loss = (float)(lse - (double)z[row->target]);
    }
    if (job->back) logits_back(l, row, &s, e, z);
}

static void loss_items(void *arg, int64_t begin, int64_t end, int worker) {
    const loss_job *job = arg;
    size_t ld = kt__pad(job->l->net->hp.n_vocab);
    float *room = job->l->weights + (size_t)worker * 2 * ld;
    for (int64_t i = begin; i < end; i++) loss_row(job, (int)i, room, room + ld);
}

void kt__losses_run(kt__losses *l, const float *hidden, const float *base, int n, int n_kl,
                    kt__loss_row *rows, float *d_hidden) {
    const kt__merged head = {.w = l->net->head};
    size_t ld = kt__pad(l->net->hp.d_model);
    int kl0 = n - n_kl;
    for (int r0 = 0; r0 < n; r0 += l->n_chunk) {
        int m = n - r0 < l->n_chunk ? n - r0 : l->n_chunk, first = kl0 > r0 ? kl0 - r0 : 0;
        kt__panels_forward(l->panels, &head, hidden + (size_t)r0 * ld, m, l->net->head_bias,
                           l->logits);
        if (first < m)
            kt__panels_forward(l->panels, &head, base + (size_t)(r0 + first - kl0) * ld, m - first,
                               l->net->head_bias, l->base);
        loss_job job = {l, rows + r0, l->logits, l->base, first, d_hidden != NULL};
        kt__pool_run(kt__panels_pool(l->panels), m, 1, loss_items, &job);
        if (d_hidden)
            kt__panels_backward(l->panels, &head, l->logits, m, false, d_hidden + (size_t)r0 * ld);
    }
}
