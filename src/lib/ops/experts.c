/* Products of experts: each reads its own matrices for the tokens that chose it.
 *
 * Gate and up: items are rows of one piece, so that an expert with many tokens is several items.
 * Down: items are output rows of all experts, since a token's sum runs over its experts in
 * ascending order, no matter which thread computes it. Weights of experts that no token chose are not
 * read. */
#include <string.h>

#include "ops/dev.h"

/* ---- gate and up ---- */

typedef struct experts_job {
    kt__dev *dev;
    const kt__acts *acts;
    const kt__experts_glu *d;
    kt__acts *out;
    int per_piece;             /* items */
    const kt__division *split; /* or NULL, or: of each expert the rows of this process, */
    int unit;                  /* in such units */
} experts_job;

/* The piece's rows of the kinds that gate and up read: in place where they are neighbours, else
 * copied. */
static kt__acts gather_rows(const experts_job *job, const kt__expert_piece *piece, int worker) {
    const int32_t *tok = job->d->routing->slot_tok + piece->slot0;
    uint8_t *room = kt__dev_gather_room(job->dev, worker);
    int n = piece->n_tok;
    kt__acts acts = *job->acts;
    acts.n_tok = n;
    acts.kinds = 1u << kt__dev_act_kind(job->dev, &job->d->gate.w, n);
    if (job->d->up.w.data) acts.kinds |= 1u << kt__dev_act_kind(job->dev, &job->d->up.w, n);
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        size_t row = acts.layout[kind].row_bytes;
        const uint8_t *from = job->acts->data[kind];
        if (!(acts.kinds >> kind & 1)) continue;
        if (tok[n - 1] - tok[0] == n - 1) {
            acts.data[kind] += (size_t)tok[0] * row;
            continue;
        }
        for (int i = 0; i < n; i++)
            memcpy(room + (size_t)i * row, from + (size_t)tok[i] * row, row);
        acts.data[kind] = room;
        room += (size_t)n * row;
    }
    return acts;
}

static kt__glu glu_of(const experts_job *job, const kt__expert_piece *piece) {
    const kt__experts_glu *d = job->d;
    return (kt__glu){
        .gate = kt__expert_weight(&d->gate, piece->expert),
        .up = d->up.w.data ? kt__expert_weight(&d->up, piece->expert) : d->up.w,
        .gate_bias = kt__expert_bias(&d->gate, piece->expert),
        .up_bias = kt__expert_bias(&d->up, piece->expert),
        .factors = d->weighed ? d->routing->slot_share + piece->slot0 : NULL,
        .kind = d->kind,
        .rows = d->rows + (size_t)piece->slot0 * (size_t)d->gate.w.n_row,
    };
}

/* Items are KT__ROWS_ITEM rows of a piece. */
static void few_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const experts_job *job = arg;
    int n_row = job->d->gate.w.n_row;
    for (int64_t i = begin; i < end;) {
        int64_t item = i % job->per_piece, stop = item + end - i;
        const kt__expert_piece *piece = &job->d->routing->pieces[i / job->per_piece];
        if (stop > job->per_piece) stop = job->per_piece;
        kt__glu glu = glu_of(job, piece);
        kt__acts acts = gather_rows(job, piece, worker);
        int row1 = (int)stop * KT__ROWS_ITEM;
        kt__glu_few(job->dev, &glu, &acts, (int)item * KT__ROWS_ITEM, row1 < n_row ? row1 : n_row,
                    worker);
        i += stop - item;
    }
}

static int own_row(const experts_job *job, int expert, int rank_after) {
    int n_row = job->d->gate.w.n_row;
    if (!job->split) return rank_after ? n_row : 0;
    return kt__division_expert_row(job->split, n_row, job->unit, expert,
                                   job->split->rank + rank_after);
}

/* Items are units of KT__GLU_ROWS rows of a piece. */
static void many_units(void *arg, int64_t begin, int64_t end, int worker) {
    const experts_job *job = arg;
    const kt__routing *routing = job->d->routing;
    for (int64_t i = begin; i < end;) {
        int64_t number = i / job->per_piece;
        const kt__expert_piece *piece = &routing->pieces[routing->by_size[number]];
        kt__glu glu = glu_of(job, piece);
        kt__acts acts = gather_rows(job, piece, worker);
        kt__acts out = kt__acts_rows(job->out, piece->slot0, job->out->n_tok);
        kt__dev_put_tiles(job->dev, &acts, &glu.gate, kt__dev_gather_tiles(job->dev, worker));
        int first = own_row(job, piece->expert, 0);
        glu.gate.n_row = glu.up.n_row = own_row(job, piece->expert, 1);
        for (; i < end && i / job->per_piece == number; i++) {
            int row0 = first + (int)(i % job->per_piece) * KT__GLU_ROWS;
            if (row0 < glu.gate.n_row)
                kt__glu_unit(job->dev, &glu, &acts, row0, 0, piece->n_tok, &out, worker);
        }
    }
}

static int items_of(int n_row, int rows) {
    return (n_row + rows - 1) / rows;
}

void kt__experts_glu_units(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           const kt__division *split, int unit, kt__acts *out) {
    experts_job job = {.dev = dev,
                       .acts = acts,
                       .d = desc,
                       .out = out,
                       .per_piece = items_of(desc->gate.w.n_row, KT__GLU_ROWS),
                       .split = split,
                       .unit = unit};
    kt__pool_run(dev->pool, (int64_t)desc->routing->n_piece * job.per_piece, 1, many_units, &job);
}

void kt__cpu_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                         kt__acts *out) {
    experts_job job = {.dev = dev, .acts = acts, .d = desc, .out = out};
    const kt__routing *routing = desc->routing;
    int n_row = desc->gate.w.n_row;
    out->n_tok = routing->n_slot;
    if (acts->n_tok <= KT__GLU_ROWWISE) {
        job.per_piece = items_of(n_row, KT__ROWS_ITEM);
        kt__pool_run(dev->pool, (int64_t)routing->n_piece * job.per_piece,
                     kt__dev_row_grain(dev, &desc->gate.w, 1), few_rows, &job);
        kt__cpu_quantize(dev, desc->rows, routing->n_slot, out);
        return;
    }
    kt__experts_glu_units(dev, acts, desc, NULL, 0, out);
}

/* ---- down ---- */

typedef struct down_job {
    kt__dev *dev;
    const kt__acts *acts;
    const kt__experts_down *d;
    int step;       /* rows whose products with a piece's tokens fit the tile */
    int row0, row1; /* of these */
} down_job;

/* What a token's sum begins with. */
static void begin_sums(const down_job *job, int row0, int n) {
    const kt__experts_down *d = job->d;
    size_t ld = (size_t)d->down.w.n_row;
    for (int t = 0; t < d->routing->n_tok; t++) {
        float *sum = d->sum + (size_t)t * ld + row0;
        if (!d->shared)
            memset(sum, 0, (size_t)n * sizeof *sum);
        else if (d->shared_share)
            job->dev->kernels->scale(sum, n, d->shared_share[t]);
    }
}

/* sum[t] += share * product, for the tokens of one piece. */
static void add_piece(const down_job *job, int number, int row0, int n, int worker) {
    const kt__experts_down *d = job->d;
    const kt__routing *routing = d->routing;
    const kt__expert_piece *piece = &routing->pieces[number];
    bool last = number + 1 == routing->n_piece;
    float *tile = kt__dev_tile(job->dev, worker);
    kt__weight w = kt__expert_weight(&d->down, piece->expert);
    kt__weight then = last ? w : kt__expert_weight(&d->down, piece[1].expert);
    kt__acts acts = kt__acts_rows(job->acts, piece->slot0, piece->n_tok);
    kt__dev_mm(job->dev, &w, row0, n, &acts, kt__expert_bias(&d->down, piece->expert), NULL,
               last ? NULL : kt__row_of(&then, row0), tile, (size_t)n, worker);
    for (int i = 0; i < piece->n_tok; i++, tile += n) {
        int slot = piece->slot0 + i;
        float *sum = d->sum + (size_t)routing->slot_tok[slot] * (size_t)w.n_row + row0;
        if (!d->weighed) job->dev->kernels->scale(tile, n, routing->slot_share[slot]);
        job->dev->kernels->add(sum, tile, n, sum);
    }
}

static void down_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const down_job *job = arg;
    const kt__experts_down *d = job->d;
    size_t ld = (size_t)d->down.w.n_row;
    int row1 = job->row0 + (int)end * KT__ROWS_ITEM;
    if (row1 > job->row1) row1 = job->row1;
    for (int row = job->row0 + (int)begin * KT__ROWS_ITEM; row < row1; row += job->step) {
        int n = row1 - row < job->step ? row1 - row : job->step;
        begin_sums(job, row, n);
        for (int p = 0; p < d->routing->n_piece; p++) add_piece(job, p, row, n, worker);
        for (int t = 0; d->x && t < d->routing->n_tok; t++) {
            float *x = d->x + (size_t)t * ld + row;
            job->dev->kernels->add(x, d->sum + (size_t)t * ld + row, n, x);
        }
    }
}

void kt__experts_down_rows(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc,
                           int row0, int row1) {
    int n_tok = desc->routing->n_tok;
    down_job job = {dev,  acts,
                    desc, kt__few_rows(n_tok < KT__EXPERT_TOKENS ? n_tok : KT__EXPERT_TOKENS),
                    row0, row1};
    int64_t grain = n_tok > KT__GLU_ROWWISE ? 2 : 1;
    kt__pool_run(dev->pool, items_of(row1 - row0, KT__ROWS_ITEM), grain, down_rows, &job);
}

void kt__cpu_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc) {
    kt__experts_down_rows(dev, acts, desc, 0, desc->down.w.n_row);
}
