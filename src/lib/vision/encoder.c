#include "vision/encoder.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/pages.h"

enum { CHUNK = 256 }; /* patches that pass the products together */

typedef enum seer_buf {
    BUF_X,    /* [n_patch][d_model] */
    BUF_Q,    /* of each chunk [n_head][rows][head_dim] */
    BUF_TMP,  /* a chunk's rows: pixels, norms, attention's results, merged patches */
    BUF_FF,   /* [CHUNK][d_ff] */
    BUF_ACT0, /* activation rows of each kind */
    BUFS = BUF_ACT0 + KT__ACT_COUNT
} seer_buf;

/* What is computed of a chunk between two looks at the clock. */
typedef enum seer_step { STEP_EMBED, STEP_QKV, STEP_REST, STEP_MERGE, STEP_DONE } seer_step;

struct kt__seer {
    const kt__vision *v;
    kt__dev *dev;
    const kt__ops *ops;
    kt__kv *kv; /* one layer's keys and values of a tile */
    kt__kv_table table;
    kt__span all; /* its positions */
    void *buf[BUFS];
    size_t buf_bytes[BUFS];
    /* the tile */
    const uint8_t *rgb;
    float *rows;
    seer_step step;
    int layer, row0;
};

/* ---- memory ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static int merged_cols(const kt__vision *v) {
    return v->family->merge == KT__MERGE_SHUFFLE ? v->d_model * v->merge * v->merge : v->d_model;
}

static int longest_row(const kt__vision *v) {
    int n = v->embed.n_col > v->d_ff ? v->embed.n_col : v->d_ff;
    n = n > v->d_model ? n : v->d_model;
    n = n > merged_cols(v) ? n : merged_cols(v);
    return (n + 255) / 256 * 256;
}

/* Rows that the projection takes at a time: as many floats as a chunk has elsewhere. */
static int merged_rows(const kt__vision *v) {
    int area = v->family->merge == KT__MERGE_SHUFFLE ? v->merge * v->merge : 1;
    return CHUNK / area > 0 ? CHUNK / area : 1;
}

static size_t row_floats(const kt__vision *v) {
    size_t chunk = CHUNK * larger((size_t)v->d_model, (size_t)v->embed.n_col);
    return larger(chunk, (size_t)merged_rows(v) * (size_t)merged_cols(v));
}

static uint64_t plan_buffers(const kt__vision *v, size_t *bytes) {
    size_t f = sizeof(float), x = (size_t)v->n_patch * (size_t)v->d_model * f;
    int longest = longest_row(v);
    uint64_t sum = 0;
    bytes[BUF_X] = bytes[BUF_Q] = x;
    bytes[BUF_TMP] = row_floats(v) * f;
    bytes[BUF_FF] = (size_t)CHUNK * (size_t)v->d_ff * f;
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
    return plan_buffers(v, bytes) + kt__kv_bytes(&shape, kt__pages_of(v->n_patch), 0);
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
    s->all = (kt__span){0, v->n_patch};
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

/* out[n][d] = layer_norm(x), which stays; out may be x */
static bool norm_rows(kt__seer *s, const float *x, const float *w, const float *bias, int n,
                      float *out) {
    int d = s->v->d_model;
    if (out != x) memcpy(out, x, (size_t)n * (size_t)d * sizeof *out);
    s->ops->centre(s->dev, out, n, d);
    bool finite = s->ops->norm_f32(s->dev, out, w, s->v->eps, n, d, out);
    if (bias) s->ops->add(s->dev, bias, 0, n, d, out);
    return finite;
}

/* A patch's pixels as a filter has them: all of red, all of green, all of blue. */
static void put_patch(const kt__vision *v, const uint8_t *rgb, int patch, float *out) {
    int x0 = patch % v->n_side * v->patch, y0 = patch / v->n_side * v->patch;
    for (int c = 0; c < 3; c++)
        for (int y = y0; y < y0 + v->patch; y++)
            for (int x = x0; x < x0 + v->patch; x++) {
                float value = (float)rgb[((size_t)y * (size_t)v->side + (size_t)x) * 3 + (size_t)c];
                *out++ = (value / 255.0f - v->mean[c]) / v->deviation[c];
            }
}

static bool embed_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__weight *w = &v->embed;
    float *pixels = floats(s, BUF_TMP), *x = x_rows(s, row0);
    kt__acts acts = acts_for(s, n, w->n_col, &w, 1);
    for (int i = 0; i < n; i++)
        put_patch(v, s->rgb, row0 + i, pixels + (size_t)i * (size_t)w->n_col);
    s->ops->quantize(s->dev, pixels, n, &acts);
    s->ops->matmul(s->dev, w, &acts, v->embed_bias, NULL, NULL, KT__SITE_Q, x, (size_t)v->d_model);
    s->ops->add(s->dev, v->positions + (size_t)row0 * (size_t)v->d_model, v->d_model, n, v->d_model,
                x);
    return true;
}

static kt__seg segment_of(const kt__seer *s, int row0, int n) {
    return (kt__seg){
        .table = &s->table, .pos0 = row0, .row0 = 0, .n_tok = n, .spans = &s->all, .n_span = 1};
}

static float query_scale(const kt__vision *v) {
    return (float)(1.0 / sqrt((double)(v->d_model / v->n_head)));
}

static bool qkv_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__vision_layer *l = &v->layers[s->layer];
    const kt__weight *users[] = {&l->q, &l->k, &l->v};
    int dim = v->d_model / v->n_head;
    kt__seg seg = segment_of(s, row0, n);
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
                   .q_scale = query_scale(v),
                   .q_out = floats(s, BUF_Q) + (size_t)row0 * (size_t)v->d_model,
                   .kv = s->kv,
                   .segs = &seg,
                   .n_seg = 1};
    s->ops->qkv(s->dev, &acts, &qkv);
    return finite;
}

static void attend_chunk(kt__seer *s, int row0, int n, float *out) {
    const kt__vision *v = s->v;
    int dim = v->d_model / v->n_head;
    kt__seg seg = segment_of(s, row0, n);
    kt__attention attention = {.kv = s->kv,
                               .n_head = v->n_head,
                               .n_head_kv = v->n_head,
                               .head_dim_k = dim,
                               .head_dim_v = dim,
                               .q = floats(s, BUF_Q) + (size_t)row0 * (size_t)v->d_model,
                               .n_tok = n,
                               .segs = &seg,
                               .n_seg = 1,
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

static bool rest_chunk(kt__seer *s, int row0, int n) {
    const kt__vision *v = s->v;
    const kt__vision_layer *l = &v->layers[s->layer];
    const kt__weight *up = &l->up;
    float *tmp = floats(s, BUF_TMP), *ff = floats(s, BUF_FF);
    attend_chunk(s, row0, n, tmp);
    add_product(s, &l->out, tmp, l->out_bias, row0, n);
    bool finite = norm_rows(s, x_rows(s, row0), l->norm[1], l->norm_bias[1], n, tmp);
    kt__acts acts = acts_for(s, n, v->d_model, &up, 1);
    s->ops->quantize(s->dev, tmp, n, &acts);
    s->ops->matmul(s->dev, up, &acts, l->up_bias, NULL, NULL, KT__SITE_UP, ff, (size_t)v->d_ff);
    s->ops->gelu(s->dev, ff, (int64_t)n * v->d_ff);
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
    return norm_rows(s, x_rows(s, 0), s->v->end_norm, s->v->end_norm_bias, s->v->n_patch,
                     x_rows(s, 0));
}

/* ---- the cursor ---- */

static bool run_chunk(kt__seer *s, int n) {
    switch (s->step) {
    case STEP_EMBED: return embed_chunk(s, s->row0, n);
    case STEP_QKV: return qkv_chunk(s, s->row0, n);
    case STEP_REST: return rest_chunk(s, s->row0, n);
    default: return merge_rows(s, s->row0, n);
    }
}

/* To the next step, after the last chunk of one; false: a number was not finite. */
static bool next_step(kt__seer *s) {
    s->row0 = 0;
    if (s->step == STEP_REST && ++s->layer < s->v->n_layer) {
        s->step = STEP_QKV;
        return true;
    }
    s->step++;
    return s->step == STEP_MERGE ? end_layers(s) : true;
}

void kt__seer_begin(kt__seer *s, const uint8_t *rgb, float *rows, int n_threads) {
    kt__dev_set_threads(s->dev, n_threads);
    s->rgb = rgb;
    s->rows = rows;
    s->step = STEP_EMBED;
    s->layer = s->row0 = 0;
}

kt_status kt__seer_run(kt__seer *s, int64_t deadline_us, bool *done, kt_error *err) {
    do {
        bool merging = s->step == STEP_MERGE, finite = true;
        int all = merging ? s->v->n_rows : s->v->n_patch,
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
