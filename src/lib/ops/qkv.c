/* Query, key and value projections as one range of heads; each head's bias, norm, rotation, scale
 * and K/V write follow while its rows are in cache. */
#include <string.h>

#include "ops/dev.h"

typedef struct qkv_job {
    kt__dev *dev;
    const kt__acts *acts;
    const kt__qkv *d;
} qkv_job;

static void rotate_head(const qkv_job *job, float *head, const float *norm, int t) {
    const kt__kernels *k = job->dev->kernels;
    const kt__qkv *d = job->d;
    const float *cs = d->cs + (size_t)t * (size_t)d->n_rot;
    if (norm && !d->norm_rotated) (void)k->rmsnorm(head, norm, d->head_dim_k, d->norm_eps, head);
    if (d->n_rot) (d->neox ? k->rope_neox : k->rope_norm)(head, cs, d->n_rot);
    if (norm && d->norm_rotated) (void)k->rmsnorm(head, norm, d->head_dim_k, d->norm_eps, head);
}

/* Heads are queries first, then keys, then values. */
static int head_of(const kt__qkv *d, int64_t item) {
    return (int)item + (d->kv_alone ? d->n_head : 0);
}

/* The first row of an item's head; NULL beyond the last. */
static const uint8_t *head_rows(const kt__qkv *d, int64_t item) {
    int head = head_of(d, item);
    if (d->q_rows && head < d->n_head + d->n_head_kv) return NULL;
    if (head < d->n_head) return kt__row_of(&d->wq, head * d->head_dim_k);
    head -= d->n_head;
    if (d->v_rows || d->q_alone) return NULL;
    if (head < d->n_head_kv) return kt__row_of(&d->wk, head * d->head_dim_k);
    return kt__row_of(&d->wv, (head - d->n_head_kv) * d->head_dim_v);
}

/* A head's part of rows that were made before. */
static void copy_head(const float *rows, size_t ld, int dim, int n_head, int head,
                      const qkv_job *job, float *out, size_t ld_out) {
    size_t hd = (size_t)dim;
    if (ld == 0) ld = (size_t)n_head * hd;
    for (int t = 0; t < job->acts->n_tok; t++)
        memcpy(out + (size_t)t * ld_out, rows + (size_t)t * ld + (size_t)head * hd,
               hd * sizeof *out);
}

static void query_head(const qkv_job *job, int head, const uint8_t *next, int worker) {
    const kt__qkv *d = job->d;
    size_t hd = (size_t)d->head_dim_k;
    size_t group = (size_t)(d->n_head / d->n_head_kv), n_tok = (size_t)job->acts->n_tok;
    size_t kv_head = (size_t)head / group, member = (size_t)head % group;
    size_t at = kv_head * n_tok * group + member;
    float *out = d->q_out + at * hd;
    if (d->q_rows) {
        copy_head(d->q_rows, d->ld_q_rows, d->head_dim_k, d->n_head, head, job, out, group * hd);
    } else {
        next = kt__dev_lora_next(d->lora, KT__SITE_Q, head * d->head_dim_k, job->acts->n_tok, next);
        kt__dev_mm(job->dev, &d->wq, head * d->head_dim_k, d->head_dim_k, job->acts, d->bq, NULL,
                   next, out, group * hd, worker);
        kt__dev_lora_add(job->dev, d->lora, KT__SITE_Q, head * d->head_dim_k, d->head_dim_k, 0,
                         job->acts->n_tok, out, group * hd, worker);
    }
    for (int t = 0; t < job->acts->n_tok; t++) {
        float *q = out + (size_t)t * group * hd;
        rotate_head(job, q, d->q_norm, t);
        float scale = d->q_row_scale ? d->q_scale * d->q_row_scale[t] : d->q_scale;
        job->dev->kernels->scale(q, d->head_dim_k, scale);
        if (!d->q_codes || !kt__kv_has_quantised(d->kv)) continue;
        size_t bytes = kt__query_code_bytes(d->head_dim_k);
        job->dev->kernels->code_query(q, d->head_dim_k,
                                      d->q_codes + (at + (size_t)t * group) * bytes,
                                      kt__dev_kernel_scratch(job->dev, worker));
    }
}

/* One head's part of a page, from its f16 copy to its place. */
static void quantise_part(const qkv_job *job, int32_t page, int head, bool key, void *scratch) {
    const kt__qkv *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    kt__kv_form form = key ? kt__kv_k_form(shape, d->layer) : shape->v_form;
    int dim = key ? d->head_dim_k : d->head_dim_v;
    const kt__f16 *f16 = (key ? kt__kv_k : kt__kv_v)(d->kv, page, d->layer, head);
    uint8_t *place = (key ? kt__kv_quantised_k : kt__kv_quantised_v)(d->kv, page, d->layer, head);
    if (form != KT__KV_F16) {
        (key ? k->quantise_k : k->quantise_v)[form](f16, dim, place, scratch);
    } else if ((const uint8_t *)f16 != place) {
        memcpy(place, f16, (size_t)dim * KT__PAGE_POS * sizeof *f16);
    }
}

/* The pages that queries of this batch, or soon, read quantised. */
static void quantise_head(const qkv_job *job, int head, bool key, int worker) {
    const kt__qkv *d = job->d;
    void *scratch = kt__dev_kernel_scratch(job->dev, worker);
    if (!kt__kv_is_quantised(kt__kv_get_shape(d->kv))) return;
    for (int s = 0; s < d->n_seg; s++) {
        const kt__kv_table *table = d->segs[s].table;
        if (d->segs[s].n_tok == 0) continue;
        for (int32_t i = table->quantise_from; i < table->quantise_to; i++) {
            if (kt__kv_is_due(d->kv, table, i, d->layer))
                quantise_part(job, table->pages[i], head, key, scratch);
        }
    }
}

/* Calls store for every token of the batch with its page's part and slot. */
static void store_head(const qkv_job *job, int head, bool key, const float *rows, int dim) {
    const kt__qkv *d = job->d;
    const kt__kernels *k = job->dev->kernels;
    for (int s = 0; s < d->n_seg; s++) {
        const kt__seg *seg = &d->segs[s];
        for (int i = 0; i < seg->n_tok; i++) {
            int64_t pos = seg->pos0 + i;
            int32_t page = seg->table->pages[pos / KT__PAGE_POS];
            const float *row = rows + (size_t)(seg->row0 + i) * (size_t)dim;
            int slot = (int)(pos % KT__PAGE_POS);
            if (key) {
                k->store_k(row, dim, slot, kt__kv_k(d->kv, page, d->layer, head));
            } else {
                k->store_v(row, dim, slot, kt__kv_v(d->kv, page, d->layer, head));
            }
        }
    }
}

static void key_head(const qkv_job *job, int head, const uint8_t *next, int worker) {
    const kt__qkv *d = job->d;
    float *tile = kt__dev_tile(job->dev, worker);
    if (d->k_rows) {
        copy_head(d->k_rows, d->ld_k_rows, d->head_dim_k, d->n_head_kv, head, job, tile,
                  (size_t)d->head_dim_k);
    } else {
        next = kt__dev_lora_next(d->lora, KT__SITE_K, head * d->head_dim_k, job->acts->n_tok, next);
        kt__dev_mm(job->dev, &d->wk, head * d->head_dim_k, d->head_dim_k, job->acts, d->bk, NULL,
                   next, tile, (size_t)d->head_dim_k, worker);
        kt__dev_lora_add(job->dev, d->lora, KT__SITE_K, head * d->head_dim_k, d->head_dim_k, 0,
                         job->acts->n_tok, tile, (size_t)d->head_dim_k, worker);
    }
    for (int t = 0; t < job->acts->n_tok; t++) {
        rotate_head(job, tile + (size_t)t * (size_t)d->head_dim_k, d->k_norm, t);
    }
    store_head(job, head, true, tile, d->head_dim_k);
    quantise_head(job, head, true, worker);
}

static void value_head(const qkv_job *job, int head, const uint8_t *next, int worker) {
    const kt__qkv *d = job->d;
    float *tile = kt__dev_tile(job->dev, worker);
    kt__lora_site site = d->v_is_k ? KT__SITE_K : KT__SITE_V;
    if (d->v_rows) {
        copy_head(d->v_rows, d->ld_v_rows, d->head_dim_v, d->n_head_kv, head, job, tile,
                  (size_t)d->head_dim_v);
    } else {
        next = kt__dev_lora_next(d->lora, site, head * d->head_dim_v, job->acts->n_tok, next);
        kt__dev_mm(job->dev, &d->wv, head * d->head_dim_v, d->head_dim_v, job->acts, d->bv, NULL,
                   next, tile, (size_t)d->head_dim_v, worker);
        kt__dev_lora_add(job->dev, d->lora, site, head * d->head_dim_v, d->head_dim_v, 0,
                         job->acts->n_tok, tile, (size_t)d->head_dim_v, worker);
    }
    for (int t = 0; d->v_norm && t < job->acts->n_tok; t++) {
        float *v = tile + (size_t)t * (size_t)d->head_dim_v;
        (void)job->dev->kernels->rmsnorm(v, d->v_norm, d->head_dim_v, d->norm_eps, v);
    }
    store_head(job, head, false, tile, d->head_dim_v);
    quantise_head(job, head, false, worker);
}

static void run_heads(void *arg, int64_t begin, int64_t end, int worker) {
    const qkv_job *job = arg;
    const kt__qkv *d = job->d;
    if (!kt__dev_down_items(job->dev, &begin, &end, worker)) return;
    for (int64_t item = begin; item < end; item++) {
        int64_t then = item + 1 < end ? item + 1 : kt__dev_peek(job->dev);
        const uint8_t *next = then < 0 ? NULL : head_rows(d, then);
        int head = head_of(d, item);
        if (head < d->n_head) {
            query_head(job, head, next, worker);
        } else if (head < d->n_head + d->n_head_kv) {
            key_head(job, head - d->n_head, next, worker);
        } else {
            value_head(job, head - d->n_head - d->n_head_kv, next, worker);
        }
    }
}

/* A matrix that is multiplied here. */
static const kt__weight *some_weight(const kt__qkv *d) {
    if (!d->q_rows && !d->kv_alone) return &d->wq;
    if (d->q_alone) return NULL;
    return !d->k_rows ? &d->wk : !d->v_rows ? &d->wv : NULL;
}

void kt__cpu_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc) {
    const kt__acts with = kt__dev_with_tiles(dev, acts, some_weight(desc));
    qkv_job job = {dev, &with, desc};
    int64_t items = desc->kv_alone ? 0 : desc->n_head;
    if (!desc->q_alone) items += 2 * desc->n_head_kv;
    items += kt__dev_down_begin(dev, desc->lora, KT__SITE_Q, true);
    kt__pool_run(dev->pool, items, 1, run_heads, &job);
    kt__dev_down_end(dev);
}
