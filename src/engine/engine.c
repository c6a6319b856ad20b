/* kt_engine: parameters, memory, and the evaluation of batches. */
#include "engine/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/plan.h"
#include "engine/proposer.h"
#include "engine/service.h"

kt_engine_params kt_engine_params_default(void) {
    return (kt_engine_params){0};
}

static kt_status allocate(kt_engine *engine, const kt__plan *plan, kt_error *err) {
    kt_status status;
    const kt_model *model = engine->model;
    const kt_engine_params *p = &engine->params;
    const kt__hparams *hp = &model->net->hp;
    kt__kv_shape shape = {hp->n_layer, hp->n_head_kv, hp->head_dim_k, hp->head_dim_v};
    kt__fwd_params fwd = kt__plan_prompt_fwd(model, p, plan->n_out_max);
    fwd.on_hidden = kt__service_on_hidden;
    fwd.on_hidden_user = engine;
    engine->n_out_max = plan->n_out_max;
    KT__TRY(kt__kv_create(&shape, plan->n_pages, &engine->kv, err));
    kt__kv_spread(engine->kv, &model->ctx->affinity);
    KT__TRY(
        kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &fwd, &engine->fwd, err));
    kt__fwd_params step = kt__plan_step_fwd(model, p);
    engine->step_rows = step.n_tok_max;
    KT__TRY(kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &step,
                           &engine->step_fwd, err));
    KT__TRY(kt__proposer_create(engine, &engine->proposer, err));
    KT__TRY(kt__sampler_scratch_create(hp->n_vocab, &engine->scratch, err));
    engine->segs = kt__calloc((size_t)p->n_seq_max, sizeof *engine->segs);
    engine->ids = kt__calloc((size_t)p->n_ubatch, sizeof *engine->ids);
    engine->out_rows = kt__calloc((size_t)engine->n_out_max, sizeof *engine->out_rows);
    engine->masked = kt__calloc((size_t)hp->n_vocab, sizeof *engine->masked);
    if (!engine->segs || !engine->ids || !engine->out_rows || !engine->masked) {
        status = kt__fail_nomem(err, "batch lists", 0);
        goto out;
    }
    KT__TRY(kt__prefix_create(engine->kv, 0, &engine->prefix, err));
    KT__TRY(kt__service_create(engine, &engine->service, err));
out:
    return status;
}

kt_status kt_engine_open(kt_model *model, const kt_engine_params *params, kt_engine **out,
                         kt_error *err) {
    kt_status status;
    kt__plan plan;
    *out = NULL;
    kt__error_clear(err);
    status = kt__model_needs_net(model, err);
    if (status != KT_OK) return status;
    kt_engine *engine = kt__calloc(1, sizeof *engine);
    if (!engine) return kt__fail_nomem(err, "the engine", sizeof *engine);
    if (!kt__turn_init(&engine->turn)) {
        kt__free(engine);
        return kt__fail_nomem(err, "the engine's lock", 0);
    }
    engine->model = model;
    kt_engine_params given = params ? *params : kt_engine_params_default();
    KT__TRY(kt__plan_make(model, &given, &plan, err));
    engine->params = plan.params;
    engine->plan = plan.mem;
    KT__TRY(kt__plan_charge(engine, &plan, err));
    KT__TRY(allocate(engine, &plan, err));
    *out = engine;
    engine = NULL;
out:
    kt_engine_close(engine);
    return status;
}

void kt_engine_close(kt_engine *engine) {
    if (!engine) return;
    kt__service_destroy(engine->service);
    kt__prefix_destroy(engine->prefix);
    kt__proposer_destroy(engine->proposer);
    kt__fwd_destroy(engine->step_fwd);
    kt__fwd_destroy(engine->fwd);
    kt__kv_destroy(engine->kv);
    kt__sampler_scratch_free(engine->scratch);
    kt__free(engine->segs);
    kt__free(engine->ids);
    kt__free(engine->out_rows);
    kt__free(engine->masked);
    kt__plan_discharge(engine);
    kt__turn_destroy(&engine->turn);
    kt__free(engine);
}

void kt_engine_get_info(const kt_engine *engine, kt_engine_info *out) {
    const kt_engine_params *p = &engine->params;
    const kt__hparams *hp = &engine->model->net->hp;
    kt__kv_shape shape = {hp->n_layer, hp->n_head_kv, hp->head_dim_k, hp->head_dim_v};
    int n_now = kt_ctx_n_threads(engine->model->ctx);
    *out = (kt_engine_info){
        .n_ctx = p->n_ctx,
        .n_batch = p->n_batch,
        .n_ubatch = p->n_ubatch,
        .n_seq_max = p->n_seq_max,
        .n_threads = p->n_threads ? p->n_threads : n_now,
        .n_threads_batch = p->n_threads_batch ? p->n_threads_batch : n_now,
        .kv_bytes_max = (uint64_t)kt__kv_n_pages(engine->kv) * kt__kv_page_bytes(&shape),
        .kv_bytes_used = (uint64_t)kt__kv_n_used(engine->kv) * kt__kv_page_bytes(&shape),
        .scratch_bytes = engine->plan.scratch_bytes,
        .n_parallel = p->n_parallel,
        .n_queue_max = p->n_queue_max,
        .gap_ms = p->gap_ms,
        .n_draft = p->n_draft,
        .mem_budget_bytes = engine->plan.budget_bytes,
        .mem_planned_bytes = engine->plan.total_bytes,
    };
}

void kt_engine_cancel(kt_engine *engine) {
    atomic_store(&engine->cancel, true);
}
void kt_engine_resume(kt_engine *engine) {
    atomic_store(&engine->cancel, false);
}

/* ---- evaluation ---- */

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
    e->rows_max = kt__sched_slice_rows(engine->service->sched);
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

static int threads_for(const kt_engine *engine, const kt__batch_run *run, int n_now) {
    int n = run->decode ? engine->params.n_threads : engine->params.n_threads_batch;
    return n ? n : n_now;
}

kt_status kt__engine_run_batch(kt_engine *engine, const kt__batch_run *run, bool *done,
                               kt_error *err) {
    kt__stop_at stop = {run->until_us, {&engine->cancel, run->cancel}, run->pause};
    *done = false;
    kt_status status = kt__gguf_check(engine->model->gguf, err);
    if (status != KT_OK) return status;
    kt__pool *pool = engine->model->ctx->pool;
    kt__profile *profile = kt__engine_profile_on(engine);
    kt__profile_batch(profile, run->decode ? KT__PHASE_DECODE : KT__PHASE_PREFILL, run->n_tok);
    kt__activity_begin(&engine->model->ctx->activity);
    kt__pool_lock(pool);
    int n_threads = threads_for(engine, run, kt__ctx_threads_now(engine->model->ctx));
    kt__profile_pool(profile, pool, n_threads);
    kt__fwd_set_profile(run->fwd, profile);
    uint32_t fpenv = kt__fpenv_enter();
    kt__noalloc_enter();
    kt__pool_begin(pool, n_threads);
    if (run->batch) engine->n_steps += run->fwd == engine->step_fwd;
    if (run->batch) kt__fwd_begin(run->fwd, run->batch, run->kv ? run->kv : engine->kv, n_threads);
    status = kt__fwd_run(run->fwd, &stop, done, err);
    kt__pool_end(pool);
    kt__noalloc_leave();
    kt__fpenv_leave(fpenv);
    kt__profile_pool(profile, NULL, 0);
    kt__pool_unlock(pool);
    kt__activity_end(&engine->model->ctx->activity);
    if (status != KT_OK && status != KT_E_NUMERIC) return status;
    /* pages that the fault guard replaced make wrong numbers, or numbers that are not finite */
    kt_status file = kt__gguf_check(engine->model->gguf, status == KT_OK ? err : NULL);
    if (file != KT_OK && status != KT_OK) return kt__gguf_check(engine->model->gguf, err);
    return status != KT_OK ? status : file;
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
        if (!small) run.until_us = kt__now_us() + kt__sched_slice_us(engine->service->sched);
        kt_status status = kt__engine_run_batch(engine, &run, &done, err);
        if (status != KT_OK || done) return status;
        kt__turn_pass(&engine->turn);
        run.batch = NULL;
        run.n_tok = 0;
    }
}

void kt__engine_return_logits(kt_engine *engine) {
    kt_seq *seq = engine->borrower;
    size_t n_vocab = (size_t)engine->model->net->hp.n_vocab;
    engine->borrower = NULL;
    if (!seq || !seq->logits || seq->logits == seq->own_logits) return;
    memcpy(seq->own_logits, seq->logits, n_vocab * sizeof *seq->logits);
    seq->logits = seq->own_logits;
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
            if (!copy) e->engine->borrower = it->seq;
        }
        if (done == it->n) {
            item++;
            done = 0;
        }
    }
}

static kt_status eval_items(eval *e, const atomic_bool *cancel, kt_error *err) {
    while (e->item < e->n_items) {
        size_t first = e->item, first_done = e->done;
        kt__service_settle(e->engine->service);
        kt_status status = fill_batch(e, err);
        if (status == KT_OK) status = run_batch(e->engine, &e->batch, cancel, err);
        bool more = status == KT_OK && e->item < e->n_items;
        /* the batch's own buffer serves while nothing else can overwrite it */
        if (status == KT_OK) deliver(e, first, first_done, more || e->engine->n_seq > 1);
        kt__service_release(e->engine->service, more);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__engine_eval_locked(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                                 const atomic_bool *cancel, kt_error *err) {
    kt_status status = KT_OK;
    size_t checked = 0;
    while (engine->evaluating) kt__turn_pass(&engine->turn);
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
    kt__turn_take(&engine->turn);
    int64_t begin_ns = kt__stage_begin(engine);
    kt_status status = kt__engine_eval_locked(engine, items, n_items, NULL, err);
    kt__stage_end(engine, KT__STAGE_TOTAL, begin_ns, true);
    kt__turn_give(&engine->turn);
    return status;
}
