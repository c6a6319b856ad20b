/* Operations of a process that has a part of each matrix: its rows, then everybody's results. Whatever has no operation
 * here is computed by every process alike. */
#include "ops/dev.h"

/* ---- products ---- */

static const float *from_row(const float *rows, int first) {
    return rows ? rows + first : NULL;
}

/* Low-rank terms of a product whose row `first` comes first here. NULL: there are none. */
static const kt__lora_terms *terms_from_row(const kt__lora_terms *terms, kt__lora_site site,
                                            int first, kt__lora_terms *own) {
    if (!terms) return NULL;
    if (terms != own) *own = *terms;
    own->first[site] = first;
    return own;
}

static uint64_t bytes_of(const kt__weight *w) {
    return w->data ? (uint64_t)w->n_row * w->row_bytes : 0;
}

typedef struct rows_job {
    kt__dev *dev;
    kt__weight own;
    const kt__acts *acts;
    const float *bias, *residual; /* of the first row here */
    const kt__lora_terms *lora;
    kt__lora_site site;
    float *out;
    size_t ld;
} rows_job;

static void multiply_tokens(void *arg, int tok0, int n_tok) {
    const rows_job *j = arg;
    kt__acts acts = kt__acts_rows(j->acts, tok0, n_tok);
    size_t at = (size_t)tok0 * j->ld;
    if (j->own.n_row > 0)
        j->dev->own->matmul(j->dev, &j->own, &acts, j->bias, j->residual ? j->residual + at : NULL,
                            j->lora, j->site, j->out + at, j->ld);
}

/* Adapters act on rows of the whole batch, which then is computed before it is exchanged. */
void kt__split_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                      float *out, size_t ld_out) {
    const kt__division *split = dev->limits.split;
    kt__lora_terms terms;
    if (!kt__division_pays(split, w->n_row, KT__ROWS_ITEM, bytes_of(w))) {
        dev->own->matmul(dev, w, acts, bias, residual, lora, site, out, ld_out);
        return;
    }
    kt__columns c = kt__columns_of(split, w->n_row, KT__ROWS_ITEM);
    int first = c.before[split->rank];
    rows_job job = {.dev = dev,
                    .own = kt__weight_rows(w, first, kt__columns_own(split, &c)),
                    .acts = acts,
                    .bias = from_row(bias, first),
                    .residual = from_row(residual, first),
                    .lora = terms_from_row(lora, site, first, &terms),
                    .site = site,
                    .out = out + first,
                    .ld = ld_out};
    if (lora) multiply_tokens(&job, 0, acts->n_tok);
    kt__exchange_rows(dev, &c, acts->n_tok, out, ld_out, lora ? NULL : multiply_tokens, &job);
}

/* ---- attention ---- */

static kt__columns columns_of_heads(const kt__division *split, const kt__attention *d) {
    kt__columns c;
    for (int r = 0; r < split->size; r++)
        c.before[r] = kt__division_heads_of(split, d->n_head, d->n_head_kv, r).q0 * d->head_dim_v;
    c.before[split->size] = d->n_head * d->head_dim_v;
    return c;
}

static kt__weight head_rows(const kt__weight *w, int head0, int n_head, int dim) {
    return w->data ? kt__weight_rows(w, head0 * dim, n_head * dim) : *w;
}

static kt__qkv own_heads(const kt__qkv *d, kt__division_heads h, kt__lora_terms *terms) {
    kt__qkv own = *d;
    int q0 = h.q0 * d->head_dim_k, k0 = h.kv0 * d->head_dim_k, v0 = h.kv0 * d->head_dim_v;
    own.lora = terms_from_row(d->lora, KT__SITE_Q, q0, terms);
    own.lora = terms_from_row(own.lora, KT__SITE_K, k0, terms);
    own.lora = terms_from_row(own.lora, KT__SITE_V, v0, terms);
    own.n_head = h.n_q;
    own.n_head_kv = h.n_kv;
    own.wq = head_rows(&d->wq, h.q0, h.n_q, d->head_dim_k);
    own.wk = head_rows(&d->wk, h.kv0, h.n_kv, d->head_dim_k);
    own.wv = head_rows(&d->wv, h.kv0, h.n_kv, d->head_dim_v);
    own.bq = from_row(d->bq, q0);
    own.bk = from_row(d->bk, k0);
    own.bv = from_row(d->bv, v0);
    own.q_rows = from_row(d->q_rows, q0);
    own.k_rows = from_row(d->k_rows, k0);
    own.v_rows = from_row(d->v_rows, v0);
    own.ld_q_rows = (size_t)(d->n_head * d->head_dim_k);
    own.ld_k_rows = (size_t)(d->n_head_kv * d->head_dim_k);
    own.ld_v_rows = (size_t)(d->n_head_kv * d->head_dim_v);
    return own;
}

void kt__split_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc) {
    const kt__division *split = dev->limits.split;
    kt__division_heads h = kt__division_heads_of(split, desc->n_head, desc->n_head_kv, split->rank);
    kt__lora_terms terms;
    if (h.n_q == 0) return;
    kt__qkv own = own_heads(desc, h, &terms);
    dev->own->qkv(dev, acts, &own);
}

void kt__split_attention(kt__dev *dev, const kt__attention *desc) {
    const kt__division *split = dev->limits.split;
    kt__division_heads h = kt__division_heads_of(split, desc->n_head, desc->n_head_kv, split->rank);
    kt__columns c = columns_of_heads(split, desc);
    kt__attention own = *desc;
    float *all = desc->n_tok == 1 ? desc->out : dev->stage;
    own.n_head = h.n_q;
    own.n_head_kv = h.n_kv;
    own.sinks = from_row(desc->sinks, h.q0);
    own.out = all + (size_t)desc->n_tok * (size_t)c.before[split->rank];
    if (h.n_q > 0) dev->own->attention(dev, &own);
    kt__exchange_parts(split, &c, desc->n_tok, all);
    for (int r = 0; all != desc->out && r < split->size; r++)
        kt__exchange_copy(&c, r, desc->n_tok, desc->out, (size_t)c.before[split->size], dev->stage,
                          false);
}

/* ---- the gated linear unit ---- */

typedef struct unit_job {
    kt__dev *dev;
    const kt__glu *d;
    const kt__acts *acts;
    kt__acts *out;
    int first, n; /* rows */
    int tok0, tok1;
} unit_job;

static void own_units(void *arg, int64_t begin, int64_t end, int worker) {
    const unit_job *job = arg;
    for (int64_t u = begin; u < end; u++)
        kt__glu_unit(job->dev, job->d, job->acts, job->first + (int)u * KT__GLU_ROWS, job->tok0,
                     job->tok1, job->out, worker);
}

static void units_of_tokens(void *arg, int tok0, int n_tok) {
    unit_job *job = arg;
    int64_t units = (job->n + KT__GLU_ROWS - 1) / KT__GLU_ROWS;
    job->tok0 = tok0;
    job->tok1 = tok0 + n_tok;
    if (job->dev->limits.split->tally)
        kt__tally_units(job->dev, job->d, job->n);
    else if (units > 0)
        kt__pool_run(job->dev->pool, units, 1, own_units, job);
}

/* A part of the columns is whole blocks of every kind. */
static int glu_unit_of(const kt__acts *out) {
    return out->kinds >> KT__ACT_Q256 & 1 ? 256 : 32;
}

void kt__split_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out) {
    const kt__division *split = dev->limits.split;
    int n_row = desc->gate.n_row, unit = glu_unit_of(out);
    if (!kt__division_pays(split, n_row, unit, bytes_of(&desc->gate) + bytes_of(&desc->up))) {
        dev->own->glu(dev, acts, desc, out);
        return;
    }
    kt__columns c = kt__columns_of(split, n_row, unit);
    kt__glu own = *desc;
    own.gate.n_row = own.up.n_row = c.before[split->rank + 1];
    const kt__acts with = kt__dev_with_tiles(dev, acts, split->tally ? NULL : &own.gate);
    unit_job job = {.dev = dev,
                    .d = &own,
                    .acts = &with,
                    .out = out,
                    .first = c.before[split->rank],
                    .n = kt__columns_own(split, &c)};
    out->n_tok = acts->n_tok;
    (void)kt__dev_down_begin(dev, desc->lora, KT__SITE_GATE, false);
    kt__exchange_acts(dev, &c, out, units_of_tokens, &job);
}

/* ---- experts: rows of each ---- */

/* Rows of all experts that are this process'. */
static int64_t count_own_rows(const kt__division *split, int n_row, int unit, int n_expert) {
    int64_t sum = 0;
    for (int e = 0; e < n_expert; e++)
        sum += kt__division_expert_row(split, n_row, unit, e, split->rank + 1) -
               kt__division_expert_row(split, n_row, unit, e, split->rank);
    return sum;
}

void kt__split_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           kt__acts *out) {
    const kt__division *split = dev->limits.split;
    const kt__routing *routing = desc->routing;
    int n_row = desc->gate.w.n_row, unit = glu_unit_of(out);
    if (routing->n_used * n_row < split->size * unit || !kt__exchange_fits_experts(dev, out)) {
        dev->own->experts_glu(dev, acts, desc, out);
        return;
    }
    out->n_tok = routing->n_slot;
    if (split->tally) {
        int64_t own = count_own_rows(split, n_row, unit, routing->n_expert);
        kt__tally_experts(dev, &desc->gate, routing, own);
        kt__tally_experts(dev, &desc->up, routing, own);
    } else {
        kt__experts_glu_units(dev, acts, desc, split, unit, out);
    }
    kt__exchange_experts(dev, unit, routing, out);
}

void kt__split_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc) {
    const kt__division *split = dev->limits.split;
    int n_row = desc->down.w.n_row;
    if (n_row < split->size * KT__ROWS_ITEM) {
        dev->own->experts_down(dev, acts, desc);
        return;
    }
    kt__columns c = kt__columns_of(split, n_row, KT__ROWS_ITEM);
    int first = c.before[split->rank], n = kt__columns_own(split, &c);
    if (split->tally)
        kt__tally_experts(dev, &desc->down, desc->routing, (int64_t)n * desc->routing->n_expert);
    else if (n > 0)
        kt__experts_down_rows(dev, acts, desc, first, first + n);
    kt__exchange_rows(dev, &c, desc->routing->n_tok, desc->x ? desc->x : desc->sum, (size_t)n_row,
                      NULL, NULL);
}
