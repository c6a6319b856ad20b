/* Matrix products over the pool: rows of weights in items of KT__ROWS_ITEM, split dynamically. */
#include "ops/dev.h"

void kt__dev_mm(const kt__dev *dev, const kt__weight *w, int row0, int n_row, const kt__acts *acts,
                const float *bias, const float *residual, float *out, size_t ld_out, int worker) {
    const kt__kernels *k = dev->kernels;
    kt__act_kind kind = kt__dev_act_kind(dev, w);
    kt__mm mm = {
        .w = w->data + (size_t)row0 * w->row_bytes,
        .w_row_bytes = w->row_bytes,
        .n_row = n_row,
        .n_col = w->n_col,
        .act = acts->data[kind],
        .act_row_bytes = acts->layout[kind].row_bytes,
        .n_tok = acts->n_tok,
        .out = out,
        .ld_out = ld_out,
        .bias = bias ? bias + row0 : NULL,
        .residual = residual,
        .ld_residual = ld_out,
    };
    const kt__mm_kernels *fns = &k->mm[w->type];
    kt__mm_fn *fn = acts->n_tok >= fns->gemm_min_tok ? fns->gemm : fns->rowdot;
    if (dev->exact) fn = k->exact[w->type];
    fn(&mm, kt__dev_kernel_scratch(dev, worker));
}

/* Items a chunk has at least: while decoding a chunk should be a long linear stream. */
int64_t kt__dev_row_grain(const kt__dev *dev, const kt__weight *w, int n_tok) {
    if (n_tok >= dev->kernels->mm[w->type].gemm_min_tok) return 1;
    size_t item_bytes = w->row_bytes * KT__ROWS_ITEM;
    return (int64_t)((KT__GRAIN_BYTES + item_bytes - 1) / item_bytes);
}

typedef struct matmul_job {
    kt__dev *dev;
    const kt__weight *w;
    const kt__acts *acts;
    const float *bias, *residual;
    float *out;
    size_t ld_out;
} matmul_job;

static void matmul_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const matmul_job *job = arg;
    int row0 = (int)begin * KT__ROWS_ITEM;
    int row1 = (int)end * KT__ROWS_ITEM;
    if (row1 > job->w->n_row) row1 = job->w->n_row;
    kt__dev_mm(job->dev, job->w, row0, row1 - row0, job->acts, job->bias,
               job->residual ? job->residual + row0 : NULL, job->out + row0, job->ld_out, worker);
}

void kt__cpu_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                    const float *residual, float *out, size_t ld_out) {
    matmul_job job = {dev, w, acts, bias, residual, out, ld_out};
    int64_t items = (w->n_row + KT__ROWS_ITEM - 1) / KT__ROWS_ITEM;
    kt__pool_run(dev->pool, items, kt__dev_row_grain(dev, w, acts->n_tok), matmul_rows, &job);
}

typedef struct glu_job {
    kt__dev *dev;
    const kt__weight *gate, *up;
    const kt__acts *acts;
    kt__glu_kind kind;
    float *out;
    size_t ld_out;
} glu_job;

/* Rows handled between two changes of matrix: the up part of all tokens fits the tile. */
static int glu_block_rows(int n_tok) {
    int rows = 16384 / n_tok / KT__ROWS_ITEM * KT__ROWS_ITEM;
    return rows < KT__ROWS_ITEM ? KT__ROWS_ITEM : rows > 512 ? 512 : rows;
}

static void glu_block(const glu_job *job, int row0, int n_row, int worker) {
    const kt__kernels *k = job->dev->kernels;
    float *tile = kt__dev_tile(job->dev, worker);
    kt__dev_mm(job->dev, job->gate, row0, n_row, job->acts, NULL, NULL, job->out + row0,
               job->ld_out, worker);
    kt__dev_mm(job->dev, job->up, row0, n_row, job->acts, NULL, NULL, tile, (size_t)n_row, worker);
    for (int t = 0; t < job->acts->n_tok; t++) {
        float *gate = job->out + (size_t)t * job->ld_out + row0;
        const float *up = tile + (size_t)t * (size_t)n_row;
        (job->kind == KT__GLU_SILU ? k->silu_mul : k->gelu_mul)(gate, up, n_row, gate);
    }
}

static void glu_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const glu_job *job = arg;
    int row1 = (int)end * KT__ROWS_ITEM;
    if (row1 > job->gate->n_row) row1 = job->gate->n_row;
    int step = glu_block_rows(job->acts->n_tok);
    for (int row = (int)begin * KT__ROWS_ITEM; row < row1; row += step) {
        glu_block(job, row, row1 - row < step ? row1 - row : step, worker);
    }
}

void kt__cpu_glu(kt__dev *dev, const kt__weight *gate, const kt__weight *up, const kt__acts *acts,
                 kt__glu_kind kind, float *out, size_t ld_out) {
    glu_job job = {dev, gate, up, acts, kind, out, ld_out};
    int64_t items = (gate->n_row + KT__ROWS_ITEM - 1) / KT__ROWS_ITEM;
    kt__pool_run(dev->pool, items, kt__dev_row_grain(dev, gate, acts->n_tok), glu_rows, &job);
}
