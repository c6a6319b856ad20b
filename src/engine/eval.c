#include "engine/eval.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/batch.h"
#include "engine/inbox.h"
#include "engine/sched.h"
#include "engine/seq.h"
#include "engine/stage.h"

static kt_status check_item(const kt_engine *engine, const kt_eval_item *item, kt_error *err) {
    int32_t n_vocab = engine->model->net->hp.n_vocab;
    if (!item->seq || item->seq->engine != engine) {
        return kt__fail(err, KT_E_ARG, "the sequence belongs to another engine");
    }
    if (item->n == 0 || !item->ids) return kt__fail(err, KT_E_ARG, "no tokens to evaluate");
    if (item->seq->in_batch)
        return kt__fail(err, KT_E_ARG, "a sequence is named twice in one batch");
    size_t n_ctx = (size_t)engine->params.n_ctx;
    if (item->n > n_ctx - item->seq->n_pos) {
        return kt__fail(
            err, KT_E_CONTEXT_FULL,
            "%zu tokens after %zu do not fit the context of %zu: open the engine with a larger "
            "n_ctx (-c) or shorten the prompt",
            item->n, item->seq->n_pos, n_ctx);
    }
    for (size_t i = 0; i < item->n; i++) {
        if (item->ids[i] < 0 || item->ids[i] >= n_vocab) {
            return kt__fail(err, KT_E_ARG, "token %zu is %d, expected 0 to %d", i, item->ids[i],
                            n_vocab - 1);
        }
    }
    return KT_OK;
}

/* The next rows of the call, taken from its items in order. */
typedef struct eval {
    kt_engine *engine;
    const kt_eval_item *items;
    size_t n_items, item, done; /* done: tokens of items[item] already evaluated */
    int rows_max;               /* of the next batch */
    kt__batch batch;
} eval;

/* How many tokens of the current item go into the batch: all that fit, fewer where every row's
 * logits are wanted. */
static size_t rows_to_take(const eval *e, const kt_eval_item *item) {
    size_t rows = item->n - e->done;
    size_t room = (size_t)(e->rows_max - e->batch.n_tok);
    size_t outs = (size_t)(e->engine->n_out_max - e->batch.n_out);
    if (rows > room) rows = room;
    if (item->all_logits) return rows < outs ? rows : outs;
    if (outs == 0 && rows == item->n - e->done) rows--; /* its last row needs a place for logits */
    return rows;
}

static kt_status take_rows(eval *e, size_t rows, kt_error *err) {
    kt_engine *engine = e->engine;
    const kt_eval_item *item = &e->items[e->item];
    kt_seq *seq = item->seq;
    int64_t pos0 = (int64_t)seq->n_pos;
    kt_status status = kt__kv_table_grow(engine->kv, &seq->table, pos0, pos0 + (int64_t)rows, err);
    if (status != KT_OK) return status;
    int row0 = e->batch.n_tok;
    engine->segs[e->batch.n_seg++] = (kt__seg){&seq->table, pos0, row0, (int)rows};
    memcpy(engine->ids + row0, item->ids + e->done, rows * sizeof *engine->ids);
    memcpy(seq->tokens + seq->n_pos, item->ids + e->done, rows * sizeof *seq->tokens);
    for (size_t i = 0; i < rows; i++) {
        bool last = e->done + i + 1 == item->n;
        if (last || item->all_logits) engine->out_rows[e->batch.n_out++] = row0 + (int)i;
    }
    e->batch.n_tok += (int)rows;
    seq->n_pos += rows;
    e->done += rows;
    return KT_OK;
}

static kt_status fill_batch(eval *e, kt_error *err) {
    kt_engine *engine = e->engine;
    e->batch = (kt__batch){.ids = engine->ids, .segs = engine->segs, .out_rows = engine->out_rows};
    e->rows_max = kt__sched_slice_rows(engine->sched);
    while (e->item < e->n_items && e->batch.n_seg < engine->params.n_seq_max) {
        const kt_eval_item *item = &e->items[e->item];
        size_t rows = rows_to_take(e, item);
        if (rows == 0) break;
        kt_status status = take_rows(e, rows, err);
        if (status != KT_OK) return status;
        if (e->done < item->n) break;
        e->item++;
        e->done = 0;
    }
    return KT_OK;
}

/* In slices, between which running answers get their tokens. */
static kt_status run_batch(kt_engine *engine, const kt__batch *batch, const atomic_bool *cancel,
                           kt_error *err) {
    bool done = false, small = batch->n_tok == batch->n_seg;
    kt__batch_run run = {.fwd = engine->fwd,
                         .batch = batch,
                         .decode = small,
                         .n_tok = batch->n_tok,
                         .until_us = INT64_MAX,
                         .cancel = cancel};
    for (;;) {
        if (!small) run.until_us = kt__now_us() + kt__sched_slice_us(engine->sched);
        kt_status status = kt__engine_run_batch(engine, &run, &done, err);
        if (status != KT_OK || done) return status;
        kt__ticket_yield(&engine->turn);
        run.batch = NULL;
        run.n_tok = 0;
    }
}

/* Gives the batch's logits to those who asked: rows of item `first` onwards, in the order they were
 * taken. */
static void deliver(eval *e, size_t first, size_t first_done, bool copy) {
    size_t n_vocab = (size_t)e->engine->model->net->hp.n_vocab;
    size_t item = first, done = first_done;
    int out = 0;
    for (int s = 0; s < e->batch.n_seg; s++) {
        const kt_eval_item *it = &e->items[item];
        for (int i = 0; i < e->batch.segs[s].n_tok; i++, done++) {
            bool last = done + 1 == it->n;
            if (!last && !it->all_logits) continue;
            const float *logits = kt__fwd_logits(e->engine->fwd, out++);
            if (it->all_logits)
                memcpy(it->all_logits + done * n_vocab, logits, n_vocab * sizeof *logits);
            if (!last) continue;
            if (copy) memcpy(it->seq->own_logits, logits, n_vocab * sizeof *logits);
            it->seq->logits = copy ? it->seq->own_logits : logits;
            if (!copy) e->engine->logits_owner = it->seq;
        }
        if (done == it->n) {
            item++;
            done = 0;
        }
    }
}

/* The engine's forward pass is wanted for a batch: one of prompts that is in flight is run to its
 * end, and none is begun until the release. */
static void settle(kt_engine *engine) {
    kt__sched_hold_prompts(engine->sched, true);
    while (kt__sched_run_batch(engine->sched)) kt__ticket_yield(&engine->turn);
}

/* more: it will be wanted again; prompts that wait get a batch first. */
static void release(kt_engine *engine, bool more) {
    kt__sched_hold_prompts(engine->sched, false);
    if (more) (void)kt__sched_step(engine->sched);
    kt__inbox_wake(engine->inbox);
}

static kt_status eval_items(eval *e, const atomic_bool *cancel, kt_error *err) {
    while (e->item < e->n_items) {
        size_t first = e->item, first_done = e->done;
        settle(e->engine);
        kt_status status = fill_batch(e, err);
        if (status == KT_OK) status = run_batch(e->engine, &e->batch, cancel, err);
        bool more = status == KT_OK && e->item < e->n_items;
        /* the batch's own buffer serves while nothing else can overwrite it */
        if (status == KT_OK) deliver(e, first, first_done, more || e->engine->n_seq > 1);
        release(e->engine, more);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__engine_eval_locked(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                                 const atomic_bool *cancel, kt_error *err) {
    kt_status status = KT_OK;
    size_t checked = 0;
    while (engine->evaluating) kt__ticket_yield(&engine->turn);
    engine->evaluating = true;
    for (; checked < n_items && status == KT_OK; checked++) {
        status = check_item(engine, &items[checked], err);
        if (status != KT_OK) break;
        items[checked].seq->in_batch = true;
        items[checked].seq->logits = NULL;
        kt__seq_drop_ahead_locked(items[checked].seq);
    }
    eval e = {.engine = engine, .items = items, .n_items = n_items};
    kt__profile *profile = kt__engine_profile_on(engine);
    kt__profile_begin(profile);
    if (status == KT_OK) status = eval_items(&e, cancel, err);
    kt__profile_lap(profile, KT_PROFILE_BATCH);
    for (size_t i = 0; i < checked; i++) {
        items[i].seq->in_batch = false;
        size_t before = items[i].seq->n_pos;
        if (status == KT_OK) continue;
        if (i < e.item) before -= items[i].n;
        if (i == e.item) before -= e.done;
        kt__seq_truncate_locked(items[i].seq, before);
    }
    engine->evaluating = false;
    return status;
}

kt_status kt_engine_eval(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                         kt_error *err) {
    kt__error_clear(err);
    kt__ticket_lock(&engine->turn);
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = kt__engine_eval_locked(engine, items, n_items, NULL, err);
    kt__stage_end(engine, KT__STAGE_TOTAL, begin_ns, true);
    kt__ticket_unlock(&engine->turn);
    return status;
}

kt_status kt_seq_eval(kt_seq *seq, const int32_t *ids, size_t n, kt_error *err) {
    kt_eval_item item = {.seq = seq, .ids = ids, .n = n};
    return kt_engine_eval(seq->engine, &item, 1, err);
}
