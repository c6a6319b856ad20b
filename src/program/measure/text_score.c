#include "measure/quality.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"

/* logits that lie in memory at a time */
enum { ROWS = 64 };

/* One model's part of the work. */
typedef struct judge {
    kt__session *session;
    float *logits; /* [ROWS][n_vocab] */
    int64_t ns;
} judge;

typedef struct scoring {
    const kt__text_score *t;
    kt__quality *out;
    judge own, base; /* base.session NULL: none */
    float *weights;  /* [n_vocab] */
    int32_t *ids;    /* [n_ctx] of the chunk */
    size_t n_vocab;
    uint64_t bytes;
} scoring;

kt_status kt__text_ids(const kt_model *model, const char *text, size_t len, unsigned flags,
                       int32_t **ids, size_t *n_ids, kt_error *err) {
    size_t n = 0;
    *ids = NULL;
    flags |= KT_TOK_ADD_SPECIAL;
    kt_status status = kt_tokenize(model, text, len, flags, NULL, 0, &n, err);
    if (status != KT_OK && status != KT_E_LIMIT) return status;
    *ids = kt__calloc(n + 1, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "token ids", n * sizeof **ids);
    return kt_tokenize(model, text, len, flags, *ids, n, n_ids, err);
}

/* ---- chunks ---- */

int32_t kt__text_score_ctx(const kt__text_score *t) {
    return t->n_ctx + t->stride / 2;
}

static size_t chunk_step(const kt__text_score *t) {
    return (size_t)(t->stride ? t->stride : t->n_ctx);
}

size_t kt__text_score_chunks(const kt__text_score *t) {
    size_t n_ctx = (size_t)kt__text_score_ctx(t), step = chunk_step(t);
    if (t->n_tokens < n_ctx + (t->stride ? 1 : 0)) return 0;
    size_t n = t->stride ? (t->n_tokens - n_ctx + step - 1) / step : t->n_tokens / n_ctx;
    return t->n_chunk_max && n > t->n_chunk_max ? t->n_chunk_max : n;
}

/* The first position whose logits are looked at. */
static size_t first_scored(const kt__text_score *t) {
    size_t n_ctx = (size_t)kt__text_score_ctx(t);
    return t->stride ? n_ctx - (size_t)t->stride - 1 : n_ctx / 2;
}

/* ---- rows ---- */

static kt_status scored_bytes(scoring *s, int32_t id, kt_error *err) {
    size_t len = 0;
    kt_status status = kt_detokenize(s->own.session->model, &id, 1, KT_TOK_RENDER_SPECIAL, NULL, 0,
                                     &len, err);
    s->bytes += len;
    return status == KT_E_LIMIT ? KT_OK : status;
}

static kt_status score_beside(scoring *s, const kt__log_row *row, size_t i, int32_t id,
                              kt_error *err) {
    kt__log_row base_row;
    kt__base_row base;
    kt_status status;
    if (s->base.session) {
        status = kt__log_row_make(s->base.logits + i * s->n_vocab, s->n_vocab, s->weights,
                                  &base_row, err);
        base = kt__log_row_as_base(&base_row);
    } else {
        status = kt__kld_next(s->t->base_file, &base, err);
    }
    if (status != KT_OK) return status;
    return kt__quality_add_beside(s->out, row, id, &base, s->n_vocab, err);
}

/* Row i of the logits at hand, after which `id` came. */
static kt_status score_row(scoring *s, size_t i, int32_t id, kt_error *err) {
    kt__log_row row;
    KT__STEP(kt__log_row_make(s->own.logits + i * s->n_vocab, s->n_vocab, s->weights, &row, err));
    if (s->t->save) KT__STEP(kt__kld_put(s->t->save, &row, err));
    KT__STEP(scored_bytes(s, id, err));
    if (s->base.session || s->t->base_file) return score_beside(s, &row, i, id, err);
    return kt__quality_add(s->out, &row, id, err);
}

static kt_status judge_eval(judge *j, const int32_t *ids, size_t n, bool logits, kt_error *err) {
    int64_t begin = kt__now_ns();
    kt_eval_item item = {j->session->seq, ids, n, logits ? j->logits : NULL};
    kt_status status = n ? kt_engine_eval(j->session->engine, &item, 1, err) : KT_OK;
    j->ns += kt__now_ns() - begin;
    return status;
}

/* The ids before the first scored position; BOS takes the first one's place where the model's rule
 * adds it. */
static kt_status judge_begin(judge *j, int32_t *ids, size_t n, kt_error *err) {
    int32_t first = ids[0];
    kt_status status = kt_seq_truncate(j->session->seq, 0, err);
    if (status != KT_OK) return status;
    if (j->session->info.add_bos && j->session->info.bos_id >= 0) ids[0] = j->session->info.bos_id;
    status = judge_eval(j, ids, n, false, err);
    ids[0] = first;
    return status;
}

static kt_status score_chunk(scoring *s, kt_error *err) {
    size_t n_ctx = (size_t)kt__text_score_ctx(s->t), before = first_scored(s->t);
    KT__STEP(judge_begin(&s->own, s->ids, before, err));
    if (s->base.session) KT__STEP(judge_begin(&s->base, s->ids, before, err));
    for (size_t i = before; i < n_ctx - 1; i += ROWS) {
        size_t n = n_ctx - 1 - i < ROWS ? n_ctx - 1 - i : ROWS;
        KT__STEP(judge_eval(&s->own, s->ids + i, n, true, err));
        if (s->base.session) KT__STEP(judge_eval(&s->base, s->ids + i, n, true, err));
        for (size_t r = 0; r < n; r++) KT__STEP(score_row(s, r, s->ids[i + r + 1], err));
    }
    return KT_OK;
}

/* ---- the whole text ---- */

static kt_status scoring_alloc(scoring *s, kt_error *err) {
    size_t bytes = ROWS * s->n_vocab * sizeof(float);
    s->own.logits = kt__malloc(bytes);
    s->base.logits = s->base.session ? kt__malloc(bytes) : NULL;
    s->weights = kt__calloc(s->n_vocab, sizeof *s->weights);
    s->ids = kt__calloc((size_t)kt__text_score_ctx(s->t), sizeof *s->ids);
    if (!s->own.logits || (s->base.session && !s->base.logits) || !s->weights || !s->ids)
        return kt__fail_nomem(err, "logits", bytes);
    return KT_OK;
}

static void print_progress(const scoring *s, size_t done, size_t n_chunk, int64_t begin_ns) {
    double seconds = (double)(kt__now_ns() - begin_ns) / 1e9;
    fprintf(stderr, "\rkentang %s: %zu of %zu chunks, %.0f tok/s, %.0f s left   %s", s->t->command,
            done, n_chunk, (double)done * (double)kt__text_score_ctx(s->t) / seconds,
            seconds / (double)done * (double)(n_chunk - done), done == n_chunk ? "\n" : "");
}

kt_status kt__text_score_run(const kt__text_score *t, kt__session *session, kt__quality *out,
                             kt__text_score_cost *cost, kt_error *err) {
    scoring s = {.t = t,
                 .out = out,
                 .own.session = session,
                 .base.session = t->base,
                 .n_vocab = (size_t)session->info.n_vocab};
    size_t n_chunk = kt__text_score_chunks(t), n_ctx = (size_t)kt__text_score_ctx(t);
    bool show = t->command && kt__fd_is_terminal(KT__STDERR);
    int64_t begin = kt__now_ns();
    kt_status status = scoring_alloc(&s, err);
    for (size_t c = 0; c < n_chunk && status == KT_OK; c++) {
        const int32_t *from = t->tokens + c * chunk_step(t);
        for (size_t i = 0; i < n_ctx; i++) s.ids[i] = from[i];
        status = score_chunk(&s, err);
        if (show && status == KT_OK) print_progress(&s, c + 1, n_chunk, begin);
    }
    *cost = (kt__text_score_cost){s.bytes, (int64_t)(n_chunk * (n_ctx - 1)), s.own.ns, s.base.ns};
    kt__free(s.own.logits);
    kt__free(s.base.logits);
    kt__free(s.weights);
    kt__free(s.ids);
    return status;
}
