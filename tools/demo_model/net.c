#include "net.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the backward pass needs of one layer. n = max_tok. */
typedef struct {
    float *x;    /* [n][n_embd], the residual stream entering the layer */
    float *r1;   /* [n], 1/rms of x */
    float *h1;   /* [n][n_embd], normed x */
    float *qkv;  /* [n][n_qkv], after rotation */
    float *prob; /* per document and head [len][len] */
    float *mix;  /* [n][n_embd], attention's output before the projection */
    float *x2;   /* [n][n_embd], the stream between attention and FFN */
    float *r2;   /* [n] */
    float *h2;   /* [n][n_embd] */
    float *gu;   /* [n][2*n_ff] */
    float *act;  /* [n][n_ff] */
} layer_acts;

struct net_work {
    int max_tok, n_layer;
    layer_acts layer[NET_MAX_LAYER];
    float *x, *r, *h; /* the last stream, its 1/rms, normed */
    float *logits;    /* [n][n_vocab] */
    float *dx, *dh, *dtmp, *dqkv, *dgu, *dact, *dprob;
};

/* y[n][m] (+)= x[n][k] * w[m][k]^T, strides given by the row lengths. */
static void mul_nt(int n, int m, int k, const float *x, const float *w, float beta, float *y) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, m, k, 1.0f, x, k, w, k, beta, y, m);
}

/* dx[n][k] (+)= dy[n][m] * w[m][k] */
static void mul_nn(int n, int m, int k, const float *dy, const float *w, float beta, float *dx) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, k, m, 1.0f, dy, m, w, k, beta, dx, k);
}

/* dw[m][k] (+)= dy[n][m]^T * x[n][k] */
static void mul_tn(int n, int m, int k, const float *dy, const float *x, float beta, float *dw) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, k, n, 1.0f, dy, m, x, k, beta, dw, k);
}

static size_t take(size_t *at, size_t n) {
    size_t here = *at;
    *at += n;
    return here;
}

int net_init(net *n, net_dims d) {
    memset(n, 0, sizeof *n);
    n->dims = d;
    n->head_dim = d.n_embd / d.n_head;
    n->n_kv = n->head_dim * d.n_head_kv;
    n->n_qkv = d.n_embd + 2 * n->n_kv;
    size_t at = 0, e = (size_t)d.n_embd, f = (size_t)d.n_ff;
    n->embd = take(&at, (size_t)d.n_vocab * e);
    n->out_norm = take(&at, e);
    for (int i = 0; i < d.n_layer; i++) {
        net_layer_at *l = &n->layer[i];
        l->attn_norm = take(&at, e);
        l->qkv = take(&at, (size_t)n->n_qkv * e);
        l->out = take(&at, e * e);
        l->ffn_norm = take(&at, e);
        l->gate_up = take(&at, 2 * f * e);
        l->down = take(&at, e * f);
    }
    n->n_param = at;
    int half = n->head_dim / 2;
    n->rope = malloc(sizeof(float) * (size_t)d.n_ctx * (size_t)half * 2);
    if (!n->rope) return -1;
    for (int p = 0; p < d.n_ctx; p++)
        for (int i = 0; i < half; i++) {
            double a = p * pow((double)d.rope_base, -2.0 * i / n->head_dim);
            n->rope[(p * half + i) * 2] = (float)cos(a);
            n->rope[(p * half + i) * 2 + 1] = (float)sin(a);
        }
    return 0;
}

void net_free(net *n) {
    free(n->rope);
}

static uint64_t next_u64(uint64_t *s) { /* splitmix64 */
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_unit(uint64_t *s) {
    return ((double)(next_u64(s) >> 11) + 0.5) * 0x1p-53;
}

static void fill_normal(float *w, size_t n, float sigma, uint64_t *s) {
    for (size_t i = 0; i < n; i++) {
        double r = sqrt(-2.0 * log(next_unit(s)));
        w[i] = sigma * (float)(r * cos(6.283185307179586 * next_unit(s)));
    }
}

static void fill_one(float *w, size_t n) {
    for (size_t i = 0; i < n; i++) w[i] = 1.0f;
}

void net_seed(const net *n, float *w, uint64_t seed) {
    const net_dims *d = &n->dims;
    size_t e = (size_t)d->n_embd, f = (size_t)d->n_ff;
    float in = 1.0f / sqrtf((float)d->n_embd);
    float res = in / sqrtf(2.0f * (float)d->n_layer);
    fill_normal(w + n->embd, (size_t)d->n_vocab * e, 0.02f, &seed);
    fill_one(w + n->out_norm, e);
    for (int i = 0; i < d->n_layer; i++) {
        const net_layer_at *l = &n->layer[i];
        fill_one(w + l->attn_norm, e);
        fill_normal(w + l->qkv, (size_t)n->n_qkv * e, 0.7f * in, &seed);
        fill_normal(w + l->out, e * e, res, &seed);
        fill_one(w + l->ffn_norm, e);
        fill_normal(w + l->gate_up, 2 * f * e, 0.7f * in, &seed);
        fill_normal(w + l->down, e * f, res, &seed);
    }
}

static float *floats(size_t n) {
    return calloc(n, sizeof(float));
}

net_work *net_work_new(const net *n, int max_tok) {
    const net_dims *d = &n->dims;
    size_t t = (size_t)max_tok, e = (size_t)d->n_embd, f = (size_t)d->n_ff;
    size_t longest = t < (size_t)d->n_ctx ? t : (size_t)d->n_ctx;
    size_t q = (size_t)n->n_qkv, p = (size_t)d->n_head * t * longest;
    net_work *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->max_tok = max_tok;
    k->n_layer = d->n_layer;
    int ok = 1;
    for (int i = 0; i < d->n_layer; i++) {
        layer_acts *a = &k->layer[i];
        *a = (layer_acts){floats(t * e), floats(t),         floats(t * e), floats(t * q),
                          floats(p),     floats(t * e),     floats(t * e), floats(t),
                          floats(t * e), floats(2 * t * f), floats(t * f)};
        ok = ok && a->x && a->r1 && a->h1 && a->qkv && a->prob && a->mix && a->x2 && a->r2 &&
             a->h2 && a->gu && a->act;
    }
    k->x = floats(t * e), k->r = floats(t), k->h = floats(t * e);
    k->logits = floats(t * (size_t)d->n_vocab);
    k->dx = floats(t * e), k->dh = floats(t * e), k->dtmp = floats(t * e);
    k->dqkv = floats(t * q), k->dgu = floats(2 * t * f), k->dact = floats(t * f);
    k->dprob = floats(longest * longest);
    ok = ok && k->x && k->r && k->h && k->logits && k->dx && k->dh && k->dtmp && k->dqkv &&
         k->dgu && k->dact && k->dprob;
    if (ok) return k;
    net_work_free(k);
    return NULL;
}

void net_work_free(net_work *k) {
    if (!k) return;
    for (int i = 0; i < k->n_layer; i++) {
        layer_acts *a = &k->layer[i];
        free(a->x), free(a->r1), free(a->h1), free(a->qkv), free(a->prob), free(a->mix);
        free(a->x2), free(a->r2), free(a->h2), free(a->gu), free(a->act);
    }
    free(k->x), free(k->r), free(k->h), free(k->logits), free(k->dx), free(k->dh);
    free(k->dtmp), free(k->dqkv), free(k->dgu), free(k->dact), free(k->dprob);
    free(k);
}

const float *net_logits(const net_work *k) {
    return k->logits;
}

static void norm_forward(int n, int e, float eps, const float *x, const float *g, float *r,
                         float *y) {
    for (int t = 0; t < n; t++) {
        const float *xt = x + (size_t)t * (size_t)e;
        float *yt = y + (size_t)t * (size_t)e, s = 0.0f;
        for (int i = 0; i < e; i++) s += xt[i] * xt[i];
        r[t] = 1.0f / sqrtf(s / (float)e + eps);
        for (int i = 0; i < e; i++) yt[i] = xt[i] * r[t] * g[i];
    }
}

/* dx += d(norm)/dx * dy; dg is written. dx = r*g*dy - x * r^3/e * sum(g*dy*x). */
static void norm_backward(int n, int e, const float *x, const float *g, const float *r,
                          const float *dy, float *dx, float *dg) {
    memset(dg, 0, sizeof(float) * (size_t)e);
    for (int t = 0; t < n; t++) {
        size_t at = (size_t)t * (size_t)e;
        float s = 0.0f, rt = r[t];
        for (int i = 0; i < e; i++) {
            s += g[i] * dy[at + (size_t)i] * x[at + (size_t)i];
            dg[i] += dy[at + (size_t)i] * x[at + (size_t)i] * rt;
        }
        float c = s * rt * rt * rt / (float)e;
        for (int i = 0; i < e; i++)
            dx[at + (size_t)i] += rt * g[i] * dy[at + (size_t)i] - x[at + (size_t)i] * c;
    }
}

/* Rotates the q and k heads of every row by its position (sign +1) or back (-1). */
static void rotate(const net *n, const net_batch *b, float sign, float *qkv) {
    int half = n->head_dim / 2, heads = n->dims.n_head + n->dims.n_head_kv;
    for (int t = 0; t < b->n_tok; t++) {
        const float *cs = n->rope + (size_t)b->pos[t] * (size_t)half * 2;
        float *v = qkv + (size_t)t * (size_t)n->n_qkv;
        for (int h = 0; h < heads; h++, v += n->head_dim)
            for (int i = 0; i < half; i++) {
                float c = cs[2 * i], s = sign * cs[2 * i + 1];
                float a = v[2 * i], z = v[2 * i + 1];
                v[2 * i] = a * c - z * s;
                v[2 * i + 1] = a * s + z * c;
            }
    }
}

/* In place: scores [len][len] to causal probabilities. */
static void softmax_causal(int len, float *s) {
    for (int i = 0; i < len; i++) {
        float *row = s + (size_t)i * (size_t)len, m = row[0], sum = 0.0f;
        for (int j = 1; j <= i; j++) m = row[j] > m ? row[j] : m;
        for (int j = 0; j <= i; j++) row[j] = expf(row[j] - m);
        for (int j = 0; j <= i; j++) sum += row[j];
        float inv = 1.0f / sum;
        for (int j = 0; j <= i; j++) row[j] *= inv;
        for (int j = i + 1; j < len; j++) row[j] = 0.0f;
    }
}

static void attend(const net *n, const net_batch *b, const float *qkv, float *prob, float *mix) {
    int hd = n->head_dim, ld = n->n_qkv, e = n->dims.n_embd;
    int group = n->dims.n_head / n->dims.n_head_kv;
    float scale = 1.0f / sqrtf((float)hd);
    for (int doc = 0; doc < b->n_doc; doc++) {
        int at = b->doc_start[doc], len = b->doc_start[doc + 1] - at;
        const float *base = qkv + (size_t)at * (size_t)ld;
        for (int h = 0; h < n->dims.n_head; h++, prob += (size_t)len * (size_t)len) {
            const float *q = base + h * hd, *key = base + e + (h / group) * hd;
            const float *val = key + n->n_kv;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, len, len, hd, scale, q, ld, key,
                        ld, 0.0f, prob, len);
            softmax_causal(len, prob);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, len, hd, len, 1.0f, prob, len,
                        val, ld, 0.0f, mix + (size_t)at * (size_t)e + h * hd, e);
        }
    }
}

/* In place: d(prob) to d(score) = prob * (dprob - sum(prob*dprob)). */
static void softmax_backward(int len, const float *p, float *d) {
    for (int i = 0; i < len; i++) {
        const float *pr = p + (size_t)i * (size_t)len;
        float *dr = d + (size_t)i * (size_t)len, s = 0.0f;
        for (int j = 0; j <= i; j++) s += pr[j] * dr[j];
        for (int j = 0; j < len; j++) dr[j] = pr[j] * (dr[j] - s);
    }
}

static void attend_backward(const net *n, const net_batch *b, const layer_acts *a,
                            const float *dmix, float *dscore, float *dqkv) {
    int hd = n->head_dim, ld = n->n_qkv, e = n->dims.n_embd;
    int group = n->dims.n_head / n->dims.n_head_kv;
    float scale = 1.0f / sqrtf((float)hd);
    const float *prob = a->prob;
    for (int doc = 0; doc < b->n_doc; doc++) {
        int at = b->doc_start[doc], len = b->doc_start[doc + 1] - at;
        const float *base = a->qkv + (size_t)at * (size_t)ld;
        float *dbase = dqkv + (size_t)at * (size_t)ld;
        for (int h = 0; h < n->dims.n_head; h++, prob += (size_t)len * (size_t)len) {
            int q_at = h * hd, k_at = e + (h / group) * hd, v_at = k_at + n->n_kv;
            float add = h % group ? 1.0f : 0.0f;
            const float *dy = dmix + (size_t)at * (size_t)e + h * hd;
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, len, hd, len, 1.0f, prob, len, dy,
                        e, add, dbase + v_at, ld);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, len, len, hd, 1.0f, dy, e,
                        base + v_at, ld, 0.0f, dscore, len);
            softmax_backward(len, prob, dscore);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, len, hd, len, scale, dscore, len,
                        base + k_at, ld, 0.0f, dbase + q_at, ld);
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, len, hd, len, scale, dscore, len,
                        base + q_at, ld, add, dbase + k_at, ld);
        }
    }
}

static void swiglu_forward(int n, int f, const float *gu, float *act) {
    for (int t = 0; t < n; t++) {
        const float *g = gu + (size_t)t * 2 * (size_t)f, *u = g + f;
        float *y = act + (size_t)t * (size_t)f;
        for (int i = 0; i < f; i++) y[i] = g[i] / (1.0f + expf(-g[i])) * u[i];
    }
}

static void swiglu_backward(int n, int f, const float *gu, const float *dact, float *dgu) {
    for (int t = 0; t < n; t++) {
        const float *g = gu + (size_t)t * 2 * (size_t)f, *u = g + f;
        const float *dy = dact + (size_t)t * (size_t)f;
        float *dg = dgu + (size_t)t * 2 * (size_t)f, *du = dg + f;
        for (int i = 0; i < f; i++) {
            float s = 1.0f / (1.0f + expf(-g[i]));
            dg[i] = dy[i] * u[i] * s * (1.0f + g[i] * (1.0f - s));
            du[i] = dy[i] * g[i] * s;
        }
    }
}

static void layer_forward(const net *n, const float *w, const net_batch *b, int i, net_work *k,
                          float *x_out) {
    const net_layer_at *l = &n->layer[i];
    layer_acts *a = &k->layer[i];
    int t = b->n_tok, e = n->dims.n_embd, f = n->dims.n_ff;
    size_t bytes = sizeof(float) * (size_t)t * (size_t)e;
    norm_forward(t, e, n->dims.rms_eps, a->x, w + l->attn_norm, a->r1, a->h1);
    mul_nt(t, n->n_qkv, e, a->h1, w + l->qkv, 0.0f, a->qkv);
    rotate(n, b, 1.0f, a->qkv);
    attend(n, b, a->qkv, a->prob, a->mix);
    memcpy(a->x2, a->x, bytes);
    mul_nt(t, e, e, a->mix, w + l->out, 1.0f, a->x2);
    norm_forward(t, e, n->dims.rms_eps, a->x2, w + l->ffn_norm, a->r2, a->h2);
    mul_nt(t, 2 * f, e, a->h2, w + l->gate_up, 0.0f, a->gu);
    swiglu_forward(t, f, a->gu, a->act);
    memcpy(x_out, a->x2, bytes);
    mul_nt(t, e, f, a->act, w + l->down, 1.0f, x_out);
}

/* Cross entropy and argmax of each row; logits stay as they are. */
static void score(const net_batch *b, int n_vocab, const float *logits) {
    for (int t = 0; t < b->n_tok; t++) {
        const float *z = logits + (size_t)t * (size_t)n_vocab;
        float m = z[0], s = 0.0f;
        for (int i = 1; i < n_vocab; i++) m = z[i] > m ? z[i] : m;
        for (int i = 0; i < n_vocab; i++) s += expf(z[i] - m);
        int best = 0;
        while (z[best] != m) best++;
        b->best[t] = best;
        b->ce[t] = b->target[t] < 0 ? 0.0f : m + logf(s) - z[b->target[t]];
    }
}

void net_forward(const net *n, const float *w, net_batch *b, net_work *k) {
    int e = n->dims.n_embd, t = b->n_tok;
    for (int i = 0; i < t; i++)
        memcpy(k->layer[0].x + (size_t)i * (size_t)e, w + n->embd + (size_t)b->token[i] * (size_t)e,
               sizeof(float) * (size_t)e);
    for (int i = 0; i < n->dims.n_layer; i++)
        layer_forward(n, w, b, i, k, i + 1 < n->dims.n_layer ? k->layer[i + 1].x : k->x);
    norm_forward(t, e, n->dims.rms_eps, k->x, w + n->out_norm, k->r, k->h);
    mul_nt(t, n->dims.n_vocab, e, k->h, w + n->embd, 0.0f, k->logits);
    score(b, n->dims.n_vocab, k->logits);
}

/* In place: logits to the loss's gradient by them. */
static void score_backward(const net_batch *b, int n_vocab, float scale, float *logits) {
    for (int t = 0; t < b->n_tok; t++) {
        float *z = logits + (size_t)t * (size_t)n_vocab;
        float c = b->target[t] < 0 ? 0.0f : b->weight[t] * scale;
        if (c == 0.0f) {
            memset(z, 0, sizeof(float) * (size_t)n_vocab);
            continue;
        }
        float lse = b->ce[t] + z[b->target[t]];
        for (int i = 0; i < n_vocab; i++) z[i] = c * expf(z[i] - lse);
        z[b->target[t]] -= c;
    }
}

/* k->dx holds the gradient of the layer's output, then of its input. */
static void layer_backward(const net *n, const float *w, const net_batch *b, int i, net_work *k,
                           float *g) {
    const net_layer_at *l = &n->layer[i];
    const layer_acts *a = &k->layer[i];
    int t = b->n_tok, e = n->dims.n_embd, f = n->dims.n_ff;
    mul_tn(t, e, f, k->dx, a->act, 0.0f, g + l->down);
    mul_nn(t, e, f, k->dx, w + l->down, 0.0f, k->dact);
    swiglu_backward(t, f, a->gu, k->dact, k->dgu);
    mul_tn(t, 2 * f, e, k->dgu, a->h2, 0.0f, g + l->gate_up);
    mul_nn(t, 2 * f, e, k->dgu, w + l->gate_up, 0.0f, k->dh);
    norm_backward(t, e, a->x2, w + l->ffn_norm, a->r2, k->dh, k->dx, g + l->ffn_norm);
    mul_tn(t, e, e, k->dx, a->mix, 0.0f, g + l->out);
    mul_nn(t, e, e, k->dx, w + l->out, 0.0f, k->dtmp);
    attend_backward(n, b, a, k->dtmp, k->dprob, k->dqkv);
    rotate(n, b, -1.0f, k->dqkv);
    mul_tn(t, n->n_qkv, e, k->dqkv, a->h1, 0.0f, g + l->qkv);
    mul_nn(t, n->n_qkv, e, k->dqkv, w + l->qkv, 0.0f, k->dh);
    norm_backward(t, e, a->x, w + l->attn_norm, a->r1, k->dh, k->dx, g + l->attn_norm);
}

void net_backward(const net *n, const float *w, const net_batch *b, net_work *k, float scale,
                  float *g) {
    int e = n->dims.n_embd, t = b->n_tok, v = n->dims.n_vocab;
    score_backward(b, v, scale, k->logits);
    mul_tn(t, v, e, k->logits, k->h, 0.0f, g + n->embd);
    mul_nn(t, v, e, k->logits, w + n->embd, 0.0f, k->dh);
    memset(k->dx, 0, sizeof(float) * (size_t)t * (size_t)e);
    norm_backward(t, e, k->x, w + n->out_norm, k->r, k->dh, k->dx, g + n->out_norm);
    for (int i = n->dims.n_layer - 1; i >= 0; i--) layer_backward(n, w, b, i, k, g);
    for (int i = 0; i < t; i++) {
        float *row = g + n->embd + (size_t)b->token[i] * (size_t)e;
        for (int j = 0; j < e; j++) row[j] += k->dx[(size_t)i * (size_t)e + (size_t)j];
    }
}
