/*
 * Checks net_backward against central differences: for every tensor, along a random direction,
 * in a tiny network of the same shape rules. f32 limits the agreement to about 1e-3.
 */
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void openblas_set_num_threads(int n);

enum { N_TOK = 23, N_DOC = 3 };

static double loss(const net *n, const float *w, net_batch *b, net_work *k) {
    net_forward(n, w, b, k);
    double s = 0.0;
    for (int t = 0; t < b->n_tok; t++) s += (double)b->weight[t] * (double)b->ce[t];
    return s;
}

static double rand_unit(void) {
    return 2.0 * rand() / (double)RAND_MAX - 1.0;
}

static int check(const char *name, const net *n, float *w, const float *g, net_batch *b,
                 net_work *k, size_t at, size_t len) {
    float *dir = malloc(sizeof(float) * len), *keep = malloc(sizeof(float) * len);
    double slope = 0.0, step = 2e-2 / sqrt((double)len);
    memcpy(keep, w + at, sizeof(float) * len);
    for (size_t i = 0; i < len; i++) {
        dir[i] = (float)rand_unit();
        slope += (double)dir[i] * (double)g[at + i];
    }
    double f[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < len; i++)
            w[at + i] = keep[i] + (float)(side ? -step : step) * dir[i];
        f[side] = loss(n, w, b, k);
    }
    memcpy(w + at, keep, sizeof(float) * len);
    free(dir), free(keep);
    double seen = (f[0] - f[1]) / (2.0 * step), err = fabs(seen - slope);
    int ok = err <= 5e-3 * (fabs(seen) + fabs(slope)) + 2e-2;
    printf("%-10s analytic %12.6f  difference %12.6f  %s\n", name, slope, seen,
           ok ? "ok" : "WRONG");
    return ok;
}

int main(void) {
    openblas_set_num_threads(1);
    net n;
    net_dims d = {40, 32, 2, 4, 2, 48, 16, 10000.0f, 1e-5f};
    if (net_init(&n, d)) return 1;
    float *w = malloc(sizeof(float) * n.n_param), *g = calloc(n.n_param, sizeof(float));
    net_work *k = net_work_new(&n, N_TOK);
    net_seed(&n, w, 7);
    for (size_t i = 0; i < n.n_param; i++) w[i] *= 1.0f + 0.5f * (float)rand_unit();
    for (size_t i = 0; i < (size_t)d.n_vocab * (size_t)d.n_embd; i++) w[n.embd + i] *= 20.0f;
    int start[N_DOC + 1] = {0, 9, 10, N_TOK};
    uint16_t token[N_TOK];
    int32_t pos[N_TOK], target[N_TOK], best[N_TOK];
    float weight[N_TOK], ce[N_TOK];
    for (int t = 0; t < N_TOK; t++) {
        token[t] = (uint16_t)(rand() % d.n_vocab);
        pos[t] = t < 9 ? t : t - 9 + (t > 14); /* one text has a gap */
        target[t] = t % 5 == 4 ? -1 : rand() % d.n_vocab;
        weight[t] = t % 3 ? 1.0f : 0.25f;
    }
    net_batch b = {N_TOK, N_DOC, start, token, pos, target, weight, ce, best};
    loss(&n, w, &b, k);
    net_backward(&n, w, &b, k, 1.0f, g);
    size_t e = (size_t)d.n_embd, f = (size_t)d.n_ff;
    int ok = check("embd", &n, w, g, &b, k, n.embd, (size_t)d.n_vocab * e);
    ok &= check("out_norm", &n, w, g, &b, k, n.out_norm, e);
    for (int i = 0; i < d.n_layer; i++) {
        const net_layer_at *l = &n.layer[i];
        ok &= check("attn_norm", &n, w, g, &b, k, l->attn_norm, e);
        ok &= check("q", &n, w, g, &b, k, l->qkv, e * e);
        ok &= check("k", &n, w, g, &b, k, l->qkv + e * e, (size_t)n.n_kv * e);
        ok &= check("v", &n, w, g, &b, k, l->qkv + (e + (size_t)n.n_kv) * e, (size_t)n.n_kv * e);
        ok &= check("out", &n, w, g, &b, k, l->out, e * e);
        ok &= check("ffn_norm", &n, w, g, &b, k, l->ffn_norm, e);
        ok &= check("gate_up", &n, w, g, &b, k, l->gate_up, 2 * f * e);
        ok &= check("down", &n, w, g, &b, k, l->down, e * f);
    }
    net_work_free(k), net_free(&n), free(w), free(g);
    puts(ok ? "gradients agree" : "gradients DISAGREE");
    return ok ? 0 : 1;
}
