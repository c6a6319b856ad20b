#include "vision/vision.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "host/pages.h"

enum { CHUNK = 256 }; /* patches that pass the products together */

typedef enum seer_buf {
    BUF_X,    /* [n_patch][d_model] */
    BUF_Q,    /* of each chunk [n_head][rows][head_dim] */
    BUF_TMP,  /* a chunk's rows: pixels, norms, attention's results, merged patches */
    BUF_FF,   /* a chunk's rows between two matrices */
    BUF_GATE, /* the same size */
    BUF_CS,   /* [n_patch][head_dim] cosines and sines of places, with KT__EYE_ANY_SIZE */
    BUF_ACT0, /* activation rows of each kind */
    BUFS = BUF_ACT0 + KT__ACT_COUNT
} seer_buf;

/* What is computed of a chunk between two looks at the clock. */
typedef enum seer_step {
    STEP_EMBED,
    STEP_QKV,
    STEP_REST,
    STEP_DEEP, /* the layer's part of the rows */
    STEP_MERGE,
    STEP_DONE
} seer_step;

struct kt__seer {
    const kt__vision *v;
    kt__dev *dev;
    const kt__ops *ops;
    kt__kv *kv; /* one layer's keys and values of a tile */
    kt__kv_table table;
    kt__span all;      /* its positions, */
    kt__span *windows; /* [n_windows] or those of windows; room for [n_patch] */
    int n_windows;
    kt__seg *segs;  /* [CHUNK] */
    int32_t *order; /* [n_patch] the patches, numbered line by line, in the order of x */
    void *buf[BUFS];
    size_t buf_bytes[BUFS];
    /* the tile */
    const uint8_t *rgb;
    float *rows;
    int n_x, n_y, n_patch; /* of patches */
    seer_step step;
    int layer, row0;
};

/* ---- memory ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static int merged_cols(const kt__vision *v) {
    return v->family->merge == KT__MERGE_AVERAGE ? v->d_model : v->d_model * v->merge * v->merge;
}

static int longest_row(const kt__vision *v) {
    int n = v->embed.n_col > v->d_ff ? v->embed.n_col : v->d_ff;
    n = n > v->d_model ? n : v->d_model;
    n = n > merged_cols(v) ? n : merged_cols(v);
    return (n + 255) / 256 * 256;
}

/* Rows that the projection takes at a time: as many floats as a chunk has elsewhere. */
static int merged_rows(const kt__vision *v) {
    int area = v->family->merge == KT__MERGE_AVERAGE ? 1 : v->merge * v->merge;
    return CHUNK / area > 0 ? CHUNK / area : 1;
}

static size_t row_floats(const kt__vision *v) {
    size_t chunk = CHUNK * larger((size_t)v->d_model, (size_t)v->embed.n_col);
    return larger(chunk,
                  (size_t)merged_rows(v) * larger((size_t)merged_cols(v), (size_t)v->d_text));
}

static size_t between_floats(const kt__vision *v) {
    return larger(CHUNK * (size_t)v->d_ff, (size_t)merged_rows(v) * (size_t)merged_cols(v));
}

static uint64_t plan_buffers(const kt__vision *v, size_t *bytes) {
    size_t f = sizeof(float), x = (size_t)v->n_patch * (size_t)v->d_model * f;
    int longest = longest_row(v);
    uint64_t sum = 0;
    bytes[BUF_X] = bytes[BUF_Q] = x;
    bytes[BUF_TMP] = row_floats(v) * f;
    bytes[BUF_FF] = bytes[BUF_GATE] = between_floats(v) * f;
    bytes[BUF_CS] = v->family->has & KT__EYE_ANY_SIZE ? x / (size_t)v->n_head : f;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++)
        bytes[BUF_ACT0 + kind] = CHUNK * kt__act_layout_of((kt__act_kind)kind, longest).row_bytes;
    for (int i = 0; i < BUFS; i++) sum += bytes[i];
    return sum;
}

static kt__kv_shape shape_of(const kt__vision *v) {
    int dim = v->d_model / v->n_head;
    return (kt__kv_shape){
        .n_layer = 1, .n_head_kv = v->n_head, .head_dim_k = dim, .head_dim_v = dim};
}

uint64_t kt__seer_plan_bytes(const kt__vision *v) {
    size_t bytes[BUFS];
    kt__kv_shape shape = shape_of(v);
    size_t lists = (size_t)v->n_patch * (sizeof(kt__span) + sizeof(int32_t)) +
                   CHUNK * sizeof(kt__seg);
    return plan_buffers(v, bytes) + lists + kt__kv_bytes(&shape, kt__pages_of(v->n_patch), 0);
}

static kt_status create_device(kt__seer *s, kt__pool *pool, const kt__kernels *kernels, bool exact,
                               kt_error *err) {
    const kt__vision *v = s->v;
    int dim = v->d_model / v->n_head;
    kt__dev_limits limits = {.n_tok = CHUNK,
                             .n_col = longest_row(v),
                             .head_dim_k = dim,
                             .head_dim_v = dim,
                             .n_head = v->n_head,
                             .n_head_kv = v->n_head,
                             .n_ctx = v->n_patch};
    KT__STEP(kt__dev_create(pool, kernels, exact, NULL, &limits, &s->dev, err));
    s->ops = kt__dev_ops(s->dev);
    return KT_OK;
}

kt_status kt__seer_create(const kt__vision *v, kt__pool *pool, const kt__kernels *kernels,
                          bool exact, kt__seer **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__seer *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "an encoder's pass", sizeof *s);
    s->v = v;
    s->step = STEP_DONE;
    s->order = kt__calloc((size_t)v->n_patch, sizeof *s->order);
    s->windows = kt__calloc((size_t)v->n_patch, sizeof *s->windows);
    s->segs = kt__calloc(CHUNK, sizeof *s->segs);
    if (!s->order || !s->windows || !s->segs)
        KT__TRY(kt__fail_nomem(err, "an encoder's order of patches", (size_t)v->n_patch * 4));
    kt__kv_shape shape = shape_of(v);
    KT__TRY(create_device(s, pool, kernels, exact, err));
    KT__TRY(kt__kv_create(&shape, kt__pages_of(v->n_patch), &s->kv, err));
    KT__TRY(kt__kv_table_init(&s->table, v->n_patch, err));
    KT__TRY(kt__kv_table_grow(s->kv, &s->table, 0, v->n_patch, err));
    (void)plan_buffers(v, s->buf_bytes);
    for (int i = 0; i < BUFS; i++) {
        s->buf[i] = kt__pages_alloc(s->buf_bytes[i]);
        if (!s->buf[i]) KT__TRY(kt__fail_nomem(err, "an encoder's buffers", s->buf_bytes[i]));
    }
    *out = s;
    s = NULL;
out:
    kt__seer_destroy(s);
    return status;
}

void kt__seer_destroy(kt__seer *s) {
    if (!s) return;
    for (int i = 0; i < BUFS; i++) kt__pages_free(s->buf[i], s->buf_bytes[i]);
    if (s->kv) kt__kv_table_free(s->kv, &s->table);
    kt__kv_destroy(s->kv);
    kt__dev_destroy(s->dev);
    kt__free(s->order);
    kt__free(s->windows);
    kt__free(s->segs);
    kt__free(s);
}

/* ---- steps ---- */

static float *floats(const kt__seer *s, seer_buf id) {
    return s->buf[id];
}

static float *x_rows(const kt__seer *s, int row0) {
    return floats(s, BUF_X) + (size_t)row0 * (size_t)s->v->d_model;
}

/* Activation rows for products with these weights. */
static kt__acts acts_for(const kt__seer *s, int n, int n_col, const kt__weight *const *users,
                         int n_users) {
    kt__acts acts = {.n_tok = n, .n_col = n_col};
    for (int i = 0; i < n_users; i++) acts.kinds |= 1u << kt__dev_act_kind(s->dev, users[i], n);
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts.kinds >> kind & 1)) continue;
        acts.layout[kind] = kt__act_layout_of((kt__act_kind)kind, n_col);
        acts.data[kind] = s->buf[BUF_ACT0 + kind];
    }
    return acts;
}

/* out[n][d] = norm(x), which stays; out may be x */
static bool norm_wide(kt__seer *s, const float *x, const float *w, const float *bias, int n, int d,
                      float *out) {
    if (out != x) memcpy(out, x, (size_t)n * (size_t)d * sizeof *out);
    if (!(s->v->family->has & KT__EYE_RMS)) s->ops->centre(s->dev, out, n, d);
    bool finite = s->ops->norm_f32(s->dev, out, w, s->v->eps, n, d, out);
    if (bias) s->ops->add(s->dev, bias, 0, n, d, out);
    return finite;
}

static bool norm_rows(kt__seer *s, const float *x, const float *w, const float *bias, int n,
                      float *out) {
    return norm_wide(s, x, w, bias, n, s->v->d_model, out);
}

/* A patch's pixels as a filter has them: all of red, all of green, all of blue. */
static void put_patch(const kt__seer *s, int patch, float *out) {
    const kt__vision *v = s->v;
    int x0 = patch % s->n_x * v->patch, y0 = patch / s->n_x * v->patch;
    size_t width = (size_t)s->n_x * (size_t)v->patch;
    for (int c = 0; c < 3; c++)
        for (int y = y0; y < y0 + v->patch; y++)
            for (int x = x0; x < x0 + v->patch; x++) {
                float value = (float)s->rgb[((size_t)y * width + (size_t)x) * 3 + (size_t)c];
                *out++ = (value / 255.0f - v->mean[c]) / v->deviation[c];
            }
}

/* x += the learned position of a patch, between those of the four nearest where the picture has another size. */
static void add_learned(const kt__seer *s, int patch, float *x) {
    const kt__vision *v = s->v;
    const int at[2] = {patch % s->n_x, patch / s->n_x}, n[2] = {s->n_x, s->n_y};
    int from[2], to[2];
    float share[2];
    for (int i = 0; i < 2; i++) {
        double place = n[i] > 1 ? (double)at[i] * (v->n_side - 1) / (n[i] - 1) : 0.0;
        from[i] = (int)place;
        to[i] = from[i] + 1 < v->n_side ? from[i] + 1 : from[i];
        share[i] = (float)(place - from[i]);
    }
    const float w[4] = {(1.0f - share[1]) * (1.0f - share[0]), (1.0f - share[1]) * share[0],
                        share[1] * (1.0f - share[0]), share[1] * share[0]};
    const float *p[4];
    for (int i = 0; i < 4; i++) {
        int row = (i & 2 ? to : from)[1] * v->n_side + (i & 1 ? to : from)[0];
        p[i] = v->positions + (size_t)row * (size_t)v->d_model;
    }
    for (int i = 0; i < v->d_model; i++)
        x[i] += (w[0] * p[0][i] + w[1] * p[1][i]) + (w[2] * p[2][i] + w[3] * p[3][i]);
}

/* A head's first half of pairs is rotated by the line, the other by the column. */
static void fill_rotation(const kt__seer *s, int patch, float *cs) {
    int dim = s->v->d_model / s->v->n_head, quarter = dim / 4;
    const int at[2] = {patch / s->n_x, patch % s->n_x};
    for (int i = 0; i < 2 * quarter; i++) {
        double sine, cosine, frequency = kt__pow(10000.0, -(double)(i % quarter) / quarter);
        kt__sincos((double)at[i / quarter] * frequency, &sine, &cosine);
        cs[i] = (float)cosine;
        cs[2 * quarter + i] = (float)sine;
    }
}

static void place_chunk(const kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    int d = v->d_model, dim = d / v->n_head;
    if (!(v->family->has & KT__EYE_ANY_SIZE)) {
        s->ops->add(s->dev, v->positions + (size_t)row0 * (size_t)d, d, n, d, x_rows(s, row0));
        return;
    }
    for (int i = row0; i < row0 + n; i++) {
        if (v->positions) add_learned(s, s->order[i], x_rows(s, i));
        fill_rotation(s, s->order[i], floats(s, BUF_CS) + (size_t)i * (size_t)dim);
    }
}

static bool embed_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__weight *w = &v->embed;
    float *pixels = floats(s, BUF_TMP), *x = x_rows(s, row0);
    kt__acts acts = acts_for(s, n, w->n_col, &w, 1);
    for (int i = 0; i < n; i++)
        put_patch(s, s->order[row0 + i], pixels + (size_t)i * (size_t)w->n_col);
    s->ops->quantize(s->dev, pixels, n, &acts);
    s->ops->matmul(s->dev, w, &acts, v->embed_bias, NULL, NULL, KT__SITE_Q, x, (size_t)v->d_model);
    place_chunk(s, row0, n);
    return true;
}

/* The chunk's rows as one segment, whose patches see all, or as one of each window. */
static int list_segments(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    bool windows = v->full_every && (s->layer + 1) % v->full_every != 0;
    const kt__span *span = windows ? s->windows : &s->all;
    int count = 0;
    for (int at = row0; at < row0 + n; span++) {
        if (span->to <= at) continue;
        int end = (int)span->to < row0 + n ? (int)span->to : row0 + n;
        s->segs[count++] = (kt__seg){.table = &s->table,
                                     .pos0 = at,
                                     .row0 = at - row0,
                                     .n_tok = end - at,
                                     .spans = span,
                                     .n_span = 1,
                                     .sees_from = span->from};
        at = end;
    }
    return count;
}

static float query_scale(const kt__vision *v) {
    return (float)(1.0 / sqrt((double)(v->d_model / v->n_head)));
}

static bool qkv_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__vision_layer *l = &v->layers[s->layer];
    const kt__weight *users[] = {&l->q, &l->k, &l->v};
    int dim = v->d_model / v->n_head;
    bool rotated = v->family->has & KT__EYE_ANY_SIZE;
    int n_seg = list_segments(s, row0, n);
    kt__acts acts = acts_for(s, n, v->d_model, users, 3);
    bool finite = norm_rows(s, x_rows(s, row0), l->norm[0], l->norm_bias[0], n, floats(s, BUF_TMP));
    s->ops->quantize(s->dev, floats(s, BUF_TMP), n, &acts);
    kt__qkv qkv = {.wq = l->q,
                   .wk = l->k,
                   .wv = l->v,
                   .bq = l->q_bias,
                   .bk = l->k_bias,
                   .bv = l->v_bias,
                   .n_head = v->n_head,
                   .n_head_kv = v->n_head,
                   .head_dim_k = dim,
                   .head_dim_v = dim,
                   .cs = floats(s, BUF_CS) + (rotated ? (size_t)row0 * (size_t)dim : 0),
                   .n_rot = rotated ? dim : 0,
                   .neox = true,
                   .q_scale = query_scale(v),
                   .q_out = floats(s, BUF_Q) + (size_t)row0 * (size_t)v->d_model,
                   .kv = s->kv,
                   .segs = s->segs,
                   .n_seg = n_seg};
    s->ops->qkv(s->dev, &acts, &qkv);
    return finite;
}

static void attend_chunk(kt__seer *s, int row0, int n, float *out) {
    const kt__vision *v = s->v;
    int dim = v->d_model / v->n_head;
    int n_seg = list_segments(s, row0, n);
    kt__attention attention = {.kv = s->kv,
                               .n_head = v->n_head,
                               .n_head_kv = v->n_head,
                               .head_dim_k = dim,
                               .head_dim_v = dim,
                               .q = floats(s, BUF_Q) + (size_t)row0 * (size_t)v->d_model,
                               .n_tok = n,
                               .segs = s->segs,
                               .n_seg = n_seg,
                               .out = out};
    s->ops->attention(s->dev, &attention);
}

/* x += w . rows + bias */
static void add_product(kt__seer *s, const kt__weight *w, const float *rows, const float *bias,
                        int row0, int n) {
    kt__acts acts = acts_for(s, n, w->n_col, &w, 1);
    float *x = x_rows(s, row0);
    s->ops->quantize(s->dev, rows, n, &acts);
    s->ops->matmul(s->dev, w, &acts, bias, x, NULL, KT__SITE_Q, x, (size_t)s->v->d_model);
}

/* x[n_tok][n] = act(x), with room for as many numbers: x times the logistic function of x, or of 1.702 x (Hendrycks and
 * Gimpel 2016), or GELU. */
static void activate_rows(kt__seer *s, int n_tok, int n, float *x, float *room) {
    int64_t all = (int64_t)n_tok * n;
    if (s->v->act == KT__SEER_GELU) {
        s->ops->gelu(s->dev, x, all);
        return;
    }
    float by = s->v->act == KT__SEER_SILU ? 1.0f : 1.702f;
    for (int64_t i = 0; i < all; i++) room[i] = by * x[i];
    s->ops->sigmoid_mul(s->dev, room, n_tok, n, x);
}

/* ff[n][d_ff] of the rows that acts has */
static void feed_up(kt__seer *s, const kt__acts *acts, int n) {
    const kt__vision *v = s->v;
    const kt__vision_layer *l = &v->layers[s->layer];
    const kt__weight *first = l->gate.n_row ? &l->gate : &l->up;
    float *ff = floats(s, BUF_FF), *room = floats(s, BUF_GATE);
    size_t d_ff = (size_t)v->d_ff;
    s->ops->matmul(s->dev, first, acts, l->gate.n_row ? l->gate_bias : l->up_bias, NULL, NULL,
                   KT__SITE_UP, ff, d_ff);
    activate_rows(s, n, v->d_ff, ff, room);
    if (!l->gate.n_row) return;
    s->ops->matmul(s->dev, &l->up, acts, l->up_bias, NULL, NULL, KT__SITE_UP, room, d_ff);
    s->ops->mul(s->dev, room, d_ff, n, v->d_ff, ff, d_ff);
}

static bool rest_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__vision_layer *l = &v->layers[s->layer];
    const kt__weight *users[] = {&l->up, &l->gate};
    float *tmp = floats(s, BUF_TMP), *ff = floats(s, BUF_FF);
    attend_chunk(s, row0, n, tmp);
    add_product(s, &l->out, tmp, l->out_bias, row0, n);
    bool finite = norm_rows(s, x_rows(s, row0), l->norm[1], l->norm_bias[1], n, tmp);
    kt__acts acts = acts_for(s, n, v->d_model, users, l->gate.n_row ? 2 : 1);
    s->ops->quantize(s->dev, tmp, n, &acts);
    feed_up(s, &acts, n);
    add_product(s, &l->down, ff, l->down_bias, row0, n);
    return finite;
}

/* ---- after the last layer ---- */

/* The square of patches that row `index` of the text model stands for: side by side, line by line. */
static void shuffle_patches(const kt__seer *s, int index, float *out) {
    const kt__vision *v = s->v;
    int n_x = v->n_side / v->merge, x0 = index % n_x * v->merge, y0 = index / n_x * v->merge;
    size_t line = (size_t)v->merge * (size_t)v->d_model;
    for (int y = 0; y < v->merge; y++)
        memcpy(out + (size_t)y * line, x_rows(s, (y0 + y) * v->n_side + x0), line * sizeof *out);
}

static void average_patches(const kt__seer *s, int index, float *out) {
    const kt__vision *v = s->v;
    int n_x = v->n_side / v->merge, x0 = index % n_x * v->merge, y0 = index / n_x * v->merge;
    for (int i = 0; i < v->d_model; i++) {
        double sum = 0.0;
        for (int y = 0; y < v->merge; y++)
            for (int x = 0; x < v->merge; x++)
                sum += (double)x_rows(s, (y0 + y) * v->n_side + x0 + x)[i];
        out[i] = (float)(sum / (v->merge * v->merge));
    }
}

/* Squares row0.. are rows of x one after the other; each is a row of the picture at the place of its first patch. */
static bool merge_twice(kt__seer *s, int row0, int n, const kt__vision_merger *m, int part) {
    const kt__vision *v = s->v;
    const kt__weight *first = &m->first, *second = &m->second;
    int area = v->merge * v->merge, n_col = first->n_col;
    float *tmp = floats(s, BUF_TMP), *ff = floats(s, BUF_FF);
    const float *long_rows = x_rows(s, row0 * area);
    bool finite = true;
    if (m->norm) {
        finite = norm_wide(s, long_rows, m->norm, m->norm_bias, n, n_col, tmp);
        long_rows = tmp;
    }
    kt__acts acts = acts_for(s, n, n_col, &first, 1);
    s->ops->quantize(s->dev, long_rows, n, &acts);
    s->ops->matmul(s->dev, first, &acts, m->first_bias, NULL, NULL, KT__SITE_Q, ff, (size_t)n_col);
    s->ops->gelu(s->dev, ff, (int64_t)n * n_col);
    acts = acts_for(s, n, n_col, &second, 1);
    s->ops->quantize(s->dev, ff, n, &acts);
    s->ops->matmul(s->dev, second, &acts, m->second_bias, NULL, NULL, KT__SITE_Q, tmp,
                   (size_t)v->d_text);
    finite = finite && s->ops->finite(s->dev, tmp, n, v->d_text);
    for (int i = 0; i < n; i++) {
        int patch = s->order[(row0 + i) * area], x = patch % s->n_x / v->merge;
        int row = patch / s->n_x / v->merge * (s->n_x / v->merge) + x;
        memcpy(s->rows + (size_t)row * (size_t)v->d_row + (size_t)part * (size_t)v->d_text,
               tmp + (size_t)i * (size_t)v->d_text, (size_t)v->d_text * sizeof *tmp);
    }
    return finite;
}

static bool merge_rows(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__weight *w = &v->projection;
    bool shuffle = v->family->merge == KT__MERGE_SHUFFLE, finite = true;
    float *merged = floats(s, BUF_TMP), *out = s->rows + (size_t)row0 * (size_t)v->d_text;
    for (int i = 0; i < n; i++)
        (shuffle ? shuffle_patches : average_patches)(s, row0 + i,
                                                      merged + (size_t)i * (size_t)w->n_col);
    if (v->merged_norm)
        finite = s->ops->norm_f32(s->dev, merged, v->merged_norm, v->eps, n, w->n_col, merged);
    kt__acts acts = acts_for(s, n, w->n_col, &w, 1);
    s->ops->quantize(s->dev, merged, n, &acts);
    s->ops->matmul(s->dev, w, &acts, NULL, NULL, NULL, KT__SITE_Q, out, (size_t)v->d_text);
    return finite && s->ops->finite(s->dev, out, n, v->d_text);
}

/* The norm after the last layer is made in x, of all patches at once: it takes little time. */
static bool end_layers(kt__seer *s) {
    return norm_rows(s, x_rows(s, 0), s->v->end_norm, s->v->end_norm_bias, s->n_patch,
                     x_rows(s, 0));
}

/* ---- the cursor ---- */

static bool run_chunk(kt__seer *s, int n) {
    const kt__vision *v = s->v;
    int deep = s->step == STEP_DEEP ? v->layers[s->layer].deep : 0;
    switch (s->step) {
    case STEP_EMBED: return embed_chunk(s, s->row0, n);
    case STEP_QKV: return qkv_chunk(s, s->row0, n);
    case STEP_REST: return rest_chunk(s, s->row0, n);
    default:
        return v->mergers ? merge_twice(s, s->row0, n, &v->mergers[deep], deep)
                          : merge_rows(s, s->row0, n);
    }
}

/* To the next step, after the last chunk of one; false: a number was not finite. */
static bool next_step(kt__seer *s) {
    s->row0 = 0;
    if (s->step == STEP_EMBED || s->step == STEP_QKV || s->step == STEP_MERGE ||
        (s->step == STEP_REST && s->v->layers[s->layer].deep)) {
        s->step++;
        return true;
    }
    s->step = ++s->layer < s->v->n_layer ? STEP_QKV : STEP_MERGE;
    return s->step == STEP_MERGE ? end_layers(s) : true;
}

/* The patches of a rectangle of squares, square by square, from number count on; returns the next number. */
static int list_squares(kt__seer *s, int x0, int y0, int x1, int y1, int count) {
    int m = s->v->merge;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            for (int i = 0; i < m * m; i++)
                s->order[count++] = (y * m + i / m) * s->n_x + x * m + i % m;
    return count;
}

/* Line by line; where squares are merged as they lie in x, square by square, and window by window. */
static void order_patches(kt__seer *s) {
    const kt__vision *v = s->v;
    int n_x = s->n_x / v->merge, n_y = s->n_y / v->merge, count = 0;
    s->n_windows = 0;
    for (int i = 0; i < s->n_patch; i++) s->order[i] = i;
    if (v->family->merge != KT__MERGE_TWICE) return;
    int side = v->full_every ? v->window : n_x > n_y ? n_x : n_y;
    for (int y = 0; y < n_y; y += side)
        for (int x = 0; x < n_x; x += side) {
            int from = count, x1 = x + side < n_x ? x + side : n_x;
            count = list_squares(s, x, y, x1, y + side < n_y ? y + side : n_y, count);
            s->windows[s->n_windows++] = (kt__span){from, count};
        }
}

void kt__seer_begin(kt__seer *s, int width, int height, const uint8_t *rgb, float *rows,
                    int n_threads) {
    kt__dev_set_threads(s->dev, n_threads);
    s->n_x = width / s->v->patch;
    s->n_y = height / s->v->patch;
    s->n_patch = s->n_x * s->n_y;
    s->all = (kt__span){0, s->n_patch};
    order_patches(s);
    s->rgb = rgb;
    s->rows = rows;
    s->step = STEP_EMBED;
    s->layer = s->row0 = 0;
}

kt_status kt__seer_run(kt__seer *s, int64_t deadline_us, bool *done, kt_error *err) {
    do {
        bool merging = s->step == STEP_MERGE || s->step == STEP_DEEP, finite = true;
        int all = merging ? s->n_patch / (s->v->merge * s->v->merge) : s->n_patch,
            most = merging ? merged_rows(s->v) : CHUNK;
        int n = all - s->row0 < most ? all - s->row0 : most;
        if (s->step != STEP_DONE) finite = run_chunk(s, n);
        s->row0 += n;
        if (finite && s->step != STEP_DONE && s->row0 >= all) finite = next_step(s);
        if (!finite)
            return kt__fail(err, KT_E_NUMERIC,
                            "a number that is not finite came out of layer %d of %d of the encoder "
                            "of pictures: its file is damaged",
                            s->layer, s->v->n_layer);
    } while (s->step != STEP_DONE && kt__now_us() < deadline_us);
    *done = s->step == STEP_DONE;
    return KT_OK;
}
