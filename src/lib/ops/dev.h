/* The CPU device's inside.
 *
 * Owns: the device's fields, the sizes of work items, and the operations as the files of ops/ define them; which
 * columns processes exchange that have parts of matrices; which positions a query sees. For ops/ alone; threads as
 * ops/ops.h says. */
#ifndef KT_OPS_DEV_H
#define KT_OPS_DEV_H

#include "ops/ops.h"

#include <stdatomic.h>

/* What processes that have parts of matrices send each other: columns of rows.
 *
 * Which columns are whose, and packing: where a token's results are one row they are exchanged in their place, else
 * each process' columns are packed into the device's stage, exchanged and put in their places; and which part of a
 * prompt's rows is computed while another one travels. Used by split_ops.c. */

/* Columns before each process' own. */
typedef struct kt__columns {
    int before[KT__PEERS_MAX + 1];
} kt__columns;

/* Of n, in whole units. */
kt__columns kt__columns_of(const kt__division *split, int n, int unit);
int kt__columns_own(const kt__division *split, const kt__columns *c);

/* Everybody's parts of n_tok rows in the stage, or of one row in its place. */
void kt__exchange_parts(const kt__division *split, const kt__columns *c, int n_tok, void *buf);
/* A process' columns between rows and their part of the stage. */
void kt__exchange_copy(const kt__columns *c, int rank, int n_tok, float *rows, size_t ld,
                       float *stage, bool out);
/* This process' columns of rows [tok0, tok0 + n_tok), which are then exchanged, in parts: while the one travels the next one
 * is computed, where that part of the rows is worth it. compute NULL: all are there. */
typedef void kt__compute_rows_fn(void *arg, int tok0, int n_tok);

/* Rows of floats, all of which every process then has. */
void kt__exchange_rows(kt__dev *dev, const kt__columns *c, int n_tok, float *rows, size_t ld,
                       kt__compute_rows_fn *compute, void *arg);
/* Rows of activations; parts of the columns are whole blocks of every kind. */
void kt__exchange_acts(kt__dev *dev, const kt__columns *c, kt__acts *acts,
                       kt__compute_rows_fn *compute, void *arg);
/* Those of slots, whose columns are divided as their experts' rows are. fits: the stage has room for a piece. */
bool kt__exchange_fits_experts(const kt__dev *dev, const kt__acts *acts);
void kt__exchange_experts(kt__dev *dev, int unit, const kt__routing *routing, kt__acts *acts);

enum {
    KT__SINK_DIM_MAX = 1024,    /* of a head in attention with sinks */
    KT__ROWS_ITEM = 32,         /* rows of one work item: a multiple of every tier's panel */
    KT__GLU_ROWS = 256,         /* rows of a glu's unit: whole blocks of every activation kind */
    KT__ATTN_QUERIES = 96,      /* (token, head) pairs of one attention tile, about */
    KT__STATE_ROWS = 16,        /* rows of a delta net's state that a worker takes at a time */
    KT__GRAIN_BYTES = 24 * 1024 /* least bytes of weights in one chunk while decoding */
};

struct kt__dev {
    const kt__ops *ops;
    const kt__ops *own; /* with a split: of this process' part */
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__prefetch prefetch;
    bool exact;
    const kt__blas *blas; /* or NULL */
    int n_threads;
    kt__dev_limits limits;
    /* [pool size][scratch_stride]: kernels' part, then a tile of floats, then gathered activation
     * rows and their tiles; untouched until its worker writes there, since that decides on which node it lies */
    uint8_t *scratch;
    size_t scratch_stride, kernel_bytes, tile_bytes, gather_bytes, scratch_bytes;
    /* A x of the product that runs, whose items are before the product's own; n_down 0: none */
    const kt__lora_terms *down;
    kt__net_input down_input;
    int64_t n_down;
    atomic_int_fast64_t down_left; /* items that are not done */
    int64_t lora_ns;               /* of worker 0 in low-rank terms */
    float *partial;                /* attention splits computed in parallel: m, l and o of each */
    size_t partial_floats, partial_bytes;
    float *stage; /* with a split: rows that are exchanged */
    size_t stage_bytes;
    kt__tile_act *tiles; /* of the operation at hand, where kernels read tiles */
    size_t tiles_bytes;
    void *accel; /* of another table whose functions take this device; or NULL */
};

static inline void *kt__dev_kernel_scratch(const kt__dev *dev, int worker) {
    return dev->scratch + (size_t)worker * dev->scratch_stride;
}

static inline float *kt__dev_tile(const kt__dev *dev, int worker) {
    return (float *)(void *)(dev->scratch + (size_t)worker * dev->scratch_stride +
                             dev->kernel_bytes);
}

/* Room for KT__EXPERT_TOKENS activation rows of every kind, and for their tiles. */
static inline uint8_t *kt__dev_gather_room(const kt__dev *dev, int worker) {
    return (uint8_t *)kt__dev_tile(dev, worker) + dev->tile_bytes;
}

static inline uint8_t *kt__dev_gather_tiles(const kt__dev *dev, int worker) {
    return kt__dev_gather_room(dev, worker) + dev->gather_bytes;
}

static inline size_t kt__tiles_bytes(const kt__kernels *kernels, int n_tok, int n_col) {
    size_t groups = (size_t)(n_tok + KT__TILE_TOKENS - 1) / KT__TILE_TOKENS;
    return kernels->tile ? groups * (size_t)(n_col / 256) * sizeof(kt__tile_act) : 0;
}

/* Heads and tiles of the attention, for sizing and for work. */
static inline int kt__attn_tile_tokens(int group) {
    return group >= KT__ATTN_QUERIES ? 1 : KT__ATTN_QUERIES / group;
}

static inline bool kt__dev_uses_blas(const kt__dev *dev, int n_tok) {
    return dev->blas && kt__blas_takes(n_tok);
}

/* Rows of a glu's second matrix that are computed at a time. */
static inline int kt__glu_up_rows(bool blas) {
    return blas ? KT__GLU_ROWS : KT__ROWS_ITEM;
}

/* relu(x)^2, on this thread. */
void kt__square_positives(float *x, int64_t n);
/* x[n] = gelu(x), on this thread. */
void kt__gelu(const kt__kernels *kernels, float *x, int64_t n);

enum { KT__FEW_TILE = 16384 }; /* floats of a tile over few tokens */

/* Floats of a worker's tile in a glu over n_tok tokens. */
size_t kt__glu_tile_floats(int n_tok, int up_rows);

/* Rows whose products with n_tok tokens fit a tile of KT__FEW_TILE, at most 512; n_tok <= 512. */
static inline int kt__few_rows(int n_tok) {
    int rows = KT__FEW_TILE / n_tok / KT__ROWS_ITEM * KT__ROWS_ITEM;
    return rows > 512 ? 512 : rows;
}

/* NULL beyond the last row */
static inline const uint8_t *kt__row_of(const kt__weight *w, int row) {
    return row < w->n_row ? w->data + (size_t)row * w->row_bytes : NULL;
}

/* A layer's part of the state that a segment begins with; NULL: zeros. */
static inline const float *kt__state_before(const kt__kv *kv, const kt__seg *seg, size_t at) {
    return seg->table->state ? kt__kv_state_data(kv, seg->table->state) + at : NULL;
}

static inline float *kt__state_after(const kt__kv *kv, const kt__seg *seg, int mark, size_t at) {
    return kt__kv_state_data(kv, seg->states[mark].piece) + at;
}

/* ---- recurrent.c ---- */

/* Heads whose states go through the segments' tokens. */
typedef struct kt__state_walk {
    int n_head, n_row; /* of each */
    const kt__kv *kv;
    size_t state_at;
    const kt__seg *segs;
    int n_seg;
    /* What the kernel is given for a head's rows from row0 on, at the batch's first token; all but
     * its s, n_row and n_tok. */
    kt__delta (*rows)(const void *desc, int head, int row0);
    const void *desc;
} kt__state_walk;

void kt__cpu_walk_states(kt__dev *dev, const kt__state_walk *desc);

/* ---- one file each ---- */
/* fn over rows; few of them run on the caller. */
void kt__dev_run_rows(kt__dev *dev, int n_tok, kt__pool_fn *fn, void *arg);
/* Runs one block of rows of w over all tokens into out (rows relative to the block). next: what
 * this worker will read after that, or NULL. */
void kt__dev_mm(const kt__dev *dev, const kt__weight *w, int row0, int n_row, const kt__acts *acts,
                const float *bias, const float *residual, const uint8_t *next, float *out,
                size_t ld_out, int worker);
/* The same for the rows of a chunk of items of KT__ROWS_ITEM rows. The last panel of many tokens
 * fetches from `then`: rows at the item that the pool will give out next. An unfetched panel
 * takes three times as long as its products with a few tokens. after: what is read after the rows
 * where tokens are few, or NULL. */
void kt__dev_mm_chunk(const kt__dev *dev, const kt__weight *w, int row0, int n_row,
                      const kt__acts *acts, const float *bias, const float *residual,
                      const kt__weight *then, const uint8_t *after, float *out, size_t ld_out,
                      int worker);
/* The acts with their tiles, made by all threads, where products with w read tiles; for the operation
 * at hand. w NULL: there are no products. */
kt__acts kt__dev_with_tiles(kt__dev *dev, const kt__acts *acts, const kt__weight *w);
/* The same on this thread, in `room`: kt__tiles_bytes of them. */
void kt__dev_put_tiles(const kt__dev *dev, kt__acts *acts, const kt__weight *w, uint8_t *room);
int64_t kt__dev_row_grain(const kt__dev *dev, const kt__weight *w, int n_tok);

/* Makes u of the site's input where it is not there: as items before those of the product that
 * follows, whose number is returned, or, without fuse and for many tokens, at once. An extra
 * division of the work would cost as much as the products of a few tokens. */
int64_t kt__dev_down_begin(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site,
                           bool fuse);
void kt__dev_down_end(kt__dev *dev);
/* The first of the items [begin, end), where they are A x; the rest, counted from the product's
 * first; false: there is none. */
bool kt__dev_down_items(kt__dev *dev, int64_t *begin, int64_t *end, int worker);
/* kt__pool_peek in the product's items. */
int64_t kt__dev_peek(const kt__dev *dev);

/* Adds what terms (or NULL) have at the site to outputs [row0, row0 + n_row) of tokens [tok0, tok0
 * + n_tok); out: of the first of both. */
void kt__dev_lora_add(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site, int row0,
                      int n_row, int tok0, int n_tok, float *out, size_t ld_out, int worker);

/* What is read after a product's rows from row0 on, for its prefetch: with a few tokens B of these
 * outputs, else `otherwise`. In a stream of weights B is a short one of its own, which no processor
 * foresees. */
const uint8_t *kt__dev_lora_next(const kt__lora_terms *terms, kt__lora_site site, int row0,
                                 int n_tok, const uint8_t *otherwise);

void kt__cpu_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                    const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                    float *out, size_t ld_out);
void kt__cpu_lora_down(kt__dev *dev, const kt__acts *acts, const kt__lora_terms *terms,
                       kt__net_input input);
void kt__cpu_lora_up(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site, int n_row,
                     int n_tok, float *out);
void kt__cpu_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out);
/* Rows [row0, row1) of a glu of few tokens, into its rows. */
void kt__glu_few(kt__dev *dev, const kt__glu *desc, const kt__acts *acts, int row0, int row1,
                 int worker);
/* The unit of KT__GLU_ROWS rows from row0 on for tokens [tok0, tok1), into columns of out. */
void kt__glu_unit(kt__dev *dev, const kt__glu *desc, const kt__acts *acts, int row0, int tok0,
                  int tok1, kt__acts *out, int worker);

/* ---- experts.c ---- */
/* Rows of each expert that are a process' own, in whole units, into columns of out, whose n_tok is set; split NULL: all. */
void kt__experts_glu_units(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           const kt__division *split, int unit, kt__acts *out);
/* Rows [row0, row1) of the sums. */
void kt__experts_down_rows(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc,
                           int row0, int row1);

/* ---- split_ops.c: of a device that has a part of every matrix ---- */
void kt__split_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                      float *out, size_t ld_out);
void kt__split_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out);
void kt__split_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           kt__acts *out);
void kt__split_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc);
void kt__split_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc);
void kt__split_attention(kt__dev *dev, const kt__attention *desc);

/* ---- tally.c: of a device that counts its weights; others have the operations that need none ---- */
void kt__tally_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                      float *out, size_t ld_out);
void kt__tally_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out);
void kt__tally_units(kt__dev *dev, const kt__glu *desc, int n_row);
void kt__tally_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc);
void kt__tally_attention(kt__dev *dev, const kt__attention *desc);
void kt__tally_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           kt__acts *out);
void kt__tally_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc);
/* rows: of all experts together */
void kt__tally_experts(kt__dev *dev, const kt__expert_weights *all, const kt__routing *routing,
                       int64_t rows);
void kt__tally_heads(kt__dev *dev, const kt__acts *acts, const kt__heads *desc);

bool kt__cpu_route(kt__dev *dev, const kt__route *desc, kt__routing *routing);
void kt__cpu_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                         kt__acts *out);
void kt__cpu_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc);
void kt__cpu_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc);
void kt__cpu_attention(kt__dev *dev, const kt__attention *desc);
void kt__cpu_attention_plain(kt__dev *dev, const kt__attention *desc);
void kt__cpu_embed(kt__dev *dev, const kt__weight *table, const int32_t *ids, int n_tok,
                   float scale, float *out);
bool kt__cpu_norm(kt__dev *dev, const float *x, const float *w, float eps, int n_tok,
                  kt__acts *acts);
void kt__cpu_scan(kt__dev *dev, const kt__scan *desc);
void kt__cpu_pairs(kt__dev *dev, const kt__pairs *desc);
void kt__cpu_blend(kt__dev *dev, const kt__blend *desc);
void kt__cpu_resize(kt__dev *dev, const float *like, int n_tok, int n, float *io);
void kt__cpu_cut(kt__dev *dev, float *x, int n_tok, int n, float by);
void kt__cpu_quantize(kt__dev *dev, const float *x, int n_tok, kt__acts *acts);
bool kt__cpu_norm_f32(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                      float *out);
bool kt__cpu_norm_add(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                      float *io);
void kt__cpu_centre(kt__dev *dev, float *x, int n_tok, int n);
void kt__cpu_add(kt__dev *dev, const float *y, int ld, int n_tok, int n, float *io);
void kt__cpu_gelu(kt__dev *dev, float *x, int64_t n);
void kt__cpu_relu2(kt__dev *dev, float *x, int64_t n);
void kt__cpu_mul(kt__dev *dev, const float *y, size_t ld_y, int n_tok, int n, float *io,
                 size_t ld_io);
void kt__cpu_split(kt__dev *dev, const float *x, int n_tok, int n_head, int n, float *out,
                   float *gate);
void kt__cpu_sigmoid_mul(kt__dev *dev, const float *gate, int n_tok, int n, float *io);
void kt__cpu_short_conv(kt__dev *dev, const kt__short_conv *desc);
void kt__cpu_delta_net(kt__dev *dev, const kt__delta_net *desc);
void kt__cpu_latent(kt__dev *dev, const kt__latent *desc);
void kt__cpu_heads(kt__dev *dev, const kt__acts *acts, const kt__heads *desc);
void kt__cpu_mamba(kt__dev *dev, const kt__mamba *desc);
void kt__cpu_unweave(kt__dev *dev, const float *x, int n_tok, int n_group, int n, float *beta,
                     float *alpha);
void kt__cpu_scale(kt__dev *dev, float *x, int64_t n, float factor);
void kt__cpu_softcap(kt__dev *dev, float *x, int64_t n, float cap);
bool kt__cpu_finite(kt__dev *dev, const float *x, int n_row, int n);

/* Which positions a query sees.
 *
 * That alone, for both ways of computing attention. Any thread. */

/* The first position that a query at pos sees. */
static inline int64_t kt__attention_first(const kt__attention *d, const kt__seg *seg, int64_t pos) {
    if (d->chunks && d->window > 0) return pos - pos % d->window;
    int64_t back = d->both_ways ? d->window / 2 : d->window - 1;
    return d->window > 0 && pos > back ? pos - back : seg->sees_from;
}

/* After the last position that it sees. */
static inline int64_t kt__attention_end(const kt__attention *d, const kt__seg *seg, int64_t pos) {
    if (!d->both_ways) {
        for (int i = 0; i < seg->n_span && seg->spans[i].from <= pos; i++)
            if (pos < seg->spans[i].to) return seg->spans[i].to;
        return d->not_own ? pos : pos + 1;
    }
    int64_t end = seg->pos0 + seg->n_tok;
    return d->window > 0 && pos + d->window / 2 + 1 < end ? pos + d->window / 2 + 1 : end;
}

#endif
