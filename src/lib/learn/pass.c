#include "learn/pass.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "host/pages.h"
#include "model/rope.h"

/* What the way back through a layer needs; rows kt__pad of their width apart. */
typedef struct layer_acts {
    /* made by products with matrices, or read by a post-norm: of a layer that is kept its own */
    float *q0, *k0; /* [n][heads * dim] before their norms */
    float *v;       /* [n][n_head_kv * head_dim_v] */
    float *mix;     /* [n][n_head * head_dim_v] */
    float *o;       /* [n][d] attention's output before the post-norm */
    float *x2;      /* [n][d] the stream between attention and feed-forward */
    float *g, *u;   /* [n][d_ff] */
    float *d;       /* [n][d] the feed-forward's output before the post-norm */
    /* made of these in little time, and the same room for all layers */
    float *h1, *h2; /* [n][d] normed x, x2 */
    float *q, *k;   /* normed, rotated */
    float *a;       /* [n][d_ff] */
} layer_acts;

struct kt__pass {
    const kt__net *net;
    kt__pool *pool;
    int n_worker;
    const kt__kernels *kernels;
    kt__pass_params params;
    kt__panels *panels;
    kt__arena arena;
    kt__rope rope, rope_local;
    void *memory;
    size_t memory_bytes;
    float **x;        /* [n_layer + 1] the residual stream */
    layer_acts *acts; /* [n_layer] */
    int n_kept; /* of the last layers; what the others made is computed again, into the same room */
    float *cs, *cs_local; /* [n_tok][n_rot] */
    float *q_scale;       /* [n_tok], or NULL */
    /* of sequences that grow, in the room of the residual streams: of each layer keys, [n_grown] of k_width, and
     * values */
    float *grown;
    int n_grown;
    float *rows, *hidden; /* [n_tok][d] normed, before and after the final adapter */
    float *dx, *dh, *dt;  /* [n][d] */
    float *dq, *dk, *dv, *dmix, *dg, *du, *da;
    float *row_tmp; /* [n_tok][d] gathered stream */
    uint8_t *attend_scratch;
};

/* ---- memory ---- */

static int q_width(const kt__hparams *hp) {
    return hp->n_head * hp->head_dim_k;
}
static int k_width(const kt__hparams *hp) {
    return hp->n_head_kv * hp->head_dim_k;
}
static int v_width(const kt__hparams *hp) {
    return hp->n_head_kv * hp->head_dim_v;
}
static int o_width(const kt__hparams *hp) {
    return hp->n_head * hp->head_dim_v;
}

typedef struct taker {
    uint8_t *at; /* NULL: only counts */
    size_t used;
} taker;

static float *take_rows(taker *t, int n_tok, int width) {
    float *here = t->at ? (float *)(void *)(t->at + t->used) : NULL;
    t->used += (size_t)n_tok * kt__pad(width) * sizeof(float);
    return here;
}

static void take_own(taker *t, const kt__hparams *hp, int n, layer_acts *acts) {
    int d = hp->d_model, ff = hp->d_ff;
    acts->q0 = take_rows(t, n, q_width(hp));
    acts->k0 = take_rows(t, n, k_width(hp));
    acts->v = take_rows(t, n, v_width(hp));
    acts->mix = take_rows(t, n, o_width(hp));
    acts->x2 = take_rows(t, n, d);
    acts->g = take_rows(t, n, ff);
    acts->u = take_rows(t, n, ff);
    if (!(hp->features & KT__F_POST_NORM)) return;
    acts->o = take_rows(t, n, d);
    acts->d = take_rows(t, n, d);
}

static void take_shared(taker *t, const kt__hparams *hp, int n, layer_acts *acts) {
    acts->h1 = take_rows(t, n, hp->d_model);
    acts->h2 = take_rows(t, n, hp->d_model);
    acts->q = take_rows(t, n, q_width(hp));
    acts->k = take_rows(t, n, k_width(hp));
    acts->a = take_rows(t, n, hp->d_ff);
    acts->o = take_rows(t, n, hp->d_model); /* where no post-norm reads it */
    acts->d = acts->o;
}

/* net, pool and params of p are set; x and acts are, too, where pointers are taken. */
static void take_layers(const kt__pass *p, taker *t) {
    const kt__hparams *hp = &p->net->hp;
    int n = p->params.n_tok_max, first_kept = hp->n_layer - p->n_kept;
    layer_acts all = {0}, own;
    for (int l = 0; l <= hp->n_layer; l++) {
        float *x = take_rows(t, n, hp->d_model);
        if (t->at) p->x[l] = x;
    }
    take_shared(t, hp, n, &all);
    if (first_kept > 0) take_own(t, hp, n, &all);
    for (int l = 0; l < hp->n_layer; l++) {
        own = all;
        if (l >= first_kept) take_own(t, hp, n, &own);
        if (t->at) p->acts[l] = own;
    }
}

static void take_scratch(kt__pass *p, taker *t) {
    const kt__hparams *hp = &p->net->hp;
    int n = p->params.n_tok_max, d = hp->d_model, ff = hp->d_ff;
    p->cs = take_rows(t, n, hp->rope.n_rot + 1);
    p->cs_local = take_rows(t, n, hp->rope.n_rot + 1);
    p->q_scale = take_rows(t, 1, n);
    float **const of_d[] = {&p->rows, &p->hidden, &p->dx, &p->dh, &p->dt, &p->row_tmp};
    for (size_t i = 0; i < sizeof of_d / sizeof *of_d; i++) *of_d[i] = take_rows(t, n, d);
    p->dq = take_rows(t, n, q_width(hp));
    p->dk = take_rows(t, n, k_width(hp));
    p->dv = take_rows(t, n, v_width(hp));
    p->dmix = take_rows(t, n, o_width(hp));
    p->dg = take_rows(t, n, ff);
    p->du = take_rows(t, n, ff);
    p->da = take_rows(t, n, ff);
    size_t bytes = kt__attend_bytes(p->params.len_max, hp->head_dim_k, hp->head_dim_v);
    p->attend_scratch = t->at ? t->at + t->used : NULL;
    t->used += bytes * (size_t)p->n_worker;
}

static size_t count_bytes(kt__pass *p, int n_kept) {
    taker count = {0};
    p->n_kept = n_kept;
    take_layers(p, &count);
    take_scratch(p, &count);
    return count.used;
}

static size_t grown_row(const kt__hparams *hp) {
    return kt__pad(k_width(hp)) + kt__pad(v_width(hp));
}

/* The residual streams, which lie first, side by side; more only where not even one sequence would fit into them.
 * Returns how many bytes. */
static size_t place_grown(kt__pass *p) {
    const kt__hparams *hp = &p->net->hp;
    size_t row = grown_row(hp) * (size_t)hp->n_layer;
    size_t floats = (size_t)(hp->n_layer + 1) * (size_t)p->params.n_tok_max * kt__pad(hp->d_model);
    size_t least = row * (size_t)p->params.len_max;
    if (floats >= least) {
        p->n_grown = (int)(floats / row);
        return 0;
    }
    p->n_grown = p->params.len_max;
    return least * sizeof(float);
}

/* As many layers are kept as fit. */
static kt_status map_memory(kt__pass *p, kt_error *err) {
    const kt__pass_params *params = &p->params;
    uint64_t most = params->bytes_keep > params->bytes_max ? params->bytes_keep : params->bytes_max;
    int n_kept = p->net->hp.n_layer;
    while (n_kept > 0 && count_bytes(p, n_kept) > most) n_kept--;
    size_t bytes = count_bytes(p, n_kept), more = place_grown(p);
    p->memory_bytes = bytes + more;
    p->memory = kt__pages_alloc(p->memory_bytes);
    if (!p->memory) return kt__fail_nomem(err, "a training's activations", p->memory_bytes);
    taker take = {.at = p->memory};
    take_layers(p, &take);
    take_scratch(p, &take);
    p->grown = more ? (float *)(void *)((uint8_t *)p->memory + bytes) : p->x[0];
    return KT_OK;
}

static kt__panels_limits limits_of(const kt__hparams *hp, const kt__pass_params *params) {
    const int rows[] = {hp->n_vocab, hp->d_ff, hp->d_model, q_width(hp), k_width(hp), v_width(hp)};
    const int cols[] = {hp->d_model, hp->d_ff, o_width(hp)};
    kt__panels_limits l = {.n_tok_max = params->n_tok_max, .rank_max = params->rank_max};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i] > l.n_row_max) l.n_row_max = rows[i];
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        if (cols[i] > l.n_col_max) l.n_col_max = cols[i];
    return l;
}

uint64_t kt__pass_bytes(const kt__net *net, const kt__kernels *kernels,
                        const kt__pass_params *params) {
    kt__pass p = {.net = net, .n_worker = 1, .params = *params};
    kt__panels_limits limits = limits_of(&net->hp, params);
    return count_bytes(&p, 0) + kt__panels_bytes(kernels, 1, &limits);
}

static kt_status make_tables(kt__pass *p, kt_error *err) {
    kt_status status;
    const kt__hparams *hp = &p->net->hp;
    KT__TRY(kt__rope_init(p->net, false, p->params.len_max, &p->arena, &p->rope, err));
    KT__TRY(kt__rope_init(p->net, true, p->params.len_max, &p->arena, &p->rope_local, err));
    if (hp->rope.local_freq_base == hp->rope.freq_base && !(hp->features & KT__F_LOCAL_PLAIN))
        p->rope_local = p->rope;
    p->x = kt__arena_calloc(&p->arena, (size_t)hp->n_layer + 1, sizeof *p->x);
    p->acts = kt__arena_calloc(&p->arena, (size_t)hp->n_layer, sizeof *p->acts);
    if (!p->x || !p->acts) status = kt__fail_nomem(err, "a training's layers", 0);
out:
    return status;
}

kt_status kt__pass_create(const kt__net *net, kt__pool *pool, const kt__kernels *kernels,
                          const kt__pass_params *params, kt__pass **out, kt_error *err) {
    kt_status status = kt__factors_supported(net, err);
    *out = NULL;
    if (status != KT_OK) return status;
    kt__pass *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "a training", sizeof *p);
    *p = (kt__pass){.net = net,
                    .pool = pool,
                    .n_worker = kt__pool_size(pool),
                    .kernels = kernels,
                    .params = *params};
    kt__arena_init(&p->arena, 16 * 1024, (size_t)1 << 30);
    kt__panels_limits limits = limits_of(&net->hp, params);
    KT__TRY(make_tables(p, err));
    KT__TRY(map_memory(p, err));
    KT__TRY(kt__panels_create(pool, kernels, &limits, &p->panels, err));
    *out = p;
    p = NULL;
out:
    kt__pass_destroy(p);
    return status;
}

void kt__pass_destroy(kt__pass *p) {
    if (!p) return;
    kt__panels_destroy(p->panels);
    if (p->memory) kt__pages_free(p->memory, p->memory_bytes);
    kt__arena_free(&p->arena);
    kt__free(p);
}

kt__panels *kt__pass_panels(kt__pass *p) {
    return p->panels;
}

int kt__pass_grown_max(const kt__pass *p) {
    return p->n_grown;
}

/* ---- rows, over the threads ---- */

typedef struct rows_job {
    const kt__kernels *kernels;
    const float *x, *w, *y, *z;
    float *out, *out2;
    int width, n_rows_head; /* heads of a row, where each is a row of its own */
    float eps;
    const float *cs;
    int n_rot;
    float sign;
    bool flag;
} rows_job;

enum { ROWS_GRAIN = 8 };

static void run_rows(const kt__pass *p, int n, kt__pool_fn *fn, rows_job *job) {
    job->kernels = p->kernels;
    kt__pool_run(p->pool, n, ROWS_GRAIN, fn, job);
}

/* out = norm of x times w, heads apart; w NULL: a copy. */
static void norm_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width * job->n_rows_head), n = (size_t)job->width;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < job->n_rows_head; h++) {
            size_t at = (size_t)t * ld + (size_t)h * n;
            if (job->w)
                (void)job->kernels->rmsnorm(job->x + at, job->w, job->width, job->eps,
                                            job->out + at);
            else
                memcpy(job->out + at, job->x + at, n * sizeof(float));
        }
    }
}

static void norm_rows(const kt__pass *p, const float *x, const float *w, int heads, int width,
                      int n_tok, float *out) {
    rows_job job = {.x = x,
                    .w = w,
                    .out = out,
                    .width = width,
                    .n_rows_head = heads,
                    .eps = p->net->hp.norm_eps};
    run_rows(p, n_tok, norm_items, &job);
}

/* One row: dx (+)= r w dy - x r^3/n sum(w dy x), r = 1/sqrt(mean x^2 + eps). out may be dy. */
static void norm_back_row(const rows_job *job, const float *x, const float *dy, float *out) {
    size_t n = (size_t)job->width;
    float square = 0.0f, dot = 0.0f;
    for (size_t i = 0; i < n; i++) square += x[i] * x[i];
    for (size_t i = 0; i < n; i++) dot += job->w[i] * dy[i] * x[i];
    float r = 1.0f / sqrtf(square / (float)n + job->eps), c = dot * r * r * r / (float)n;
    for (size_t i = 0; i < n; i++) {
        float d = r * job->w[i] * dy[i] - x[i] * c;
        out[i] = job->flag ? out[i] + d : d;
    }
}

static void norm_back_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width * job->n_rows_head), n = (size_t)job->width;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        for (int h = 0; h < job->n_rows_head; h++) {
            size_t at = (size_t)t * ld + (size_t)h * n;
            if (job->w) {
                norm_back_row(job, job->x + at, job->y + at, job->out + at);
            } else {
                for (size_t i = 0; i < n; i++)
                    job->out[at + i] = job->flag ? job->out[at + i] + job->y[at + i]
                                                 : job->y[at + i];
            }
        }
    }
}

/* dx of the norm; add: to what is there. */
static void norm_back(const kt__pass *p, const float *x, const float *w, int heads, int width,
                      int n_tok, const float *dy, bool add, float *dx) {
    rows_job job = {.x = x,
                    .w = w,
                    .y = dy,
                    .out = dx,
                    .width = width,
                    .n_rows_head = heads,
                    .flag = add,
                    .eps = p->net->hp.norm_eps};
    run_rows(p, n_tok, norm_back_items, &job);
}

/* Rotates every head by its position, or back. */
static void rotate_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width * job->n_rows_head), ld_cs = kt__pad(job->n_rot + 1);
    float cs[KT__MAX_HEAD_DIM];
    int half = job->n_rot / 2;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        memcpy(cs, job->cs + (size_t)t * ld_cs, (size_t)job->n_rot * sizeof *cs);
        for (int i = half; i < job->n_rot; i++) cs[i] *= job->sign;
        for (int h = 0; h < job->n_rows_head; h++) {
            float *head = job->out + (size_t)t * ld + (size_t)(h * job->width);
            if (job->flag)
                job->kernels->rope_neox(head, cs, job->n_rot);
            else
                job->kernels->rope_norm(head, cs, job->n_rot);
        }
    }
}

static void rotate_rows(const kt__pass *p, const kt__layer *layer, int heads, int width, int n_tok,
                        float sign, float *rows) {
    if (!layer->rotated || p->net->hp.rope.n_rot == 0) return;
    rows_job job = {.out = rows,
                    .width = width,
                    .n_rows_head = heads,
                    .cs = layer->local ? p->cs_local : p->cs,
                    .n_rot = p->net->hp.rope.n_rot,
                    .sign = sign,
                    .flag = !(p->net->hp.features & KT__F_ROPE_NORM)};
    run_rows(p, n_tok, rotate_items, &job);
}

/* out = act(x) * y */
static void glu_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width);
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        size_t at = (size_t)t * ld;
        if (job->flag)
            job->kernels->gelu_mul(job->x + at, job->y + at, job->width, job->out + at);
        else
            job->kernels->silu_mul(job->x + at, job->y + at, job->width, job->out + at);
    }
}

/* act and its derivative at n numbers of g, n <= 64. */
static void silu_slope(const float *g, int n, float *act, float *slope) {
    float e[64] = {0};
    for (int i = 0; i < n; i++) e[i] = -fabsf(g[i]);
    kt__exp_weights(e, 0.0f, (size_t)n, e);
    for (int i = 0; i < n; i++) {
        float s = (g[i] >= 0.0f ? 1.0f : e[i]) / (1.0f + e[i]);
        act[i] = g[i] * s;
        slope[i] = s * (1.0f + g[i] * (1.0f - s));
    }
}

static void gelu_slope(const float *g, int n, float *act, float *slope) {
    const float c = 0.79788456080286535588f, k = 0.044715f; /* sqrt(2/pi) */
    for (int i = 0; i < n; i++) {
        float x = g[i], t = kt__tanhf(c * (x + k * x * x * x));
        act[i] = 0.5f * x * (1.0f + t);
        slope[i] = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * c * (1.0f + 3.0f * k * x * x);
    }
}

/* Of out = act(x) * y: out (dg) and out2 (du) of z (da). */
static void glu_back_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width);
    float act[64], slope[64];
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        for (int c0 = 0; c0 < job->width; c0 += 64) {
            int n = job->width - c0 < 64 ? job->width - c0 : 64;
            size_t at = (size_t)t * ld + (size_t)c0;
            (job->flag ? gelu_slope : silu_slope)(job->x + at, n, act, slope);
            for (int i = 0; i < n; i++) {
                float d = job->z[at + (size_t)i];
                job->out[at + (size_t)i] = d * job->y[at + (size_t)i] * slope[i];
                job->out2[at + (size_t)i] = d * act[i];
            }
        }
    }
}

/* out = x + y */
static void add_items(void *arg, int64_t begin, int64_t end, int worker) {
    const rows_job *job = arg;
    size_t ld = kt__pad(job->width);
    (void)worker;
    for (int64_t t = begin; t < end; t++)
        job->kernels->add(job->x + (size_t)t * ld, job->y + (size_t)t * ld, job->width,
                          job->out + (size_t)t * ld);
}

static void add_rows(const kt__pass *p, const float *x, const float *y, int n_tok, float *out) {
    rows_job job = {.x = x, .y = y, .out = out, .width = p->net->hp.d_model};
    run_rows(p, n_tok, add_items, &job);
}

/* ---- matrices with their adapter ---- */

/* grads: where the adapter's gradients go, or NULL. */
typedef struct site_of {
    kt__merged m;
    size_t ga, gb; /* among the gradients */
} site_of;

static site_of site_at(const kt__factors *f, int block, kt__lora_site site, const kt__weight *w) {
    site_of s = {.m = {.w = *w}};
    int row0;
    const kt__factor *factor = f ? kt__factors_find(f, block, site, &row0) : NULL;
    if (!factor) return s;
    s.ga = factor->a;
    s.gb = factor->b + (size_t)row0 * (size_t)f->rank;
    s.m.a = f->values + s.ga;
    s.m.b = f->values + s.gb;
    s.m.rank = f->rank;
    s.m.scale = f->scale;
    return s;
}

typedef struct way {
    kt__pass *p;
    const kt__factors *f;
    const kt__pass_batch *b;
    int layer;
    float *grads; /* on the way back */
} way;

/* The residual stream ahead of a layer; of sequences that grow two take turns, and they have what only the way back
 * needs. */
static float *stream_at(const way *w, int layer) {
    if (w->b->grown) return layer % 2 ? w->p->dh : w->p->dx;
    return w->p->x[layer];
}

static const kt__weight *weight_of(const kt__layer *l, kt__lora_site site) {
    switch (site) {
    case KT__SITE_Q: return &l->wq;
    case KT__SITE_K: return &l->wk;
    case KT__SITE_V: return &l->wv;
    case KT__SITE_ATTN_OUT: return &l->t[KT__SLOT_ATTN_OUT].w;
    case KT__SITE_GATE: return &l->gate;
    case KT__SITE_UP: return &l->up;
    default: return &l->t[KT__SLOT_FFN_DOWN].w;
    }
}

static void forward_site(const way *w, kt__lora_site site, const float *x, const float *bias,
                         float *y) {
    const kt__layer *l = &w->p->net->layers[w->layer];
    site_of s = site_at(w->f, w->layer, site, weight_of(l, site));
    kt__panels_forward(w->p->panels, &s.m, x, w->b->n_tok, bias, y);
}

/* Gradients of the site's adapter, and dx (+)= of its input; dx NULL: not wanted. */
static void back_site(const way *w, kt__lora_site site, const float *x, const float *dy, bool add,
                      float *dx) {
    const kt__layer *l = &w->p->net->layers[w->layer];
    site_of s = site_at(w->f, w->layer, site, weight_of(l, site));
    if (s.m.rank)
        kt__panels_gradient(w->p->panels, &s.m, x, dy, w->b->n_tok, w->grads + s.ga,
                            w->grads + s.gb);
    if (dx) kt__panels_backward(w->p->panels, &s.m, dy, w->b->n_tok, add, dx);
}

/* ---- a layer forward ---- */

/* Where a layer's keys and values of sequences that grow are kept. */
static float *grown_keys(const way *w) {
    const kt__pass *p = w->p;
    return p->grown + (size_t)w->layer * (size_t)p->n_grown * grown_row(&p->net->hp);
}

static float *grown_values(const way *w) {
    return grown_keys(w) + (size_t)w->p->n_grown * kt__pad(k_width(&w->p->net->hp));
}

static void keep_grown(const way *w) {
    const layer_acts *acts = &w->p->acts[w->layer];
    size_t ld_k = kt__pad(k_width(&w->p->net->hp)), ld_v = kt__pad(v_width(&w->p->net->hp));
    for (int s = 0; s < w->b->n_seq; s++) {
        const kt__grown *g = &w->b->grown[s];
        size_t to = (size_t)(g->row0 + g->n_old), from = (size_t)g->q_row, n = (size_t)g->n_new;
        memcpy(grown_keys(w) + to * ld_k, acts->k + from * ld_k, n * ld_k * sizeof(float));
        memcpy(grown_values(w) + to * ld_v, acts->v + from * ld_v, n * ld_v * sizeof(float));
    }
}

static kt__attend attend_of(const way *w) {
    const kt__pass *p = w->p;
    const kt__hparams *hp = &p->net->hp;
    const kt__layer *l = &p->net->layers[w->layer];
    const layer_acts *acts = &p->acts[w->layer];
    bool grown = w->b->grown != NULL;
    return (kt__attend){.at = w->b->at,
                        .grown = w->b->grown,
                        .n_shared = w->b->n_shared,
                        .n_seq = w->b->n_seq,
                        .n_head = hp->n_head,
                        .n_head_kv = hp->n_head_kv,
                        .head_dim_k = hp->head_dim_k,
                        .head_dim_v = hp->head_dim_v,
                        .q_scale = hp->q_scale,
                        .q_row_scale = hp->temperature > 0.0f ? p->q_scale : NULL,
                        .window = l->local ? hp->window : 0,
                        .softcap = hp->attn_softcap,
                        .q = acts->q,
                        .k = grown ? grown_keys(w) : acts->k,
                        .v = grown ? grown_values(w) : acts->v,
                        .scratch = p->attend_scratch,
                        .len_max = p->params.len_max};
}

/* acts' h1, and of what was made of it q and k. */
static void norm_input(const way *w) {
    const kt__pass *p = w->p;
    norm_rows(p, stream_at(w, w->layer), p->net->layers[w->layer].t[KT__SLOT_ATTN_NORM].v, 1,
              p->net->hp.d_model, w->b->n_tok, p->acts[w->layer].h1);
}

static void turn_heads(const way *w) {
    const kt__pass *p = w->p;
    const kt__hparams *hp = &p->net->hp;
    const kt__layer *l = &p->net->layers[w->layer];
    const layer_acts *acts = &p->acts[w->layer];
    int n = w->b->n_tok, dk = hp->head_dim_k;
    norm_rows(p, acts->q0, l->t[KT__SLOT_ATTN_Q_NORM].v, hp->n_head, dk, n, acts->q);
    norm_rows(p, acts->k0, l->t[KT__SLOT_ATTN_K_NORM].v, hp->n_head_kv, dk, n, acts->k);
    rotate_rows(p, l, hp->n_head, dk, n, 1.0f, acts->q);
    rotate_rows(p, l, hp->n_head_kv, dk, n, 1.0f, acts->k);
}

static void attention_forward(const way *w) {
    kt__pass *p = w->p;
    const kt__layer *l = &p->net->layers[w->layer];
    layer_acts *acts = &p->acts[w->layer];
    norm_input(w);
    forward_site(w, KT__SITE_Q, acts->h1, l->bq, acts->q0);
    forward_site(w, KT__SITE_K, acts->h1, l->bk, acts->k0);
    forward_site(w, KT__SITE_V, acts->h1, l->bv, acts->v);
    turn_heads(w);
    if (w->b->grown) keep_grown(w);
    kt__attend attend = attend_of(w);
    kt__attend_forward(p->panels, &attend, acts->mix);
    forward_site(w, KT__SITE_ATTN_OUT, acts->mix, l->t[KT__SLOT_ATTN_OUT_BIAS].v, acts->o);
}

static void norm_middle(const way *w) {
    const kt__pass *p = w->p;
    const layer_acts *acts = &p->acts[w->layer];
    norm_rows(p, acts->x2, p->net->layers[w->layer].t[KT__SLOT_FFN_NORM].v, 1, p->net->hp.d_model,
              w->b->n_tok, acts->h2);
}

static void activate_gate(const way *w) {
    const kt__pass *p = w->p;
    const layer_acts *acts = &p->acts[w->layer];
    rows_job glu = {.x = acts->g,
                    .y = acts->u,
                    .out = acts->a,
                    .width = p->net->hp.d_ff,
                    .flag = p->net->hp.features & KT__F_GELU};
    run_rows(p, w->b->n_tok, glu_items, &glu);
}

/* out: whether what comes out of it is needed. */
static void feed_forward(const way *w, bool out) {
    const kt__layer *l = &w->p->net->layers[w->layer];
    layer_acts *acts = &w->p->acts[w->layer];
    norm_middle(w);
    forward_site(w, KT__SITE_GATE, acts->h2, l->gate_bias, acts->g);
    forward_site(w, KT__SITE_UP, acts->h2, l->up_bias, acts->u);
    activate_gate(w);
    if (out) forward_site(w, KT__SITE_DOWN, acts->a, l->t[KT__SLOT_FFN_DOWN_BIAS].v, acts->d);
}

/* x + the block's output, through the post-norm where there is one. */
static void add_output(const kt__pass *p, const float *x, const float *y, const float *post,
                       int n_tok, float *out) {
    if (!(p->net->hp.features & KT__F_POST_NORM)) {
        add_rows(p, x, y, n_tok, out);
        return;
    }
    norm_rows(p, y, post, 1, p->net->hp.d_model, n_tok, p->dt);
    add_rows(p, x, p->dt, n_tok, out);
}

static void layer_forward(const way *w, float *x_out) {
    kt__pass *p = w->p;
    const kt__layer *l = &p->net->layers[w->layer];
    layer_acts *acts = &p->acts[w->layer];
    attention_forward(w);
    add_output(p, stream_at(w, w->layer), acts->o, l->t[KT__SLOT_ATTN_POST_NORM].v, w->b->n_tok,
               acts->x2);
    feed_forward(w, x_out || p->net->hp.features & KT__F_POST_NORM);
    if (x_out) add_output(p, acts->x2, acts->d, l->t[KT__SLOT_FFN_POST_NORM].v, w->b->n_tok, x_out);
}

/* ---- the whole way forward ---- */

static bool is_cancelled(const kt__pass *p) {
    return p->params.go_on && !p->params.go_on(p->params.go_on_user);
}

static void embed_row(const way *w, int64_t pos, int t) {
    kt__pass *p = w->p;
    const kt__hparams *hp = &p->net->hp;
    const kt__weight *e = &p->net->embed;
    size_t ld_cs = kt__pad(hp->rope.n_rot + 1), id = (size_t)w->b->ids[t];
    float *row = stream_at(w, 0) + (size_t)t * kt__pad(hp->d_model);
    kt__dequantize_row(e->type, e->data + id * e->row_bytes, e->n_col, row);
    if (hp->embed_scale != 1.0f) p->kernels->scale(row, e->n_col, hp->embed_scale);
    kt__rope_fill(&p->rope, pos, p->cs + (size_t)t * ld_cs);
    kt__rope_fill(&p->rope_local, pos, p->cs_local + (size_t)t * ld_cs);
    if (hp->temperature > 0.0f) p->q_scale[t] = kt__rope_query_scale(hp, pos);
}

static void embed_grown(const way *w) {
    for (int s = 0; s < w->b->n_seq; s++) {
        const kt__grown *g = &w->b->grown[s];
        int first = (g->row0 < w->b->n_shared ? 0 : w->b->n_shared) + g->n_old;
        for (int i = 0; i < g->n_new; i++) embed_row(w, first + i, g->q_row + i);
    }
}

static void embed_batch(const way *w) {
    const kt__pass_batch *b = w->b;
    if (b->grown) {
        embed_grown(w);
        return;
    }
    int n_shared = b->at[0];
    for (int t = 0; t < n_shared; t++) embed_row(w, t, t);
    for (int s = 0; s < b->n_seq; s++)
        for (int t = b->at[s]; t < b->at[s + 1]; t++) embed_row(w, n_shared + t - b->at[s], t);
}

static site_of hidden_site(const kt__pass *p, const kt__factors *f) {
    int d = p->net->hp.d_model;
    const kt__weight none = {.n_row = d, .n_col = d};
    return site_at(f, p->net->hp.n_layer, KT__SITE_HIDDEN, &none);
}

/* h' = h + s B A h, a row at a time: the rows are few. */
static void adapt_hidden(const kt__pass *p, const kt__factors *f, int n_out) {
    site_of s = hidden_site(p, f);
    size_t d = (size_t)p->net->hp.d_model, ld = kt__pad(p->net->hp.d_model);
    size_t rank = (size_t)s.m.rank;
    memcpy(p->hidden, p->rows, (size_t)n_out * ld * sizeof *p->hidden);
    for (int t = 0; s.m.rank && t < n_out; t++) {
        const float *h = p->rows + (size_t)t * ld;
        float *out = p->hidden + (size_t)t * ld;
        for (size_t j = 0; j < rank; j++) {
            float u = 0.0f;
            for (size_t c = 0; c < d; c++) u += s.m.a[j * d + c] * h[c];
            for (size_t o = 0; o < d; o++) out[o] += s.m.scale * u * s.m.b[o * rank + j];
        }
    }
}

const float *kt__pass_forward(kt__pass *p, const kt__factors *factors, const kt__pass_batch *b) {
    const kt__hparams *hp = &p->net->hp;
    size_t ld = kt__pad(hp->d_model);
    way w = {.p = p, .f = factors, .b = b};
    embed_batch(&w);
    for (w.layer = 0; w.layer < hp->n_layer; w.layer++) {
        if (is_cancelled(p)) return p->hidden;
        layer_forward(&w, stream_at(&w, w.layer + 1));
    }
    const float *last = stream_at(&w, hp->n_layer);
    for (int i = 0; i < b->n_out; i++)
        memcpy(p->row_tmp + (size_t)i * ld, last + (size_t)b->out_rows[i] * ld, ld * sizeof(float));
    norm_rows(p, p->row_tmp, p->net->out_norm, 1, hp->d_model, b->n_out, p->rows);
    adapt_hidden(p, factors, b->n_out);
    return p->hidden;
}

/* ---- back ---- */

/* dx: of the layer's output; what of it goes through the block is in *d (dx itself without a
 * post-norm). */
static const float *output_back(const kt__pass *p, const float *y, const float *post, int n_tok) {
    if (!(p->net->hp.features & KT__F_POST_NORM)) return p->dx;
    norm_back(p, y, post, 1, p->net->hp.d_model, n_tok, p->dx, false, p->dt);
    return p->dt;
}

static void feed_forward_back(const way *w) {
    kt__pass *p = w->p;
    const kt__hparams *hp = &p->net->hp;
    const kt__layer *l = &p->net->layers[w->layer];
    const layer_acts *acts = &p->acts[w->layer];
    int n = w->b->n_tok;
    const float *dd = output_back(p, acts->d, l->t[KT__SLOT_FFN_POST_NORM].v, n);
    back_site(w, KT__SITE_DOWN, acts->a, dd, false, p->da);
    rows_job glu = {.x = acts->g,
                    .y = acts->u,
                    .z = p->da,
                    .out = p->dg,
                    .out2 = p->du,
                    .width = hp->d_ff,
                    .flag = hp->features & KT__F_GELU};
    run_rows(p, n, glu_back_items, &glu);
    back_site(w, KT__SITE_GATE, acts->h2, p->dg, false, p->dh);
    back_site(w, KT__SITE_UP, acts->h2, p->du, true, p->dh);
    norm_back(p, acts->x2, l->t[KT__SLOT_FFN_NORM].v, 1, hp->d_model, n, p->dh, true, p->dx);
}

/* Through rotation and norm of queries or keys, in place. */
static void heads_back(const way *w, const float *before, const float *norm, int heads, float *d) {
    const kt__pass *p = w->p;
    const kt__layer *l = &p->net->layers[w->layer];
    int n = w->b->n_tok, dk = p->net->hp.head_dim_k;
    rotate_rows(p, l, heads, dk, n, -1.0f, d);
    if (norm) norm_back(p, before, norm, heads, dk, n, d, false, d);
}

/* needed: whether dx of the layer's input is. */
static void attention_back(const way *w, bool needed) {
    kt__pass *p = w->p;
    const kt__hparams *hp = &p->net->hp;
    const kt__layer *l = &p->net->layers[w->layer];
    const layer_acts *acts = &p->acts[w->layer];
    int n = w->b->n_tok;
    const float *d = output_back(p, acts->o, l->t[KT__SLOT_ATTN_POST_NORM].v, n);
    back_site(w, KT__SITE_ATTN_OUT, acts->mix, d, false, p->dmix);
    kt__attend attend = attend_of(w);
    kt__attend_backward(p->panels, &attend, p->dmix, p->dq, p->dk, p->dv);
    heads_back(w, acts->q0, l->t[KT__SLOT_ATTN_Q_NORM].v, hp->n_head, p->dq);
    heads_back(w, acts->k0, l->t[KT__SLOT_ATTN_K_NORM].v, hp->n_head_kv, p->dk);
    back_site(w, KT__SITE_Q, acts->h1, p->dq, false, needed ? p->dh : NULL);
    back_site(w, KT__SITE_K, acts->h1, p->dk, true, needed ? p->dh : NULL);
    back_site(w, KT__SITE_V, acts->h1, p->dv, true, needed ? p->dh : NULL);
    if (needed)
        norm_back(p, p->x[w->layer], l->t[KT__SLOT_ATTN_NORM].v, 1, hp->d_model, n, p->dh, true,
                  p->dx);
}

/* The first layer that has a factor; n_layer: none. */
static int first_layer(const kt__factors *f, int n_layer) {
    int first = n_layer;
    for (int i = 0; i < f->n; i++)
        if (f->of[i].block < first) first = f->of[i].block;
    return first;
}

/* d_hidden becomes that of the normed rows; gradients of the final adapter. */
static void hidden_back(const kt__pass *p, const kt__factors *f, int n_out, float *d_hidden,
                        float *grads) {
    site_of s = hidden_site(p, f);
    size_t d = (size_t)p->net->hp.d_model, ld = kt__pad(p->net->hp.d_model);
    size_t rank = (size_t)s.m.rank;
    for (int t = 0; s.m.rank && t < n_out; t++) {
        const float *h = p->rows + (size_t)t * ld;
        float *dy = d_hidden + (size_t)t * ld, *dx = p->row_tmp;
        memcpy(dx, dy, d * sizeof *dx);
        for (size_t j = 0; j < rank; j++) {
            float u = 0.0f, du = 0.0f;
            for (size_t c = 0; c < d; c++) u += s.m.a[j * d + c] * h[c];
            for (size_t o = 0; o < d; o++) du += s.m.b[o * rank + j] * dy[o];
            for (size_t o = 0; o < d; o++) grads[s.gb + o * rank + j] += s.m.scale * u * dy[o];
            for (size_t c = 0; c < d; c++) {
                grads[s.ga + j * d + c] += s.m.scale * du * h[c];
                dx[c] += s.m.scale * du * s.m.a[j * d + c];
            }
        }
        memcpy(dy, dx, d * sizeof *dx);
    }
}

/* p->dx of the stream after the last layer. */
static void stream_back(const kt__pass *p, const kt__pass_batch *b, const float *d_rows) {
    size_t ld = kt__pad(p->net->hp.d_model);
    rows_job job = {.w = p->net->out_norm, .width = p->net->hp.d_model, .eps = p->net->hp.norm_eps};
    memset(p->dx, 0, (size_t)b->n_tok * ld * sizeof *p->dx);
    for (int i = 0; i < b->n_out; i++) {
        size_t row = (size_t)b->out_rows[i] * ld;
        norm_back_row(&job, p->x[p->net->hp.n_layer] + row, d_rows + (size_t)i * ld, p->dx + row);
    }
}

/* What the way back through a layer needs is in its acts: those of the last one are. */
static void restore_layer(const way *w) {
    const kt__pass *p = w->p;
    if (w->layer == p->net->hp.n_layer - 1) return;
    if (w->layer < p->net->hp.n_layer - p->n_kept) {
        layer_forward(w, NULL);
        return;
    }
    norm_input(w);
    turn_heads(w);
    norm_middle(w);
    activate_gate(w);
}

void kt__pass_backward(kt__pass *p, const kt__factors *factors, const kt__pass_batch *b,
                       float *d_hidden, float *grads) {
    int n_layer = p->net->hp.n_layer, first = first_layer(factors, n_layer);
    way w = {.p = p, .f = factors, .b = b, .grads = grads};
    hidden_back(p, factors, b->n_out, d_hidden, grads);
    if (first == n_layer) return;
    stream_back(p, b, d_hidden);
    for (w.layer = n_layer - 1; w.layer >= first; w.layer--) {
        bool needed = w.layer > first;
        if (is_cancelled(p)) return;
        restore_layer(&w);
        feed_forward_back(&w);
        attention_back(&w, needed);
    }
}
