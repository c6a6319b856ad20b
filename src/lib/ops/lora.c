/* Low-rank terms over the pool. */

#include "base/clock.h"
#include "base/thread.h"
#include "ops/dev.h"

/* ---- their time: of worker 0, which does its share of whatever there is ---- */

static int64_t begin_lora(int worker) {
    return worker == 0 ? kt__now_ns() : 0;
}

static void end_lora(kt__dev *dev, int worker, int64_t begin_ns) {
    if (worker == 0) dev->lora_ns += kt__now_ns() - begin_ns;
}

int64_t kt__dev_take_lora_ns(kt__dev *dev) {
    int64_t ns = dev->lora_ns;
    dev->lora_ns = 0;
    return ns;
}

static const kt__lora_block *block_of(const kt__lora_terms *terms, const kt__lora_use *use) {
    return &use->lora->blocks[terms->block];
}

/* ---- u = f (A x) ---- */

enum {
    DOWN_ROWS = 4,    /* of A in an item, where tokens are few */
    DOWN_TOKENS = 32, /* in an item, with all of A, where they are many */
    FEW_TOKENS = 4    /* of a product that takes about as long as its weights are read */
};

typedef struct down_job {
    const kt__dev *dev;
    const kt__acts *acts;
    const kt__lora_terms *terms;
    kt__net_input input;
} down_job;

static int64_t down_items_of(const kt__lora_rows *rows, const kt__lora_a *a) {
    if (a->rank == 0 || rows->n_tok == 0) return 0;
    if (rows->n_tok >= DOWN_TOKENS) return (rows->n_tok + DOWN_TOKENS - 1) / DOWN_TOKENS;
    return (a->rank + DOWN_ROWS - 1) / DOWN_ROWS;
}

/* Numbers [j0, j1) of u times the factors of the products they are for. */
static void scale_u(const kt__kernels *k, const kt__lora_block *block, kt__net_input input,
                    float scale, int j0, int j1, int n_tok, float *u) {
    for (int s = 0; s < KT__SITES; s++) {
        const kt__lora_b *b = &block->b[s];
        if (b->rank == 0 || b->shares_u || kt__lora_input_of((kt__lora_site)s) != input) continue;
        int from = b->at > j0 ? b->at : j0, to = b->at + b->rank < j1 ? b->at + b->rank : j1;
        for (int t = 0; from < to && t < n_tok; t++)
            k->scale(u + (size_t)t * KT__LORA_U_MAX + (from - j0), to - from, scale * b->factor);
    }
}

/* Rows [j0, j1) of A against n_tok tokens from tok0 on; u: of the first number and token. */
static void down_product(const down_job *job, const kt__lora_use *use, int j0, int j1, int tok0,
                         int n_tok, float *u, int worker) {
    const kt__lora_block *block = block_of(job->terms, use);
    const kt__lora_a *a = &block->a[job->input];
    size_t row_bytes = (size_t)a->n_col * sizeof(kt__f16);
    size_t act_bytes = job->acts->layout[KT__ACT_F32].row_bytes;
    kt__mm mm = {
        .type = KT__TYPE_F16,
        .w = (const uint8_t *)a->rows + (size_t)j0 * row_bytes,
        .w_row_bytes = row_bytes,
        .n_row = j1 - j0,
        .n_col = a->n_col,
        .act = job->acts->data[KT__ACT_F32] + (size_t)tok0 * act_bytes,
        .act_row_bytes = act_bytes,
        .n_tok = n_tok,
        .out = u,
        .ld_out = KT__LORA_U_MAX,
    };
    const kt__mm_kernels *fns = job->dev->kernels->mm[KT__TYPE_F16];
    (n_tok >= fns->gemm_min_tok ? fns->gemm
                                : fns->rowdot)(&mm, kt__dev_kernel_scratch(job->dev, worker));
    scale_u(job->dev->kernels, block, job->input, use->scale, j0, j1, n_tok, u);
}

/* Items [begin, end) of one adapter: one product, so that A is read as one stream. */
static void down_range(const down_job *job, const kt__lora_rows *rows, const kt__lora_use *use,
                       int at, int64_t begin, int64_t end, int worker) {
    int rank = block_of(job->terms, use)->a[job->input].rank;
    bool by_token = rows->n_tok >= DOWN_TOKENS;
    int step = by_token ? DOWN_TOKENS : DOWN_ROWS, most = by_token ? rows->n_tok : rank;
    int from = (int)begin * step, to = (int)end * step < most ? (int)end * step : most;
    int j0 = by_token ? 0 : from, j1 = by_token ? rank : to;
    int t0 = by_token ? from : 0, t1 = by_token ? to : rows->n_tok;
    float *u = job->terms->u + (size_t)(rows->row0 + t0) * KT__LORA_U_MAX + at + j0;
    down_product(job, use, j0, j1, rows->row0 + t0, t1 - t0, u, worker);
}

/* Items follow each other by rows, then adapters. */
static void down_items(void *arg, int64_t begin, int64_t end, int worker) {
    const down_job *job = arg;
    int64_t first = 0;
    for (int g = 0; g < job->terms->n_rows && first < end; g++) {
        const kt__lora_rows *rows = &job->terms->rows[g];
        int at = 0;
        for (int i = 0; i < rows->n_use; i++) {
            const kt__lora_a *a = &block_of(job->terms, &rows->uses[i])->a[job->input];
            int64_t n = down_items_of(rows, a), from = begin > first ? begin - first : 0;
            int64_t to = end - first < n ? end - first : n;
            if (from < to) down_range(job, rows, &rows->uses[i], at, from, to, worker);
            first += n;
            at += a->rank;
        }
    }
}

static int64_t count_items(const kt__lora_terms *terms, kt__net_input input) {
    int64_t n = 0;
    for (int g = 0; g < terms->n_rows; g++) {
        const kt__lora_rows *rows = &terms->rows[g];
        for (int i = 0; i < rows->n_use; i++)
            n += down_items_of(rows, &block_of(terms, &rows->uses[i])->a[input]);
    }
    return n;
}

void kt__cpu_lora_down(kt__dev *dev, const kt__acts *acts, const kt__lora_terms *terms,
                       kt__net_input input) {
    down_job job = {dev, acts, terms, input};
    int64_t begin_ns = begin_lora(0);
    kt__pool_run(dev->pool, count_items(terms, input), 1, down_items, &job);
    end_lora(dev, 0, begin_ns);
}

/* ---- together with the product ---- */

static bool has_many_tokens(const kt__lora_terms *terms) {
    for (int g = 0; g < terms->n_rows; g++)
        if (terms->rows[g].n_tok >= DOWN_TOKENS) return true;
    return false;
}

int64_t kt__dev_down_begin(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site,
                           bool fuse) {
    kt__net_input input = kt__lora_input_of(site);
    if (!terms || !terms->acts) return 0;
    if (!fuse || has_many_tokens(terms)) {
        kt__cpu_lora_down(dev, terms->acts, terms, input);
        return 0;
    }
    dev->down = terms;
    dev->down_input = input;
    dev->n_down = count_items(terms, input);
    atomic_store(&dev->down_left, dev->n_down);
    return dev->n_down;
}

void kt__dev_down_end(kt__dev *dev) {
    dev->n_down = 0;
}

bool kt__dev_down_items(kt__dev *dev, int64_t *begin, int64_t *end, int worker) {
    int64_t n = dev->n_down, stop = *end < n ? *end : n;
    if (*begin < n) {
        down_job job = {dev, dev->down->acts, dev->down, dev->down_input};
        int64_t begin_ns = begin_lora(worker);
        down_items(&job, *begin, stop, worker);
        end_lora(dev, worker, begin_ns);
        atomic_fetch_sub_explicit(&dev->down_left, stop - *begin, memory_order_release);
        *begin = n;
    }
    *begin -= n;
    *end -= n;
    return *begin < *end;
}

int64_t kt__dev_peek(const kt__dev *dev) {
    int64_t item = kt__pool_peek(dev->pool);
    return item < dev->n_down ? -1 : item - dev->n_down;
}

/* Items are given out in order, so all of A x is with a worker before a row of the product is. */
static void wait_for_u(const kt__dev *dev) {
    for (int i = 0; atomic_load_explicit(&dev->down_left, memory_order_acquire) > 0; i++)
        if (i > 1000) sched_yield();
}

/* ---- out += B u ---- */

static void add_rows(const kt__dev *dev, const kt__lora_terms *terms, const kt__lora_rows *rows,
                     kt__lora_site site, kt__low_rank term, int tok0, int tok1) {
    int from = rows->row0 > tok0 ? rows->row0 : tok0;
    int to = rows->row0 + rows->n_tok < tok1 ? rows->row0 + rows->n_tok : tok1;
    const float *u = terms->u + (size_t)from * KT__LORA_U_MAX;
    kt__net_input input = kt__lora_input_of(site);
    if (from >= to) return;
    term.n_tok = to - from;
    term.first += terms->first[site];
    term.out += (size_t)(from - tok0) * term.ld_out;
    for (int i = 0; i < rows->n_use; i++) {
        const kt__lora_block *block = block_of(terms, &rows->uses[i]);
        const kt__lora_b *b = &block->b[site];
        term.b = b->panels;
        term.rank = b->rank;
        term.u = u + b->at;
        if (b->rank) dev->kernels->low_rank_add(&term);
        u += block->a[input].rank;
    }
}

void kt__dev_lora_add(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site, int row0,
                      int n_row, int tok0, int n_tok, float *out, size_t ld_out, int worker) {
    kt__low_rank term = {
        .first = row0, .n = n_row, .ld_u = KT__LORA_U_MAX, .out = out, .ld_out = ld_out};
    if (!terms) return;
    int64_t begin_ns = begin_lora(worker);
    if (site == KT__SITE_GATE) term.next = kt__dev_lora_next(terms, KT__SITE_UP, row0, n_tok, NULL);
    wait_for_u(dev);
    for (int g = 0; g < terms->n_rows; g++)
        add_rows(dev, terms, &terms->rows[g], site, term, tok0, tok0 + n_tok);
    end_lora(dev, worker, begin_ns);
}

const uint8_t *kt__dev_lora_next(const kt__lora_terms *terms, kt__lora_site site, int row0,
                                 int n_tok, const uint8_t *otherwise) {
    if (n_tok > FEW_TOKENS) return otherwise;
    if (terms) row0 += terms->first[site];
    for (int g = 0; terms && g < terms->n_rows; g++) {
        const kt__lora_rows *rows = &terms->rows[g];
        for (int i = 0; i < rows->n_use; i++) {
            const kt__lora_b *b = &block_of(terms, &rows->uses[i])->b[site];
            size_t panel = (size_t)b->rank * KT__PANEL_ROWS;
            if (b->rank)
                return (const uint8_t *)(b->panels + (size_t)(row0 / KT__PANEL_ROWS) * panel);
        }
    }
    return otherwise;
}

typedef struct up_job {
    kt__dev *dev;
    const kt__lora_terms *terms;
    kt__lora_site site;
    int n_row, n_tok;
    float *out;
} up_job;

static void up_items(void *arg, int64_t begin, int64_t end, int worker) {
    const up_job *job = arg;
    int row0 = (int)begin * KT__GLU_ROWS, row1 = (int)end * KT__GLU_ROWS;
    if (row1 > job->n_row) row1 = job->n_row;
    kt__dev_lora_add(job->dev, job->terms, job->site, row0, row1 - row0, 0, job->n_tok,
                     job->out + row0, (size_t)job->n_row, worker);
}

void kt__cpu_lora_up(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site, int n_row,
                     int n_tok, float *out) {
    up_job job = {dev, terms, site, n_row, n_tok, out};
    int64_t items = (n_row + KT__GLU_ROWS - 1) / KT__GLU_ROWS;
    kt__pool_run(dev->pool, items, 1, up_items, &job);
}
