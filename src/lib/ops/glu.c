/* The gated linear unit: two products, their activation, and its quantisation.
 *
 * A few tokens: items are rows, as in every product, and the finished rows are quantised at the
 * end. Many tokens: a unit of KT__GLU_ROWS rows stays in the worker's cache until it is quantised;
 * the f32 rows, several times what the caches hold, are never written. Units come in two halves of
 * the tokens, so that the last ones can be shared; a worker that has both computes them together.
 */
#include <string.h>

#include "ops/dev.h"

typedef struct glu_job {
    kt__dev *dev;
    const kt__glu *d; /* d->rows: few tokens: out[t][n_row] */
    const kt__acts *acts;
    kt__acts *out; /* many tokens */
    int parts;     /* of the tokens, in which a unit may be computed: 1 or 2 */
} glu_job;

/* gpt-oss: x * sigmoid(a x) = silu(a x) / a. up is changed, too. */
static void activate_clamped(const kt__kernels *k, float *up, int n, float *gate) {
    const float limit = 7.0f, a = 1.702f, inverse = 1.0f / a;
    for (int i = 0; i < n; i++) {
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        gate[i] = (gate[i] > limit ? limit : gate[i]) * a;
        up[i] = (u + 1.0f) * inverse;
    }
    k->silu_mul(gate, up, n, gate);
}

static bool is_alone(const glu_job *job) {
    return job->d->kind == KT__GLU_RELU2 || job->d->kind == KT__GLU_GELU_ALONE;
}

/* Where there is no up. */
static void activate_alone(const glu_job *job, int n, float *x) {
    if (job->d->kind == KT__GLU_RELU2)
        kt__square_positives(x, n);
    else
        kt__gelu(job->dev->kernels, x, n);
}

/* Of token t. */
static void activate_rows(const glu_job *job, int t, float *up, int n, float *gate) {
    const kt__kernels *k = job->dev->kernels;
    if (job->d->factors) {
        k->scale(gate, n, job->d->factors[t]);
        k->scale(up, n, job->d->factors[t]);
    }
    if (job->d->kind == KT__GLU_CLAMPED) {
        activate_clamped(k, up, n, gate);
        return;
    }
    (job->d->kind == KT__GLU_SILU ? k->silu_mul : k->gelu_mul)(gate, up, n, gate);
}

/* ---- few tokens ---- */

/* Where there is no up. */
static void few_alone(const glu_job *job, int row0, int n_row, int worker) {
    const kt__weight *gate = &job->d->gate;
    size_t ld = (size_t)gate->n_row;
    bool more = row0 + n_row < gate->n_row;
    kt__dev_mm(job->dev, gate, row0, n_row, job->acts, job->d->gate_bias, NULL,
               more ? kt__row_of(gate, row0 + n_row) : NULL, job->d->rows + row0, ld, worker);
    kt__dev_lora_add(job->dev, job->d->lora, KT__SITE_UP, row0, n_row, 0, job->acts->n_tok,
                     job->d->rows + row0, ld, worker);
    for (int t = 0; t < job->acts->n_tok; t++)
        activate_alone(job, n_row, job->d->rows + (size_t)t * ld + row0);
}

/* last: of the worker's chunk */
static void few_block(const glu_job *job, int row0, int n_row, bool last, int worker) {
    float *tile = kt__dev_tile(job->dev, worker);
    size_t ld = (size_t)job->d->gate.n_row;
    const uint8_t *after = last ? NULL : kt__row_of(&job->d->gate, row0 + n_row);
    after = kt__dev_lora_next(job->d->lora, KT__SITE_GATE, row0, job->acts->n_tok, after);
    if (is_alone(job)) {
        few_alone(job, row0, n_row, worker);
        return;
    }
    kt__dev_mm(job->dev, &job->d->gate, row0, n_row, job->acts, job->d->gate_bias, NULL,
               kt__row_of(&job->d->up, row0), job->d->rows + row0, ld, worker);
    if (last) {
        kt__dev_mm_chunk(job->dev, &job->d->up, row0, n_row, job->acts, job->d->up_bias, NULL,
                         &job->d->gate, after, tile, (size_t)n_row, worker);
    } else {
        kt__dev_mm(job->dev, &job->d->up, row0, n_row, job->acts, job->d->up_bias, NULL, after,
                   tile, (size_t)n_row, worker);
    }
    kt__dev_lora_add(job->dev, job->d->lora, KT__SITE_GATE, row0, n_row, 0, job->acts->n_tok,
                     job->d->rows + row0, ld, worker);
    kt__dev_lora_add(job->dev, job->d->lora, KT__SITE_UP, row0, n_row, 0, job->acts->n_tok, tile,
                     (size_t)n_row, worker);
    for (int t = 0; t < job->acts->n_tok; t++) {
        activate_rows(job, t, tile + (size_t)t * (size_t)n_row, n_row,
                      job->d->rows + (size_t)t * ld + row0);
    }
}

static void few_items(void *arg, int64_t begin, int64_t end, int worker) {
    const glu_job *job = arg;
    if (!kt__dev_down_items(job->dev, &begin, &end, worker)) return;
    int row1 = (int)end * KT__ROWS_ITEM;
    if (row1 > job->d->gate.n_row) row1 = job->d->gate.n_row;
    int step = kt__few_rows(job->acts->n_tok); /* between two changes of matrix */
    for (int row = (int)begin * KT__ROWS_ITEM; row < row1; row += step) {
        bool last = row1 - row <= step;
        few_block(job, row, last ? row1 - row : step, last, worker);
    }
}

void kt__glu_few(kt__dev *dev, const kt__glu *desc, const kt__acts *acts, int row0, int row1,
                 int worker) {
    const glu_job job = {.dev = dev, .d = desc, .acts = acts};
    int step = kt__few_rows(acts->n_tok);
    for (int row = row0; row < row1; row += step)
        few_block(&job, row, row1 - row < step ? row1 - row : step, false, worker);
}

/* ---- many tokens ---- */

size_t kt__glu_tile_floats(int n_tok, int up_rows) {
    size_t many = (size_t)n_tok * (size_t)(KT__GLU_ROWS + up_rows);
    return many > KT__FEW_TILE ? many : KT__FEW_TILE;
}

/* n bytes of part at `at` of a stretch that ends at `end`; the stretch's padding up to `limit` is
 * zeroed with its last bytes. */
static void put_part(uint8_t *row, size_t at, const uint8_t *part, size_t n, size_t end,
                     size_t limit) {
    memcpy(row + at, part, n);
    if (at + n == end) memset(row + end, 0, limit - end);
}

/* x[n] becomes columns col.. of an activation row of n_col; n is whole blocks, and at most
 * KT__GLU_ROWS. */
static void put_columns(const kt__kernels *k, kt__act_kind kind, const kt__acts *acts, uint8_t *row,
                        int col, const float *x, int n) {
    const kt__act_layout *to = &acts->layout[kind];
    size_t c = (size_t)col, count = (size_t)n, all = (size_t)acts->n_col;
    if (kind == KT__ACT_F32) {
        put_part(row, c * 4, (const uint8_t *)x, count * 4, all * 4, to->row_bytes);
        return;
    }
    _Alignas(64) uint8_t part[2 * KT__GLU_ROWS];
    size_t block = kind == KT__ACT_Q256 ? 256 : 32;
    size_t d_end = kind == KT__ACT_Q256 ? to->s16 : to->s32;
    kt__act_layout from = kt__act_layout_of(kind, n);
    k->quantize[kind](x, n, part);
    put_part(row, c, part, count, all, to->d);
    put_part(row, to->d + c / block * 4, part + from.d, count / block * 4, to->d + all / block * 4,
             d_end);
    put_part(row, to->s32 + c / 16, part + from.s32, count / 16, to->s32 + all / 16, to->row_bytes);
    if (kind == KT__ACT_Q256)
        put_part(row, to->s16 + c / 8, part + from.s16, count / 8, to->s16 + all / 8, to->s32);
}

enum { AHEAD = 6 }; /* rows */

static void prefetch_floats(const float *x, int n) {
    for (int i = 0; i < n; i += 16) __builtin_prefetch(x + i, 1);
}

/* The lines that put_columns will write: each row's lie far from the last one's. */
static void prefetch_columns(kt__act_kind kind, const kt__acts *acts, const uint8_t *row, int col) {
    const kt__act_layout *to = &acts->layout[kind];
    size_t c = (size_t)col;
    if (kind == KT__ACT_F32) return;
    for (int i = 0; i < KT__GLU_ROWS; i += 64) __builtin_prefetch(row + c + i, 1);
    __builtin_prefetch(row + to->d + c / (kind == KT__ACT_Q256 ? 64 : 8), 1);
    __builtin_prefetch(row + to->s32 + c / 16, 1);
    if (kind == KT__ACT_Q256) __builtin_prefetch(row + to->s16 + c / 8, 1);
}

/* The rows of w from row0 on, n of them, for the acts; a panel at a time. */
static void unit_gate(const glu_job *job, const kt__acts *acts, int tok0, int row0, int n,
                      float *tile, int worker) {
    bool alone = is_alone(job);
    kt__dev_mm(job->dev, &job->d->gate, row0, n, acts, job->d->gate_bias, NULL,
               alone ? NULL : kt__row_of(&job->d->up, row0), tile, KT__GLU_ROWS, worker);
    kt__dev_lora_add(job->dev, job->d->lora, alone ? KT__SITE_UP : KT__SITE_GATE, row0, n, tok0,
                     acts->n_tok, tile, KT__GLU_ROWS, worker);
}

static void unit_up(const glu_job *job, const kt__acts *acts, int tok0, int row0, int n,
                    float *gate, int worker) {
    float *up = gate + (size_t)acts->n_tok * KT__GLU_ROWS;
    if (is_alone(job)) {
        for (int t = 0; t < acts->n_tok; t++)
            activate_alone(job, n, gate + (size_t)t * KT__GLU_ROWS);
        return;
    }
    int step = kt__glu_up_rows(kt__dev_uses_blas(job->dev, acts->n_tok));
    for (int r = 0; r < n; r += step) {
        int m = n - r < step ? n - r : step;
        const uint8_t *next = kt__row_of(r + m < n ? &job->d->up : &job->d->gate, row0 + r + m);
        kt__dev_mm(job->dev, &job->d->up, row0 + r, m, acts, job->d->up_bias, NULL, next, up,
                   (size_t)m, worker);
        kt__dev_lora_add(job->dev, job->d->lora, KT__SITE_UP, row0 + r, m, tok0, acts->n_tok, up,
                         (size_t)m, worker);
        for (int t = 0; t < acts->n_tok; t++) {
            float *row = gate + (size_t)t * KT__GLU_ROWS + r;
            if (t + AHEAD < acts->n_tok) prefetch_floats(row + AHEAD * KT__GLU_ROWS, m);
            activate_rows(job, tok0 + t, up + (size_t)t * (size_t)m, m, row);
        }
    }
}

static void run_unit(const glu_job *job, int row0, int tok0, int tok1, int worker) {
    kt__acts acts = kt__acts_rows(job->acts, tok0, tok1 - tok0);
    int n = job->d->gate.n_row - row0 < KT__GLU_ROWS ? job->d->gate.n_row - row0 : KT__GLU_ROWS;
    float *gate = kt__dev_tile(job->dev, worker);
    unit_gate(job, &acts, tok0, row0, n, gate, worker);
    unit_up(job, &acts, tok0, row0, n, gate, worker);
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(job->out->kinds >> kind & 1)) continue;
        size_t row_bytes = job->out->layout[kind].row_bytes;
        uint8_t *row = job->out->data[kind] + (size_t)tok0 * row_bytes;
        for (int t = 0; t < acts.n_tok; t++, row += row_bytes) {
            if (t + AHEAD < acts.n_tok)
                prefetch_columns((kt__act_kind)kind, job->out, row + AHEAD * row_bytes, row0);
            put_columns(job->dev->kernels, (kt__act_kind)kind, job->out, row, row0,
                        gate + (size_t)t * KT__GLU_ROWS, n);
        }
    }
}

void kt__glu_unit(kt__dev *dev, const kt__glu *desc, const kt__acts *acts, int row0, int tok0,
                  int tok1, kt__acts *out, int worker) {
    const glu_job job = {.dev = dev, .d = desc, .acts = acts, .out = out};
    run_unit(&job, row0, tok0, tok1, worker);
}

/* The tokens of a unit's first part: whole groups. */
static int half_of(int n_tok) {
    return (n_tok / 2 + KT__TILE_TOKENS - 1) / KT__TILE_TOKENS * KT__TILE_TOKENS;
}

/* Items `parts` u.. are the parts of unit u; those that a worker has are computed together. */
static void many_items(void *arg, int64_t begin, int64_t end, int worker) {
    const glu_job *job = arg;
    int n_tok = job->acts->n_tok, half = job->parts == 2 ? half_of(n_tok) : n_tok;
    for (int64_t i = begin; i < end;) {
        bool second = i % job->parts == 1, both = !second && job->parts == 2 && i + 1 < end;
        int row0 = (int)(i / job->parts) * KT__GLU_ROWS;
        run_unit(job, row0, second ? half : 0, second || both ? n_tok : half, worker);
        i += both ? 2 : 1;
    }
}

enum { PARTS_FROM = 128 }; /* tokens: fewer are not worth unpacking the weights twice */

void kt__cpu_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out) {
    bool whole = acts->n_tok < PARTS_FROM || kt__dev_uses_blas(dev, acts->n_tok);
    const kt__acts with = kt__dev_with_tiles(dev, acts, &desc->gate);
    glu_job job = {dev, desc, &with, out, whole ? 1 : 2};
    int n_row = desc->gate.n_row;
    out->n_tok = acts->n_tok;
    if (acts->n_tok <= KT__GLU_ROWWISE) {
        int64_t items = (n_row + KT__ROWS_ITEM - 1) / KT__ROWS_ITEM;
        int64_t grain = kt__dev_row_grain(dev, &desc->gate, acts->n_tok);
        items += kt__dev_down_begin(dev, desc->lora, KT__SITE_GATE, true);
        kt__pool_run(dev->pool, items, grain, few_items, &job);
        kt__dev_down_end(dev);
        kt__cpu_quantize(dev, desc->rows, acts->n_tok, out);
        return;
    }
    (void)kt__dev_down_begin(dev, desc->lora, KT__SITE_GATE, false);
    int64_t units = (n_row + KT__GLU_ROWS - 1) / KT__GLU_ROWS;
    kt__pool_run(dev->pool, job.parts * units, 1, many_items, &job);
}
