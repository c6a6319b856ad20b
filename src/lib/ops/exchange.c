#include "ops/dev.h"

#include <string.h>

/* ---- rows of floats ---- */

kt__columns kt__columns_of(const kt__division *split, int n, int unit) {
    kt__columns c;
    for (int r = 0; r <= split->size; r++) c.before[r] = kt__division_row(split, n, unit, r);
    return c;
}

int kt__columns_own(const kt__division *split, const kt__columns *c) {
    return c->before[split->rank + 1] - c->before[split->rank];
}

void kt__exchange_parts(const kt__division *split, const kt__columns *c, int n_tok, void *buf) {
    size_t at[KT__PEERS_MAX + 1];
    for (int r = 0; r <= split->size; r++)
        at[r] = (size_t)n_tok * (size_t)c->before[r] * sizeof(float);
    kt__peers_gather(split->peers, buf, at);
}

void kt__exchange_copy(const kt__columns *c, int rank, int n_tok, float *rows, size_t ld,
                       float *stage, bool out) {
    size_t before = (size_t)c->before[rank], n = (size_t)c->before[rank + 1] - before;
    float *part = stage + (size_t)n_tok * before;
    for (int t = 0; t < n_tok; t++, part += n) {
        float *row = rows + (size_t)t * ld + before;
        memcpy(out ? part : row, out ? row : part, n * sizeof *row);
    }
}

/* ---- in parts, the one computed while the other travels ---- */

enum {
    PARTS = 4,        /* of a prompt's rows: what the last one's exchange takes is waited for */
    PART_TOKENS = 128 /* of each, at least: fewer are slower to compute */
};

/* Rows [tok0, tok0 + n_tok), in a half of the stage. */
typedef struct exchanged_part {
    int tok0, n_tok;
    uint8_t *stage;
    size_t at[KT__PEERS_MAX + 1];
} exchanged_part;

/* What is exchanged. pack: this process' columns into a part's stage, and where everybody's are there. */
typedef struct cargo cargo;
typedef struct cargo_kind {
    void (*pack)(const cargo *what, exchanged_part *p);
    void (*unpack)(const cargo *what, const exchanged_part *p);
} cargo_kind;
struct cargo {
    const cargo_kind *kind;
    kt__dev *dev;
    const kt__columns *c;
    float *rows; /* of floats, ld apart; or else acts */
    size_t ld;
    kt__acts *acts;
    int most; /* rows that half of the stage takes */
};

/* Rows of a part that is computed while another one travels; 0: all are computed first. */
static int overlapped_rows(const cargo *what, int n_tok) {
    int n = n_tok / PART_TOKENS < PARTS ? n_tok / PART_TOKENS : PARTS;
    int rows = n < 2 ? 0 : (n_tok + n - 1) / n;
    return rows <= what->most ? rows : 0;
}

static exchanged_part packed_part(const cargo *what, int tok0, int n_tok, bool second_half) {
    exchanged_part p = {.tok0 = tok0, .n_tok = n_tok};
    p.stage = (uint8_t *)what->dev->stage + (second_half ? what->dev->stage_bytes / 2 : 0);
    what->kind->pack(what, &p);
    return p;
}

static void exchange_computed(const cargo *what, int n_tok) {
    for (int t = 0; t < n_tok; t += what->most) {
        int n = n_tok - t < what->most ? n_tok - t : what->most;
        exchanged_part p = packed_part(what, t, n, false);
        kt__peers_gather(what->dev->limits.split->peers, p.stage, p.at);
        what->kind->unpack(what, &p);
    }
}

/* compute NULL: all are there. */
static void exchange_overlapped(const cargo *what, int n_tok, int rows,
                                kt__compute_rows_fn *compute, void *arg) {
    kt__peers *peers = what->dev->limits.split->peers;
    exchanged_part before = {0};
    for (int t = 0, i = 0; t < n_tok; t += rows, i ^= 1) {
        int n = n_tok - t < rows ? n_tok - t : rows;
        if (compute) compute(arg, t, n);
        if (t > 0) kt__peers_gather_end(peers);
        exchanged_part now = packed_part(what, t, n, i);
        kt__peers_gather_begin(peers, now.stage, now.at);
        if (t > 0) what->kind->unpack(what, &before);
        before = now;
    }
    kt__peers_gather_end(peers);
    what->kind->unpack(what, &before);
}

/* Where products are counted and not computed, they are counted once. */
static void exchange_cargo(const cargo *what, int n_tok, kt__compute_rows_fn *compute, void *arg) {
    int rows = compute ? overlapped_rows(what, n_tok) : 0;
    bool is_whole = !rows || what->dev->limits.split->tally;
    if (compute && is_whole) compute(arg, 0, n_tok);
    if (rows)
        exchange_overlapped(what, n_tok, rows, is_whole ? NULL : compute, arg);
    else
        exchange_computed(what, n_tok);
}

static void pack_rows(const cargo *what, exchanged_part *p) {
    const kt__division *split = what->dev->limits.split;
    for (int r = 0; r <= split->size; r++)
        p->at[r] = (size_t)p->n_tok * (size_t)what->c->before[r] * sizeof(float);
    kt__exchange_copy(what->c, split->rank, p->n_tok, what->rows + (size_t)p->tok0 * what->ld,
                      what->ld, (float *)(void *)p->stage, true);
}

static void unpack_rows(const cargo *what, const exchanged_part *p) {
    const kt__division *split = what->dev->limits.split;
    for (int r = 0; r < split->size; r++)
        if (r != split->rank)
            kt__exchange_copy(what->c, r, p->n_tok, what->rows + (size_t)p->tok0 * what->ld,
                              what->ld, (float *)(void *)p->stage, false);
}

void kt__exchange_rows(kt__dev *dev, const kt__columns *c, int n_tok, float *rows, size_t ld,
                       kt__compute_rows_fn *compute, void *arg) {
    static const cargo_kind kind = {pack_rows, unpack_rows};
    const kt__division *split = dev->limits.split;
    cargo what = {.kind = &kind, .dev = dev, .c = c, .rows = rows, .ld = ld};
    what.most = (int)(dev->stage_bytes / 2 / ((size_t)c->before[split->size] * sizeof *rows));
    if (n_tok > 1 && what.most > 1) {
        exchange_cargo(&what, n_tok, compute, arg);
        return;
    }
    if (compute) compute(arg, 0, n_tok);
    for (int t = 0; t < n_tok; t++) kt__exchange_parts(split, c, 1, rows + (size_t)t * ld);
}

/* ---- activation rows travel as they are read, mostly in 8 bits ---- */

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
static uint8_t *copy_acts(const kt__acts *acts, const kt__columns *c, int rank, int tok0, int tok1,
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
static void token_bytes(const kt__division *split, const kt__acts *acts, const kt__columns *c,
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

/* Rows in which each process has the same columns. */
typedef struct acts_group {
    kt__columns c;
    int tok0, tok1;
} acts_group;

/* They fit the stage. */
static void exchange_groups(kt__dev *dev, kt__acts *acts, const acts_group *groups, int n) {
    const kt__division *split = dev->limits.split;
    uint8_t *stage = (uint8_t *)dev->stage, *own;
    size_t token[KT__PEERS_MAX + 1], at[KT__PEERS_MAX + 1] = {0};
    for (int g = 0; g < n; g++) {
        token_bytes(split, acts, &groups[g].c, token);
        for (int r = 0; r <= split->size; r++)
            at[r] += (size_t)(groups[g].tok1 - groups[g].tok0) * token[r];
    }
    own = stage + at[split->rank];
    for (int g = 0; g < n; g++)
        own = copy_acts(acts, &groups[g].c, split->rank, groups[g].tok0, groups[g].tok1, own, true);
    kt__peers_gather(split->peers, stage, at);
    for (int r = 0; r < split->size; r++) {
        uint8_t *part = stage + at[r];
        for (int g = 0; r != split->rank && g < n; g++)
            part = copy_acts(acts, &groups[g].c, r, groups[g].tok0, groups[g].tok1, part, false);
    }
}

/* Bytes of a row in all kinds together. */
static size_t packed_row(const kt__division *split, const kt__acts *acts) {
    size_t token[KT__PEERS_MAX + 1];
    kt__columns c = kt__columns_of(split, acts->n_col, acts->n_col);
    token_bytes(split, acts, &c, token);
    return token[split->size];
}

static void pack_acts(const cargo *what, exchanged_part *p) {
    const kt__division *split = what->dev->limits.split;
    token_bytes(split, what->acts, what->c, p->at);
    for (int r = 0; r <= split->size; r++) p->at[r] *= (size_t)p->n_tok;
    (void)copy_acts(what->acts, what->c, split->rank, p->tok0, p->tok0 + p->n_tok,
                    p->stage + p->at[split->rank], true);
}

static void unpack_acts(const cargo *what, const exchanged_part *p) {
    const kt__division *split = what->dev->limits.split;
    for (int r = 0; r < split->size; r++)
        if (r != split->rank)
            (void)copy_acts(what->acts, what->c, r, p->tok0, p->tok0 + p->n_tok,
                            p->stage + p->at[r], false);
}

void kt__exchange_acts(kt__dev *dev, const kt__columns *c, kt__acts *acts,
                       kt__compute_rows_fn *compute, void *arg) {
    static const cargo_kind kind = {pack_acts, unpack_acts};
    cargo what = {.kind = &kind, .dev = dev, .c = c, .acts = acts};
    what.most = (int)(dev->stage_bytes / 2 / packed_row(dev->limits.split, acts));
    exchange_cargo(&what, acts->n_tok, compute, arg);
    zero_padding(acts);
}

/* ---- activation rows of experts ---- */

enum { GROUPS = 32 };

bool kt__exchange_fits_experts(const kt__dev *dev, const kt__acts *acts) {
    return packed_row(dev->limits.split, acts) * KT__EXPERT_TOKENS <= dev->stage_bytes;
}

void kt__exchange_experts(kt__dev *dev, int unit, const kt__routing *routing, kt__acts *acts) {
    const kt__division *split = dev->limits.split;
    int most = (int)(dev->stage_bytes / packed_row(split, acts)), n = 0;
    acts_group groups[GROUPS];
    for (int p = 0; p < routing->n_piece; p++) {
        const kt__expert_piece *piece = &routing->pieces[p];
        acts_group *g = &groups[n];
        g->tok0 = piece->slot0;
        g->tok1 = piece->slot0 + piece->n_tok;
        for (int r = 0; r <= split->size; r++)
            g->c.before[r] = kt__division_expert_row(split, acts->n_col, unit, piece->expert, r);
        bool last = ++n == GROUPS || p + 1 == routing->n_piece;
        if (!last && g->tok1 + piece[1].n_tok - groups[0].tok0 <= most) continue;
        exchange_groups(dev, acts, groups, n);
        n = 0;
    }
    zero_padding(acts);
}
