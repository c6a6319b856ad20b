#include "requests/seq.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/model.h"
#include "host/pages.h"
#include "requests/inbox.h"
#include "requests/speculator.h"

static size_t logits_bytes(const kt_engine *engine) {
    return kt__engine_n_vocab(engine) * sizeof(float);
}

static void publish_pages(const kt_engine *engine) {
    kt__inbox_publish_pages(engine->inbox, kt__kv_n_used(engine->kv), kt__kv_n_kept(engine->kv));
}

/* ---- life ---- */

static kt_status allocate_seq(kt_seq *seq, kt_error *err) {
    kt_engine *engine = seq->engine;
    kt__seq_state *state = &seq->state;
    /* a token is drawn from a full context, too */
    state->tokens = kt__calloc((size_t)engine->params.n_ctx + 1, sizeof *state->tokens);
    state->logits = kt__pages_alloc(logits_bytes(engine));
    seq->eval = kt__calloc(1, sizeof *seq->eval);
    if (!state->tokens || !state->logits || !seq->eval)
        return kt__fail_nomem(err, "a sequence", logits_bytes(engine));
    KT__STEP(kt__kv_table_init(&state->table, engine->params.n_ctx, err));
    return kt__draft_seq_init(engine, &state->draft, err);
}

static void free_seq(kt_seq *seq) {
    kt__pages_free(seq->state.logits, logits_bytes(seq->engine));
    kt__draft_seq_free(&seq->state.draft);
    kt__free(seq->state.table.pages);
    kt__free(seq->state.tokens);
    kt__free(seq->eval);
    kt__adapters_release(seq->adapters);
    kt__free(seq);
}

/* With the turn. */
static kt_status seq_new(kt_engine *engine, kt_seq **out, kt_error *err) {
    *out = NULL;
    kt_status generates = kt__model_generates(engine->model, err);
    if (generates != KT_OK) return generates;
    if (engine->n_seq >= engine->params.n_seq_max) {
        return kt__fail(
            err, KT_E_LIMIT,
            "%d sequences are open already: close one, or open the engine with a larger n_seq_max",
            engine->n_seq);
    }
    kt_seq *seq = kt__calloc(1, sizeof *seq);
    if (!seq) return kt__fail_nomem(err, "a sequence", sizeof *seq);
    seq->engine = engine;
    kt_status status = allocate_seq(seq, err);
    if (status == KT_OK) {
        engine->n_seq++;
        *out = seq;
    } else {
        free_seq(seq);
    }
    return status;
}

kt_status kt_seq_open(kt_engine *engine, kt_seq **out, kt_error *err) {
    kt__error_clear(err);
    kt__ticket_lock(&engine->turn);
    kt_status status = seq_new(engine, out, err);
    kt__ticket_unlock(&engine->turn);
    return status;
}

void kt_seq_close(kt_seq *seq) {
    if (!seq) return;
    kt_engine *engine = seq->engine;
    assert(!atomic_load(&seq->lent));
    kt__ticket_lock(&engine->turn);
    kt__seq_set_end(seq, 0);
    engine->n_seq--;
    kt__ticket_unlock(&engine->turn);
    free_seq(seq);
}

static void copy_state(kt_engine *engine, const kt_seq *from, kt_seq *to) {
    const kt__seq_state *state = &from->state;
    kt__kv_table_share(engine->kv, &state->table, (int64_t)from->n_pos, &to->state.table);
    if (from->n_pos) memcpy(to->state.tokens, state->tokens, from->n_pos * sizeof *state->tokens);
    to->n_pos = from->n_pos;
    to->adapters = kt__adapters_hold(from->adapters);
    if (kt_seq_logits(from)) kt__seq_keep_logits(to, state->logits, from->n_pos);
}

kt_status kt_seq_copy(kt_seq *seq, kt_seq **out, kt_error *err) {
    kt_engine *engine = seq->engine;
    *out = NULL;
    kt__error_clear(err);
    kt_status status = kt__seq_lend(seq, engine, err);
    if (status != KT_OK) return status;
    kt__ticket_lock(&engine->turn);
    status = seq_new(engine, out, err);
    if (status == KT_OK) copy_state(engine, seq, *out);
    publish_pages(engine);
    kt__ticket_unlock(&engine->turn);
    kt__seq_unlend(seq);
    return status;
}

/* ---- lending ---- */

kt_status kt__seq_lend(kt_seq *seq, const kt_engine *engine, kt_error *err) {
    if (seq->engine != engine)
        return kt__fail(err, KT_E_ARG, "the sequence belongs to another engine");
    if (!atomic_exchange(&seq->lent, true)) return KT_OK;
    return kt__fail(err, KT_E_STATE,
                    "a request or an evaluation runs on the sequence: wait for its end");
}

void kt__seq_unlend(kt_seq *seq) {
    atomic_store(&seq->lent, false);
}

size_t kt__seq_common(const kt_seq *seq, const int32_t *ids, size_t n) {
    size_t common = 0, most = n > 0 ? n - 1 : 0;
    if (most > seq->n_pos) most = seq->n_pos;
    while (common < most && seq->state.tokens[common] == ids[common]) common++;
    return common;
}

void kt__seq_put_prompt(kt_seq *seq, size_t n_keep, const int32_t *ids, size_t n) {
    seq->n_pos = n_keep;
    if (seq->state.n_logits > n_keep) seq->state.n_logits = 0;
    if (n) memcpy(seq->state.tokens + n_keep, ids, n * sizeof *ids);
}

void kt__seq_keep_logits(kt_seq *seq, const float *logits, size_t n_pos) {
    if (logits != seq->state.logits) memcpy(seq->state.logits, logits, logits_bytes(seq->engine));
    seq->state.n_logits = n_pos;
}

void kt__seq_set_end(kt_seq *seq, size_t n_pos) {
    kt__seq_state *state = &seq->state;
    kt__kv_table_truncate(seq->engine->kv, &state->table, (int64_t)n_pos);
    kt__kv_table_rest(seq->engine->kv, &state->table);
    kt__speculator_trim(seq->engine->speculator, &state->draft, (int64_t)n_pos);
    seq->n_pos = n_pos;
    if (state->n_logits > n_pos) state->n_logits = 0;
    publish_pages(seq->engine);
}

void kt__seq_give_back(kt_seq *seq, size_t n_pos) {
    kt__seq_set_end(seq, n_pos);
    kt__seq_unlend(seq);
}

/* ---- by its owner ---- */

kt_status kt_seq_truncate(kt_seq *seq, size_t n_keep, kt_error *err) {
    kt__error_clear(err);
    kt_status status = kt__seq_lend(seq, seq->engine, err);
    if (status != KT_OK) return status;
    if (n_keep > seq->n_pos) {
        status = kt__fail(err, KT_E_ARG, "cannot keep %zu of %zu positions", n_keep, seq->n_pos);
    } else if (n_keep < seq->n_pos) {
        kt__ticket_lock(&seq->engine->turn);
        kt__seq_set_end(seq, n_keep);
        kt__ticket_unlock(&seq->engine->turn);
    }
    kt__seq_unlend(seq);
    return status;
}

static void swap_adapters(kt_seq *seq, kt__adapters **list) {
    kt__adapters *before = seq->adapters;
    if (!kt__adapters_share_kv(before, *list)) {
        kt__ticket_lock(&seq->engine->turn);
        kt__seq_set_end(seq, 0);
        kt__ticket_unlock(&seq->engine->turn);
    }
    if (!kt__adapters_equal(before, *list)) seq->state.n_logits = 0;
    seq->adapters = *list;
    *list = before;
}

kt_status kt_seq_set_adapters(kt_seq *seq, const kt_adapter_use *uses, size_t n, kt_error *err) {
    kt__adapters *list = NULL;
    kt__error_clear(err);
    kt_status status = kt__seq_lend(seq, seq->engine, err);
    if (status != KT_OK) return status;
    status = kt__adapters_new(seq->engine->model, uses, n, &list, err);
    if (status == KT_OK) swap_adapters(seq, &list);
    kt__adapters_release(list);
    kt__seq_unlend(seq);
    return status;
}

size_t kt_seq_len(const kt_seq *seq) {
    return seq->n_pos;
}

const int32_t *kt_seq_tokens(const kt_seq *seq) {
    return seq->state.tokens;
}

const float *kt_seq_logits(const kt_seq *seq) {
    bool has = seq->n_pos > 0 && seq->state.n_logits == seq->n_pos;
    return has ? seq->state.logits : NULL;
}
