#include "make/hessian.h"

#include "base/alloc.h"
#include "base/error.h"
#include "convert/planned.h"
#include "host/pages.h"
#include "make/calibration.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 64, WIDTH = KT__HESSIAN_WIDTH };

/* What the mean of the diagonal gives to each of it, so that a column which hardly varies does not
 * take any error (Frantar et al. 2022). */
static const float damping = 0.01f;

static int least_of(int a, int b) {
    return a < b ? a : b;
}

/* ---- memory ---- */

static size_t h_bytes(const kt__hessian *h) {
    return (size_t)h->n * h->ld * sizeof *h->h;
}

static size_t factor_bytes(const kt__hessian *h) {
    return (size_t)(least_of(h->n, WIDTH) + PANEL) * h->ld * sizeof *h->factor;
}

kt_status kt__hessian_make(int n, const kt__kernels *kernels, kt__pool *pool, kt__hessian *out,
                           kt_error *err) {
    *out = (kt__hessian){.n = n,
                         .ld = (size_t)(least_of(n, WIDTH) + 15) / 16 * 16,
                         .n_threads = kt__pool_size(pool),
                         .kernels = kernels,
                         .pool = pool};
    out->h = kt__pages_alloc(h_bytes(out));
    out->factor = kt__pages_alloc(factor_bytes(out));
    out->diagonal = kt__calloc((size_t)n, sizeof *out->diagonal);
    out->scratch = kt__calloc((size_t)out->n_threads, sizeof *out->scratch);
    bool all = out->h && out->factor && out->diagonal && out->scratch;
    for (int i = 0; all && i < out->n_threads; i++)
        all = (out->scratch[i] = kt__pages_alloc(kernels->mm_scratch_bytes)) != NULL;
    if (!all) return kt__fail_nomem(err, "the second moments of a layer's input", h_bytes(out));
    return KT_OK;
}

void kt__hessian_free(kt__hessian *h) {
    kt__pages_free(h->h, h_bytes(h));
    kt__pages_free(h->factor, factor_bytes(h));
    kt__free(h->diagonal);
    for (int i = 0; h->scratch && i < h->n_threads; i++)
        kt__pages_free(h->scratch[i], h->kernels->mm_scratch_bytes);
    kt__free(h->scratch);
    *h = (kt__hessian){0};
}

/* ---- products ---- */

/* out[t][r] += w[r] . x[t], rows of n_col floats (a multiple of 16) */
typedef struct float_product {
    const float *w, *x;
    size_t ld_w, ld_x, ld_out;
    int n_row, n_col;
    float *out;
} float_product;

static void add_product(const kt__hessian *h, const float_product *p, int n_tok, int worker) {
    const kt__mm_kernels *mm = h->kernels->mm[KT__TYPE_F32];
    const kt__mm job = {.type = KT__TYPE_F32,
                        .w = (const uint8_t *)p->w,
                        .w_row_bytes = p->ld_w * sizeof(float),
                        .n_row = p->n_row,
                        .n_col = p->n_col,
                        .act = (const uint8_t *)p->x,
                        .act_row_bytes = p->ld_x * sizeof(float),
                        .n_tok = n_tok,
                        .out = p->out,
                        .ld_out = p->ld_out,
                        .residual = p->out,
                        .ld_residual = p->ld_out};
    (n_tok < mm->gemm_min_tok ? mm->rowdot : mm->gemm)(&job, h->scratch[worker]);
}

/* ---- sums ---- */

typedef struct adding {
    kt__hessian *h;
    const float *rows;
    int n_row;
} adding;

/* Panels of columns, each with those to its right in its stretch: h[i][j] takes the chunk's rows
 * one after the other, as they lie. */
static void add_panels(void *arg, int64_t begin, int64_t end, int worker) {
    const adding *a = arg;
    kt__hessian *h = a->h;
    for (int64_t panel = begin; panel < end; panel++) {
        int r0 = (int)panel * PANEL, first = r0 / WIDTH * WIDTH;
        int n = least_of(first + WIDTH, h->n) - r0;
        const kt__outer_mm mm = {.a = a->rows + r0,
                                 .b = a->rows + r0,
                                 .a_row = 1,
                                 .a_step = (size_t)h->n,
                                 .ld_b = (size_t)h->n,
                                 .ld_out = h->ld,
                                 .n_row = least_of(PANEL, n),
                                 .n_step = a->n_row,
                                 .n_col = n,
                                 .add = true,
                                 .out = h->h + (size_t)r0 * h->ld + (size_t)(r0 - first)};
        h->kernels->outer_mm(&mm, h->scratch[worker]);
    }
}

void kt__hessian_add(kt__hessian *h, const float *rows, int n_row) {
    adding a = {h, rows, n_row};
    kt__pool_run(h->pool, (h->n + PANEL - 1) / PANEL, 1, add_panels, &a);
}

/* ---- the factor of one stretch ---- */

typedef struct factoring {
    kt__hessian *h;
    float *a;     /* [n][ld]: lower triangle, columns in reverse order */
    float *minus; /* [PANEL][ld]: minus the panel's rows so far */
    int n, at, n_panel;
} factoring;

/* Rows from the panel on lose what the columns before it account for. */
static void subtract_before(void *arg, int64_t begin, int64_t end, int worker) {
    const factoring *f = arg;
    size_t ld = f->h->ld;
    float *rows = f->a + (size_t)(f->at + begin) * ld;
    const float_product p = {.w = f->minus,
                             .x = rows,
                             .ld_w = ld,
                             .ld_x = ld,
                             .ld_out = ld,
                             .n_row = f->n_panel,
                             .n_col = f->at,
                             .out = rows + f->at};
    add_product(f->h, &p, (int)(end - begin), worker);
}

/* The panel's own columns of rows below it, and of its own rows; its triangle is done. */
static void solve_row(const float *panel, size_t ld, int n_col, float *row) {
    for (int j = 0; j < n_col; j++) {
        float x = row[j];
        for (int k = 0; k < j; k++) x -= row[k] * panel[(size_t)j * ld + (size_t)k];
        row[j] = x / panel[(size_t)j * ld + (size_t)j];
    }
}

static void solve_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const factoring *f = arg;
    size_t ld = f->h->ld, at = (size_t)f->at;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        solve_row(f->a + at * ld + at, ld, f->n_panel,
                  f->a + (at + (size_t)f->n_panel + (size_t)i) * ld + at);
}

/* Where rounding has left no positive pivot, a column takes part in nothing. */
static void factor_triangle(const factoring *f) {
    size_t ld = f->h->ld;
    float *panel = f->a + (size_t)f->at * ld + (size_t)f->at;
    for (int i = 0; i < f->n_panel; i++) {
        float *row = panel + (size_t)i * ld;
        solve_row(panel, ld, i, row);
        float x = row[i];
        for (int k = 0; k < i; k++) x -= row[k] * row[k];
        row[i] = x > 0 ? sqrtf(x) : INFINITY;
    }
}

/* Cholesky, a panel of columns at a time: a = l l^T in place. */
static void factor_stretch(factoring *f) {
    size_t ld = f->h->ld;
    for (f->at = 0; f->at < f->n; f->at += PANEL) {
        f->n_panel = least_of(PANEL, f->n - f->at);
        for (int i = 0; i < f->n_panel; i++)
            for (int k = 0; k < f->at; k++)
                f->minus[(size_t)i * ld + (size_t)k] = -f->a[(size_t)(f->at + i) * ld + (size_t)k];
        if (f->at) kt__pool_run(f->h->pool, f->n - f->at, PANEL, subtract_before, f);
        factor_triangle(f);
        kt__pool_run(f->h->pool, f->n - f->at - f->n_panel, PANEL, solve_rows, f);
    }
}

/* The moments of a stretch with its columns in reverse order, damped. */
static void reverse_moments(const float *h, size_t ld, int n, float more, float *a) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            a[(size_t)i * ld + (size_t)j] = h[(size_t)(n - 1 - i) * ld + (size_t)(n - 1 - j)] +
                                            (i == j ? more : 0.0f);
}

/* V_jk / V_kk for j < k, of the factor in reverse order, over the moments. */
static void read_follow(const float *a, size_t ld, int n, float *follow) {
    for (int j = 0; j < n; j++) {
        const float *row = a + (size_t)(n - 1 - j) * ld;
        for (int k = 0; k < n; k++) {
            size_t at = (size_t)(n - 1 - k);
            follow[(size_t)j * ld + (size_t)k] = k > j ? row[at] / a[at * ld + at] : 0.0f;
        }
    }
}

static void spread_by_kernel(const void *user, const kt__feedback_spread *s, void *scratch) {
    const kt__kernels *kernels = user;
    const kt__outer_mm mm = {.a = s->e,
                             .b = s->follow,
                             .a_row = s->ld_e,
                             .a_step = 1,
                             .ld_b = s->ld,
                             .ld_out = s->ld_y,
                             .n_row = s->n_row,
                             .n_step = s->n_k,
                             .n_col = s->n,
                             .add = true,
                             .out = s->y};
    kernels->outer_mm(&mm, scratch);
}

bool kt__hessian_finish(kt__hessian *h, kt__feedback *out) {
    double sum = 0;
    for (int i = 0; i < h->n; i++) {
        h->diagonal[i] = h->h[(size_t)i * h->ld + (size_t)(i % WIDTH)];
        sum += (double)h->diagonal[i];
    }
    float more = damping * (float)(sum / (double)h->n);
    if (!(more > 0)) return false;
    for (int first = 0; first < h->n; first += WIDTH) {
        int n = least_of(WIDTH, h->n - first);
        float *stretch = h->h + (size_t)first * h->ld;
        factoring f = {.h = h, .a = h->factor, .n = n};
        f.minus = h->factor + (size_t)least_of(h->n, WIDTH) * h->ld;
        reverse_moments(stretch, h->ld, n, more, f.a);
        factor_stretch(&f);
        read_follow(f.a, h->ld, n, stretch);
    }
    *out = (kt__feedback){h->n, WIDTH, h->ld, h->h, h->diagonal, spread_by_kernel, h->kernels};
    return true;
}

/* ---- gathered from a model and a text ---- */

/* The seed is raised when the bytes that follow from the same ids change: a file that was begun with
 * other ones is not continued. */
enum { DEFAULT_TOKENS = 32768, SEED_CALIBRATION = 0x63616c6a };

typedef struct input_moments {
    kt__hessian hessian;
    kt__feedback feedback;
    bool finished, usable;
} input_moments;

struct kt__feedback_maker {
    kt_ctx *ctx;
    kt_model *model;
    kt__calibration *calibration;
    kt__feedback_source source;
    int layer; /* of the inputs; -1: none */
    input_moments inputs[KT__LAYER_INPUTS];
};

static void forget_layer(kt__feedback_maker *m) {
    for (int i = 0; i < KT__LAYER_INPUTS; i++) {
        kt__hessian_free(&m->inputs[i].hessian);
        m->inputs[i] = (input_moments){0};
    }
    m->layer = -1;
}

static kt_status add_moments(void *user, kt__net_input input, const float *rows, int n_tok,
                             int n_cols, kt_error *err) {
    kt__feedback_maker *m = user;
    kt__hessian *h = &m->inputs[input].hessian;
    kt_status status = KT_OK;
    if (!h->n) status = kt__hessian_make(n_cols, m->ctx->kernels, m->ctx->pool, h, err);
    if (status == KT_OK) kt__hessian_add(h, rows, n_tok);
    return status;
}

/* Continues to the layer; back to the beginning where it is past it. */
static kt_status reach_layer(kt__feedback_maker *m, int layer, kt_error *err) {
    kt_status status = KT_OK;
    if (m->layer == layer) return KT_OK;
    forget_layer(m);
    if (layer < kt__calibration_layer(m->calibration))
        status = kt__calibration_restart(m->calibration, err);
    while (status == KT_OK && kt__calibration_layer(m->calibration) < layer)
        status = kt__calibration_visit(m->calibration, NULL, NULL, err);
    if (status == KT_OK) status = kt__calibration_visit(m->calibration, add_moments, m, err);
    if (status == KT_OK) m->layer = layer;
    return status;
}

static kt__net_input input_of(kt__tensor_role role) {
    switch (role) {
    case KT__TENSOR_Q:
    case KT__TENSOR_K:
    case KT__TENSOR_V:
    case KT__TENSOR_MIX_GATE:
    case KT__TENSOR_QKV: return KT__INPUT_ATTN;
    case KT__TENSOR_ATTN_OUT: return KT__INPUT_ATTN_OUT;
    case KT__TENSOR_GATE:
    case KT__TENSOR_UP: return KT__INPUT_FFN;
    case KT__TENSOR_DOWN: return KT__INPUT_DOWN;
    default: return KT__INPUTS;
    }
}

static void finish_input(kt__feedback_maker *m, input_moments *in) {
    if (in->finished) return;
    kt__pool_lock(m->ctx->pool);
    in->usable = in->hessian.n && kt__hessian_finish(&in->hessian, &in->feedback);
    kt__pool_unlock(m->ctx->pool);
    in->finished = true;
}

static kt_status find_feedback(void *user, const char *name, int64_t n_cols,
                               const kt__feedback **out, kt_error *err) {
    kt__feedback_maker *m = user;
    int layer;
    kt__net_input input = input_of(kt__tensor_role_of(name, &layer));
    *out = NULL;
    if (input == KT__INPUTS || layer >= m->model->net->hp.n_layer) return KT_OK;
    kt_status status = reach_layer(m, layer, err);
    if (status != KT_OK) return status;
    input_moments *in = &m->inputs[input];
    finish_input(m, in);
    if (in->usable && in->feedback.n_col == n_cols) *out = &in->feedback;
    return KT_OK;
}

kt_status kt__feedback_maker_open(const kt__feedback_opts *opts, kt__feedback_maker **out,
                                  kt_error *err) {
    kt__config *config = NULL;
    int32_t *ids = NULL;
    size_t n = 0, most = opts->n_tok ? (size_t)opts->n_tok : DEFAULT_TOKENS;
    kt_status status;
    kt__feedback_maker *m = kt__calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return kt__fail_nomem(err, "error feedback", sizeof *m);
    m->layer = -1;
    m->source.find = find_feedback;
    m->source.user = m;
    KT__TRY(kt__config_create(&config, err));
    config->model = opts->model;
    config->threads = opts->n_threads;
    KT__TRY(kt__command_open_model(config, false, &m->ctx, &m->model, err));
    KT__TRY(kt__calibration_ids(m->model, opts->text, opts->parse_special, most, &ids, &n, err));
    KT__TRY(kt__calibration_open(m->model, ids, n, true, &m->calibration, err));
    m->source.scratch_bytes = m->ctx->kernels->mm_scratch_bytes;
    m->source.identity = kt__hash_bytes(SEED_CALIBRATION, ids, n * sizeof *ids);
    *out = m;
    m = NULL;
out:
    kt__free(ids);
    kt__config_free(config);
    kt__feedback_maker_close(m);
    return status;
}

void kt__feedback_maker_close(kt__feedback_maker *m) {
    if (!m) return;
    forget_layer(m);
    kt__calibration_close(m->calibration);
    if (m->model) kt_model_close(m->model);
    if (m->ctx) kt_ctx_close(m->ctx);
    kt__free(m);
}

const kt__feedback_source *kt__feedback_maker_source(const kt__feedback_maker *m) {
    return &m->source;
}
