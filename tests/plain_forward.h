/* A plain double-precision evaluation of the fixture's models, token by token: nothing is shared with
 * the library, and its numbers may be changed between two evaluations. */
#ifndef KT_TESTS_PLAIN_FORWARD_H
#define KT_TESTS_PLAIN_FORWARD_H

#include <math.h>

#include "model_fixture.h"

enum { PLAIN_TOK = 70 };

typedef struct plain {
    const fixture_spec *s;
    fixture_tensor list[256];
    double *data[256];
    int n;
    const double
        *hidden; /* [d_model][d_model] times the last normed state is added to it, or NULL */
    const struct plain *host; /* of an assistant: whose keys and values it reads */
    bool f16_kv;              /* keys and values of attention are rounded to f16 */
    struct plain_found
        *found; /* [N_FOUND] tensors by the literal that names them: the list is long */
} plain;

enum { N_FOUND = 4096 };
typedef struct plain_found {
    const char *suffix;
    int layer;
    const double *data;
} plain_found;

static inline const double *weights(const plain *p, int layer, const char *suffix) {
    plain_found *at = &p->found[((uintptr_t)suffix * 31 + (uintptr_t)(layer + 1) * 521) % N_FOUND];
    if (at->suffix == suffix && at->layer == layer) return at->data;
    *at = (plain_found){suffix, layer, NULL};
    char name[48];
    snprintf(name, sizeof name, layer < 0 ? "%.0d%s" : "blk.%d.%s", layer < 0 ? 0 : layer, suffix);
    for (int t = 0; t < p->n; t++)
        if (strcmp(p->list[t].name, name) == 0) at->data = p->data[t];
    return at->data;
}

static inline void plain_init(plain *p, const fixture_spec *s) {
    p->s = s;
    p->hidden = NULL;
    p->host = NULL;
    p->f16_kv = false;
    p->found = calloc(N_FOUND, sizeof *p->found);
    p->n = fixture_tensors(s, p->list);
    for (int t = 0; t < p->n; t++) {
        size_t count = (size_t)(p->list[t].ne[0] * p->list[t].ne[1] * p->list[t].ne[2]);
        uint32_t state = (uint32_t)t + 1;
        p->data[t] = malloc(count * sizeof(double));
        for (size_t i = 0; i < count; i++) {
            float v = fixture_weight(&state);
            p->data[t][i] = (double)(p->list[t].norm ? 1.0f + v * 0.3f : v);
        }
    }
}

static inline void plain_free(plain *p) {
    for (int t = 0; t < p->n; t++) free(p->data[t]);
    free(p->found);
}

static inline void multiply(const double *w, const double *bias, int rows, int cols,
                            const double *x, double *y) {
    for (int r = 0; r < rows; r++) {
        y[r] = bias ? bias[r] : 0.0;
        for (int c = 0; c < cols; c++) y[r] += w[r * cols + c] * x[c];
    }
}

static inline void norm(const double *x, const double *w, int n, double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    double scale = 1.0 / sqrt(sum / n + (double)1e-5f);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

/* Classic layer norm where the architecture has it. */
static inline void layer_norm(const fixture_spec *s, const double *x, const double *w, int n,
                              double *y) {
    double mean = 0;
    for (int i = 0; s->layer_norm && i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) y[i] = x[i] - mean;
    norm(y, w, n, y);
}

static inline void norm_or_copy(const fixture_spec *s, const double *x, const double *w, int n,
                                double *y) {
    if (w) {
        layer_norm(s, x, w, n, y);
    } else {
        memcpy(y, x, (size_t)n * sizeof *y);
    }
}

static inline void rotate(double *head, int dim, int pos, double base, bool neox) {
    for (int i = 0; i < dim / 2; i++) {
        double angle = pos * pow(base, -2.0 * i / dim);
        double *a = neox ? &head[i] : &head[2 * i],
               *b = neox ? &head[i + dim / 2] : &head[2 * i + 1];
        double x0 = *a, x1 = *b;
        *a = x0 * cos(angle) - x1 * sin(angle);
        *b = x0 * sin(angle) + x1 * cos(angle);
    }
}

static inline bool is_arch(const fixture_spec *s, const char *a, const char *b) {
    return strcmp(s->arch, a) == 0 || strcmp(s->arch, b) == 0;
}

static inline double gate(const fixture_spec *s, double g) {
    if (is_arch(s, "gemma2", "gemma3") || is_arch(s, "gemma4", "gemma3n") ||
        is_arch(s, "gemma4-assistant", "gemma4_assistant"))
        return 0.5 * g * (1.0 + tanh(sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g)));
    return g / (1.0 + exp(-g));
}

enum { MAX_DIM = 320, MAX_LAYER = 8 };
static double k_cache[MAX_LAYER][PLAIN_TOK][MAX_DIM], v_cache[MAX_LAYER][PLAIN_TOK][MAX_DIM];

static inline bool is_local(const fixture_spec *s, int layer) {
    if (s->window <= 0) return false;
    if (s->n_pattern) return fixture_is_local(s, layer);
    if (is_arch(s, "exaone4", "olmo2") || is_arch(s, "cohere2", "llama4")) return layer % 4 < 3;
    if (is_arch(s, "gemma2", "gpt-oss")) return layer % 2 == 0;
    if (strcmp(s->arch, "gemma3") == 0) return layer % 6 < 5;
    return true;
}

static inline void plain_norm_of_ones(double *x, int n) {
    double ones[MAX_DIM];
    for (int i = 0; i < n; i++) ones[i] = 1.0;
    norm(x, ones, n, x);
}

/* Queries and their gates come out of one product, head by head. */
static double plain_gates[MAX_DIM];

static inline void plain_gated_queries(const plain *p, int layer, const double *h, double *q) {
    const fixture_spec *s = p->s;
    int hd = s->head_dim;
    double both[2 * MAX_DIM];
    multiply(weights(p, layer, "attn_q.weight"), NULL, 2 * s->n_head * hd, s->d_model, h, both);
    for (int i = 0; i < s->n_head * hd; i++) {
        q[i] = both[i / hd * 2 * hd + i % hd];
        plain_gates[i] = both[(i / hd * 2 + 1) * hd + i % hd];
    }
}

static inline double plain_factor(const plain *p, int layer, int which) {
    const double *factor = weights(p, layer, fixture_factors[which]);
    return factor ? *factor : 1.0;
}

static inline double round_f16(double x) {
    int exponent;
    (void)frexp(x, &exponent);
    double unit = ldexp(1.0, (exponent > -13 ? exponent : -13) - 11);
    return rint(x / unit) * unit;
}

static inline void plain_attention(const plain *p, int layer, int pos, const double *h,
                                   double *out) {
    const fixture_spec *s = p->s;
    int hd = fixture_head_dim(s, layer), n_kv = fixture_kv_heads(s, layer);
    int nq = s->n_head * hd, nkv = n_kv * hd, source = layer;
    bool shares = fixture_shares_kv(s, layer), gemma4 = fixture_is_gemma4(s);
    if (p->host) source = p->host->s->n_layer - (fixture_is_local(s, layer) ? 2 : 1);
    while (fixture_shares_kv(p->host ? p->host->s : s, source)) source -= 2; /* of the kind */
    double q[MAX_DIM];
    const double *fused = s->fused ? weights(p, layer, "attn_qkv.weight") : NULL;
    const double *wq = fused ? fused : weights(p, layer, "attn_q.weight");
    const double *wk = fused ? fused + nq * s->d_model : weights(p, layer, "attn_k.weight");
    const double *wv = fused ? fused + (nq + nkv) * s->d_model : weights(p, layer, "attn_v.weight");
    double unused[MAX_DIM], *k = shares ? unused : k_cache[layer][pos],
                            *v = shares ? unused : v_cache[layer][pos];
    const double *bias = weights(p, layer, "attn_qkv.bias");
    if (shares) wk = wv = wq;
    if (!wv) wv = wk;
    const double q_factor = plain_factor(p, layer, 0), k_factor = plain_factor(p, layer, 1);
    const double v_factor = plain_factor(p, layer, 2);
    if (shares) memset(unused, 0, sizeof unused);
    bool gated = s->state_dim && !s->state_rows;
    if (gated) {
        plain_gated_queries(p, layer, h, q);
    } else {
        multiply(wq, bias ? bias : weights(p, layer, "attn_q.bias"), nq, s->d_model, h, q);
    }
    multiply(wk, bias ? bias + nq : weights(p, layer, "attn_k.bias"), nkv, s->d_model, h, k);
    multiply(wv, bias ? bias + nq + nkv : weights(p, layer, "attn_v.bias"), nkv, s->d_model, h, v);
    for (int i = 0; i < nq; i++) q[i] *= q_factor * k_factor; /* so that keys round alike */
    if (s->qk_norm_rows) {
        norm(q, weights(p, layer, "attn_q_norm.weight"), nq, q);
        norm(k, weights(p, layer, "attn_k_norm.weight"), nkv, k);
    }
    for (int i = 0; gemma4 && i < n_kv; i++) plain_norm_of_ones(v + i * hd, hd);
    bool neox = !is_arch(s, "llama", "madeup") && !is_arch(s, "smollm3", "ernie4_5") &&
                !is_arch(s, "glm4", "granite") && !is_arch(s, "mistral3", "cohere2") &&
                !is_arch(s, "command-r", "llama4") && !is_arch(s, "granitemoe", "ernie4_5-moe") &&
                !is_arch(s, "granitehybrid", "deepseek2");
    bool rotated = !is_arch(s, "smollm3", "smollm3") || layer % 4 != 3;
    rotated &= !s->no_rope && !s->ff_every;
    if (is_arch(s, "exaone4", "cohere2") && s->window) rotated = is_local(s, layer);
    bool llama4 = is_arch(s, "llama4", "llama4");
    if (llama4 && s->window >= 0) rotated = layer % 4 != 3;
    for (int i = 0; i < s->n_head + (shares ? 0 : n_kv); i++) {
        double *head = i < s->n_head ? q + i * hd : k + (i - s->n_head) * hd;
        bool late = is_arch(s, "hunyuan-dense", "hunyuan-moe");
        if (late) rotate(head, hd, pos, 10000.0, neox);
        if (s->qk_norm)
            norm(head,
                 weights(p, layer, i < s->n_head ? "attn_q_norm.weight" : "attn_k_norm.weight"), hd,
                 head);
        if (rotated && !late) rotate(head, s->n_rot ? s->n_rot : hd, pos, 10000.0, neox);
        if (llama4 && rotated && s->n_expert != 128) plain_norm_of_ones(head, hd);
    }
    for (int i = 0; p->f16_kv && i < nkv; i++) {
        k[i] = round_f16(k[i]);
        v[i] = round_f16(v[i]);
    }
    double q_scale = s->scales[2] != 0.0f ? (double)s->scales[2] : gemma4 ? 1.0 : 1.0 / sqrt(hd);
    if (!llama4) q_scale *= 1.0 + (double)s->temperature * log(1.0 + floor(pos / 16));
    if (llama4 && !rotated)
        q_scale *= 1.0 + (double)s->temperature * log(1.0 + floor((pos + 1) / 16));
    for (int i = 0; i < s->n_head; i++) {
        int kv = i / (s->n_head / n_kv) * hd;
        int first = is_local(s, layer) && pos + 1 > s->window ? pos + 1 - s->window : 0;
        if (llama4 && is_local(s, layer)) first = pos / s->window * s->window;
        int last = p->host ? pos - 1 : pos;
        double score[PLAIN_TOK], sum = 0;
        for (int t = first; t <= last; t++) {
            score[t] = 0;
            for (int d = 0; d < hd; d++)
                score[t] += q[i * hd + d] * q_scale * k_cache[source][t][kv + d];
            if (strcmp(s->arch, "gemma2") == 0) score[t] = 50.0 * tanh(score[t] / 50.0);
            sum += score[t] = exp(score[t]);
        }
        if (s->oai) sum += exp(weights(p, layer, "attn_sinks.weight")[i]);
        for (int d = 0; d < hd; d++) {
            double o = 0;
            for (int t = first; t <= last; t++) o += score[t] / sum * v_cache[source][t][kv + d];
            if (gated) o /= 1.0 + exp(-plain_gates[i * hd + d]);
            out[i * hd + d] = o * v_factor;
        }
    }
    if (!s->sub_norms) return;
    norm(out, weights(p, layer, "attn_sub_norm.weight"), nq, out);
    for (int i = 0; i < nq; i++) out[i] *= plain_factor(p, layer, 3);
}

/* Keys and values of every head made of the latent row: not as the library does it. */
static inline void plain_latent(const plain *p, int layer, int pos, const double *h, double *out) {
    const fixture_spec *s = p->s;
    int d = s->d_model, hd = s->head_dim, rot = s->n_rot, np = hd - rot, r = s->kv_rank;
    double q[MAX_DIM], a[MAX_DIM], c[MAX_DIM];
    if (s->q_rank) {
        multiply(weights(p, layer, "attn_q_a.weight"), NULL, s->q_rank, d, h, a);
        norm(a, weights(p, layer, "attn_q_a_norm.weight"), s->q_rank, a);
        multiply(weights(p, layer, "attn_q_b.weight"), NULL, s->n_head * hd, s->q_rank, a, q);
    } else {
        multiply(weights(p, layer, "attn_q.weight"), NULL, s->n_head * hd, d, h, q);
    }
    multiply(weights(p, layer, "attn_kv_a_mqa.weight"), NULL, r + rot, d, h, c);
    norm(c, weights(p, layer, "attn_kv_a_norm.weight"), r, c);
    rotate(c + r, rot, pos, 10000.0, false);
    for (int i = 0; i < s->n_head; i++) {
        const double *kb = weights(p, layer, "attn_k_b.weight") + i * np * r;
        const double *vb = weights(p, layer, "attn_v_b.weight") + i * s->head_dim_v * r;
        double *k = k_cache[layer][pos] + i * hd, *v = v_cache[layer][pos] + i * s->head_dim_v;
        double score[PLAIN_TOK], sum = 0;
        for (int j = 0; j < np; j++) {
            k[j] = 0;
            for (int n = 0; n < r; n++) k[j] += kb[n * np + j] * c[n];
        }
        memcpy(k + np, c + r, (size_t)rot * sizeof *k);
        multiply(vb, NULL, s->head_dim_v, r, c, v);
        rotate(q + i * hd + np, rot, pos, 10000.0, false);
        for (int t = 0; t <= pos; t++) {
            score[t] = 0;
            for (int j = 0; j < hd; j++)
                score[t] += q[i * hd + j] * k_cache[layer][t][i * hd + j] / sqrt(hd);
            sum += score[t] = exp(score[t]);
        }
        for (int j = 0; j < s->head_dim_v; j++) {
            double o = 0;
            for (int t = 0; t <= pos; t++)
                o += score[t] / sum * v_cache[layer][t][i * s->head_dim_v + j];
            out[i * s->head_dim_v + j] = o;
        }
    }
}

/* ---- recurrent layers ---- */

static double conv_cache[MAX_LAYER][PLAIN_TOK][MAX_DIM];
static double state_cache[MAX_LAYER][8][32][32];

static inline double silu(double x) {
    return x / (1.0 + exp(-x));
}

/* y: each channel's last inputs by its taps; x is noted as the input at pos. */
static inline void plain_conv(const plain *p, int layer, int pos, const char *taps, int n,
                              const double *x, double *y) {
    int width = p->s->conv_width;
    const double *w = weights(p, layer, taps);
    memcpy(conv_cache[layer][pos], x, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int j = 0; j < width; j++) {
            int t = pos - width + 1 + j;
            if (t >= 0) y[i] += w[i * width + j] * conv_cache[layer][t][i];
        }
    }
}

static inline void plain_short_conv(const plain *p, int layer, int pos, const double *h,
                                    double *y) {
    int d = p->s->d_model;
    double in[3 * MAX_DIM], u[MAX_DIM], c[MAX_DIM];
    multiply(weights(p, layer, "shortconv.in_proj.weight"), NULL, 3 * d, d, h, in);
    for (int i = 0; i < d; i++) u[i] = in[i] * in[2 * d + i];
    plain_conv(p, layer, pos, "shortconv.conv.weight", d, u, c);
    for (int i = 0; i < d; i++) c[i] *= in[d + i];
    multiply(weights(p, layer, "shortconv.out_proj.weight"), NULL, d, d, c, y);
}

static inline void plain_unit(double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    for (int i = 0; i < n; i++) x[i] /= fmax(sqrt(sum), (double)1e-5f);
}

/* state[value][key] of one head meets one token. */
static inline void plain_delta(double state[32][32], int dim, const double *q, const double *k,
                               const double *v, double decay, double beta, double *out) {
    for (int r = 0; r < dim; r++) {
        double known = 0;
        for (int i = 0; i < dim; i++) known += (state[r][i] *= decay) * k[i];
        out[r] = 0;
        for (int i = 0; i < dim; i++) {
            state[r][i] += beta * (v[r] - known) * k[i];
            out[r] += state[r][i] * q[i] / sqrt(dim);
        }
    }
}

static inline void plain_delta_net(const plain *p, int layer, int pos, const double *h, double *y) {
    const fixture_spec *s = p->s;
    int d = s->d_model, dim = s->state_dim, nk = s->n_state_key, nv = s->n_state_value;
    double in[MAX_DIM], x[MAX_DIM], z[MAX_DIM], alpha[8], beta[8], out[MAX_DIM];
    multiply(weights(p, layer, "attn_qkv.weight"), NULL, (2 * nk + nv) * dim, d, h, in);
    multiply(weights(p, layer, "attn_gate.weight"), NULL, nv * dim, d, h, z);
    if (s->delta_grouped) {
        double both[16];
        int in_group = nv / nk;
        multiply(weights(p, layer, "ssm_ba.weight"), NULL, 2 * nv, d, h, both);
        for (int i = 0; i < nv; i++) {
            beta[i] = both[i / in_group * 2 * in_group + i % in_group];
            alpha[i] = both[(i / in_group * 2 + 1) * in_group + i % in_group];
        }
    } else {
        multiply(weights(p, layer, "ssm_alpha.weight"), NULL, nv, d, h, alpha);
        multiply(weights(p, layer, "ssm_beta.weight"), NULL, nv, d, h, beta);
    }
    plain_conv(p, layer, pos, "ssm_conv1d.weight", (2 * nk + nv) * dim, in, x);
    for (int i = 0; i < (2 * nk + nv) * dim; i++) x[i] = silu(x[i]);
    for (int i = 0; i < 2 * nk; i++) plain_unit(x + i * dim, dim);
    if (pos == 0) memset(state_cache[layer], 0, sizeof state_cache[layer]);
    for (int i = 0; i < nv; i++) {
        double softplus = log(1.0 + exp(alpha[i] + weights(p, layer, "ssm_dt.bias")[i]));
        double decay = exp(weights(p, layer, "ssm_a")[i] * softplus);
        double *o = out + i * dim;
        int key = s->delta_grouped ? i / (nv / nk) : i % nk;
        plain_delta(state_cache[layer][i], dim, x + key * dim, x + (nk + key) * dim,
                    x + (2 * nk + i) * dim, decay, 1.0 / (1.0 + exp(-beta[i])), o);
        norm(o, weights(p, layer, "ssm_norm.weight"), dim, o);
        for (int r = 0; r < dim; r++) o[r] *= silu(z[i * dim + r]);
    }
    multiply(weights(p, layer, "ssm_out.weight"), NULL, d, nv * dim, out, y);
}

static double scan_cache[MAX_LAYER][MAX_DIM][16];

static inline void plain_scan(const plain *p, int layer, int pos, const double *h, double *y) {
    const fixture_spec *s = p->s;
    int dim = s->state_dim, inner = s->n_state_value, rank = s->step_rank;
    double in[2 * MAX_DIM], x[MAX_DIM], low[MAX_DIM], dt[MAX_DIM], out[MAX_DIM];
    const double *a = weights(p, layer, "ssm_a");
    multiply(weights(p, layer, "ssm_in.weight"), NULL, 2 * inner, s->d_model, h, in);
    plain_conv(p, layer, pos, "ssm_conv1d.weight", inner, in, x);
    for (int i = 0; i < inner; i++) x[i] = silu(x[i] + weights(p, layer, "ssm_conv1d.bias")[i]);
    multiply(weights(p, layer, "ssm_x.weight"), NULL, rank + 2 * dim, inner, x, low);
    multiply(weights(p, layer, "ssm_dt.weight"), weights(p, layer, "ssm_dt.bias"), inner, rank, low,
             dt);
    if (pos == 0) memset(scan_cache[layer], 0, sizeof scan_cache[layer]);
    for (int i = 0; i < inner; i++) {
        double step = log(1.0 + exp(dt[i])), *state = scan_cache[layer][i];
        out[i] = weights(p, layer, "ssm_d")[i] * x[i];
        for (int j = 0; j < dim; j++) {
            state[j] = exp(step * a[i * dim + j]) * state[j] + step * x[i] * low[rank + j];
            out[i] += state[j] * low[rank + dim + j];
        }
        out[i] *= silu(in[inner + i]);
    }
    multiply(weights(p, layer, "ssm_out.weight"), NULL, s->d_model, inner, out, y);
}

static inline void plain_mamba(const plain *p, int layer, int pos, const double *h, double *y) {
    const fixture_spec *s = p->s;
    int dim = s->state_dim, heads = s->n_state_value, rows = s->state_rows, groups = s->n_state_key;
    int inner = heads * rows, channels = inner + 2 * groups * dim;
    double in[3 * MAX_DIM], x[MAX_DIM], out[MAX_DIM];
    multiply(weights(p, layer, "ssm_in.weight"), NULL, inner + channels + heads, s->d_model, h, in);
    plain_conv(p, layer, pos, "ssm_conv1d.weight", channels, in + inner, x);
    for (int i = 0; i < channels; i++) x[i] = silu(x[i] + weights(p, layer, "ssm_conv1d.bias")[i]);
    if (pos == 0) memset(state_cache[layer], 0, sizeof state_cache[layer]);
    for (int i = 0; i < inner; i++) {
        int head = i / rows, group = head / (heads / groups);
        double dt = in[inner + channels + head] + weights(p, layer, "ssm_dt.bias")[head];
        double step = log(1.0 + exp(dt)), *state = state_cache[layer][head][i % rows];
        double decay = exp(step * weights(p, layer, "ssm_a")[head]);
        out[i] = weights(p, layer, "ssm_d")[head] * x[i];
        for (int j = 0; j < dim; j++) {
            state[j] = decay * state[j] + step * x[i] * x[inner + group * dim + j];
            out[i] += state[j] * x[inner + (groups + group) * dim + j];
        }
        out[i] *= silu(in[i]);
    }
    for (int g = 0; !s->both && g < groups; g++)
        norm(out + g * (inner / groups),
             weights(p, layer, "ssm_norm.weight") + g * (inner / groups), inner / groups,
             out + g * (inner / groups));
    multiply(weights(p, layer, "ssm_out.weight"), NULL, s->d_model, inner, out, y);
}

static inline double plain_clamped(double g, double u) {
    g = fmin(g, 7.0);
    return g / (1.0 + exp(-1.702 * g)) * (fmax(-7.0, fmin(u, 7.0)) + 1.0);
}

/* What becomes of a gate and its up. */
static inline double plain_gate(const fixture_spec *s, double g, double u) {
    if (s->relu2) return fmax(g, 0.0) * fmax(g, 0.0);
    return s->oai ? plain_clamped(g, u) : gate(s, g) * u;
}

/* A cut gate, in the layers that have one. */
static inline void plain_cut(double *g, int n) {
    double mean = 0, spread = 0;
    for (int i = 0; i < n; i++) mean += g[i] / n;
    for (int i = 0; i < n; i++) spread += (g[i] - mean) * (g[i] - mean) / (n - 1);
    for (int i = 0; i < n; i++) g[i] = fmax(0.0, g[i] - mean - 0.75 * sqrt(spread));
}

static inline void plain_feed_forward(const plain *p, int layer, const double *h, double *y) {
    const fixture_spec *s = p->s;
    int d = s->d_model;
    double g[MAX_DIM], u[MAX_DIM];
    const double *up = weights(p, layer, "ffn_up.weight"),
                 *up_bias = weights(p, layer, "ffn_up.bias");
    bool fused = s->fused || s->fused_glu;
    const double *w = fused || s->relu2 ? up : weights(p, layer, "ffn_gate.weight");
    int ff = fixture_ff(s, layer);
    multiply(w, fused ? up_bias : weights(p, layer, "ffn_gate.bias"), ff, d, h, g);
    if (fused) {
        up += ff * d;
        up_bias += up_bias ? ff : 0;
    }
    multiply(up, up_bias, ff, d, h, u);
    if (s->n_stream && layer < FIXTURE_CUTS) plain_cut(g, ff);
    for (int i = 0; i < ff; i++)
        g[i] = plain_gate(s, g[i] * plain_factor(p, layer, 4), u[i] * plain_factor(p, layer, 5));
    if (s->sub_norms) norm(g, weights(p, layer, "ffn_sub_norm.weight"), ff, g);
    for (int i = 0; i < ff; i++) g[i] *= plain_factor(p, layer, 6);
    multiply(weights(p, layer, "ffn_down.weight"), weights(p, layer, "ffn_down.bias"), d, ff, g, y);
}

/* Of one expert: matrices and, or NULL, biases. */
typedef struct plain_expert {
    const double *w[3], *bias[3];
    int ff;
} plain_expert;

static inline void plain_glu(const fixture_spec *s, const plain_expert *e, const double *h,
                             double share, double *y) {
    bool weighed = is_arch(s, "llama4", "llama4"); /* what it reads, not what it makes */
    double a[MAX_DIM], b[MAX_DIM], out[MAX_DIM];
    multiply(e->w[s->relu2 ? 1 : 0], e->bias[0], e->ff, s->d_model, h, a);
    multiply(e->w[1], e->bias[1], e->ff, s->d_model, h, b);
    for (int i = 0; i < e->ff; i++)
        a[i] = weighed ? plain_gate(s, share * a[i], share * b[i]) : plain_gate(s, a[i], b[i]);
    if (weighed) share = 1.0;
    multiply(e->w[2], e->bias[2], s->d_model, e->ff, a, out);
    for (int i = 0; i < s->d_model; i++) y[i] += share * out[i];
}

/* What an expert counts before shares are divided by a sum, and what it is chosen by. */
static inline void plain_scores(const plain *p, int layer, const double *logit, double *score,
                                double *pick) {
    const fixture_spec *s = p->s;
    const double *bias = weights(p, layer, "exp_probs_b.bias");
    double all = 0;
    for (int e = 0; e < s->n_expert; e++) all += exp(logit[e]);
    for (int e = 0; e < s->n_expert; e++) {
        bool sigmoid = s->gating == 2 || is_arch(s, "llama4", "llama4");
        score[e] = sigmoid ? 1.0 / (1.0 + exp(-logit[e])) : exp(logit[e]) / all;
        pick[e] = score[e] + (bias ? bias[e] : 0.0);
    }
    if (!s->n_group) return;
    int in_group = s->n_expert / s->n_group;
    double sums[16];
    for (int g = 0; g < s->n_group; g++) {
        double best = -1e30, second = -1e30;
        for (int e = g * in_group; e < (g + 1) * in_group; e++) {
            second = fmax(second, fmin(best, pick[e]));
            best = fmax(best, pick[e]);
        }
        sums[g] = best + second;
    }
    for (int e = 0; e < s->n_expert; e++) {
        int better = 0;
        for (int g = 0; g < s->n_group; g++) better += sums[g] > sums[e / in_group];
        if (better >= s->n_group_used) pick[e] = -1e30;
    }
}

/* y: the chosen experts' outputs by their shares, in the order of choice. router: what chooses them. */
static inline void plain_experts_of(const plain *p, int layer, const double *router,
                                    const double *h, double *y) {
    const fixture_spec *s = p->s;
    int d = s->d_model, ff = s->ff_expert, step = ff * d;
    double logit[128], score[128], pick[128], sum = 0;
    const double *down = weights(p, layer, "ffn_down_exps.weight");
    const double *g = weights(p, layer, "ffn_gate_exps.weight"),
                 *u = weights(p, layer, "ffn_up_exps.weight");
    multiply(weights(p, layer, "ffn_gate_inp.weight"), weights(p, layer, "ffn_gate_inp.bias"),
             s->n_expert, d, router, logit);
    const double *scale = weights(p, layer, "ffn_down_exps.scale");
    if (s->fused_experts) {
        g = weights(p, layer, "ffn_gate_up_exps.weight");
        u = g + step;
    }
    bool taken[128] = {false};
    int order[16];
    plain_scores(p, layer, logit, score, pick);
    for (int k = 0; k < s->n_used; k++) {
        int best = -1;
        for (int e = 0; e < s->n_expert; e++)
            if (!taken[e] && (best < 0 || pick[e] > pick[best])) best = e;
        taken[order[k] = best] = true;
        sum += score[best];
    }
    bool unnormed = is_arch(s, "qwen2moe", "olmoe") || is_arch(s, "llama4", "llama4") ||
                    (is_arch(s, "deepseek2", "nemotron_h_moe") && !s->shares_normed);
    if (unnormed) sum = 1.0;
    for (int i = 0; i < d; i++) y[i] = 0;
    for (int k = 0; k < s->n_used; k++) {
        int n = order[k], at = n * step * (s->fused_experts ? 2 : 1);
        plain_expert e = {{g + at, u + at, down + n * step}, {NULL}, ff};
        if (s->oai) {
            e.bias[0] = weights(p, layer, "ffn_gate_exps.bias") + n * ff;
            e.bias[1] = weights(p, layer, "ffn_up_exps.bias") + n * ff;
            e.bias[2] = weights(p, layer, "ffn_down_exps.bias") + n * d;
        }
        plain_glu(s, &e, h, score[n] / sum * (scale ? scale[n] : 1.0), y);
    }
    if (!s->ff_shared) return;
    double share = 1e9;
    if (!s->shared_whole)
        multiply(weights(p, layer, "ffn_gate_inp_shexp.weight"), NULL, 1, d, h, &share);
    const plain_expert e = {{weights(p, layer, "ffn_gate_shexp.weight"),
                             weights(p, layer, "ffn_up_shexp.weight"),
                             weights(p, layer, "ffn_down_shexp.weight")},
                            {NULL},
                            s->ff_shared};
    plain_glu(s, &e, h, 1.0 / (1.0 + exp(-share)), y);
}

static inline void plain_experts(const plain *p, int layer, const double *h, double *y) {
    plain_experts_of(p, layer, h, h, y);
}

/* A dense part, whose input is h, and experts next to it. */
static inline void plain_branches(const plain *p, int layer, const double *x, const double *h,
                                  double *y) {
    int d = p->s->d_model;
    double router[MAX_DIM], in[MAX_DIM], of_experts[MAX_DIM];
    memcpy(router, x, (size_t)d * sizeof *router);
    plain_norm_of_ones(router, d);
    for (int i = 0; i < d; i++) router[i] *= weights(p, layer, "ffn_gate_inp.scale")[i] / sqrt(d);
    norm(x, weights(p, layer, "pre_ffw_norm_2.weight"), d, in);
    plain_experts_of(p, layer, router, in, of_experts);
    norm(of_experts, weights(p, layer, "post_ffw_norm_2.weight"), d, of_experts);
    plain_feed_forward(p, layer, h, y);
    norm(y, weights(p, layer, "post_ffw_norm_1.weight"), d, y);
    for (int i = 0; i < d; i++) y[i] += of_experts[i];
}

/* Each layer's own embeddings of a token, from the scaled common one. */
static double plain_inputs[MAX_LAYER][MAX_DIM];

static inline void plain_make_inputs(const plain *p, int id, const double *x) {
    const fixture_spec *s = p->s;
    int per = s->layer_input, d = s->d_model, n = per * s->n_layer;
    for (int layer = 0; per && layer < s->n_layer; layer++) {
        double *in = plain_inputs[layer];
        const double *row = weights(p, -1, "per_layer_token_embd.weight") + id * n + layer * per;
        multiply(weights(p, -1, "per_layer_model_proj.weight") + layer * per * d, NULL, per, d, x,
                 in);
        for (int i = 0; i < per; i++) in[i] /= sqrt(d);
        norm(in, weights(p, -1, "per_layer_proj_norm.weight"), per, in);
        for (int i = 0; i < per; i++) in[i] = (in[i] + row[i] * sqrt(per)) / sqrt(2.0);
    }
}

/* What the layer makes of x and its own. */
static inline void plain_add_input(const plain *p, int layer, const double *x, double *y) {
    const fixture_spec *s = p->s;
    int per = s->layer_input, d = s->d_model;
    double g[MAX_DIM];
    multiply(weights(p, layer, "inp_gate.weight"), NULL, per, d, x, g);
    for (int i = 0; i < per; i++) g[i] = gate(s, g[i]) * plain_inputs[layer][i];
    multiply(weights(p, layer, "proj.weight"), NULL, d, per, g, y);
    norm(y, weights(p, layer, "post_norm.weight"), d, y);
}

static inline void plain_end_layer(const plain *p, int layer, double *x) {
    const fixture_spec *s = p->s;
    int per = s->layer_input, d = s->d_model;
    double y[MAX_DIM];
    if (per) {
        plain_add_input(p, layer, x, y);
        for (int i = 0; i < d; i++) x[i] += y[i];
    }
    for (int i = 0; i < d; i++) x[i] *= weights(p, layer, "layer_output_scale.weight")[0];
}

static inline double scale_of(const fixture_spec *s, int which) {
    return s->scales[which] != 0.0f ? (double)s->scales[which] : 1.0;
}

/* ---- several residual streams ---- */

static inline void plain_resize(const double *like, int n, double *y) {
    double want = 0, have = 0;
    for (int i = 0; i < n; i++) want += like[i] * like[i];
    for (int i = 0; i < n; i++) have += y[i] * y[i];
    for (int i = 0; i < n; i++) y[i] *= sqrt(want / have);
}

static inline void plain_routes(const plain *p, int layer, const double *x, double *out) {
    int d = p->s->d_model, n = p->s->n_stream;
    double r[MAX_DIM];
    norm(x, weights(p, layer, "altup_router_norm.weight"), d, r);
    for (int i = 0; i < d; i++) r[i] /= d;
    multiply(weights(p, layer, "altup_router.weight"), NULL, n, d, r, out);
    for (int i = 0; i < n; i++) out[i] = tanh(out[i]);
}

static inline void plain_stream_layer(const plain *p, int layer, int pos, double st[4][MAX_DIM]) {
    const fixture_spec *s = p->s;
    int d = s->d_model, n = s->n_stream, hd = fixture_head_dim(s, layer);
    double route[4], by[16], old[4][MAX_DIM], h[MAX_DIM], a[MAX_DIM], y[MAX_DIM], x[MAX_DIM];
    memcpy(old, st, sizeof old);
    plain_routes(p, layer, st[0], route);
    multiply(weights(p, layer, "altup_predict_coef.weight"), NULL, n * n, n, route, by);
    for (int o = 0; o < n; o++)
        for (int k = 0; k < n; k++)
            for (int i = 0; i < d; i++) st[o][i] += by[o * n + k] * old[k][i];
    norm(st[0], weights(p, layer, "attn_norm.weight"), d, h);
    plain_attention(p, layer, pos, h, a);
    multiply(weights(p, layer, "attn_output.weight"), NULL, d, s->n_head * hd, a, y);
    norm(y, weights(p, layer, "post_attention_norm.weight"), d, y);
    for (int i = 0; i < d; i++) x[i] = st[0][i] + y[i] + h[i];
    multiply(weights(p, layer, "laurel_l.weight"), NULL, s->low, d, h, a);
    multiply(weights(p, layer, "laurel_r.weight"), NULL, d, s->low, a, y);
    norm(y, weights(p, layer, "laurel_post_norm.weight"), d, y);
    for (int i = 0; i < d; i++) x[i] = (x[i] + y[i]) / sqrt(2.0);
    norm(x, weights(p, layer, "ffn_norm.weight"), d, h);
    plain_feed_forward(p, layer, h, y);
    norm(y, weights(p, layer, "post_ffw_norm.weight"), d, y);
    for (int i = 0; i < d; i++) x[i] += y[i];
    plain_routes(p, layer, x, route);
    multiply(weights(p, layer, "altup_correct_coef.weight"), NULL, n, n, route, by);
    for (int i = 0; i < d; i++) x[i] -= st[0][i];
    for (int o = 0; o < n; o++)
        for (int i = 0; i < d; i++) st[o][i] += x[i] * (by[o] + 1.0);
    for (int i = 0; i < d; i++)
        h[i] = st[0][i] * weights(p, layer, "altup_correct_scale.weight")[i];
    plain_add_input(p, layer, h, y);
    for (int o = 1; o < n; o++)
        for (int i = 0; i < d; i++) st[o][i] += y[i];
}

static inline void plain_streams(const plain *p, int pos, double *x) {
    int d = p->s->d_model, n = p->s->n_stream;
    double st[4][MAX_DIM] = {{0}}, y[MAX_DIM];
    memcpy(st[0], x, (size_t)d * sizeof *x);
    for (int o = 1; o < n; o++) {
        multiply(weights(p, -1, "altup_proj.weight") + (o - 1) * d * d, NULL, d, d, x, st[o]);
        plain_resize(st[0], d, st[o]);
    }
    for (int layer = 0; layer < p->s->n_layer; layer++) plain_stream_layer(p, layer, pos, st);
    memcpy(x, st[0], (size_t)d * sizeof *x);
    for (int o = 1; o < n; o++) {
        multiply(weights(p, -1, "altup_unembd_proj.weight") + (o - 1) * d * d, NULL, d, d, st[o],
                 y);
        plain_resize(st[0], d, y);
        for (int i = 0; i < d; i++) x[i] += y[i];
    }
    for (int i = 0; i < d; i++) x[i] /= n;
}

static inline void plain_layer(const plain *p, int layer, int pos, double *x) {
    const fixture_spec *s = p->s;
    int d = s->d_model;
    double h[MAX_DIM], a[MAX_DIM], y[MAX_DIM];
    norm_or_copy(s, x, weights(p, layer, "attn_norm.weight"), d, h);
    if (fixture_is_ff(s, layer)) {
        (s->n_expert ? plain_experts : plain_feed_forward)(p, layer, h, y);
    } else if (fixture_is_recurrent(s, layer)) {
        (s->step_rank    ? plain_scan
         : s->state_rows ? plain_mamba
         : s->state_dim  ? plain_delta_net
                         : plain_short_conv)(p, layer, pos, h, y);
    } else {
        (s->kv_rank ? plain_latent : plain_attention)(p, layer, pos, h, a);
        multiply(weights(p, layer, "attn_output.weight"), weights(p, layer, "attn_output.bias"), d,
                 s->n_head * (s->kv_rank ? s->head_dim_v : fixture_head_dim(s, layer)), a, y);
    }
    if (s->both) plain_mamba(p, layer, pos, h, a);
    for (int i = 0; s->both && i < d; i++) y[i] += a[i];
    if (s->post_norm) norm(y, weights(p, layer, "post_attention_norm.weight"), d, y);
    for (int i = 0; i < d; i++) x[i] += y[i] * scale_of(s, 1);
    if (s->ff_every) return;
    bool renamed = s->renamed || s->oai || (s->state_dim && !s->state_rows);
    const char *ffn_norm = s->both   ? "ffn_norm"
                           : renamed ? "post_attention_norm.weight"
                                     : "ffn_norm.weight";
    if (!s->parallel) norm_or_copy(s, x, weights(p, layer, ffn_norm), d, h);
    if (s->branches)
        plain_branches(p, layer, x, h, y);
    else
        (fixture_has_experts(s, layer) ? plain_experts : plain_feed_forward)(p, layer, h, y);
    if (s->post_norm) norm(y, weights(p, layer, "post_ffw_norm.weight"), d, y);
    for (int i = 0; i < d; i++) x[i] += y[i] * scale_of(s, 1);
    if (fixture_is_gemma4(s)) plain_end_layer(p, layer, x);
}

/* The first block after the layers: the token and the normed state before it, which becomes the block's
 * own. */
static inline void plain_mtp(const plain *p, int id, int pos, double *state, double *logits) {
    const fixture_spec *s = p->s;
    int d = s->d_model, block = s->n_layer;
    double pair[2 * MAX_DIM], x[MAX_DIM];
    const double *own = weights(p, block, "nextn.embed_tokens.weight");
    const double *head = weights(p, block, "nextn.shared_head_head.weight");
    const double *table = own ? own : weights(p, -1, "token_embd.weight");
    if (!head) head = weights(p, -1, s->tied ? "token_embd.weight" : "output.weight");
    norm(table + id * d, weights(p, block, "nextn.enorm.weight"), d, pair);
    norm(state, weights(p, block, "nextn.hnorm.weight"), d, pair + d);
    multiply(weights(p, block, "nextn.eh_proj.weight"), NULL, d, 2 * d, pair, x);
    plain_layer(p, block, pos, x);
    norm(x, weights(p, block, "nextn.shared_head_norm.weight"), d, state);
    multiply(head, NULL, s->n_vocab, d, state, logits);
}

/* An assistant's row at pos: the token, and the state before it, which becomes that of the token. */
static inline void plain_assistant(const plain *p, int id, int pos, double *state, double *logits) {
    const fixture_spec *s = p->s;
    int d = s->d_model, host = s->d_host;
    double pair[2 * MAX_DIM], x[MAX_DIM];
    for (int i = 0; i < host; i++) {
        pair[i] = weights(p->host, -1, "token_embd.weight")[id * host + i] * sqrt(host);
        pair[host + i] = state[i];
    }
    multiply(weights(p, -1, fixture_host_in(s)), NULL, d, 2 * host, pair, x);
    for (int layer = 0; layer < s->n_layer; layer++) plain_layer(p, layer, pos, x);
    norm(x, weights(p, -1, "output_norm.weight"), d, x);
    multiply(weights(p, -1, "token_embd.weight"), NULL, s->n_vocab, d, x, logits);
    multiply(weights(p, -1, fixture_host_out(s)), NULL, host, d, x, state);
}

/* Out: the normed state, and the logits after it. */
static inline void plain_token_state(const plain *p, int id, int pos, double *x, double *logits) {
    const fixture_spec *s = p->s;
    int d = s->d_model;
    double y[MAX_DIM];
    for (int i = 0; i < d; i++) {
        x[i] = weights(p, -1, "token_embd.weight")[id * d + i] *
               (is_arch(s, "gemma2", "gemma3") || is_arch(s, "gemma4", "gemma3n") ? sqrt(d)
                                                                                  : scale_of(s, 0));
    }
    plain_make_inputs(p, id, x);
    if (s->n_stream) plain_streams(p, pos, x);
    for (int layer = 0; layer < s->n_layer && !s->n_stream; layer++) plain_layer(p, layer, pos, x);
    const double *last = weights(p, -1, "output_norm.weight");
    layer_norm(s, x, last ? last : weights(p, -1, "token_embd_norm.weight"), d, x);
    if (p->hidden) {
        multiply(p->hidden, NULL, d, d, x, y);
        for (int i = 0; i < d; i++) x[i] += y[i];
    }
    multiply(weights(p, -1, s->tied ? "token_embd.weight" : "output.weight"),
             weights(p, -1, "output.bias"), s->n_vocab, d, x, logits);
    for (int i = 0;
         (is_arch(s, "granite", "granitemoe") || is_arch(s, "granitehybrid", "")) && i < s->n_vocab;
         i++)
        logits[i] /= scale_of(s, 3);
    for (int i = 0; is_arch(s, "cohere2", "command-r") && i < s->n_vocab; i++)
        logits[i] *= scale_of(s, 3);
    for (int i = 0; is_arch(s, "gemma2", "gemma3n") && i < s->n_vocab; i++)
        logits[i] = 30.0 * tanh(logits[i] / 30.0);
}

static inline void plain_token(const plain *p, int id, int pos, double *logits) {
    double x[MAX_DIM];
    plain_token_state(p, id, pos, x, logits);
}

#endif
