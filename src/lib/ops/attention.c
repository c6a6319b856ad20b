/* Attention over paged K/V.
 *
 * A tile is some consecutive tokens of one sequence under one kv head, with all query heads of its
 * group. Its splits of 256 positions are merged in ascending order, whichever thread computed them:
 * a tile either runs them one after the other, or, while there are fewer tiles than threads to
 * feed, they run in parallel and are merged afterwards by the same function. */
#include "ops/dev.h"

#include <math.h>

#include "base/math.h"
#include "kv/slabs.h"

typedef struct attn_job {
    kt__dev *dev;
    const kt__attention *d;
    int group, tile_tok;
    int64_t n_tiles;     /* over segments, heads and tiles */
    int64_t max_splits;  /* parallel form: splits a tile may have */
    size_t split_floats; /* parallel form: room of one split: m, l, o of every query */
} attn_job;

/* One tile, found by its number. */
typedef struct attn_tile {
    const kt__seg *seg;
    int head, tok0, n_tok; /* tokens of the segment */
    int64_t split0, split1;
} attn_tile;

static int64_t tiles_of(const attn_job *job, const kt__seg *seg) {
    return ((int64_t)seg->n_tok + job->tile_tok - 1) / job->tile_tok * job->d->n_head_kv;
}

static attn_tile find_tile(const attn_job *job, int64_t number) {
    const kt__attention *d = job->d;
    const kt__seg *seg = d->segs;
    while (number >= tiles_of(job, seg)) number -= tiles_of(job, seg++);
    /* the longest tiles, at the segment's end, come first: no worker is left with a long one at the
     * end */
    int64_t per_head = tiles_of(job, seg) / d->n_head_kv;
    int64_t tile = per_head - 1 - number / d->n_head_kv;
    attn_tile out = {.seg = seg, .head = (int)(number % d->n_head_kv)};
    out.tok0 = (int)tile * job->tile_tok;
    out.n_tok = seg->n_tok - out.tok0 < job->tile_tok ? seg->n_tok - out.tok0 : job->tile_tok;
    int64_t pos = seg->pos0 + out.tok0;
    out.split0 = kt__attention_first(d, seg, pos) / KT__SPLIT_POS;
    out.split1 = (kt__attention_end(d, seg, pos + out.n_tok - 1) - 1) / KT__SPLIT_POS + 1;
    return out;
}

static void set_pages(const attn_job *job, const attn_tile *tile, int64_t split, kt__attn *a) {
    const kt__attention *d = job->d;
    const kt__kv_table *table = tile->seg->table;
    for (int i = 0; i < KT__SPLIT_PAGES; i++) {
        int64_t index = split * KT__SPLIT_PAGES + i;
        bool have = index < table->n_pages;
        a->k[i] = have ? kt__kv_k(d->kv, table->pages[index], d->layer, tile->head) : NULL;
        a->v[i] = have ? kt__kv_v(d->kv, table->pages[index], d->layer, tile->head) : NULL;
    }
}

/* The keys of a split that its thread reads next, for prefetches, in the layer's own form, which most of
 * its pages are read in. */
static void set_next_keys(const attn_job *job, const attn_tile *tile, int64_t split, kt__attn *a) {
    const kt__attention *d = job->d;
    const kt__kv_table *table = tile->seg->table;
    a->next_k_bytes = kt__slabs_k_bytes(kt__kv_get_shape(d->kv), d->layer);
    for (int i = 0; i < KT__SPLIT_PAGES; i++) {
        int64_t index = split * KT__SPLIT_PAGES + i;
        if (index >= table->n_pages) break;
        a->next_k[i] = kt__kv_own_k(d->kv, table->pages[index], d->layer, tile->head);
    }
}

/* Every page before a query's own and the tail is read quantised, but page 0 where it stays f16; or
 * those that are pressed. What is in own is theirs, of the split. */
static void set_quantised(const attn_job *job, const attn_tile *tile, int64_t split, int first,
                          int n_tok, const kt__kv_pressed *pressed, int16_t *own,
                          kt__attn_quantised *x) {
    const kt__attention *d = job->d;
    const kt__kv_table *table = tile->seg->table;
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    size_t bytes = kt__query_code_bytes(d->head_dim_k);
    size_t row = (size_t)tile->head * (size_t)d->n_tok +
                 (size_t)(tile->seg->row0 + tile->tok0 + first);
    *x = (kt__attn_quantised){.k_form = kt__kv_k_form(shape, d->layer),
                              .v_form = shape->v_form,
                              .from = shape->first_f16 && split == 0,
                              .own = own};
    if (pressed->n) {
        x->k_form = pressed->k_form;
        x->v_form = pressed->v_form;
    }
    if (d->q_codes) x->q = d->q_codes + row * (size_t)job->group * bytes;
    x->ld_q = bytes;
    for (int i = 0; i < KT__SPLIT_PAGES; i++) {
        int64_t index = split * KT__SPLIT_PAGES + i;
        if (index >= table->n_pages) continue;
        x->k[i] = kt__kv_quantised_k(d->kv, table->pages[index], d->layer, tile->head);
        x->v[i] = kt__kv_quantised_v(d->kv, table->pages[index], d->layer, tile->head);
    }
    for (int i = 0; i < n_tok * job->group; i++) {
        int64_t pos = tile->seg->pos0 + tile->tok0 + first + i / job->group;
        int64_t page = pressed->n ? pressed->n
                                  : kt__kv_tail_from(shape, pos) - split * KT__SPLIT_PAGES;
        own[i] = (int16_t)(page < 0 ? 0 : page < KT__SPLIT_PAGES ? page : KT__SPLIT_PAGES);
    }
}

/* The queries of the tile that see something of the split: ranges into lo and hi; returns their
 * first token, and their number of tokens in *n_tok. */
static int visible_tokens(const attn_job *job, const attn_tile *tile, int64_t split, int16_t *lo,
                          int16_t *hi, int *n_tok) {
    int64_t begin = split * KT__SPLIT_POS;
    int first = -1;
    *n_tok = 0;
    for (int t = 0; t < tile->n_tok; t++) {
        int64_t pos = tile->seg->pos0 + tile->tok0 + t;
        int64_t from = kt__attention_first(job->d, tile->seg, pos) - begin;
        int64_t to = kt__attention_end(job->d, tile->seg, pos) - begin;
        if (from < 0) from = 0;
        if (to > KT__SPLIT_POS) to = KT__SPLIT_POS;
        if (from >= to) continue;
        if (first < 0) first = t;
        for (int j = 0; j < job->group; j++) {
            lo[*n_tok * job->group + j] = (int16_t)from;
            hi[*n_tok * job->group + j] = (int16_t)to;
        }
        ++*n_tok;
    }
    return first;
}

/* Computes one split of a tile into m, l, o (of the visible queries only), after which comes the
 * next one or not; returns the first visible token. */
static int run_split(const attn_job *job, const attn_tile *tile, int64_t split, bool last,
                     int16_t *ranges, float *m, float *l, float *o, int *n_tok, int worker) {
    const kt__attention *d = job->d;
    size_t hd = (size_t)d->head_dim_k;
    int16_t *hi = ranges + job->tile_tok * job->group;
    int first = visible_tokens(job, tile, split, ranges, hi, n_tok);
    if (first < 0) return first;
    size_t row = (size_t)(tile->seg->row0 + tile->tok0 + first);
    kt__attn a = {
        .head_dim_k = d->head_dim_k,
        .head_dim_v = d->head_dim_v,
        .q = d->q + ((size_t)tile->head * (size_t)d->n_tok + row) * (size_t)job->group * hd,
        .ld_q = hd,
        .n_q = *n_tok * job->group,
        .lo = ranges,
        .hi = hi,
        .softcap = d->softcap,
        .m = m,
        .l = l,
        .o = o,
        .ld_o = (size_t)d->head_dim_v,
    };
    set_pages(job, tile, split, &a);
    if (!last) set_next_keys(job, tile, split + 1, &a);
    kt__attn_quantised quantised;
    kt__kv_pressed pressed = kt__kv_pressed_of(d->kv, tile->seg->table, split, d->layer);
    if (pressed.n || kt__kv_is_quantised(kt__kv_get_shape(d->kv))) {
        set_quantised(job, tile, split, first, *n_tok, &pressed, hi + job->tile_tok * job->group,
                      &quantised);
        a.quantised = &quantised;
    }
    job->dev->kernels->attn(&a, kt__dev_kernel_scratch(job->dev, worker));
    return first;
}

static void merge_split(const attn_job *job, const float *m, const float *l, const float *o,
                        int first, int n_tok, float *run_m, float *run_l, float *run_o,
                        int64_t *done_upto) {
    int hd = job->d->head_dim_v;
    for (int i = 0; i < n_tok * job->group; i++) {
        int q = first * job->group + i;
        float *big = run_o + (size_t)q * (size_t)hd;
        const float *part = o + (size_t)i * (size_t)hd;
        if (q >= *done_upto) { /* tokens come into sight in ascending order, so this is their first
                                  split */
            run_m[q] = m[i];
            run_l[q] = l[i];
            for (int c = 0; c < hd; c++) big[c] = part[c];
            *done_upto = q + 1;
        } else {
            job->dev->kernels->attn_merge(&run_m[q], &run_l[q], big, m[i], l[i], part, hd);
        }
    }
}

/* A sink is merged as a last split of one position whose value is zero. */
static void merge_sink(const attn_job *job, int head, float *run_m, float *run_l, float *run_o) {
    static const float nothing[KT__SINK_DIM_MAX];
    const kt__attention *d = job->d;
    job->dev->kernels->attn_merge(run_m, run_l, run_o, d->sinks[head], 1.0f, nothing,
                                  d->head_dim_v);
}

static void write_out(const attn_job *job, const attn_tile *tile, float *run_m, float *run_l,
                      float *run_o) {
    const kt__attention *d = job->d;
    size_t hd = (size_t)d->head_dim_v, ld = (size_t)d->n_head * hd;
    for (int i = 0; i < tile->n_tok * job->group; i++) {
        size_t row = (size_t)(tile->seg->row0 + tile->tok0 + i / job->group);
        size_t head = (size_t)(tile->head * job->group + i % job->group);
        if (d->sinks) merge_sink(job, (int)head, run_m + i, run_l + i, run_o + (size_t)i * hd);
        job->dev->kernels->attn_finish(run_o + (size_t)i * hd, run_l[i], d->head_dim_v,
                                       d->out + row * ld + head * hd);
    }
}

/* Serial form: all splits of a tile by one worker. */
static void run_tiles(void *arg, int64_t begin, int64_t end, int worker) {
    const attn_job *job = arg;
    size_t n_q = (size_t)(job->tile_tok * job->group), hd = (size_t)job->d->head_dim_v;
    float *run_m = kt__dev_tile(job->dev, worker);
    float *run_l = run_m + n_q, *m = run_l + n_q, *l = m + n_q;
    float *run_o = l + n_q, *o = run_o + n_q * hd;
    int16_t *ranges = (int16_t *)(void *)(o + n_q * hd);
    for (int64_t number = begin; number < end; number++) {
        attn_tile tile = find_tile(job, number);
        int64_t done_upto = 0;
        for (int64_t split = tile.split0; split < tile.split1; split++) {
            int n_tok;
            int first = run_split(job, &tile, split, split + 1 == tile.split1, ranges, m, l, o,
                                  &n_tok, worker);
            merge_split(job, m, l, o, first, n_tok, run_m, run_l, run_o, &done_upto);
        }
        write_out(job, &tile, run_m, run_l, run_o);
    }
}

/* Parallel form: item = tile * max_splits + split. */
static float *split_room(const attn_job *job, int64_t item) {
    return job->dev->partial + (size_t)item * job->split_floats;
}

static void run_splits(void *arg, int64_t begin, int64_t end, int worker) {
    const attn_job *job = arg;
    size_t n_q = (size_t)(job->tile_tok * job->group);
    int16_t *ranges = (int16_t *)(void *)kt__dev_tile(job->dev, worker);
    for (int64_t item = begin; item < end; item++) {
        attn_tile tile = find_tile(job, item / job->max_splits);
        int64_t split = tile.split0 + item % job->max_splits;
        if (split >= tile.split1) continue;
        float *m = split_room(job, item);
        int n_tok;
        bool last = item + 1 == end || split + 1 == tile.split1;
        (void)run_split(job, &tile, split, last, ranges, m, m + n_q, m + 2 * n_q, &n_tok, worker);
    }
}

static void merge_tiles(void *arg, int64_t begin, int64_t end, int worker) {
    const attn_job *job = arg;
    size_t n_q = (size_t)(job->tile_tok * job->group);
    float *run_m = kt__dev_tile(job->dev, worker);
    float *run_l = run_m + n_q, *run_o = run_l + n_q;
    int16_t *ranges = (int16_t *)(void *)(run_o + n_q * (size_t)job->d->head_dim_v);
    for (int64_t number = begin; number < end; number++) {
        attn_tile tile = find_tile(job, number);
        int64_t done_upto = 0;
        for (int64_t split = tile.split0; split < tile.split1; split++) {
            const float *m = split_room(job, number * job->max_splits + split - tile.split0);
            int n_tok;
            int first = visible_tokens(job, &tile, split, ranges, ranges + n_q, &n_tok);
            merge_split(job, m, m + n_q, m + 2 * n_q, first, n_tok, run_m, run_l, run_o,
                        &done_upto);
        }
        write_out(job, &tile, run_m, run_l, run_o);
    }
}

static bool wants_parallel_splits(const attn_job *job) {
    size_t need = (size_t)(job->n_tiles * job->max_splits) * job->split_floats;
    return job->dev->n_threads > 1 && job->max_splits > 1 &&
           job->n_tiles < 4 * (int64_t)job->dev->n_threads && need <= job->dev->partial_floats;
}

void kt__cpu_attention(kt__dev *dev, const kt__attention *desc) {
    attn_job job = {.dev = dev, .d = desc, .group = desc->n_head / desc->n_head_kv};
    int widest = 1;
    if (dev->limits.plain_attention) {
        kt__cpu_attention_plain(dev, desc);
        return;
    }
    for (int s = 0; s < desc->n_seg; s++) {
        if (desc->segs[s].n_tok > widest) widest = desc->segs[s].n_tok;
    }
    job.tile_tok = kt__attn_tile_tokens(job.group);
    if (job.tile_tok > widest) job.tile_tok = widest;
    job.split_floats = (size_t)(job.tile_tok * job.group) * ((size_t)desc->head_dim_v + 2);
    for (int s = 0; s < desc->n_seg; s++) {
        const kt__seg *seg = &desc->segs[s];
        int64_t last = seg->pos0 + seg->n_tok - 1;
        int64_t n_split = last / KT__SPLIT_POS + 1 -
                          kt__attention_first(desc, seg, seg->pos0) / KT__SPLIT_POS;
        if (n_split > job.max_splits) job.max_splits = n_split;
        job.n_tiles += tiles_of(&job, seg);
    }
    if (wants_parallel_splits(&job)) {
        kt__pool_run(dev->pool, job.n_tiles * job.max_splits, 1, run_splits, &job);
        kt__pool_run(dev->pool, job.n_tiles, 1, merge_tiles, &job);
    } else {
        kt__pool_run(dev->pool, job.n_tiles, 1, run_tiles, &job);
    }
}

/* Attention as the textbook has it, for comparison: a query's scores with every position that it
 * sees as one row in f32, the row's softmax, and the sum of all values, each in one pass. Its sums
 * run in another order than those of ops/attention.c, so that its last bits differ. */

typedef struct plain_job {
    const kt__dev *dev;
    const kt__attention *d;
    const kt__seg *seg;
} plain_job;

static kt__f16 *page_k(const plain_job *job, int64_t pos, int head) {
    return kt__kv_k(job->d->kv, job->seg->table->pages[pos / KT__PAGE_POS], job->d->layer, head);
}

static kt__f16 *page_v(const plain_job *job, int64_t pos, int head) {
    return kt__kv_v(job->d->kv, job->seg->table->pages[pos / KT__PAGE_POS], job->d->layer, head);
}

static float score_at(const plain_job *job, const float *q, int64_t pos, int head) {
    const kt__f16 *k = page_k(job, pos, head) + pos % KT__PAGE_POS;
    float sum = 0, cap = job->d->softcap;
    for (int i = 0; i < job->d->head_dim_k; i++) sum += q[i] * kt__f16_to_f32(k[i * KT__PAGE_POS]);
    return cap > 0 ? cap * tanhf(sum / cap) : sum;
}

/* Makes scores[n] weights, which with the sink's, if there is one, add up to 1. */
static void softmax_row(float *scores, int64_t n, const float *sink) {
    float most = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = scores[i] > most ? scores[i] : most;
    for (int64_t i = 0; i < n; i++) sum += scores[i] = expf(scores[i] - most);
    if (sink) sum += expf(*sink - most);
    for (int64_t i = 0; i < n; i++) scores[i] /= sum;
}

static void add_values(const plain_job *job, const float *weights, int64_t from, int64_t to,
                       int head, float *out) {
    int dim = job->d->head_dim_v;
    for (int i = 0; i < dim; i++) out[i] = 0;
    for (int64_t pos = from; pos < to; pos++) {
        const kt__f16 *v = page_v(job, pos, head) + pos % KT__PAGE_POS * dim;
        for (int i = 0; i < dim; i++) out[i] += weights[pos - from] * kt__f16_to_f32(v[i]);
    }
}

/* Items are a segment's tokens with each head. */
static void run_queries(void *arg, int64_t begin, int64_t end, int worker) {
    const plain_job *job = arg;
    const kt__attention *d = job->d;
    int group = d->n_head / d->n_head_kv;
    float *scores = job->dev->partial + (int64_t)worker * job->dev->limits.n_ctx;
    for (int64_t item = begin; item < end; item++) {
        int t = (int)(item / d->n_head), h = (int)(item % d->n_head), head = h / group;
        int64_t row = job->seg->row0 + t,
                from = kt__attention_first(d, job->seg, job->seg->pos0 + t);
        int64_t to = kt__attention_end(d, job->seg, job->seg->pos0 + t);
        const float *q = d->q + (((size_t)head * (size_t)d->n_tok + (size_t)row) * (size_t)group +
                                 (size_t)(h % group)) *
                                    (size_t)d->head_dim_k;
        for (int64_t pos = from; pos < to; pos++) scores[pos - from] = score_at(job, q, pos, head);
        softmax_row(scores, to - from, d->sinks ? &d->sinks[h] : NULL);
        add_values(job, scores, from, to, head,
                   d->out + ((size_t)row * (size_t)d->n_head + (size_t)h) * (size_t)d->head_dim_v);
    }
}

void kt__cpu_attention_plain(kt__dev *dev, const kt__attention *d) {
    for (int s = 0; s < d->n_seg; s++) {
        plain_job job = {dev, d, &d->segs[s]};
        kt__pool_run(dev->pool, (int64_t)d->segs[s].n_tok * d->n_head, 1, run_queries, &job);
    }
}
