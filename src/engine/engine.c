/* kt_engine: parameters, memory, and the evaluation of batches. */
#include "engine/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/service.h"

enum {
    DEFAULT_CTX = 4096,
    DEFAULT_BATCH = 2048,
    DEFAULT_UBATCH = 512,
    DEFAULT_SEQS = 8,
    DEFAULT_PARALLEL = 16,
    DEFAULT_QUEUE = 256,
    DEFAULT_GAP_MS = 200,
    DEFAULT_DRAFT = 8,
    MAX_SEQS = 4096
};

kt_engine_params kt_engine_params_default(void) {
    return (kt_engine_params){0};
}

static kt_status check_range(const char *name, int64_t value, int64_t high, kt_error *err) {
    if (value >= 0 && value <= high) return KT_OK;
    return kt__fail(err, KT_E_ARG, "%s is %lld, expected 0 (default) to %lld", name,
                    (long long)value, (long long)high);
}

static kt_status resolve_params(const kt_model *model, kt_engine_params *p, kt_error *err) {
    kt_status status;
    int n_pool = kt__pool_size(model->ctx->pool);
    int64_t n_train = model->net->hp.n_ctx_train;
    KT__TRY(check_range("n_ctx", p->n_ctx, KT__MAX_CTX, err));
    KT__TRY(check_range("n_batch", p->n_batch, 1 << 20, err));
    KT__TRY(check_range("n_ubatch", p->n_ubatch, 1 << 16, err));
    KT__TRY(check_range("n_seq_max", p->n_seq_max, MAX_SEQS, err));
    KT__TRY(check_range("n_threads", p->n_threads, KT__POOL_MAX_THREADS, err));
    KT__TRY(check_range("n_threads_batch", p->n_threads_batch, KT__POOL_MAX_THREADS, err));
    KT__TRY(check_range("n_parallel", p->n_parallel, KT__SCHED_LANES_MAX, err));
    KT__TRY(check_range("n_queue_max", p->n_queue_max, 1 << 20, err));
    KT__TRY(check_range("gap_ms", p->gap_ms, 1 << 20, err));
    KT__TRY(check_range("n_draft", p->n_draft + (p->n_draft == -1), 64, err));
    if (!p->n_parallel) p->n_parallel = p->n_seq_max ? p->n_seq_max : DEFAULT_PARALLEL;
    if (p->n_parallel > KT__SCHED_LANES_MAX) p->n_parallel = KT__SCHED_LANES_MAX;
    if (!p->n_queue_max) p->n_queue_max = DEFAULT_QUEUE;
    if (!p->gap_ms) p->gap_ms = DEFAULT_GAP_MS;
    if (!p->n_draft) p->n_draft = DEFAULT_DRAFT;
    if (p->n_draft < 0) p->n_draft = 0;
    if (!p->n_ctx) p->n_ctx = (int32_t)(n_train < DEFAULT_CTX ? n_train : DEFAULT_CTX);
    if (!p->n_seq_max) p->n_seq_max = DEFAULT_SEQS;
    if (!p->n_batch) p->n_batch = DEFAULT_BATCH;
    if (!p->n_ubatch) p->n_ubatch = DEFAULT_UBATCH;
    if (p->n_ubatch > p->n_batch) p->n_ubatch = p->n_batch;
    if (p->n_threads > n_pool) p->n_threads = n_pool;
    if (p->n_threads_batch > n_pool) p->n_threads_batch = n_pool;
out:
    return status;
}

/* Pages for the K/V budget: what was asked, or every sequence at full length as far as half the
 * memory budget goes, but at least one sequence. */
static int64_t plan_pages(const kt_engine *engine, size_t page_bytes) {
    const kt_engine_params *p = &engine->params;
    int64_t per_seq = (p->n_ctx + KT__PAGE_POS - 1) / KT__PAGE_POS + 1; /* one to copy on write */
    if (p->kv_bytes) {
        int64_t n = (int64_t)(p->kv_bytes / page_bytes);
        return n < 1 ? 1 : n;
    }
    int64_t most = (int64_t)(engine->model->ctx->mem_bytes / 2 / page_bytes);
    int64_t want = per_seq * p->n_seq_max;
    if (want > most) want = most;
    return want < per_seq ? per_seq : want;
}

static kt_status charge_memory(kt_engine *engine, uint64_t bytes, kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    uint64_t before = atomic_fetch_add(&ctx->mem_used_bytes, bytes);
    if (before + bytes <= ctx->mem_bytes) {
        engine->mem_bytes = bytes;
        return KT_OK;
    }
    atomic_fetch_sub(&ctx->mem_used_bytes, bytes);
    return kt__fail(
        err, KT_E_NOMEM,
        "this engine needs %.0f MiB for K/V and scratch, and %.0f of %.0f MiB are left: "
        "ask for a smaller context (-c), fewer sequences or a smaller batch (-ub)",
        (double)bytes / 1048576.0,
        (double)(ctx->mem_bytes - (before < ctx->mem_bytes ? before : ctx->mem_bytes)) / 1048576.0,
        (double)ctx->mem_bytes / 1048576.0);
}

static kt_status allocate(kt_engine *engine, kt_error *err) {
    kt_status status;
    const kt_model *model = engine->model;
    const kt_engine_params *p = &engine->params;
    const kt__hparams *hp = &model->net->hp;
    kt__kv_shape shape = {hp->n_layer, hp->n_head_kv, hp->head_dim_k, hp->head_dim_v};
    engine->n_out_max = p->n_seq_max > 32 ? p->n_seq_max : 32;
    if (engine->n_out_max > p->n_ubatch) engine->n_out_max = p->n_ubatch;
    kt__fwd_params fwd = {.n_tok_max = p->n_ubatch,
                          .n_out_max = engine->n_out_max,
                          .n_ctx = p->n_ctx,
                          .exact = model->params.exact,
                          .on_hidden = kt__service_on_hidden,
                          .on_hidden_user = engine};
    int64_t n_pages = plan_pages(engine, kt__kv_page_bytes(&shape));
    uint64_t kv_bytes = (uint64_t)n_pages * kt__kv_page_bytes(&shape);
    KT__TRY(charge_memory(engine, kv_bytes + kt__fwd_plan_bytes(model->net, &fwd), err));
    KT__TRY(kt__kv_create(&shape, n_pages, &engine->kv, err));
    KT__TRY(
        kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &fwd, &engine->fwd, err));
    KT__TRY(kt__sampler_scratch_create(hp->n_vocab, &engine->scratch, err));
    engine->segs = kt__calloc((size_t)p->n_seq_max, sizeof *engine->segs);
    engine->ids = kt__calloc((size_t)p->n_ubatch, sizeof *engine->ids);
    engine->out_rows = kt__calloc((size_t)engine->n_out_max, sizeof *engine->out_rows);
    if (!engine->segs || !engine->ids || !engine->out_rows) {
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
    engine->params = params ? *params : kt_engine_params_default();
    KT__TRY(resolve_params(model, &engine->params, err));
    KT__TRY(allocate(engine, err));
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
    kt__fwd_destroy(engine->fwd);
    kt__kv_destroy(engine->kv);
    kt__sampler_scratch_free(engine->scratch);
    kt__free(engine->segs);
    kt__free(engine->ids);
    kt__free(engine->out_rows);
    atomic_fetch_sub(&engine->model->ctx->mem_used_bytes, engine->mem_bytes);
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
        .scratch_bytes = kt__fwd_scratch_bytes(engine->fwd),
        .n_parallel = p->n_parallel,
        .n_queue_max = p->n_queue_max,
        .gap_ms = p->gap_ms,
        .n_draft = p->n_draft,
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
    kt__batch batch;
} eval;

/* How many tokens of the current item go into the batch: all that fit, fewer where every row's
 * logits are wanted. */
static size_t rows_to_take(const eval *e, const kt_eval_item *item) {
    size_t rows = item->n - e->done;
    size_t room = (size_t)(e->engine->params.n_ubatch - e->batch.n_tok);
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
    kt__stop_at stop = {run->until_us, {&engine->cancel, run->cancel}};
    *done = false;
    kt_status status = kt__gguf_check(engine->model->gguf, err);
    if (status != KT_OK) return status;
    kt__pool *pool = engine->model->ctx->pool;
    kt__profile *profile = kt__engine_profile_on(engine);
    kt__profile_batch(profile, run->decode ? KT__PHASE_DECODE : KT__PHASE_PREFILL, run->n_tok);
    kt__pool_lock(pool);
    int n_threads = threads_for(engine, run, kt__ctx_threads_now(engine->model->ctx));
    kt__profile_pool(profile, pool, n_threads);
    kt__fwd_set_profile(run->fwd, profile);
    uint32_t fpenv = kt__fpenv_enter();
    kt__noalloc_enter();
    kt__pool_begin(pool, n_threads);
    if (run->batch) kt__fwd_begin(run->fwd, run->batch, engine->kv, n_threads);
    status = kt__fwd_run(run->fwd, &stop, done, err);
    kt__pool_end(pool);
    kt__noalloc_leave();
    kt__fpenv_leave(fpenv);
    kt__profile_pool(profile, NULL, 0);
    kt__pool_unlock(pool);
    if (status != KT_OK && status != KT_E_NUMERIC) return status;
    /* pages that the fault guard replaced make wrong numbers, or numbers that are not finite */
    kt_status file = kt__gguf_check(engine->model->gguf, status == KT_OK ? err : NULL);
    if (file != KT_OK && status != KT_OK) return kt__gguf_check(engine->model->gguf, err);
    return status != KT_OK ? status : file;
}

static kt_status run_batch(kt_engine *engine, const kt__batch *batch, const atomic_bool *cancel,
                           kt_error *err) {
    bool done;
    kt__batch_run run = {.fwd = engine->fwd,
                         .batch = batch,
                         .decode = batch->n_tok == batch->n_seg,
                         .n_tok = batch->n_tok,
                         .until_us = INT64_MAX,
                         .cancel = cancel};
    return kt__engine_run_batch(engine, &run, &done, err);
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
        kt_status status = fill_batch(e, err);
        if (status == KT_OK) status = run_batch(e->engine, &e->batch, cancel, err);
        if (status != KT_OK) return status;
        /* the batch's own buffer serves while nothing else can overwrite it */
        deliver(e, first, first_done, e->item < e->n_items || e->engine->n_seq > 1);
    }
    return KT_OK;
}

kt_status kt__engine_eval_locked(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                                 const atomic_bool *cancel, kt_error *err) {
    kt_status status = KT_OK;
    size_t checked = 0;
    for (; checked < n_items && status == KT_OK; checked++) {
        status = check_item(engine, &items[checked], err);
        if (status != KT_OK) break;
        items[checked].seq->in_batch = true;
        items[checked].seq->logits = NULL;
    }
    eval e = {.engine = engine, .items = items, .n_items = n_items};
    kt__service_settle(engine->service);
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
