#include "engine/seq.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/batch.h"
#include "engine/speculator.h"
#include "engine/stage.h"
#include "host/pages.h"

static size_t logits_bytes(const kt_engine *engine) {
    return (size_t)engine->model->net->hp.n_vocab * sizeof(float);
}

static kt_status seq_new(kt_engine *engine, kt_seq **out, kt_error *err) {
    kt_status status;
    kt__engine_return_logits(engine); /* no sequence's own any more */
    if (engine->n_seq >= engine->params.n_seq_max) {
        return kt__fail(
            err, KT_E_LIMIT,
            "%d sequences are open already: close one, or open the engine with a larger n_seq_max",
            engine->n_seq);
    }
    kt_seq *seq = kt__calloc(1, sizeof *seq);
    if (!seq) return kt__fail_nomem(err, "a sequence", sizeof *seq);
    seq->engine = engine;
    engine->n_seq++;
    seq->tokens = kt__calloc((size_t)engine->params.n_ctx, sizeof *seq->tokens);
    seq->own_logits = kt__pages_alloc(logits_bytes(engine));
    if (!seq->tokens || !seq->own_logits) {
        status = kt__fail_nomem(err, "a sequence", logits_bytes(engine));
        goto out;
    }
    KT__TRY(kt__kv_table_init(&seq->table, engine->params.n_ctx, err));
    KT__TRY(kt__draft_seq_init(engine, &seq->draft_seq, err));
    *out = seq;
    return KT_OK;
out:
    kt__ticket_unlock(&engine->turn);
    kt_seq_close(seq);
    kt__ticket_lock(&engine->turn);
    return status;
}

kt_status kt_seq_open(kt_engine *engine, kt_seq **out, kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    kt__ticket_lock(&engine->turn);
    kt_status status = seq_new(engine, out, err);
    kt__ticket_unlock(&engine->turn);
    return status;
}

void kt_seq_close(kt_seq *seq) {
    if (!seq) return;
    kt_engine *engine = seq->engine;
    kt__ticket_lock(&engine->turn);
    if (engine->logits_owner == seq) engine->logits_owner = NULL;
    kt__kv_table_free(engine->kv, &seq->table);
    kt__speculator_trim(engine->speculator, &seq->draft_seq, 0);
    engine->n_seq--;
    kt__ticket_unlock(&engine->turn);
    kt__pages_free(seq->own_logits, logits_bytes(engine));
    kt__free(seq->draft_seq.table.pages);
    kt__free(seq->tokens);
    kt__free(seq);
}

kt_status kt_seq_copy(kt_seq *seq, kt_seq **out, kt_error *err) {
    kt_engine *engine = seq->engine;
    *out = NULL;
    kt__error_clear(err);
    kt__ticket_lock(&engine->turn);
    kt_status status = seq_new(engine, out, err);
    if (status == KT_OK) {
        kt__kv_table_share(engine->kv, &seq->table, (int64_t)seq->n_pos, &(*out)->table);
        if (seq->n_pos) memcpy((*out)->tokens, seq->tokens, seq->n_pos * sizeof *seq->tokens);
        (*out)->n_pos = seq->n_pos;
        if (seq->logits) {
            memcpy((*out)->own_logits, seq->logits, logits_bytes(engine));
            (*out)->logits = (*out)->own_logits;
        }
    }
    kt__ticket_unlock(&engine->turn);
    return status;
}

void kt__seq_truncate_locked(kt_seq *seq, size_t n_keep) {
    kt__kv_table_truncate(seq->engine->kv, &seq->table, (int64_t)n_keep);
    kt__speculator_trim(seq->engine->speculator, &seq->draft_seq, (int64_t)n_keep);
    seq->n_pos = n_keep;
    seq->logits = NULL;
    seq->ahead = (kt__ahead){0};
}

/* ---- steps ---- */

void kt__engine_return_logits(kt_engine *engine) {
    kt_seq *seq = engine->logits_owner;
    size_t n_vocab = (size_t)engine->model->net->hp.n_vocab;
    engine->logits_owner = NULL;
    if (!seq || !seq->logits || seq->logits == seq->own_logits) return;
    memcpy(seq->own_logits, seq->logits, n_vocab * sizeof *seq->logits);
    seq->logits = seq->own_logits;
}

/* The step's buffer serves while nothing else can overwrite it. */
static void take_logits(kt_seq *seq, int row) {
    kt_engine *engine = seq->engine;
    const float *logits = kt__fwd_logits(engine->step_fwd, row);
    bool copy = engine->n_seq > 1;
    if (copy) memcpy(seq->own_logits, logits, logits_bytes(engine));
    seq->logits = copy ? seq->own_logits : logits;
    engine->logits_owner = copy ? NULL : seq;
}

kt_status kt__seq_step_locked(kt_seq *seq, const int32_t *ids, int n, const atomic_bool *cancel,
                              kt_error *err) {
    kt_engine *engine = seq->engine;
    int64_t pos = (int64_t)seq->n_pos;
    bool done;
    kt__seq_drop_ahead_locked(seq);
    kt_status status = kt__kv_table_grow(engine->kv, &seq->table, pos, pos + n, err);
    if (status != KT_OK) return status;
    memcpy(seq->tokens + pos, ids, (size_t)n * sizeof *ids);
    kt__seg seg = {&seq->table, pos, 0, n};
    int32_t out_rows[1 + KT__DRAFTS_MAX];
    for (int i = 0; i < n; i++) out_rows[i] = i;
    kt__batch batch = {.n_tok = n,
                       .ids = seq->tokens + pos,
                       .segs = &seg,
                       .n_seg = 1,
                       .out_rows = out_rows,
                       .n_out = n};
    kt__batch_run run = {.fwd = engine->step_fwd,
                         .batch = &batch,
                         .decode = true,
                         .n_tok = n,
                         .until_us = INT64_MAX,
                         .cancel = cancel};
    kt__profile *profile = kt__engine_profile_on(engine);
    kt__profile_begin(profile);
    kt__engine_return_logits(engine);
    status = kt__engine_run_batch(engine, &run, &done, err);
    kt__profile_lap(profile, KT_PROFILE_BATCH);
    if (status != KT_OK) {
        kt__kv_table_truncate(engine->kv, &seq->table, pos);
        return status;
    }
    seq->n_pos++;
    seq->ahead = (kt__ahead){n - 1, 1, engine->n_steps};
    take_logits(seq, 0);
    return KT_OK;
}

bool kt__seq_take_ahead_locked(kt_seq *seq, int32_t id) {
    kt__ahead *ahead = &seq->ahead;
    if (ahead->n == 0 || ahead->n_steps != seq->engine->n_steps || seq->tokens[seq->n_pos] != id)
        return false;
    take_logits(seq, ahead->row);
    ahead->row++;
    ahead->n--;
    seq->n_pos++;
    return true;
}

void kt__seq_drop_ahead_locked(kt_seq *seq) {
    if (seq->ahead.n == 0) return;
    kt__kv_table_truncate(seq->engine->kv, &seq->table, (int64_t)seq->n_pos);
    seq->ahead = (kt__ahead){0};
}

kt_status kt_seq_truncate(kt_seq *seq, size_t n_keep, kt_error *err) {
    kt_status status = KT_OK;
    kt__error_clear(err);
    kt__ticket_lock(&seq->engine->turn);
    if (n_keep > seq->n_pos) {
        status = kt__fail(err, KT_E_ARG, "cannot keep %zu of %zu positions", n_keep, seq->n_pos);
    } else if (n_keep < seq->n_pos) {
        kt__seq_truncate_locked(seq, n_keep);
    }
    kt__ticket_unlock(&seq->engine->turn);
    return status;
}

size_t kt_seq_len(const kt_seq *seq) {
    return seq->n_pos;
}
const int32_t *kt_seq_tokens(const kt_seq *seq) {
    return seq->tokens;
}
const float *kt_seq_logits(const kt_seq *seq) {
    return seq->logits;
}
