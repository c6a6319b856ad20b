/* Operations of a process that has a part of each matrix: its rows, then everybody's results.
 *
 * Where a token's results are one row, they are exchanged in their place; else each process' columns are packed into
 * a stage, exchanged and put in their places. Whatever has no operation here is computed by every process alike.
 * No row has an adapter: answer/batch_message.c refuses them. */
#include <assert.h>
#include <string.h>

#include "ops/dev.h"

/* ---- exchanging columns of rows ---- */

/* Columns before a process' own, of n in units; of attention in heads. */
typedef struct columns {
    int before[KT__PEERS_MAX + 1];
} columns;

static columns columns_of(const kt__division *split, int n, int unit) {
    columns c;
    for (int r = 0; r <= split->size; r++) c.before[r] = kt__division_row(split, n, unit, r);
    return c;
}

static columns columns_of_heads(const kt__division *split, const kt__attention *d) {
    columns c;
    for (int r = 0; r < split->size; r++)
        c.before[r] = kt__division_heads_of(split, d->n_head, d->n_head_kv, r).q0 * d->head_dim_v;
    c.before[split->size] = d->n_head * d->head_dim_v;
    return c;
}

static int own_columns(const kt__division *split, const columns *c) {
    return c->before[split->rank + 1] - c->before[split->rank];
}

/* Everybody's parts of n_tok rows in the stage, or of one row in its place. */
static void exchange_parts(const kt__division *split, const columns *c, int n_tok, void *buf) {
    size_t at[KT__PEERS_MAX + 1];
    for (int r = 0; r <= split->size; r++)
        at[r] = (size_t)n_tok * (size_t)c->before[r] * sizeof(float);
    kt__peers_gather(split->peers, buf, at);
}

/* A process' columns between rows and their part of the stage. */
static void copy_part(const columns *c, int rank, int n_tok, float *rows, size_t ld, float *stage,
                      bool out) {
    size_t before = (size_t)c->before[rank], n = (size_t)c->before[rank + 1] - before;
    float *part = stage + (size_t)n_tok * before;
    for (int t = 0; t < n_tok; t++, part += n) {
        float *row = rows + (size_t)t * ld + before;
        memcpy(out ? part : row, out ? row : part, n * sizeof *row);
    }
}

static void exchange_rows(kt__dev *dev, const columns *c, int n_tok, float *rows, size_t ld) {
    const kt__division *split = dev->limits.split;
    size_t row_bytes = (size_t)c->before[split->size] * sizeof(float);
    int most = (int)(dev->stage_bytes / row_bytes);
    if (n_tok == 1 || most < 2) {
        for (int t = 0; t < n_tok; t++) exchange_parts(split, c, 1, rows + (size_t)t * ld);
        return;
    }
    for (int t = 0; t < n_tok; t += most) {
        int n = n_tok - t < most ? n_tok - t : most;
        float *first = rows + (size_t)t * ld;
        copy_part(c, split->rank, n, first, ld, dev->stage, true);
        exchange_parts(split, c, n, dev->stage);
        for (int r = 0; r < split->size; r++)
            if (r != split->rank) copy_part(c, r, n, first, ld, dev->stage, false);
    }
}

/* ---- products ---- */

static const float *from_row(const float *rows, int first) {
    return rows ? rows + first : NULL;
}

void kt__split_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                      float *out, size_t ld_out) {
    const kt__division *split = dev->limits.split;
    assert(!lora);
    if (w->n_row < split->size * KT__ROWS_ITEM) { /* a message takes longer */
        dev->own->matmul(dev, w, acts, bias, residual, lora, site, out, ld_out);
        return;
    }
    columns c = columns_of(split, w->n_row, KT__ROWS_ITEM);
    int first = c.before[split->rank], n = own_columns(split, &c);
    if (n > 0) {
        kt__weight own = kt__weight_rows(w, first, n);
        dev->own->matmul(dev, &own, acts, from_row(bias, first), from_row(residual, first), NULL,
                         site, out + first, ld_out);
    }
    exchange_rows(dev, &c, acts->n_tok, out, ld_out);
}

/* ---- attention ---- */

static kt__weight head_rows(const kt__weight *w, int head0, int n_head, int dim) {
    return w->data ? kt__weight_rows(w, head0 * dim, n_head * dim) : *w;
}

static kt__qkv own_heads(const kt__qkv *d, kt__division_heads h) {
    kt__qkv own = *d;
    int q0 = h.q0 * d->head_dim_k, k0 = h.kv0 * d->head_dim_k, v0 = h.kv0 * d->head_dim_v;
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
    assert(!desc->lora);
    if (h.n_q == 0) return;
    kt__qkv own = own_heads(desc, h);
    dev->own->qkv(dev, acts, &own);
}

void kt__split_attention(kt__dev *dev, const kt__attention *desc) {
    const kt__division *split = dev->limits.split;
    kt__division_heads h = kt__division_heads_of(split, desc->n_head, desc->n_head_kv, split->rank);
    columns c = columns_of_heads(split, desc);
    kt__attention own = *desc;
    float *all = desc->n_tok == 1 ? desc->out : dev->stage;
    own.n_head = h.n_q;
    own.n_head_kv = h.n_kv;
    own.sinks = from_row(desc->sinks, h.q0);
    own.out = all + (size_t)desc->n_tok * (size_t)c.before[split->rank];
    if (h.n_q > 0) dev->own->attention(dev, &own);
    exchange_parts(split, &c, desc->n_tok, all);
    for (int r = 0; all != desc->out && r < split->size; r++)
        copy_part(&c, r, desc->n_tok, desc->out, (size_t)c.before[split->size], dev->stage, false);
}

/* ---- the gated linear unit: its results travel as they are read, in 8 bits ---- */

/* Where the columns of one kind of activation rows lie: stretches of bytes, each with so many columns a byte or
 * bytes a column. */
typedef struct stretch {
    size_t at, bytes, per; /* bytes of `per` columns */
} stretch;

static int stretches_of(kt__act_kind kind, const kt__act_layout *layout, stretch *out) {
    if (kind == KT__ACT_F32) {
        out[0] = (stretch){0, 4, 1};
        return 1;
    }
    out[0] = (stretch){0, 1, 1};
    out[1] = (stretch){layout->d, 4, kind == KT__ACT_Q256 ? 256 : 32};
    out[2] = (stretch){layout->s32, 2, 32};
    out[3] = (stretch){layout->s16, 2, 16};
    return kind == KT__ACT_Q256 ? 4 : 3;
}

static size_t stretch_bytes(const stretch *s, int col) {
    return (size_t)col / s->per * s->bytes;
}

/* Columns [from, to) of an activation row, to or from packed bytes; returns the end of these. */
static uint8_t *copy_columns(const kt__acts *acts, int kind, uint8_t *row, int from, int to,
                             uint8_t *packed, bool out) {
    stretch s[4];
    int n = stretches_of((kt__act_kind)kind, &acts->layout[kind], s);
    for (int i = 0; i < n; i++) {
        uint8_t *part = row + s[i].at + stretch_bytes(&s[i], from);
        size_t bytes = stretch_bytes(&s[i], to) - stretch_bytes(&s[i], from);
        memcpy(out ? packed : part, out ? part : packed, bytes);
        packed += bytes;
    }
    return packed;
}

/* The padding after each stretch: only a process with the last columns has zeroed it. */
static void zero_ends(const kt__acts *acts, int kind, uint8_t *row) {
    const kt__act_layout *to = &acts->layout[kind];
    size_t ends[4] = {to->d, kind == KT__ACT_Q256 ? to->s16 : to->s32, to->row_bytes, to->s32};
    stretch s[4];
    int n = stretches_of((kt__act_kind)kind, to, s);
    if (kind == KT__ACT_F32) ends[0] = to->row_bytes;
    for (int i = 0; i < n; i++) {
        size_t end = s[i].at + stretch_bytes(&s[i], acts->n_col);
        memset(row + end, 0, ends[i] - end);
    }
}

/* A process' columns of tokens [tok0, tok1) in all kinds; returns the end of what is packed. */
static uint8_t *copy_acts(const kt__acts *acts, const columns *c, int rank, int tok0, int tok1,
                          uint8_t *packed, bool out) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts->kinds >> kind & 1)) continue;
        uint8_t *row = acts->data[kind] + (size_t)tok0 * acts->layout[kind].row_bytes;
        for (int t = tok0; t < tok1; t++, row += acts->layout[kind].row_bytes)
            packed = copy_columns(acts, kind, row, c->before[rank], c->before[rank + 1], packed,
                                  out);
    }
    return packed;
}

static void zero_padding(const kt__acts *acts) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts->kinds >> kind & 1)) continue;
        for (int t = 0; t < acts->n_tok; t++)
            zero_ends(acts, kind, acts->data[kind] + (size_t)t * acts->layout[kind].row_bytes);
    }
}

/* Bytes of a token's columns before each process' own, in all kinds together. */
static void token_bytes(const kt__division *split, const kt__acts *acts, const columns *c,
                        size_t *at) {
    for (int r = 0; r <= split->size; r++) {
        at[r] = 0;
        for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
            stretch s[4];
            if (!(acts->kinds >> kind & 1)) continue;
            int n = stretches_of((kt__act_kind)kind, &acts->layout[kind], s);
            for (int i = 0; i < n; i++) at[r] += stretch_bytes(&s[i], c->before[r]);
        }
    }
}

static void exchange_acts(kt__dev *dev, const columns *c, kt__acts *acts) {
    const kt__division *split = dev->limits.split;
    uint8_t *stage = (uint8_t *)dev->stage;
    size_t token[KT__PEERS_MAX + 1], at[KT__PEERS_MAX + 1];
    token_bytes(split, acts, c, token);
    int most = (int)(dev->stage_bytes / token[split->size]);
    for (int t = 0; t < acts->n_tok; t += most) {
        int end = acts->n_tok - t < most ? acts->n_tok : t + most;
        for (int r = 0; r <= split->size; r++) at[r] = (size_t)(end - t) * token[r];
        (void)copy_acts(acts, c, split->rank, t, end, stage + at[split->rank], true);
        kt__peers_gather(split->peers, stage, at);
        for (int r = 0; r < split->size; r++)
            if (r != split->rank) (void)copy_acts(acts, c, r, t, end, stage + at[r], false);
    }
    zero_padding(acts);
}

typedef struct unit_job {
    kt__dev *dev;
    const kt__glu *d;
    const kt__acts *acts;
    kt__acts *out;
    int first; /* row */
} unit_job;

static void own_units(void *arg, int64_t begin, int64_t end, int worker) {
    const unit_job *job = arg;
    for (int64_t u = begin; u < end; u++)
        kt__glu_unit(job->dev, job->d, job->acts, job->first + (int)u * KT__GLU_ROWS, 0,
                     job->acts->n_tok, job->out, worker);
}

/* A part of the columns is whole blocks of every kind. */
static int glu_unit_of(const kt__acts *out) {
    return out->kinds >> KT__ACT_Q256 & 1 ? 256 : 32;
}

void kt__split_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out) {
    const kt__division *split = dev->limits.split;
    int n_row = desc->gate.n_row, unit = glu_unit_of(out);
    assert(!desc->lora);
    if (n_row < split->size * unit) {
        dev->own->glu(dev, acts, desc, out);
        return;
    }
    columns c = columns_of(split, n_row, unit);
    kt__glu own = *desc;
    own.gate.n_row = own.up.n_row = c.before[split->rank + 1];
    unit_job job = {dev, &own, acts, out, c.before[split->rank]};
    out->n_tok = acts->n_tok;
    int64_t units = (own_columns(split, &c) + KT__GLU_ROWS - 1) / KT__GLU_ROWS;
    if (split->tally)
        kt__tally_units(dev, desc, own_columns(split, &c));
    else if (units > 0)
        kt__pool_run(dev->pool, units, 1, own_units, &job);
    exchange_acts(dev, &c, out);
}
