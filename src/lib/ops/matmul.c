/* Matrix products over the pool: rows of weights in items of KT__ROWS_ITEM, split dynamically. */
#include "ops/dev.h"

void kt__dev_mm(const kt__dev *dev, const kt__weight *w, int row0, int n_row, const kt__acts *acts,
                const float *bias, const float *residual, const uint8_t *next, float *out,
                size_t ld_out, int worker) {
    const kt__kernels *k = dev->kernels;
    kt__act_kind kind = kt__dev_act_kind(dev, w, acts->n_tok);
    kt__mm mm = {
        .type = w->type,
        .w = w->data + (size_t)row0 * w->row_bytes,
        .w_row_bytes = w->row_bytes,
        .n_row = n_row,
        .n_col = w->n_col,
        .act = acts->data[kind],
        .act_row_bytes = acts->layout[kind].row_bytes,
        .tiles = kind == KT__ACT_Q256 ? acts->tiles : (kt__tiles){NULL, 0},
        .n_tok = acts->n_tok,
        .out = out,
        .ld_out = ld_out,
        .bias = bias ? bias + row0 : NULL,
        .residual = residual,
        .ld_residual = ld_out,
        .next = next,
        .prefetch = dev->prefetch,
    };
    const kt__mm_kernels *fns = k->mm[w->type];
    kt__mm_fn *fn = acts->n_tok >= fns->gemm_min_tok ? fns->gemm : fns->rowdot;
    if (dev->exact) fn = k->exact;
    if (kt__dev_uses_blas(dev, acts->n_tok)) {
        kt__blas_mm(dev->blas, w->type, &mm, kt__dev_kernel_scratch(dev, worker));
        return;
    }
    fn(&mm, kt__dev_kernel_scratch(dev, worker));
}

static bool is_gemm(const kt__dev *dev, const kt__weight *w, int n_tok) {
    if (dev->exact || kt__dev_uses_blas(dev, n_tok)) return false;
    return n_tok >= dev->kernels->mm[w->type]->gemm_min_tok;
}

void kt__dev_mm_chunk(const kt__dev *dev, const kt__weight *w, int row0, int n_row,
                      const kt__acts *acts, const float *bias, const float *residual,
                      const kt__weight *then, const uint8_t *after, float *out, size_t ld_out,
                      int worker) {
    if (!is_gemm(dev, w, acts->n_tok)) {
        kt__dev_mm(dev, w, row0, n_row, acts, bias, residual, after, out, ld_out, worker);
        return;
    }
    int first = (n_row - 1) / KT__ROWS_ITEM * KT__ROWS_ITEM; /* rows before the last panel */
    if (first > 0)
        kt__dev_mm(dev, w, row0, first, acts, bias, residual, kt__row_of(w, row0 + first), out,
                   ld_out, worker);
    int64_t item = kt__dev_peek(dev);
    const uint8_t *next = item < 0 ? NULL : kt__row_of(then, (int)item * KT__ROWS_ITEM);
    kt__dev_mm(dev, w, row0 + first, n_row - first, acts, bias, residual ? residual + first : NULL,
               next, out + first, ld_out, worker);
}

/* Items a chunk has at least: while decoding a chunk should be a long linear stream. */
int64_t kt__dev_row_grain(const kt__dev *dev, const kt__weight *w, int n_tok) {
    if (kt__dev_uses_blas(dev, n_tok)) return KT__BLAS_ROWS / KT__ROWS_ITEM;
    if (n_tok >= dev->kernels->mm[w->type]->gemm_min_tok) return 1;
    size_t item_bytes = w->row_bytes * KT__ROWS_ITEM;
    return (int64_t)((KT__GRAIN_BYTES + item_bytes - 1) / item_bytes);
}

typedef struct matmul_job {
    kt__dev *dev;
    const kt__weight *w;
    const kt__acts *acts;
    const float *bias, *residual;
    const kt__lora_terms *lora;
    kt__lora_site site;
    float *out;
    size_t ld_out;
} matmul_job;

static void matmul_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const matmul_job *job = arg;
    if (!kt__dev_down_items(job->dev, &begin, &end, worker)) return;
    int row0 = (int)begin * KT__ROWS_ITEM;
    int row1 = (int)end * KT__ROWS_ITEM;
    if (row1 > job->w->n_row) row1 = job->w->n_row;
    const uint8_t *after = kt__dev_lora_next(job->lora, job->site, row0, job->acts->n_tok, NULL);
    kt__dev_mm_chunk(job->dev, job->w, row0, row1 - row0, job->acts, job->bias,
                     job->residual ? job->residual + row0 : NULL, job->w, after, job->out + row0,
                     job->ld_out, worker);
    kt__dev_lora_add(job->dev, job->lora, job->site, row0, row1 - row0, 0, job->acts->n_tok,
                     job->out + row0, job->ld_out, worker);
}

void kt__cpu_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                    const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                    float *out, size_t ld_out) {
    const kt__acts with = kt__dev_with_tiles(dev, acts, w);
    matmul_job job = {dev, w, &with, bias, residual, lora, site, out, ld_out};
    int64_t items = (w->n_row + KT__ROWS_ITEM - 1) / KT__ROWS_ITEM;
    items += kt__dev_down_begin(dev, lora, site, true);
    kt__pool_run(dev->pool, items, kt__dev_row_grain(dev, w, acts->n_tok), matmul_rows, &job);
    kt__dev_down_end(dev);
}

/* Activations in the order of tiles, made once for all the rows that are multiplied with them. */

static bool reads_tiles(const kt__dev *dev, const kt__acts *acts, const kt__weight *w) {
    const kt__kernels *k = dev->kernels;
    int n_tok = acts->n_tok, from = k->tile ? k->tiles_from[w->type] : 0;
    if (kt__dev_act_kind(dev, w, n_tok) != KT__ACT_Q256) return false;
    return from > 0 && n_tok >= from && acts->kinds >> KT__ACT_Q256 & 1;
}

static int groups_of(const kt__acts *acts) {
    return (acts->n_tok + KT__TILE_TOKENS - 1) / KT__TILE_TOKENS;
}

typedef struct tiles_job {
    const kt__kernels *kernels;
    const kt__acts *acts;
} tiles_job;

/* Items are groups of tokens. */
static void put_groups(void *arg, int64_t begin, int64_t end, int worker) {
    const tiles_job *job = arg;
    const kt__acts *acts = job->acts;
    int64_t first = begin * KT__TILE_TOKENS, after = end * KT__TILE_TOKENS;
    (void)worker;
    if (after > acts->n_tok) after = acts->n_tok;
    job->kernels->tile(
        acts->data[KT__ACT_Q256] + (size_t)first * acts->layout[KT__ACT_Q256].row_bytes,
        acts->n_col, (int)(after - first), (kt__tiles){acts->tiles.act + begin, acts->tiles.pitch});
}

kt__acts kt__dev_with_tiles(kt__dev *dev, const kt__acts *acts, const kt__weight *w) {
    kt__acts with = *acts;
    with.tiles = (kt__tiles){NULL, 0};
    if (!w || !reads_tiles(dev, acts, w)) return with;
    if (kt__tiles_bytes(dev->kernels, acts->n_tok, acts->n_col) > dev->tiles_bytes) return with;
    with.tiles = (kt__tiles){dev->tiles, (size_t)groups_of(acts)};
    tiles_job job = {dev->kernels, &with};
    kt__pool_run(dev->pool, groups_of(acts), 1, put_groups, &job);
    return with;
}

void kt__dev_put_tiles(const kt__dev *dev, kt__acts *acts, const kt__weight *w, uint8_t *room) {
    acts->tiles = (kt__tiles){NULL, 0};
    if (!reads_tiles(dev, acts, w)) return;
    acts->tiles = (kt__tiles){(kt__tile_act *)(void *)room, (size_t)groups_of(acts)};
    dev->kernels->tile(acts->data[KT__ACT_Q256], acts->n_col, acts->n_tok, acts->tiles);
}
