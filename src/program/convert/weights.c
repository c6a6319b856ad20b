#include "convert/write.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "base/thread.h"
#include "convert/planned.h"
#include "host/pool.h"

enum {
    PIECE_WEIGHTS = 1 << 19, /* of a piece, at least one row */
    ALIGNMENT = 32,          /* of tensors in the file */
    CHECKPOINT_BYTES = 128 << 20
};

/* ---- a thread's memory ---- */

typedef struct worker_space {
    void *raw, *encoded;
    float *values;
    float *room;   /* of error feedback, or NULL */
    void *scratch; /* the same */
} worker_space;

typedef struct weights_state {
    const kt__weights_job *job;
    worker_space *spaces; /* [n_threads] */
    const kt__planned *tensor;
    const kt__feedback *feedback; /* of the tensor, or NULL */
    uint64_t at;                  /* of the tensor in the file */
    int64_t first;                /* row of the run's item 0 */
    int64_t rows_a_piece;
    atomic_bool failed;
    atomic_uint_fast64_t done, overflows, underflows;
    pthread_mutex_t lock; /* of err and progress */
    kt_error err;
} weights_state;

static void fail_once(weights_state *s, const kt_error *err) {
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) s->err = *err;
    atomic_store(&s->failed, true);
    pthread_mutex_unlock(&s->lock);
}

/* ---- a piece ---- */

static bool is_tiled(kt__change change) {
    return change == KT__CHANGE_TILED || change == KT__CHANGE_DECAY;
}

/* Value heads, of all key heads in turns in GGUF, of one key head after one another in the
 * folder. */
static int64_t tiled_row(const kt__planned *t, int64_t r) {
    if (r < t->tiled_from) return r;
    int64_t head = (r - t->tiled_from) / t->head_rows, in_head = (r - t->tiled_from) % t->head_rows;
    int64_t from = head % t->n_heads * t->n_tiles + head / t->n_heads;
    return t->tiled_from + from * t->head_rows + in_head;
}

static bool moves_rows(const kt__planned *t) {
    return t->change == KT__CHANGE_PERM_Q || t->change == KT__CHANGE_PERM_K || is_tiled(t->change);
}

/* The row of the source that row r becomes: within a head, adjacent pairs come from the two
 * halves. */
static int64_t source_row(const kt__planned *t, int64_t r) {
    if (is_tiled(t->change)) return tiled_row(t, r);
    if (t->change != KT__CHANGE_PERM_Q && t->change != KT__CHANGE_PERM_K) return r;
    int64_t head = r / t->head_rows, in_head = r % t->head_rows;
    return head * t->head_rows + in_head % 2 * (t->head_rows / 2) + in_head / 2;
}

/* Elements of a permuted vector are its rows. */
static bool permutes_vector(const kt__planned *t) {
    return t->n_dims == 1 && moves_rows(t);
}

static void permute_vector(const kt__planned *t, const float *from, float *to) {
    for (int64_t i = 0; i < t->n_cols; i++) to[i] = from[source_row(t, i)];
}

/* Rows of several parts, each in a tensor of its own. */
static kt_status read_parts(const kt__planned *t, int64_t begin, int64_t end, char *raw,
                            kt_error *err) {
    size_t row = kt__type_row_bytes(t->source.type, t->n_cols);
    kt_status status = KT_OK;
    for (int64_t at = begin, n; at < end && status == KT_OK; at += n, raw += (size_t)n * row) {
        int64_t part = at / t->part_rows, in_part = at % t->part_rows;
        n = t->part_rows - in_part < end - at ? t->part_rows - in_part : end - at;
        status = kt__weight_read(&t->parts[part], (uint64_t)in_part * row, raw, (size_t)n * row,
                                 err);
    }
    return status;
}

/* Floats between a column and the next one of a part that lies transposed in the folder; 0: it does not. */
static int64_t turned_stride(const kt__planned *t) {
    switch (t->change) {
    case KT__CHANGE_KEYS:
    case KT__CHANGE_TURNED_WHOLE: return t->part_rows;
    case KT__CHANGE_TURNED_LOW:
    case KT__CHANGE_TURNED_HIGH: return 2 * t->part_rows; /* gate, then up */
    default: return 0;
    }
}

enum { STRIP = 512 }; /* rows of a transposed part that are read at once, of one column */

/* Rows [first, first + n) of one part. */
static kt_status read_turned_rows(const kt__planned *t, int64_t part, int64_t first, int64_t n,
                                  char *raw, kt_error *err) {
    size_t size = kt__type_row_bytes(t->source.type, 1), row = (size_t)t->n_cols * size;
    char strip[STRIP * sizeof(float)];
    kt_status status = KT_OK;
    for (int64_t i = 0; i < t->n_cols && status == KT_OK; i++) {
        uint64_t at = (uint64_t)(i * turned_stride(t) + first) * size;
        status = kt__weight_read(&t->parts[part], at, strip, (size_t)n * size, err);
        for (int64_t r = 0; r < n && status == KT_OK; r++)
            memcpy(raw + (size_t)r * row + (size_t)i * size, strip + (size_t)r * size, size);
    }
    return status;
}

static kt_status read_turned(const kt__planned *t, int64_t begin, int64_t end, char *raw,
                             kt_error *err) {
    size_t row = kt__type_row_bytes(t->source.type, t->n_cols);
    kt_status status = KT_OK;
    for (int64_t at = begin, n; at < end && status == KT_OK; at += n, raw += (size_t)n * row) {
        int64_t first = at % t->part_rows, left = t->part_rows - first;
        n = left < end - at ? left : end - at;
        if (n > STRIP) n = STRIP;
        status = read_turned_rows(t, at / t->part_rows, first, n, raw, err);
    }
    return status;
}

/* Blocks of 32 weights: the folder has weights 2k and 2k + 1 in byte k, GGUF k and k + 16. */
static void join_blocks(const uint8_t *levels, const uint8_t *scales, int64_t n, uint8_t *out) {
    for (int64_t b = 0; b < n; b++, levels += 16, out += 17) {
        out[0] = scales[b];
        for (int k = 0; k < 8; k++) {
            uint8_t low = levels[k], high = levels[k + 8];
            out[1 + 2 * k] = (uint8_t)((low & 15) | (high & 15) << 4);
            out[2 + 2 * k] = (uint8_t)(low >> 4 | (high & 0xf0));
        }
    }
}

/* Rows of all experts' MXFP4 blocks as GGUF has them; of gate and up together, each second one. */
static kt_status read_blocks(const kt__planned *t, int64_t begin, int64_t end, char *raw,
                             kt_error *err) {
    enum { BLOCKS = 256 };
    uint8_t levels[16 * BLOCKS], scales[BLOCKS];
    bool odd = t->change == KT__CHANGE_MXFP4_ODD;
    int64_t step = odd || t->change == KT__CHANGE_MXFP4_EVEN ? 2 : 1, in_row = t->n_cols / 32;
    kt_status status = KT_OK;
    for (int64_t r = begin; r < end && status == KT_OK; r++) {
        int64_t first = (r * step + odd) * in_row; /* experts lie after one another, too */
        for (int64_t b = 0, n; b < in_row && status == KT_OK; b += n, raw += 17 * n) {
            n = in_row - b < BLOCKS ? in_row - b : BLOCKS;
            status = kt__weight_read(&t->source, 16 * (uint64_t)(first + b), levels, 16 * (size_t)n,
                                     err);
            if (status == KT_OK)
                status = kt__weight_read(&t->scales, (uint64_t)(first + b), scales, (size_t)n, err);
            if (status == KT_OK) join_blocks(levels, scales, n, (uint8_t *)raw);
        }
    }
    return status;
}

/* Rows of each second element. */
static kt_status read_halves(const kt__planned *t, int64_t begin, int64_t end, char *raw,
                             kt_error *err) {
    enum { PAIRS = 1024 };
    char pairs[PAIRS * 2 * sizeof(float)];
    size_t size = kt__type_row_bytes(t->source.type, 1), odd = t->change == KT__CHANGE_ODD;
    int64_t left = (end - begin) * t->n_cols, at = begin * t->n_cols;
    kt_status status = KT_OK;
    for (int64_t n; left > 0 && status == KT_OK; left -= n, at += n) {
        n = left < PAIRS ? left : PAIRS;
        status = kt__weight_read(&t->source, 2 * size * (uint64_t)at, pairs, 2 * size * (size_t)n,
                                 err);
        for (size_t i = 0; i < (size_t)n && status == KT_OK; i++, raw += size)
            memcpy(raw, pairs + (2 * i + odd) * size, size);
    }
    return status;
}

static kt_status read_rows(const kt__planned *t, int64_t begin, int64_t end, void *raw,
                           kt_error *err) {
    size_t row = kt__type_row_bytes(t->source.type, t->n_cols);
    kt_status status = KT_OK;
    if (turned_stride(t)) return read_turned(t, begin, end, raw, err);
    if (t->change == KT__CHANGE_PACKED) return kt__ternary_unpack(t, begin, end, raw, err);
    if (t->parts) return read_parts(t, begin, end, raw, err);
    if (t->scales.name) return read_blocks(t, begin, end, raw, err);
    if (t->change == KT__CHANGE_EVEN || t->change == KT__CHANGE_ODD)
        return read_halves(t, begin, end, raw, err);
    bool straight = t->n_dims == 1 || !moves_rows(t);
    if (straight)
        return kt__weight_read(&t->source, (uint64_t)begin * row, raw, (size_t)(end - begin) * row,
                               err);
    for (int64_t r = begin; r < end && status == KT_OK; r++)
        status = kt__weight_read(&t->source, (uint64_t)source_row(t, r) * row,
                                 (char *)raw + (size_t)(r - begin) * row, row, err);
    return status;
}

/* Infinities and NaN are faults of an upload: no model means them. */
static kt_status check_finite(const kt__planned *t, int64_t begin, const float *values, size_t n,
                              kt_error *err) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7f800000u) != 0x7f800000u) continue;
        int64_t row = source_row(t, begin + (int64_t)i / t->n_cols);
        const kt__weight_source *source = t->parts ? &t->parts[row / t->part_rows] : &t->source;
        if (t->parts) row %= t->part_rows;
        uint64_t element = (uint64_t)(row * t->n_cols) + i % (size_t)t->n_cols;
        const kt__type_info *type = kt__type_get(t->source.type);
        uint64_t at = element / (uint64_t)type->block_elems * (uint64_t)type->block_bytes;
        return kt__fail_at(err, KT_E_NUMERIC, source->path, source->begin + at,
                           "tensor '%.100s': element %llu is not a finite number: the file is "
                           "damaged",
                           source->name, (unsigned long long)element);
    }
    return KT_OK;
}

/* What F16 cannot hold becomes its largest value, and is counted. */
static void fit_f16(weights_state *s, float *values, size_t n) {
    const float largest = 65504.0f, smallest = 0x1p-25f;
    uint64_t over = 0, under = 0;
    for (size_t i = 0; i < n; i++) {
        float size = values[i] < 0.0f ? -values[i] : values[i];
        over += size > largest;
        under += size <= smallest && size != 0.0f;
        if (size > largest) values[i] = values[i] < 0.0f ? -largest : largest;
    }
    if (over) atomic_fetch_add(&s->overflows, over);
    if (under) atomic_fetch_add(&s->underflows, under);
}

/* n values in whole rows, whose columns are those of value heads; `room` takes a row. */
static void tile_columns(const kt__planned *t, int64_t n, float *room, float *values) {
    for (int64_t at = 0; at < n; at += t->n_cols) {
        memcpy(room, values + at, (size_t)t->n_cols * sizeof *room);
        for (int64_t i = 0; i < t->n_cols; i++) values[at + i] = room[tiled_row(t, i)];
    }
}

/* Rows that a multiplier is for. */
static void scale_rows(const kt__planned *t, int64_t begin, int64_t end, float *values) {
    for (int64_t r = begin; r < end; r++, values += t->n_cols) {
        float by = kt__hf_scale_of_row(t->scales_by, t->n_scales_by, r);
        for (int64_t i = 0; i < t->n_cols; i++) values[i] *= by;
    }
}

/* Rows [begin, end) as f32 into w->values. */
static kt_status load_values(const weights_state *s, worker_space *w, int64_t begin, int64_t end,
                             kt_error *err) {
    const kt__planned *t = s->tensor;
    int64_t n = (end - begin) * t->n_cols;
    if (t->source.fd < 0) {
        memcpy(w->values, t->made ? t->made : &t->factor, (size_t)n * sizeof *w->values);
        return KT_OK;
    }
    kt_status status = read_rows(t, begin, end, w->raw, err);
    if (status != KT_OK) return status;
    kt__dequantize_row(t->source.type, w->raw, n, w->values);
    if (permutes_vector(t)) {
        memcpy(w->raw, w->values, (size_t)n * sizeof *w->values);
        permute_vector(t, w->raw, w->values);
    }
    status = check_finite(t, begin, w->values, (size_t)n, err);
    if (t->change == KT__CHANGE_TILED_COLS) tile_columns(t, n, w->raw, w->values);
    if (t->change == KT__CHANGE_DECAY || t->change == KT__CHANGE_FLAT_DECAY ||
        t->change == KT__CHANGE_MINUS_EXP)
        for (int64_t i = 0; i < n; i++) w->values[i] = (float)-kt__exp((double)w->values[i]);
    if (t->change == KT__CHANGE_TERNARY) kt__ternary_round(w->values, n, t->factor);
    if (t->change == KT__CHANGE_PLUS_1)
        for (int64_t i = 0; i < n; i++) w->values[i] += 1.0f;
    if (t->n_scales_by) scale_rows(t, begin, end, w->values);
    if (t->row_change && status == KT_OK)
        t->row_change->apply(t->row_change->user, t->name, begin, end, t->n_cols, w->values);
    return status;
}

static bool is_kept(const kt__planned *t) {
    bool straight = (t->change == KT__CHANGE_COPY && !t->n_scales_by) || t->scales.name;
    return t->source.fd >= 0 && t->type == t->source.type && straight && !t->row_change;
}

static void encode_rows(const weights_state *s, worker_space *w, int64_t n_row) {
    const kt__planned *t = s->tensor;
    kt__encoding how = s->job->encoding;
    how.importance = t->importance;
    for (int64_t r = 0; r < n_row && !s->feedback; r++)
        kt__quantize_row_by(t->type, &how, w->values + r * t->n_cols, t->n_cols,
                            (char *)w->encoded + (size_t)r * t->row_bytes);
    for (int64_t r = 0; r < n_row && s->feedback; r += KT__FEEDBACK_ROWS) {
        int64_t n = n_row - r < KT__FEEDBACK_ROWS ? n_row - r : KT__FEEDBACK_ROWS;
        kt__quantize_rows_feedback(t->type, &how, s->feedback, w->values + r * t->n_cols, (int)n,
                                   (char *)w->encoded + (size_t)r * t->row_bytes, w->room,
                                   w->scratch);
    }
}

static kt_status convert_rows(weights_state *s, worker_space *w, int64_t begin, int64_t end,
                              kt_error *err) {
    const kt__planned *t = s->tensor;
    kt_status status = load_values(s, w, begin, end, err);
    if (status != KT_OK) return status;
    if (is_kept(t)) /* encoding again need not give the same blocks */
        return kt__part_write(s->job->part, w->raw, (size_t)(end - begin) * t->row_bytes,
                              s->at + (uint64_t)begin * t->row_bytes, err);
    size_t n = (size_t)((end - begin) * t->n_cols);
    if (t->type == KT__TYPE_F16) fit_f16(s, w->values, n);
    encode_rows(s, w, end - begin);
    return kt__part_write(s->job->part, w->encoded, (size_t)(end - begin) * t->row_bytes,
                          s->at + (uint64_t)begin * t->row_bytes, err);
}

static void report_rows(weights_state *s, uint64_t bytes) {
    uint64_t done = atomic_fetch_add(&s->done, bytes) + bytes;
    if (!s->job->progress) return;
    pthread_mutex_lock(&s->lock);
    s->job->progress(s->job->user, done, s->job->plan->data_bytes);
    pthread_mutex_unlock(&s->lock);
}

static void convert_items(void *arg, int64_t begin, int64_t end, int worker) {
    weights_state *s = arg;
    for (int64_t at = begin; at < end && !atomic_load(&s->failed); at += s->rows_a_piece) {
        kt_error err;
        int64_t stop = at + s->rows_a_piece < end ? at + s->rows_a_piece : end;
        if (convert_rows(s, &s->spaces[worker], s->first + at, s->first + stop, &err) != KT_OK)
            fail_once(s, &err);
        else
            report_rows(s, (uint64_t)(stop - at) * s->tensor->row_bytes);
    }
}

/* ---- tensors ---- */

/* Bytes between tensors; they are written, so that no leftovers show through. */
static kt_status write_padding(const weights_state *s, kt_error *err) {
    static const char zeros[ALIGNMENT];
    uint64_t size = (uint64_t)s->tensor->n_rows * s->tensor->row_bytes;
    return kt__part_write(s->job->part, zeros, (size_t)(-size & (ALIGNMENT - 1)), s->at + size,
                          err);
}

static kt_status find_feedback(weights_state *s, kt_error *err) {
    const kt__planned *t = s->tensor;
    const kt__feedback_source *from = s->job->feedback;
    s->feedback = NULL;
    if (!from || t->n_dims < 2 || is_kept(t) || kt__type_get(t->type)->block_elems == 1)
        return KT_OK;
    return from->find(from->user, t->name, t->n_cols, &s->feedback, err);
}

/* Rows of a tensor that are not in the file yet, a checkpoint now and then. */
static kt_status write_planned(weights_state *s, kt__pool *pool, kt_error *err) {
    const kt__planned *t = s->tensor;
    kt__part *part = s->job->part;
    uint64_t step = s->job->checkpoint_bytes ? s->job->checkpoint_bytes : CHECKPOINT_BYTES;
    s->rows_a_piece = PIECE_WEIGHTS / t->n_cols > 0 ? PIECE_WEIGHTS / t->n_cols : 1;
    int64_t rows = (int64_t)(step / t->row_bytes) + 1;
    int64_t done = part->good > s->at ? (int64_t)((part->good - s->at) / t->row_bytes) : 0;
    if (done > t->n_rows) done = t->n_rows;
    atomic_fetch_add(&s->done, (uint64_t)done * t->row_bytes);
    if (done < t->n_rows) KT__STEP(find_feedback(s, err));
    for (s->first = done; s->first < t->n_rows; s->first += rows) {
        int64_t left = t->n_rows - s->first, n = left < rows ? left : rows;
        kt__pool_run(pool, n, s->rows_a_piece, convert_items, s);
        if (atomic_load(&s->failed)) {
            *err = s->err;
            return s->err.code;
        }
        uint64_t good = s->at + (uint64_t)(s->first + n) * t->row_bytes;
        if (good - part->good >= step) KT__STEP(kt__part_checkpoint(part, good, err));
    }
    return write_padding(s, err);
}

/* ---- all ---- */

static size_t largest_piece(const kt__weight_plan *plan) {
    size_t most = PIECE_WEIGHTS;
    for (size_t i = 0; i < plan->n; i++)
        if ((size_t)plan->tensors[i].n_cols > most) most = (size_t)plan->tensors[i].n_cols;
    return most;
}

static int64_t longest_feedback(const weights_state *s) {
    int64_t most = 0;
    for (size_t i = 0; s->job->feedback && i < s->job->plan->n; i++)
        if (s->job->plan->tensors[i].n_cols > most) most = s->job->plan->tensors[i].n_cols;
    return most;
}

static bool make_feedback_space(const weights_state *s, worker_space *w) {
    enum { LINE = 64 };
    size_t room = kt__feedback_room(longest_feedback(s)), scratch = s->job->feedback->scratch_bytes;
    w->room = kt__malloc(room * sizeof *w->room);
    w->scratch = kt__aligned_alloc(LINE, kt__align_up(scratch + 1, LINE));
    return w->room && w->scratch;
}

static kt_status make_spaces(weights_state *s, kt_error *err) {
    size_t n = largest_piece(s->job->plan), bytes = 12 * n;
    if (s->job->feedback)
        bytes += 4 * kt__feedback_room(longest_feedback(s)) + s->job->feedback->scratch_bytes;
    s->spaces = kt__calloc((size_t)s->job->n_threads, sizeof *s->spaces);
    if (!s->spaces) return kt__fail_nomem(err, "threads", 0);
    for (int i = 0; i < s->job->n_threads; i++) {
        worker_space *w = &s->spaces[i];
        *w = (worker_space){kt__malloc(4 * n), kt__malloc(4 * n), kt__malloc(4 * n), NULL, NULL};
        bool good = w->raw && w->encoded && w->values;
        if (!good || (s->job->feedback && !make_feedback_space(s, w)))
            return kt__fail_nomem(err, "a thread's buffers", bytes);
    }
    return KT_OK;
}

static void free_spaces(weights_state *s) {
    for (int i = 0; s->spaces && i < s->job->n_threads; i++) {
        kt__free(s->spaces[i].raw);
        kt__free(s->spaces[i].encoded);
        kt__free(s->spaces[i].values);
        kt__free(s->spaces[i].room);
        kt__free(s->spaces[i].scratch);
    }
    kt__free(s->spaces);
}

kt_status kt__weights_write(const kt__weights_job *job, kt__weights_counts *counts, kt_error *err) {
    weights_state s = {.job = job, .at = job->data_at, .lock = PTHREAD_MUTEX_INITIALIZER};
    kt__pool *pool = NULL;
    kt_status status;
    KT__TRY(make_spaces(&s, err));
    KT__TRY(kt__pool_create(job->n_threads, &pool, err));
    kt__pool_begin(pool, job->n_threads);
    for (size_t i = 0; i < job->plan->n && status == KT_OK; i++) {
        s.tensor = &job->plan->tensors[i];
        uint64_t size = (uint64_t)s.tensor->n_rows * s.tensor->row_bytes;
        status = write_planned(&s, pool, err);
        s.at += (size + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    }
    kt__pool_end(pool);
out:
    kt__pool_destroy(pool);
    free_spaces(&s);
    pthread_mutex_destroy(&s.lock);
    *counts = (kt__weights_counts){atomic_load(&s.overflows), atomic_load(&s.underflows)};
    return status;
}
