#include "learn/panel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

enum {
    PANEL =
        32, /* columns of b side by side: as wide as the widest tier's tile, so that it copies nothing */
    ITEM_ROWS = 32,   /* of a matrix, that one worker dequantises at a time */
    ITEM_COLS = 64,   /* of a gradient */
    ITEM_TOK = 96,    /* whose activations stay in the second cache */
    ITEM_PANELS = 16, /* that one worker multiplies them with at a time */
    STRETCH_STEPS =
        192,       /* rows of b that a product takes at a time: a stretch has a multiple of it */
    FEW_TOK = 128, /* whose activations a stretch has room for: at most STRETCH_STEPS, in panels */
    STRETCH_FLOATS = 2 << 20 /* of a matrix dequantised at a time: they stay in the last cache */
};

struct kt__panels {
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__panels_limits limits;
    int n_worker;
    uint8_t *scratch; /* [n_worker] of the kernels, */
    float *rows;      /* and [n_worker] of rows_floats: rows, and their part of B */
    float *stretch;   /* a part of a matrix in panels */
    size_t stretch_floats, scratch_bytes;
    float *u, *du; /* [n_tok_max][kt__pad(rank_max)] */
    float *narrow; /* [rank_max][kt__pad(n_row_max)]: B, or its gradient, turned round */
};

/* ---- memory ---- */

static size_t rows_floats(const kt__panels_limits *l) {
    return ITEM_ROWS * (kt__pad(l->n_col_max) + kt__pad(l->rank_max));
}

static size_t whole_panels(int n) {
    return ((size_t)n + PANEL - 1) / PANEL * PANEL;
}

/* Room for STRETCH_STEPS rows, or PANEL turned ones, at the least: of a small matrix for all of it. */
static size_t stretch_floats(const kt__panels_limits *l) {
    int n = l->n_col_max > l->n_row_max ? l->n_col_max : l->n_row_max;
    size_t least = whole_panels(n) * STRETCH_STEPS, all = whole_panels(n) * whole_panels(n);
    size_t most = least > STRETCH_FLOATS ? least : STRETCH_FLOATS;
    return all < least ? least : all < most ? all : most;
}

static size_t u_floats(const kt__panels_limits *l) {
    return (size_t)l->n_tok_max * kt__pad(l->rank_max);
}

static size_t scratch_of_worker(const kt__kernels *kernels) {
    return kt__align_up(kernels->mm_scratch_bytes, 64);
}

uint64_t kt__panels_bytes(const kt__kernels *kernels, int n_worker,
                          const kt__panels_limits *limits) {
    size_t n = (size_t)n_worker;
    size_t floats = n * rows_floats(limits) + stretch_floats(limits) + 2 * u_floats(limits) +
                    kt__pad(limits->rank_max) * kt__pad(limits->n_row_max);
    return (uint64_t)n * scratch_of_worker(kernels) + floats * sizeof(float);
}

static float *take_floats(float **at, size_t n) {
    float *here = *at;
    *at += (n + 15) / 16 * 16;
    return here;
}

kt_status kt__panels_create(kt__pool *pool, const kt__kernels *kernels,
                            const kt__panels_limits *limits, kt__panels **out, kt_error *err) {
    *out = NULL;
    kt__panels *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "a training", sizeof *p);
    p->pool = pool;
    p->kernels = kernels;
    p->limits = *limits;
    p->n_worker = kt__pool_size(pool);
    size_t scratch = (size_t)p->n_worker * scratch_of_worker(kernels);
    p->scratch_bytes = (size_t)kt__panels_bytes(kernels, p->n_worker, limits) + 8 * 64;
    p->scratch = kt__pages_alloc(p->scratch_bytes);
    if (!p->scratch) {
        kt__free(p);
        return kt__fail_nomem(err, "a training's products", 0);
    }
    float *at = (float *)(void *)(p->scratch + scratch);
    p->stretch_floats = stretch_floats(limits);
    p->rows = take_floats(&at, (size_t)p->n_worker * rows_floats(limits));
    p->stretch = take_floats(&at, p->stretch_floats);
    p->u = take_floats(&at, u_floats(limits));
    p->du = take_floats(&at, u_floats(limits));
    p->narrow = take_floats(&at, (size_t)limits->rank_max * kt__pad(limits->n_row_max));
    *out = p;
    return KT_OK;
}

void kt__panels_destroy(kt__panels *p) {
    if (!p) return;
    kt__pages_free(p->scratch, p->scratch_bytes);
    kt__free(p);
}

kt__pool *kt__panels_pool(const kt__panels *p) {
    return p->pool;
}

const kt__kernels *kt__panels_kernels(const kt__panels *p) {
    return p->kernels;
}

void kt__panels_outer(kt__panels *p, const kt__outer_mm *mm, int worker) {
    p->kernels->outer_mm(mm, p->scratch + (size_t)worker * scratch_of_worker(p->kernels));
}

/* ---- a stretch of a matrix with its adapter ---- */

typedef struct stretch {
    kt__panels *p;
    const kt__merged *m;
    int r0, n_row; /* its rows of the matrix */
} stretch;

static int64_t items_of(int n, int item) {
    return ((int64_t)n + item - 1) / item;
}

static int next_item(int64_t i, int item, int n, int *begin) {
    *begin = (int)i * item;
    return n - *begin < item ? n - *begin : item;
}

/* rows[n][ld] += scale B A of the matrix's rows from r0 on; b: room for them. */
static void add_adapter(const stretch *s, int r0, int n, size_t ld, float *rows, float *b,
                        int worker) {
    const kt__merged *m = s->m;
    size_t rank = (size_t)m->rank;
    if (rank == 0) return;
    for (size_t i = 0; i < (size_t)n * rank; i++) b[i] = m->scale * m->b[(size_t)r0 * rank + i];
    const kt__outer_mm mm = {.a = b,
                             .b = m->a,
                             .a_row = rank,
                             .a_step = 1,
                             .ld_b = (size_t)m->w.n_col,
                             .ld_out = ld,
                             .n_row = n,
                             .n_step = m->rank,
                             .n_col = m->w.n_col,
                             .add = true,
                             .out = rows};
    kt__panels_outer(s->p, &mm, worker);
}

static void merge_rows(const stretch *s, int r0, int n, float *rows, float *b, int worker) {
    const kt__weight *w = &s->m->w;
    size_t ld = kt__pad(w->n_col);
    for (int r = 0; r < n; r++)
        kt__dequantize_row(w->type, w->data + (size_t)(r0 + r) * w->row_bytes, w->n_col,
                           rows + (size_t)r * ld);
    add_adapter(s, r0, n, ld, rows, b, worker);
}

/* Rows r of a panel's column c, to[c][r], of rows[n][ld]. */
static void turn_panel(const float *rows, size_t ld, int n, int n_col, float *to) {
    for (int c0 = 0; c0 < n_col; c0 += 16) {
        int n_c = n_col - c0 < 16 ? n_col - c0 : 16;
        for (int r = 0; r < n; r++) {
            const float *from = rows + (size_t)r * ld + (size_t)c0;
            for (int c = 0; c < n_c; c++) to[(size_t)(c0 + c) * PANEL + (size_t)r] = from[c];
        }
    }
}

/* Panels of the stretch's rows: [n_row / PANEL][n_col][PANEL]. */
static void fill_turned(void *arg, int64_t begin, int64_t end, int worker) {
    const stretch *s = arg;
    const kt__panels_limits *l = &s->p->limits;
    int n_col = s->m->w.n_col;
    float *rows = s->p->rows + (size_t)worker * rows_floats(l);
    for (int64_t i = begin; i < end; i++) {
        int at, n = next_item(i, PANEL, s->n_row, &at);
        merge_rows(s, s->r0 + at, n, rows, rows + ITEM_ROWS * kt__pad(l->n_col_max), worker);
        turn_panel(rows, kt__pad(n_col), n, n_col, s->p->stretch + (size_t)at * (size_t)n_col);
    }
}

/* Panels of its columns: [n_col / PANEL][n_row][PANEL]. */
static void fill_straight(void *arg, int64_t begin, int64_t end, int worker) {
    const stretch *s = arg;
    const kt__panels_limits *l = &s->p->limits;
    int n_col = s->m->w.n_col;
    size_t ld = kt__pad(n_col);
    float *rows = s->p->rows + (size_t)worker * rows_floats(l);
    for (int64_t i = begin; i < end; i++) {
        int at, n = next_item(i, ITEM_ROWS, s->n_row, &at);
        merge_rows(s, s->r0 + at, n, rows, rows + ITEM_ROWS * kt__pad(l->n_col_max), worker);
        for (int c = 0; c < n_col; c += PANEL) {
            float *to = s->p->stretch + (size_t)c * (size_t)s->n_row + (size_t)at * PANEL;
            size_t width = (size_t)(n_col - c < PANEL ? n_col - c : PANEL);
            for (int r = 0; r < n; r++)
                memcpy(to + (size_t)r * PANEL, rows + (size_t)r * ld + (size_t)c,
                       width * sizeof *to);
        }
    }
}

/* ---- forward, and back to the input ---- */

/* mm is of all tokens and columns; b is in panels. */
typedef struct product_job {
    kt__panels *p;
    kt__outer_mm mm;
    const float *bias;
    int n_group; /* of panels, which items go through first */
} product_job;

static void multiply_panel(const product_job *job, int t0, int n_tok, int c0, int worker) {
    kt__outer_mm mm = job->mm;
    mm.n_row = n_tok;
    mm.n_col = job->mm.n_col - c0 < PANEL ? job->mm.n_col - c0 : PANEL;
    mm.a += (size_t)t0 * mm.a_row;
    mm.b += (size_t)c0 * (size_t)mm.n_step;
    mm.out += (size_t)t0 * mm.ld_out + (size_t)c0;
    kt__panels_outer(job->p, &mm, worker);
    for (int t = 0; job->bias && t < n_tok; t++)
        for (int r = 0; r < mm.n_col; r++)
            mm.out[(size_t)t * mm.ld_out + (size_t)r] += job->bias[c0 + r];
}

static void product_items(void *arg, int64_t begin, int64_t end, int worker) {
    const product_job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        int t0, n_tok = next_item(i / job->n_group, ITEM_TOK, job->mm.n_row, &t0);
        int c0, n_col = next_item(i % job->n_group, ITEM_PANELS * PANEL, job->mm.n_col, &c0);
        for (int c = 0; c < n_col; c += PANEL) multiply_panel(job, t0, n_tok, c0 + c, worker);
    }
}

static void run_product(kt__panels *p, const kt__outer_mm *mm, const float *bias) {
    product_job job = {p, *mm, bias, (int)items_of(mm->n_col, ITEM_PANELS * PANEL)};
    kt__pool_run(p->pool, items_of(mm->n_row, ITEM_TOK) * job.n_group, 1, product_items, &job);
}

/* Rows of a stretch whose panels have n columns in all. */
static int stretch_rows(const kt__panels *p, size_t n, int step) {
    return (int)(p->stretch_floats / n / (size_t)step) * step;
}

/* ---- forward of few tokens ----
 *
 * Their activations are turned in place of the matrix, whose rows go from one worker's cache into the products: lanes
 * are tokens. The chains are the same. */

typedef struct few_job {
    stretch s;
    const float *x, *bias;
    int n_tok;
    float *y;
} few_job;

/* Panels of tokens: [n_tok / PANEL][n_col][PANEL], zero after the last one. */
static void turn_tokens(void *arg, int64_t begin, int64_t end, int worker) {
    const few_job *job = arg;
    int n_col = job->s.m->w.n_col;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int t0, n = next_item(i, PANEL, job->n_tok, &t0);
        size_t floats = (size_t)n_col * PANEL;
        float *to = job->s.p->stretch + (size_t)i * floats;
        if (n < PANEL) memset(to, 0, floats * sizeof *to);
        turn_panel(job->x + (size_t)t0 * kt__pad(n_col), kt__pad(n_col), n, n_col, to);
    }
}

/* y of the rows[n_row] from r0 on, and of the tokens' panel from t0 on. */
static void multiply_few(const few_job *job, const float *rows, int r0, int n_row, int t0,
                         int worker) {
    int n_col = job->s.m->w.n_col, n_tok = job->n_tok - t0 < PANEL ? job->n_tok - t0 : PANEL;
    float tile[ITEM_ROWS * PANEL];
    const kt__outer_mm mm = {.a = rows,
                             .b = job->s.p->stretch + (size_t)t0 * (size_t)n_col,
                             .a_row = kt__pad(n_col),
                             .a_step = 1,
                             .ld_b = PANEL,
                             .ld_out = PANEL,
                             .n_row = n_row,
                             .n_step = n_col,
                             .n_col = PANEL,
                             .out = tile};
    kt__panels_outer(job->s.p, &mm, worker);
    for (int t = 0; t < n_tok; t++) {
        float *y = job->y + (size_t)(t0 + t) * kt__pad(job->s.m->w.n_row) + r0;
        for (int r = 0; r < n_row; r++)
            y[r] = job->bias ? tile[r * PANEL + t] + job->bias[r0 + r] : tile[r * PANEL + t];
    }
}

static void few_items(void *arg, int64_t begin, int64_t end, int worker) {
    const few_job *job = arg;
    const kt__panels_limits *l = &job->s.p->limits;
    float *rows = job->s.p->rows + (size_t)worker * rows_floats(l);
    for (int64_t i = begin; i < end; i++) {
        int r0, n = next_item(i, ITEM_ROWS, job->s.n_row, &r0);
        merge_rows(&job->s, r0, n, rows, rows + ITEM_ROWS * kt__pad(l->n_col_max), worker);
        for (int t0 = 0; t0 < job->n_tok; t0 += PANEL) multiply_few(job, rows, r0, n, t0, worker);
    }
}

static void forward_few(kt__panels *p, const kt__merged *m, const float *x, int n_tok,
                        const float *bias, float *y) {
    few_job job = {{p, m, 0, m->w.n_row}, x, bias, n_tok, y};
    kt__pool_run(p->pool, items_of(n_tok, PANEL), 1, turn_tokens, &job);
    kt__pool_run(p->pool, items_of(m->w.n_row, ITEM_ROWS), 1, few_items, &job);
}

void kt__panels_forward(kt__panels *p, const kt__merged *m, const float *x, int n_tok,
                        const float *bias, float *y) {
    if (n_tok <= FEW_TOK) {
        forward_few(p, m, x, n_tok, bias, y);
        return;
    }
    int most = stretch_rows(p, (size_t)m->w.n_col, PANEL);
    for (int r0 = 0; r0 < m->w.n_row; r0 += most) {
        stretch s = {p, m, r0, m->w.n_row - r0 < most ? m->w.n_row - r0 : most};
        kt__pool_run(p->pool, items_of(s.n_row, PANEL), 1, fill_turned, &s);
        const kt__outer_mm mm = {.a = x,
                                 .b = p->stretch,
                                 .a_row = kt__pad(m->w.n_col),
                                 .a_step = 1,
                                 .ld_b = PANEL,
                                 .ld_out = kt__pad(m->w.n_row),
                                 .n_row = n_tok,
                                 .n_step = m->w.n_col,
                                 .n_col = s.n_row,
                                 .out = y + r0};
        run_product(p, &mm, bias ? bias + r0 : NULL);
    }
}

void kt__panels_backward(kt__panels *p, const kt__merged *m, const float *dy, int n_tok, bool add,
                         float *dx) {
    int most = stretch_rows(p, whole_panels(m->w.n_col), STRETCH_STEPS);
    for (int r0 = 0; r0 < m->w.n_row; r0 += most) {
        stretch s = {p, m, r0, m->w.n_row - r0 < most ? m->w.n_row - r0 : most};
        kt__pool_run(p->pool, items_of(s.n_row, ITEM_ROWS), 1, fill_straight, &s);
        const kt__outer_mm mm = {.a = dy + r0,
                                 .b = p->stretch,
                                 .a_row = kt__pad(m->w.n_row),
                                 .a_step = 1,
                                 .ld_b = PANEL,
                                 .ld_out = kt__pad(m->w.n_col),
                                 .n_row = n_tok,
                                 .n_step = s.n_row,
                                 .n_col = m->w.n_col,
                                 .add = add || r0 > 0,
                                 .out = dx};
        run_product(p, &mm, NULL);
    }
}

/* ---- gradients of A and B ---- */

typedef struct narrow_job {
    kt__panels *p;
    const float *w, *x; /* w[rank][n_col] */
    size_t ld_w;
    int rank, n_col, n_tok;
    float scale, *out; /* [n_tok][kt__pad(rank)] */
} narrow_job;

static void narrow_items(void *arg, int64_t begin, int64_t end, int worker) {
    const narrow_job *job = arg;
    const kt__kernels *kernels = job->p->kernels;
    const kt__mm_kernels *k = kernels->mm[KT__TYPE_F32];
    size_t ld_x = kt__pad(job->n_col), ld_out = kt__pad(job->rank);
    for (int64_t i = begin; i < end; i++) {
        int t0, n = next_item(i, ITEM_TOK, job->n_tok, &t0);
        float *out = job->out + (size_t)t0 * ld_out;
        kt__mm mm = {.type = KT__TYPE_F32,
                     .w = (const uint8_t *)job->w,
                     .w_row_bytes = job->ld_w * sizeof(float),
                     .n_row = job->rank,
                     .n_col = job->n_col,
                     .act = (const uint8_t *)(job->x + (size_t)t0 * ld_x),
                     .act_row_bytes = ld_x * sizeof(float),
                     .n_tok = n,
                     .out = out,
                     .ld_out = ld_out};
        (n >= k->gemm_min_tok ? k->gemm : k->rowdot)(
            &mm, job->p->scratch + (size_t)worker * scratch_of_worker(kernels));
        for (size_t t = 0; t < (size_t)n * ld_out; t++) out[t] *= job->scale;
    }
}

/* out[t][j] = scale w[j] . x[t] for the rank's few rows w: sums in lanes, since the outputs of a
 * token would not fill a vector. */
static void narrow_product(kt__panels *p, const float *w, size_t ld_w, int rank, const float *x,
                           int n_col, int n_tok, float scale, float *out) {
    narrow_job job = {p, w, x, ld_w, rank, n_col, n_tok, scale, out};
    kt__pool_run(p->pool, items_of(n_tok, ITEM_TOK), 1, narrow_items, &job);
}

typedef struct gradient_job {
    kt__panels *p;
    kt__outer_mm mm; /* of all columns */
    float *turned;   /* where its columns are added as rows, or NULL */
} gradient_job;

static void gradient_items(void *arg, int64_t begin, int64_t end, int worker) {
    const gradient_job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        kt__outer_mm mm = job->mm;
        int c0;
        mm.n_col = next_item(i, ITEM_COLS, job->mm.n_col, &c0);
        mm.b += c0;
        mm.out += c0;
        kt__panels_outer(job->p, &mm, worker);
        for (int c = 0; job->turned && c < mm.n_col; c++)
            for (int j = 0; j < mm.n_row; j++)
                job->turned[(size_t)(c0 + c) * (size_t)mm.n_row + (size_t)j] +=
                    mm.out[(size_t)j * mm.ld_out + (size_t)c];
    }
}

/* g[j][c] (+)= sum_t u[t][j] x[t][c]; turned: see gradient_job. */
static void gradient_of(kt__panels *p, const float *u, int rank, const float *x, int n_col,
                        int n_tok, float *g, size_t ld_g, float *turned) {
    gradient_job job = {.p = p,
                        .mm = {.a = u,
                               .b = x,
                               .a_row = 1,
                               .a_step = kt__pad(rank),
                               .ld_b = kt__pad(n_col),
                               .ld_out = ld_g,
                               .n_row = rank,
                               .n_step = n_tok,
                               .n_col = n_col,
                               .add = !turned,
                               .out = g},
                        .turned = turned};
    kt__pool_run(p->pool, items_of(n_col, ITEM_COLS), 1, gradient_items, &job);
}

void kt__panels_gradient(kt__panels *p, const kt__merged *m, const float *x, const float *dy,
                         int n_tok, float *ga, float *gb) {
    int n_row = m->w.n_row, n_col = m->w.n_col, rank = m->rank;
    size_t ld = kt__pad(n_row);
    for (int r = 0; r < n_row; r++)
        for (int j = 0; j < rank; j++)
            p->narrow[(size_t)j * ld + (size_t)r] = m->b[(size_t)r * (size_t)rank + (size_t)j];
    narrow_product(p, p->narrow, ld, rank, dy, n_row, n_tok, m->scale, p->du);
    narrow_product(p, m->a, (size_t)n_col, rank, x, n_col, n_tok, m->scale, p->u);
    gradient_of(p, p->u, rank, dy, n_row, n_tok, p->narrow, ld, gb);
    gradient_of(p, p->du, rank, x, n_col, n_tok, ga, (size_t)n_col, NULL);
}
