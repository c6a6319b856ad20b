/* kt_engine_eval and kt_seq_eval: each sequence's tokens are a task of the scheduler, on the
 * sequence's own pages (work.h). The caller waits until all are over, and steps the scheduler where
 * no thread drives. Whatever one item fails by, every sequence is as it was before the call. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/service.h"
#include "requests/inbox.h"
#include "requests/seq.h"

enum { EVAL_PRIORITY = KT_PRIORITY_MAX + 1 }; /* the caller waits */

/* ---- the task ---- */

static kt__eval *eval_of(kt__work *work) {
    return (kt__eval *)(void *)work;
}

static void eval_started(kt__work *w) {
    kt__seq_set_end(eval_of(w)->seq, eval_of(w)->n_before);
}

static bool eval_take_logits(kt__work *w, const kt__row *row, int32_t n_pos, int32_t *id) {
    const float *logits = row->logits;
    kt__eval *e = eval_of(w);
    size_t n_vocab = kt__engine_n_vocab(w->engine);
    (void)id;
    /* (positions before are computed again where their page was quantised) */
    if (e->all_logits && (size_t)n_pos > e->n_before)
        memcpy(e->all_logits + ((size_t)n_pos - 1 - e->n_before) * n_vocab, logits,
               n_vocab * sizeof *logits);
    if (n_pos == w->task.n_tok) {
        kt__seq_keep_logits(e->seq, logits, (size_t)n_pos);
        w->task.finish = KT_FINISH_LENGTH;
    }
    return false;
}

static void eval_end(kt__work *w) {
    kt__eval *e = eval_of(w);
    bool complete = w->task.finish == KT_FINISH_LENGTH;
    kt__seq_set_end(e->seq, complete ? (size_t)w->task.n_tok : e->n_before);
}

static void eval_release(kt__work *w) {
    kt__inbox_note_done(w->engine->inbox, eval_of(w)->n_left);
}

/* Never asked for: it looks nothing up, and has no hidden states. */
static const kt__work_ops eval_ops = {.started = eval_started,
                                      .take_logits = eval_take_logits,
                                      .end = eval_end,
                                      .release = eval_release};

static void fill_eval(const kt_eval_item *item, int *n_left) {
    kt_seq *seq = item->seq;
    kt__eval *e = seq->eval;
    memcpy(seq->state.tokens + seq->n_pos, item->ids, item->n * sizeof *item->ids);
    e->seq = seq;
    e->n_before = seq->n_pos;
    e->all_logits = item->all_logits;
    e->n_left = n_left;
    e->work = (kt__work){.ops = &eval_ops,
                         .engine = seq->engine,
                         .state = &seq->state,
                         .adapters = seq->adapters,
                         .n_base = (int32_t)seq->n_pos,
                         .is_counted = true, /* it is no request */
                         .no_cache = true};
    kt__task *task = &e->work.task;
    task->kind = item->all_logits ? KT__TASK_EVAL_ALL : KT__TASK_EVAL;
    task->lent = true;
    task->cancel = &e->never;
    task->priority = EVAL_PRIORITY;
    task->arrival_us = kt__now_us();
    task->deadline_us = INT64_MAX;
    task->n_done = (int32_t)seq->n_pos;
    task->n_tok = (int32_t)(seq->n_pos + item->n);
}

/* ---- the call ---- */

static kt_status check_item(const kt_engine *engine, const kt_eval_item *item, kt_error *err) {
    int32_t n_vocab = kt__engine_hparams(engine)->n_vocab;
    size_t n_ctx = (size_t)engine->params.n_ctx;
    if (item->n == 0 || !item->ids) return kt__fail(err, KT_E_ARG, "no tokens to evaluate");
    if (item->n > n_ctx - item->seq->n_pos) {
        return kt__fail(
            err, KT_E_CONTEXT_FULL,
            "%zu tokens after %zu do not fit the context of %zu: open the engine with a larger "
            "n_ctx or shorten the prompt",
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

static kt_status lend_item(kt_engine *engine, const kt_eval_item *items, size_t index,
                           kt_error *err) {
    for (size_t i = 0; i < index; i++) {
        if (items[i].seq == items[index].seq)
            return kt__fail(err, KT_E_ARG, "a sequence is named twice in one batch");
    }
    if (!items[index].seq) return kt__fail(err, KT_E_ARG, "item %zu has no sequence", index);
    return kt__seq_lend(items[index].seq, engine, err);
}

static void hand_over(kt_engine *engine, const kt_eval_item *items, size_t n_items, int *n_left) {
    for (size_t i = 0; i < n_items; i++) fill_eval(&items[i], n_left);
    for (size_t i = 0; i + 1 < n_items; i++)
        items[i].seq->eval->work.task.next = &items[i + 1].seq->eval->work.task;
    kt__inbox_call(engine->inbox, &items[0].seq->eval->work.task,
                   &items[n_items - 1].seq->eval->work.task, (int)n_items);
}

static kt_status status_of(const kt_eval_item *item, kt_error *err) {
    const kt__work *w = &item->seq->eval->work;
    switch (w->task.finish) {
    case KT_FINISH_LENGTH: return KT_OK;
    case KT_FINISH_CANCELLED: return kt__fail(err, KT_E_CANCELLED, "cancelled");
    default:
        if (err) *err = w->error;
        return w->error.code;
    }
}

static void restore_all(kt_engine *engine, const kt_eval_item *items, size_t n_items) {
    kt__ticket_lock(&engine->turn);
    for (size_t i = 0; i < n_items; i++)
        kt__seq_set_end(items[i].seq, items[i].seq->eval->n_before);
    kt__ticket_unlock(&engine->turn);
}

static kt_status eval_lent(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                           kt_error *err) {
    kt_status status = KT_OK;
    int n_left = (int)n_items;
    for (size_t i = 0; i < n_items && status == KT_OK; i++)
        status = check_item(engine, &items[i], err);
    if (status != KT_OK || n_items == 0) return status;
    hand_over(engine, items, n_items, &n_left);
    for (int64_t ms = 0; !kt__inbox_wait_for_call(engine->inbox, &n_left, ms);)
        ms = kt__service_help(engine) ? 0 : KT__SERVICE_LOOK_MS;
    for (size_t i = 0; i < n_items && status == KT_OK; i++) status = status_of(&items[i], err);
    if (status != KT_OK) restore_all(engine, items, n_items);
    return status;
}

kt_status kt_engine_eval(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                         kt_error *err) {
    kt_status status = KT_OK;
    size_t n_lent = 0;
    kt__error_clear(err);
    while (n_lent < n_items && status == KT_OK) {
        status = lend_item(engine, items, n_lent, err);
        n_lent += status == KT_OK;
    }
    if (status == KT_OK) status = eval_lent(engine, items, n_items, err);
    for (size_t i = 0; i < n_lent; i++) kt__seq_unlend(items[i].seq);
    return status;
}

kt_status kt_seq_eval(kt_seq *seq, const int32_t *ids, size_t n, kt_error *err) {
    kt_eval_item item = {.seq = seq, .ids = ids, .n = n};
    return kt_engine_eval(seq->engine, &item, 1, err);
}
