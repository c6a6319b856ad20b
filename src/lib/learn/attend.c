#include "learn/pass.h"

#include <string.h>

#include "base/alloc.h"
#include "base/math.h"

/* Rows whose products end at the last position that one of them sees. */
enum { CAUSAL_ROWS = 48 };

/* One worker's room for a head of a sequence, L = kt__pad(len_max). */
typedef struct head_room {
    float *p, *ds, *raw; /* [len][L] */
    float *q;            /* [len][kt__pad(dim)] scaled queries */
    float *k, *v;        /* [dim][L] keys and values turned round */
} head_room;

typedef struct attend_job {
    kt__panels *panels;
    const kt__attend *a;
    float *out;
    const float *dout;
    float *dq, *dk, *dv;
} attend_job;

/* A sequence's rows of one head: its own, and before them those that all sequences share. Queries are those of its rows
 * from n_old on. */
typedef struct head_at {
    int row0, len, n_shared, head, kv_head;
    size_t ld_s; /* of scores, [len - n_old][n_shared + len] */
    int n_old, q_row;
} head_at;

static int dim_max(const kt__attend *a) {
    return a->head_dim_k > a->head_dim_v ? a->head_dim_k : a->head_dim_v;
}

static size_t side_floats(int len_max, int dim) {
    size_t rows = (size_t)len_max * kt__pad(dim), turned = (size_t)dim * kt__pad(len_max);
    return ((rows > turned ? rows : turned) + 15) / 16 * 16;
}

size_t kt__attend_bytes(int len_max, int head_dim_k, int head_dim_v) {
    int dim = head_dim_k > head_dim_v ? head_dim_k : head_dim_v;
    size_t square = (size_t)len_max * kt__pad(len_max);
    return (3 * square + 3 * side_floats(len_max, dim)) * sizeof(float);
}

static head_room room_of(const kt__attend *a, int worker) {
    size_t bytes = kt__attend_bytes(a->len_max, a->head_dim_k, a->head_dim_v);
    size_t square = (size_t)a->len_max * kt__pad(a->len_max);
    size_t side = side_floats(a->len_max, dim_max(a));
    float *at = (float *)(void *)(a->scratch + (size_t)worker * bytes);
    return (head_room){at,
                       at + square,
                       at + 2 * square,
                       at + 3 * square,
                       at + 3 * square + side,
                       at + 3 * square + 2 * side};
}

static size_t ld_of(int heads, int dim) {
    return kt__pad(heads * dim);
}

static const float *head_rows(const float *all, size_t ld, const head_at *at, int head, int dim) {
    return all + (size_t)at->q_row * ld + (size_t)(head * dim);
}

static int n_query(const head_at *at) {
    return at->len - at->n_old;
}

static void transpose_rows(const float *from, size_t ld, int n, int dim, float *to, size_t ld_to) {
    for (int d = 0; d < dim; d++)
        for (int i = 0; i < n; i++)
            to[(size_t)d * ld_to + (size_t)i] = from[(size_t)i * ld + (size_t)d];
}

/* to[d][i] is number d of the head in its row i, the shared ones first; at->ld_s apart. */
static void transpose_head(const float *all, size_t ld, const head_at *at, int dim, float *to) {
    const float *head = all + (size_t)(at->kv_head * dim);
    transpose_rows(head, ld, at->n_shared, dim, to, at->ld_s);
    transpose_rows(head + (size_t)at->row0 * ld, ld, at->len, dim, to + at->n_shared, at->ld_s);
}

static float query_scale(const kt__attend *a, int row) {
    return a->q_row_scale ? a->q_scale * a->q_row_scale[row] : a->q_scale;
}

/* room->q: the head's queries, scaled. */
static void gather_queries(const kt__attend *a, const head_at *at, head_room *room) {
    size_t ld = ld_of(a->n_head, a->head_dim_k), ld_q = kt__pad(a->head_dim_k);
    const float *q = head_rows(a->q, ld, at, at->head, a->head_dim_k);
    for (int i = 0; i < n_query(at); i++) {
        float scale = query_scale(a, at->q_row + i);
        for (int d = 0; d < a->head_dim_k; d++)
            room->q[(size_t)i * ld_q + (size_t)d] = q[(size_t)i * ld + (size_t)d] * scale;
    }
}

/* Visible positions of the one at i: [first, i]. */
static int first_visible(const kt__attend *a, int i) {
    return a->window > 0 && i + 1 > a->window ? (int)(i + 1 - a->window) : 0;
}

/* Scores of the position at i to probabilities; zero where nothing is seen. */
static void softmax_row(const kt__attend *a, int i, size_t ld, float *s) {
    int first = first_visible(a, i), end = i + 1;
    float max = s[first], sum = 0.0f;
    for (int j = first; a->softcap > 0.0f && j < end; j++)
        s[j] = a->softcap * kt__tanhf(s[j] / a->softcap);
    for (int j = first; j < end; j++)
        if (j == first || s[j] > max) max = s[j];
    kt__exp_weights(s + first, max, (size_t)(end - first), s + first);
    for (int j = first; j < end; j++) sum += s[j];
    for (int j = first; j < end; j++) s[j] /= sum;
    memset(s, 0, (size_t)first * sizeof *s);
    memset(s + end, 0, (ld - (size_t)end) * sizeof *s);
}

/* Which way a square matrix of scores takes part, what lies after its diagonal being zero, or not
 * wanted. */
typedef enum square_part {
    SQUARE_OUT,   /* out[i][j], j <= i */
    SQUARE_ROWS,  /* a[i][k], k <= i */
    SQUARE_TURNED /* a[i][k] of column i, k >= i */
} square_part;

/* The product mm, some rows at a time, without steps and columns that the mask leaves out; before the first row's own
 * step or column there are n_old more. */
static void causal_product(const attend_job *job, const kt__outer_mm *mm, square_part part,
                           int n_old, int worker) {
    for (int i = 0; i < mm->n_row; i += CAUSAL_ROWS) {
        kt__outer_mm some = *mm;
        size_t skipped = part == SQUARE_TURNED ? (size_t)i : 0;
        int end = mm->n_row - i < CAUSAL_ROWS ? mm->n_row : i + CAUSAL_ROWS;
        some.n_row = end - i;
        some.a += (size_t)i * mm->a_row + skipped * mm->a_step;
        some.b += skipped * mm->ld_b;
        some.out += (size_t)i * mm->ld_out;
        if (part == SQUARE_OUT) some.n_col = n_old + end;
        if (part != SQUARE_OUT) some.n_step = part == SQUARE_ROWS ? n_old + end : mm->n_step - i;
        kt__panels_outer(job->panels, &some, worker);
    }
}

/* A product in which shared rows take part, where there are any. */
static void shared_product(const attend_job *job, const kt__outer_mm *mm, int worker) {
    if (mm->n_row > 0 && mm->n_step > 0 && mm->n_col > 0) kt__panels_outer(job->panels, mm, worker);
}

/* out[i][j] = sum_d x[i][d] turned[d][j], of all pairs of positions of which j is no later. */
static void pair_product(const attend_job *job, const head_at *at, const float *x, size_t ld_x,
                         int dim, const float *turned, float *out, int worker) {
    kt__outer_mm mm = {.a = x,
                       .b = turned,
                       .a_row = ld_x,
                       .a_step = 1,
                       .ld_b = at->ld_s,
                       .ld_out = at->ld_s,
                       .n_row = n_query(at),
                       .n_step = dim,
                       .n_col = at->n_shared,
                       .out = out};
    shared_product(job, &mm, worker);
    mm.b += at->n_shared;
    mm.out += at->n_shared;
    mm.n_col = at->len;
    causal_product(job, &mm, SQUARE_OUT, at->n_old, worker);
}

/* out[i] = sum_j square[i][j] rows[j] of a head's rows, [dim] each: of all, the shared ones first. */
static void row_product(const attend_job *job, const head_at *at, const float *square,
                        const float *rows, size_t ld_rows, int dim, float *out, size_t ld_out,
                        int worker) {
    kt__outer_mm mm = {.a = square,
                       .b = rows,
                       .a_row = at->ld_s,
                       .a_step = 1,
                       .ld_b = ld_rows,
                       .ld_out = ld_out,
                       .n_row = n_query(at),
                       .n_step = at->n_shared,
                       .n_col = dim,
                       .out = out};
    shared_product(job, &mm, worker);
    mm.a += at->n_shared;
    mm.b += (size_t)at->row0 * ld_rows;
    mm.n_step = at->len;
    mm.add = at->n_shared > 0;
    causal_product(job, &mm, SQUARE_ROWS, at->n_old, worker);
}

/* out[j] (+)= sum_i square[i][j] rows[i]: of the sequence's own rows j, and to what is there of the shared ones. */
static void column_product(const attend_job *job, const head_at *at, const float *square,
                           const float *rows, size_t ld_rows, int dim, bool add, float *out,
                           size_t ld_out, int worker) {
    kt__outer_mm mm = {.a = square,
                       .b = rows,
                       .a_row = 1,
                       .a_step = at->ld_s,
                       .ld_b = ld_rows,
                       .ld_out = ld_out,
                       .n_row = at->n_shared,
                       .n_step = at->len,
                       .n_col = dim,
                       .add = true,
                       .out = out};
    shared_product(job, &mm, worker);
    mm.a += at->n_shared;
    mm.out += (size_t)at->row0 * ld_out;
    mm.n_row = at->len;
    mm.add = add;
    causal_product(job, &mm, SQUARE_TURNED, 0, worker);
}

/* room->p: the head's probabilities, of its turned keys. raw: where scores are kept as they are
 * (soft-cap's gradient), or NULL. */
static void head_probabilities(const attend_job *job, const head_at *at, head_room *room,
                               float *raw, int worker) {
    const kt__attend *a = job->a;
    gather_queries(a, at, room);
    pair_product(job, at, room->q, kt__pad(a->head_dim_k), a->head_dim_k, room->k, room->p, worker);
    for (int i = 0; i < n_query(at); i++) {
        float *row = room->p + (size_t)i * at->ld_s;
        int pos = at->n_shared + at->n_old + i;
        if (raw) memcpy(raw + (size_t)i * at->ld_s, row, (size_t)(pos + 1) * sizeof *raw);
        softmax_row(a, pos, at->ld_s, row);
    }
}

static void turn_keys(const kt__attend *a, const head_at *at, head_room *room) {
    transpose_head(a->k, ld_of(a->n_head_kv, a->head_dim_k), at, a->head_dim_k, room->k);
}

/* The shared rows are a sequence of their own, the first: nothing comes before them. */
static int count_sequences(const kt__attend *a) {
    return a->grown ? a->n_seq : a->n_seq + (a->at[0] > 0);
}

static head_at grown_at(const kt__attend *a, const kt__grown *g, int kv_head) {
    int n_shared = g->row0 < a->n_shared ? 0 : a->n_shared, len = g->n_old + g->n_new;
    return (head_at){.row0 = g->row0,
                     .len = len,
                     .n_shared = n_shared,
                     .kv_head = kv_head,
                     .ld_s = kt__pad(n_shared + len),
                     .n_old = g->n_old,
                     .q_row = g->q_row};
}

static head_at sequence_at(const kt__attend *a, int s, int kv_head) {
    if (a->grown) return grown_at(a, &a->grown[s], kv_head);
    int n_shared = a->at[0], own = s - (n_shared > 0);
    if (own < 0) return (head_at){.len = n_shared, .kv_head = kv_head, .ld_s = kt__pad(n_shared)};
    int len = a->at[own + 1] - a->at[own];
    return (head_at){.row0 = a->at[own],
                     .len = len,
                     .n_shared = n_shared,
                     .kv_head = kv_head,
                     .ld_s = kt__pad(n_shared + len),
                     .q_row = a->at[own]};
}

static void forward_heads(void *arg, int64_t begin, int64_t end, int worker) {
    const attend_job *job = arg;
    const kt__attend *a = job->a;
    head_room room = room_of(a, worker);
    int group = a->n_head / a->n_head_kv, dv = a->head_dim_v;
    size_t ld_v = ld_of(a->n_head_kv, dv), ld_out = ld_of(a->n_head, dv);
    for (int64_t item = begin; item < end; item++) {
        head_at at = sequence_at(a, (int)(item / a->n_head_kv), (int)(item % a->n_head_kv));
        turn_keys(a, &at, &room);
        for (int h = 0; h < group; h++) {
            at.head = at.kv_head * group + h;
            head_probabilities(job, &at, &room, NULL, worker);
            row_product(job, &at, room.p, a->v + (size_t)(at.kv_head * dv), ld_v, dv,
                        job->out + (size_t)at.q_row * ld_out + (size_t)(at.head * dv), ld_out,
                        worker);
        }
    }
}

void kt__attend_forward(kt__panels *p, const kt__attend *a, float *out) {
    attend_job job = {.panels = p, .a = a, .out = out};
    kt__pool_run(kt__panels_pool(p), (int64_t)count_sequences(a) * a->n_head_kv, 1, forward_heads,
                 &job);
}

/* ---- back ---- */

/* room->ds, which holds the gradient of the probabilities, becomes that of the scores. raw: the
 * scores before the soft-cap. */
static void scores_back(const kt__attend *a, const head_at *at, head_room *room, const float *raw) {
    for (int i = 0; i < at->len; i++) {
        const float *p = room->p + (size_t)i * at->ld_s;
        float *ds = room->ds + (size_t)i * at->ld_s, sum = 0.0f;
        int end = at->n_shared + i + 1;
        for (int j = 0; j < end; j++) sum += p[j] * ds[j];
        for (int j = 0; j < end; j++) ds[j] = p[j] * (ds[j] - sum);
        for (int j = 0; a->softcap > 0.0f && j < end; j++) {
            float t = kt__tanhf(raw[(size_t)i * at->ld_s + (size_t)j] / a->softcap);
            ds[j] *= 1.0f - t * t;
        }
        memset(ds + end, 0, (at->ld_s - (size_t)end) * sizeof *ds);
    }
}

/* dv += P^T dO, and room->ds = dO V^T. */
static void values_back(const attend_job *job, const head_at *at, head_room *room, bool add,
                        int worker) {
    const kt__attend *a = job->a;
    int dv = a->head_dim_v;
    size_t ld_v = ld_of(a->n_head_kv, dv), ld_o = ld_of(a->n_head, dv);
    const float *dout = head_rows(job->dout, ld_o, at, at->head, dv);
    column_product(job, at, room->p, dout, ld_o, dv, add, job->dv + (size_t)(at->kv_head * dv),
                   ld_v, worker);
    pair_product(job, at, dout, ld_o, dv, room->v, room->ds, worker);
}

/* dq = s dS K, dk += dS^T (s q) */
static void keys_back(const attend_job *job, const head_at *at, head_room *room, bool add,
                      int worker) {
    const kt__attend *a = job->a;
    int dk = a->head_dim_k;
    size_t ld_k = ld_of(a->n_head_kv, dk), ld_q = ld_of(a->n_head, dk);
    size_t kv = (size_t)(at->kv_head * dk);
    float *dq = job->dq + (size_t)at->row0 * ld_q + (size_t)(at->head * dk);
    row_product(job, at, room->ds, a->k + kv, ld_k, dk, dq, ld_q, worker);
    for (int i = 0; i < at->len; i++) {
        float scale = query_scale(a, at->row0 + i);
        for (int d = 0; d < dk; d++) dq[(size_t)i * ld_q + (size_t)d] *= scale;
    }
    column_product(job, at, room->ds, room->q, kt__pad(dk), dk, add, job->dk + kv, ld_k, worker);
}

static void sequence_back(const attend_job *job, int s, int kv_head, head_room *room, int worker) {
    const kt__attend *a = job->a;
    int group = a->n_head / a->n_head_kv;
    head_at at = sequence_at(a, s, kv_head);
    turn_keys(a, &at, room);
    transpose_head(a->v, ld_of(a->n_head_kv, a->head_dim_v), &at, a->head_dim_v, room->v);
    for (int h = 0; h < group; h++) {
        at.head = at.kv_head * group + h;
        head_probabilities(job, &at, room, a->softcap > 0.0f ? room->raw : NULL, worker);
        values_back(job, &at, room, h > 0, worker);
        scores_back(a, &at, room, room->raw);
        keys_back(job, &at, room, h > 0, worker);
    }
}

/* Where rows are shared, all sequences add to their keys' and values' gradients, one after the other. */
static void backward_heads(void *arg, int64_t begin, int64_t end, int worker) {
    const attend_job *job = arg;
    const kt__attend *a = job->a;
    head_room room = room_of(a, worker);
    int together = a->at[0] > 0 ? count_sequences(a) : 1;
    for (int64_t item = begin; item < end; item++) {
        int first = (int)(item / a->n_head_kv) * together, kv_head = (int)(item % a->n_head_kv);
        for (int s = first; s < first + together; s++)
            sequence_back(job, s, kv_head, &room, worker);
    }
}

void kt__attend_backward(kt__panels *p, const kt__attend *a, const float *dout, float *dq,
                         float *dk, float *dv) {
    attend_job job = {.panels = p, .a = a, .dout = dout, .dq = dq, .dk = dk, .dv = dv};
    int64_t n_item = a->at[0] > 0 ? a->n_head_kv : (int64_t)a->n_seq * a->n_head_kv;
    kt__pool_run(kt__panels_pool(p), n_item, 1, backward_heads, &job);
}
