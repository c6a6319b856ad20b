#include "optim.h"

#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14, NS_STEPS = 5, MAX_TEAM = 64 };

static const float beta1 = 0.9f, beta2 = 0.95f, tiny = 1e-8f, momentum = 0.95f;

typedef struct {
    size_t at;
    int rows, cols; /* rows 0: a vector, moved by AdamW without decay; cols its length */
    int muon;
} tensor;

struct optim {
    size_t n_param;
    float *m, *v; /* first (or Muon's only) and second moment */
    tensor tensor[2 + 9 * NET_MAX_LAYER];
    int n_tensor, n_team, step;
    float *scratch[MAX_TEAM]; /* per thread: x, y of the largest matrix, a, b of its small side */
};

static void add(optim *o, size_t at, int rows, int cols, int muon) {
    o->tensor[o->n_tensor++] = (tensor){at, rows, cols, muon};
}

static void list_tensors(optim *o, const net *n) {
    const net_dims *d = &n->dims;
    int e = d->n_embd, f = d->n_ff;
    for (int i = 0; i < d->n_layer; i++) {
        const net_layer_at *l = &n->layer[i];
        size_t row = (size_t)e;
        add(o, l->gate_up, f, e, 1);
        add(o, l->gate_up + (size_t)f * row, f, e, 1);
        add(o, l->down, e, f, 1);
        add(o, l->qkv, e, e, 1);
        add(o, l->out, e, e, 1);
        add(o, l->qkv + (size_t)e * row, n->n_kv, e, 1);
        add(o, l->qkv + (size_t)(e + n->n_kv) * row, n->n_kv, e, 1);
        add(o, l->attn_norm, 0, e, 0);
        add(o, l->ffn_norm, 0, e, 0);
    }
    add(o, n->embd, d->n_vocab, e, 0);
    add(o, n->out_norm, 0, e, 0);
}

optim *optim_new(const net *n) {
    optim *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->n_param = n->n_param;
    o->m = calloc(n->n_param, sizeof(float));
    o->v = calloc(n->n_param, sizeof(float));
    list_tensors(o, n);
    size_t e = (size_t)n->dims.n_embd, f = (size_t)n->dims.n_ff, big = e * (f > e ? f : e);
    o->n_team = omp_get_max_threads() < MAX_TEAM ? omp_get_max_threads() : MAX_TEAM;
    int ok = o->m && o->v;
    for (int i = 0; i < o->n_team; i++)
        ok = (o->scratch[i] = malloc(sizeof(float) * (2 * big + 2 * e * e))) && ok;
    if (ok) return o;
    optim_free(o);
    return NULL;
}

void optim_free(optim *o) {
    if (!o) return;
    for (int i = 0; i < o->n_team; i++) free(o->scratch[i]);
    free(o->m), free(o->v), free(o);
}

/* Sums the gradients in a fixed order and returns the norm. */
static float gather(size_t n, float *const *g, int n_g) {
    long n_chunk = (long)((n + CHUNK - 1) / CHUNK);
    double *part = calloc((size_t)n_chunk, sizeof(double)), sum = 0.0;
#pragma omp parallel for schedule(dynamic, 8)
    for (long c = 0; c < n_chunk; c++) {
        size_t from = (size_t)c * CHUNK, to = from + CHUNK < n ? from + CHUNK : n;
        float s = 0.0f;
        for (int k = 1; k < n_g; k++)
            for (size_t i = from; i < to; i++) g[0][i] += g[k][i];
        for (size_t i = from; i < to; i++) s += g[0][i] * g[0][i];
        if (part) part[c] = (double)s;
    }
    for (long c = 0; part && c < n_chunk; c++) sum += part[c];
    free(part);
    return (float)sqrt(sum);
}

static void adamw(optim *o, const tensor *t, float *w, const float *g, float clip, float lr,
                  float decay) {
    size_t n = (size_t)(t->rows ? t->rows : 1) * (size_t)t->cols, at = t->at;
    float c1 = 1.0f / (1.0f - powf(beta1, (float)o->step));
    float c2 = 1.0f / (1.0f - powf(beta2, (float)o->step));
    float keep = t->rows ? 1.0f - lr * decay : 1.0f;
    float *m = o->m + at, *v = o->v + at;
    w += at, g += at;
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * clip;
        m[i] = beta1 * m[i] + (1.0f - beta1) * d;
        v[i] = beta2 * v[i] + (1.0f - beta2) * d * d;
        w[i] = keep * w[i] - lr * (m[i] * c1) / (sqrtf(v[i] * c2) + tiny);
    }
}

/* c[r][k] = alpha * a[r][n] * op(b) + beta * c */
static void gemm(int trans_b, int r, int k, int n, float alpha, const float *a, const float *b,
                 float beta, float *c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, r, k, n, alpha, a,
                n, b, trans_b ? n : k, beta, c, k);
}

/* x[r][c], r <= c, to about the nearest semi-orthogonal matrix: x := 3.4445x - 4.775(xx')x +
 * 2.0315(xx')^2 x, five times, from norm <= 1 (Jordan et al. 2024, "Muon"). Result in x. */
static void orthogonalise(int r, int c, float *x, float *y, float *a, float *b) {
    size_t n = (size_t)r * (size_t)c;
    float s = 0.0f;
    for (size_t i = 0; i < n; i++) s += x[i] * x[i];
    s = 1.0f / (sqrtf(s) + 1e-7f);
    for (size_t i = 0; i < n; i++) x[i] *= s;
    for (int step = 0; step < NS_STEPS; step++) {
        gemm(1, r, r, c, 1.0f, x, x, 0.0f, a);
        memcpy(b, a, sizeof(float) * (size_t)r * (size_t)r);
        gemm(0, r, r, r, 2.0315f, a, a, -4.7750f, b);
        memcpy(y, x, sizeof(float) * n);
        gemm(0, r, c, r, 1.0f, b, x, 3.4445f, y);
        memcpy(x, y, sizeof(float) * n);
    }
}

static void muon(optim *o, const tensor *t, float *w, const float *g, float clip, float lr,
                 float decay, float *scratch) {
    int flip = t->rows > t->cols, r = flip ? t->cols : t->rows, c = flip ? t->rows : t->cols;
    size_t n = (size_t)r * (size_t)c, cols = (size_t)t->cols, rows = (size_t)t->rows;
    float *x = scratch, *y = x + n, *a = y + n, *b = a + (size_t)r * (size_t)r;
    float *m = o->m + t->at;
    w += t->at, g += t->at;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * cols + j;
            m[at] = momentum * m[at] + g[at] * clip;
            x[flip ? j * rows + i : at] = g[at] * clip + momentum * m[at];
        }
    orthogonalise(r, c, x, y, a, b);
    float size = lr * 0.2f * sqrtf((float)c), keep = 1.0f - lr * decay;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * cols + j;
            w[at] = keep * w[at] - size * x[flip ? j * rows + i : at];
        }
}

float optim_step(optim *o, float *w, float *const *g, int n_g, float lr, float lr_embd,
                 float decay) {
    float norm = gather(o->n_param, g, n_g), clip = norm > 1.0f ? 1.0f / norm : 1.0f;
    o->step++;
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < o->n_tensor; i++) {
        const tensor *t = &o->tensor[i];
        if (t->muon)
            muon(o, t, w, g[0], clip, lr, decay, o->scratch[omp_get_thread_num()]);
        else
            adamw(o, t, w, g[0], clip, lr_embd, decay);
    }
    return norm;
}
