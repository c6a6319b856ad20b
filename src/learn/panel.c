#include "learn/panel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

enum {
    ITEM_ROWS = 64,          /* of a matrix, or columns, that one worker takes at a time */
    ITEM_TOK = 64,           /* tokens, where rows are few */
    STRETCH_FLOATS = 4 << 20 /* of a matrix turned round at a time */
};

struct kt__panels {
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__panels_limits limits;
    int n_worker;
    uint8_t *scratch; /* [n_worker] of the kernels, */
    float *rows;      /* and [n_worker][ITEM_ROWS][kt__pad(n_col_max)] */
    float *turned;    /* a stretch of a matrix, columns as rows */
    size_t turned_floats, scratch_bytes;
    float *u, *du;   /* [n_tok_max][kt__pad(rank_max)] */
    float *b_turned; /* [rank_max][n_row_max] */
};

/* ---- memory ---- */

static size_t rows_floats(const kt__panels_limits *l) {
    return ITEM_ROWS * kt__pad(l->n_col_max);
}

static size_t turned_floats(const kt__panels_limits *l) {
    size_t least = kt__pad(l->n_col_max) * 16, all = (size_t)l->n_col_max * kt__pad(l->n_row_max);
    size_t most = least > STRETCH_FLOATS ? least : STRETCH_FLOATS;
    return all < most ? all + 16 : most;
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
    size_t floats = n * rows_floats(limits) + turned_floats(limits) + 2 * u_floats(limits) +
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
    p->turned_floats = turned_floats(limits);
    p->rows = take_floats(&at, (size_t)p->n_worker * rows_floats(limits));
    p->turned = take_floats(&at, p->turned_floats);
    p->u = take_floats(&at, u_floats(limits));
    p->du = take_floats(&at, u_floats(limits));
    p->b_turned = take_floats(&at, (size_t)limits->rank_max * kt__pad(limits->n_row_max));
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

/* ---- a product ---- */

void kt__panels_mm(kt__panels *p, const kt__panel_mm *mm, int worker) {
    const kt__mm_kernels *k = p->kernels->mm[KT__TYPE_F32];
    kt__mm desc = {.type = KT__TYPE_F32,
                   .w = (const uint8_t *)mm->w,
                   .w_row_bytes = mm->ld_w * sizeof(float),
                   .n_row = mm->n_row,
                   .n_col = mm->n_col,
                   .act = (const uint8_t *)mm->x,
                   .act_row_bytes = mm->ld_x * sizeof(float),
                   .n_tok = mm->n_tok,
                   .out = mm->out,
                   .ld_out = mm->ld_out,
                   .residual = mm->add ? mm->out : NULL,
                   .ld_residual = mm->ld_out};
    void *scratch = p->scratch + (size_t)worker * scratch_of_worker(p->kernels);
    if (mm->n_tok >= k->gemm_min_tok)
        k->gemm(&desc, scratch);
    else
        k->rowdot(&desc, scratch);
}

static void add_scaled(float *to, const float *x, float f, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += f * x[i];
}

/* A row of the matrix with its adapter. */
static void merged_row(const kt__merged *m, int r, float *out) {
    size_t n = (size_t)m->w.n_col;
    kt__dequantize_row(m->w.type, m->w.data + (size_t)r * m->w.row_bytes, m->w.n_col, out);
    for (int j = 0; j < m->rank; j++) {
        float f = m->scale * m->b[(size_t)r * (size_t)m->rank + (size_t)j];
        if (f != 0.0f) add_scaled(out, m->a + (size_t)j * n, f, n);
    }
}

/* ---- forward ---- */

typedef struct forward_job {
    kt__panels *p;
    const kt__merged *m;
    const float *x, *bias;
    float *y;
    int n_tok;
} forward_job;

static void forward_items(void *arg, int64_t begin, int64_t end, int worker) {
    const forward_job *job = arg;
    int n_col = job->m->w.n_col, n_row = job->m->w.n_row;
    size_t ld = kt__pad(n_col), ld_y = kt__pad(n_row);
    float *rows = job->p->rows + (size_t)worker * rows_floats(&job->p->limits);
    for (int64_t i = begin; i < end; i++) {
        int r0 = (int)i * ITEM_ROWS, n = n_row - r0 < ITEM_ROWS ? n_row - r0 : ITEM_ROWS;
        for (int r = 0; r < n; r++) merged_row(job->m, r0 + r, rows + (size_t)r * ld);
        const kt__panel_mm mm = {.w = rows,
                                 .x = job->x,
                                 .ld_w = ld,
                                 .ld_x = ld,
                                 .ld_out = ld_y,
                                 .n_row = n,
                                 .n_col = n_col,
                                 .n_tok = job->n_tok,
                                 .out = job->y + r0};
        kt__panels_mm(job->p, &mm, worker);
        for (int t = 0; job->bias && t < job->n_tok; t++)
            for (int r = 0; r < n; r++)
                job->y[(size_t)t * ld_y + (size_t)(r0 + r)] += job->bias[r0 + r];
    }
}

static int64_t items_of(int n, int item) {
    return ((int64_t)n + item - 1) / item;
}

void kt__panels_forward(kt__panels *p, const kt__merged *m, const float *x, int n_tok,
                        const float *bias, float *y) {
    forward_job job = {p, m, x, bias, y, n_tok};
    kt__pool_run(p->pool, items_of(m->w.n_row, ITEM_ROWS), 1, forward_items, &job);
}

/* ---- back to the input ---- */

typedef struct backward_job {
    kt__panels *p;
    const kt__merged *m;
    const float *dy;
    float *dx;
    int r0, n_row; /* the stretch */
    int n_tok;
    bool add;
} backward_job;

/* Rows of the stretch as columns. */
static void turn_items(void *arg, int64_t begin, int64_t end, int worker) {
    const backward_job *job = arg;
    enum { ROWS = 16 };
    int n_col = job->m->w.n_col;
    size_t ld = kt__pad(n_col), ld_turned = kt__pad(job->n_row);
    float *rows = job->p->rows + (size_t)worker * rows_floats(&job->p->limits);
    for (int64_t i = begin; i < end; i++) {
        int r0 = (int)i * ROWS, n = job->n_row - r0 < ROWS ? job->n_row - r0 : ROWS;
        for (int r = 0; r < n; r++) merged_row(job->m, job->r0 + r0 + r, rows + (size_t)r * ld);
        for (int c = 0; c < n_col; c++) {
            float *to = job->p->turned + (size_t)c * ld_turned + (size_t)r0;
            for (int r = 0; r < n; r++) to[r] = rows[(size_t)r * ld + (size_t)c];
        }
    }
}

static void backward_items(void *arg, int64_t begin, int64_t end, int worker) {
    const backward_job *job = arg;
    int n_col = job->m->w.n_col;
    size_t ld_turned = kt__pad(job->n_row);
    for (int64_t i = begin; i < end; i++) {
        int c0 = (int)i * ITEM_ROWS, n = n_col - c0 < ITEM_ROWS ? n_col - c0 : ITEM_ROWS;
        const kt__panel_mm mm = {.w = job->p->turned + (size_t)c0 * ld_turned,
                                 .x = job->dy + job->r0,
                                 .ld_w = ld_turned,
                                 .ld_x = kt__pad(job->m->w.n_row),
                                 .ld_out = kt__pad(n_col),
                                 .n_row = n,
                                 .n_col = job->n_row,
                                 .n_tok = job->n_tok,
                                 .add = job->add || job->r0 > 0,
                                 .out = job->dx + c0};
        kt__panels_mm(job->p, &mm, worker);
    }
}

void kt__panels_backward(kt__panels *p, const kt__merged *m, const float *dy, int n_tok, bool add,
                         float *dx) {
    int stretch = (int)(p->turned_floats / (size_t)m->w.n_col / 16 * 16);
    for (int r0 = 0; r0 < m->w.n_row; r0 += stretch) {
        int n_row = m->w.n_row - r0 < stretch ? m->w.n_row - r0 : stretch;
        backward_job job = {p, m, dy, dx, r0, n_row, n_tok, add};
        kt__pool_run(p->pool, items_of(n_row, 16), 1, turn_items, &job);
        kt__pool_run(p->pool, items_of(m->w.n_col, ITEM_ROWS), 1, backward_items, &job);
    }
}

/* ---- gradients of A and B ---- */

typedef struct narrow_job {
    kt__panels *p;
    const float *w, *x; /* w[rank][n_col] */
    size_t ld_w;
    int rank, n_col, n_tok;
    float *out; /* [n_tok][kt__pad(rank)] */
} narrow_job;

static void narrow_items(void *arg, int64_t begin, int64_t end, int worker) {
    const narrow_job *job = arg;
    size_t ld_x = kt__pad(job->n_col), ld_out = kt__pad(job->rank);
    for (int64_t i = begin; i < end; i++) {
        int t0 = (int)i * ITEM_TOK, n = job->n_tok - t0 < ITEM_TOK ? job->n_tok - t0 : ITEM_TOK;
        const kt__panel_mm mm = {.w = job->w,
                                 .x = job->x + (size_t)t0 * ld_x,
                                 .ld_w = job->ld_w,
                                 .ld_x = ld_x,
                                 .ld_out = ld_out,
                                 .n_row = job->rank,
                                 .n_col = job->n_col,
                                 .n_tok = n,
                                 .out = job->out + (size_t)t0 * ld_out};
        kt__panels_mm(job->p, &mm, worker);
    }
}

/* out[t][j] = w[j] . x[t] for the rank's few rows w. */
static void narrow_product(kt__panels *p, const float *w, size_t ld_w, int rank, const float *x,
                           int n_col, int n_tok, float *out) {
    narrow_job job = {p, w, x, ld_w, rank, n_col, n_tok, out};
    kt__pool_run(p->pool, items_of(n_tok, ITEM_TOK), 1, narrow_items, &job);
}

typedef struct outer_job {
    const float *u, *x; /* u[t][rank], x[t][n_col] */
    int rank, n_col, n_tok;
    float scale;
    float *g;       /* [rank][n_col] or, */
    bool is_turned; /* [n_col][rank] */
} outer_job;

enum { OUTER_RANKS = 16 };

/* g of ranks [j0, j0 + n_j) and columns [c0, c0 + n). */
static void outer_tile(const outer_job *job, int c0, int n, int j0, int n_j) {
    float sum[OUTER_RANKS][ITEM_ROWS];
    size_t ld_x = kt__pad(job->n_col), ld_u = kt__pad(job->rank);
    memset(sum, 0, sizeof sum);
    for (int t = 0; t < job->n_tok; t++) {
        const float *x = job->x + (size_t)t * ld_x + c0, *u = job->u + (size_t)t * ld_u + j0;
        for (int j = 0; j < n_j; j++) add_scaled(sum[j], x, u[j], (size_t)n);
    }
    for (int j = 0; j < n_j; j++) {
        for (int c = 0; c < n; c++) {
            size_t row = (size_t)(j0 + j), col = (size_t)(c0 + c);
            size_t at = job->is_turned ? col * (size_t)job->rank + row
                                       : row * (size_t)job->n_col + col;
            job->g[at] += job->scale * sum[j][c];
        }
    }
}

static void outer_items(void *arg, int64_t begin, int64_t end, int worker) {
    const outer_job *job = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int c0 = (int)i * ITEM_ROWS, n = job->n_col - c0 < ITEM_ROWS ? job->n_col - c0 : ITEM_ROWS;
        for (int j0 = 0; j0 < job->rank; j0 += OUTER_RANKS) {
            int n_j = job->rank - j0 < OUTER_RANKS ? job->rank - j0 : OUTER_RANKS;
            outer_tile(job, c0, n, j0, n_j);
        }
    }
}

void kt__panels_gradient(kt__panels *p, const kt__merged *m, const float *x, const float *dy,
                         int n_tok, float *ga, float *gb) {
    int n_row = m->w.n_row, n_col = m->w.n_col, rank = m->rank;
    size_t ld_b = kt__pad(n_row);
    for (int r = 0; r < n_row; r++)
        for (int j = 0; j < rank; j++)
            p->b_turned[(size_t)j * ld_b + (size_t)r] = m->b[(size_t)r * (size_t)rank + (size_t)j];
    narrow_product(p, m->a, (size_t)n_col, rank, x, n_col, n_tok, p->u);
    narrow_product(p, p->b_turned, ld_b, rank, dy, n_row, n_tok, p->du);
    outer_job b = {p->u, dy, rank, n_row, n_tok, m->scale, gb, true};
    kt__pool_run(p->pool, items_of(n_row, ITEM_ROWS), 1, outer_items, &b);
    outer_job a = {p->du, x, rank, n_col, n_tok, m->scale, ga, false};
    kt__pool_run(p->pool, items_of(n_col, ITEM_ROWS), 1, outer_items, &a);
}
