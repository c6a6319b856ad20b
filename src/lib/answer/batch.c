#include "answer/batch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "context/ctx.h"
#include "context/stage.h"

static int threads_for(const kt_engine *engine, const kt__batch_run *run, int n_now) {
    int n = run->decode ? engine->params.n_threads : engine->params.n_threads_batch;
    return n ? n : n_now;
}

/* With other processes a step is never interrupted, and where a prompts' batch stops process 0 says. */
static kt_status tell_others(kt_engine *engine, const kt__batch_run *run, kt__stop_at *stop,
                             kt_error *err) {
    if (!kt__batch_is_divided(engine, run)) return KT_OK;
    stop->agreed = run->agreed;
    if (engine->model->ctx->split.rank > 0) return KT_OK;
    stop->agreed = run->until_us != INT64_MAX;
    return kt__batch_tell(engine, run, stop->agreed, err);
}

/* After a process was lost the numbers are wrong. */
static kt_status check_others(const kt_engine *engine, kt_status status, kt_error *err) {
    const kt__division *split = kt__ctx_split(engine->model->ctx);
    if (!engine->divided || kt__peers_check(split->peers, NULL) == KT_OK) return status;
    return kt__peers_check(split->peers, err);
}

kt_status kt__batch_check_file(const kt__gguf *gguf, kt_status status, kt_error *err) {
    kt_status file = kt__gguf_check(gguf, status == KT_OK ? err : NULL);
    if (file != KT_OK && status != KT_OK) return kt__gguf_check(gguf, err);
    return status != KT_OK ? status : file;
}

kt_status kt__engine_run_batch(kt_engine *engine, const kt__batch_run *run, bool *done,
                               kt_error *err) {
    kt__stop_at stop = {run->until_us, {&engine->cancel, run->cancel}, run->pause, false};
    *done = false;
    kt_status status = kt__gguf_check(engine->model->gguf, err);
    if (status != KT_OK) return status;
    kt__pool *pool = engine->model->ctx->pool;
    kt__profile *profile = kt__engine_profile_on(engine);
    kt__profile_batch(profile, run->decode ? KT__PHASE_DECODE : KT__PHASE_PREFILL, run->n_tok);
    kt__activity_begin(&engine->model->ctx->activity);
    kt__pool_lock(pool);
    status = tell_others(engine, run, &stop, err);
    if (status != KT_OK) {
        kt__pool_unlock(pool);
        kt__activity_end(&engine->model->ctx->activity);
        return status;
    }
    int n_threads = threads_for(engine, run, kt__ctx_threads_now(engine->model->ctx));
    kt__profile_pool(profile, pool, n_threads);
    kt__fwd_set_profile(run->fwd, profile);
    uint32_t fpenv = kt__fpenv_enter();
    kt__noalloc_enter();
    kt__pool_begin(pool, n_threads);
    if (run->batch) kt__fwd_begin(run->fwd, run->batch, run->kv ? run->kv : engine->kv, n_threads);
    status = check_others(engine, kt__fwd_run(run->fwd, &stop, done, err), err);
    kt__pool_end(pool);
    kt__noalloc_leave();
    kt__fpenv_leave(fpenv);
    kt__profile_pool(profile, NULL, 0);
    kt__pool_unlock(pool);
    kt__activity_end(&engine->model->ctx->activity);
    if (status != KT_OK && status != KT_E_NUMERIC) return status;
    return kt__batch_check_file(engine->model->gguf, status, err);
}

/* ---- pictures ---- */

/* The view's next tile, if the encoder is not at it. */
static void begin_tile(kt_engine *engine, kt__view *view, int n_threads) {
    const kt__vision *v = view->vision;
    const kt__tiling *t = &view->tiling;
    size_t tile = (size_t)view->n_seen, pixels = (size_t)t->width * (size_t)t->height * 3;
    if (engine->seeing == view->serial && engine->seeing_tile == view->n_seen) return;
    engine->seeing = view->serial;
    engine->seeing_tile = view->n_seen;
    kt__seer_begin(engine->seer, t->width, t->height, view->tiles + tile * pixels,
                   view->rows + tile * (size_t)t->n_rows * (size_t)v->d_row, n_threads);
}

static kt_status see_tiles(kt_engine *engine, kt__view *view, int64_t until_us, int n_threads,
                           kt_error *err) {
    while (view->n_seen < view->tiling.n_tile) {
        bool done;
        begin_tile(engine, view, n_threads);
        kt_status status = kt__seer_run(engine->seer, until_us, &done, err);
        if (status != KT_OK || done) engine->seeing = 0;
        if (status != KT_OK) return status;
        view->n_seen += done;
        if (kt__now_us() >= until_us) break;
    }
    return KT_OK;
}

kt_status kt__engine_see(kt_engine *engine, kt__view *view, int64_t until_us, bool *done,
                         kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    *done = view->n_seen == view->tiling.n_tile;
    if (*done) return KT_OK;
    KT__STEP(kt__gguf_check(engine->model->vision->gguf, err));
    kt__activity_begin(&ctx->activity);
    kt__pool_lock(ctx->pool);
    int given = engine->params.n_threads_batch;
    int n_threads = given ? given : kt__ctx_threads_now(ctx);
    uint32_t fpenv = kt__fpenv_enter();
    kt__noalloc_enter();
    kt__pool_begin(ctx->pool, n_threads);
    kt_status status = see_tiles(engine, view, until_us, n_threads, err);
    kt__pool_end(ctx->pool);
    kt__noalloc_leave();
    kt__fpenv_leave(fpenv);
    kt__pool_unlock(ctx->pool);
    kt__activity_end(&ctx->activity);
    KT__STEP(kt__batch_check_file(engine->model->vision->gguf, status, err));
    *done = view->n_seen == view->tiling.n_tile;
    if (*done) kt__view_complete(engine->views, view);
    return KT_OK;
}

/* ---- states of recurrent layers ---- */

bool kt__state_list_init(kt__state_list *s, kt__kv *kv, size_t cap) {
    s->kv = kv;
    if (!kt__kv_has_states(kv)) return true;
    s->list = kt__calloc(cap, sizeof *s->list);
    s->keep = kt__calloc(cap, sizeof *s->keep);
    s->cap = (int)cap;
    return s->list && s->keep;
}

void kt__state_list_release(kt__state_list *s) {
    for (int i = 0; i < s->n; i++) kt__kv_state_drop(s->kv, s->list[i].piece);
    s->n = 0;
}

void kt__state_list_free(kt__state_list *s) {
    kt__state_list_release(s);
    kt__free(s->list);
    kt__free(s->keep);
}

void kt__state_list_begin(const kt__state_list *s, kt__seg *seg) {
    seg->states = s->list ? s->list + s->n : NULL;
    seg->n_states = 0;
}

bool kt__state_list_add(kt__state_list *s, kt__seg *seg, int n_tok, int32_t piece, bool keep) {
    if (piece == KT__NO_STATE) return false;
    if (s->n == s->cap) {
        kt__kv_state_drop(s->kv, piece);
        return false;
    }
    s->keep[s->n] = keep;
    s->list[s->n++] = (kt__seg_state){n_tok, piece};
    seg->n_states++;
    return true;
}

void kt__state_list_add_last(kt__state_list *s, kt__seg *seg, kt__kv_table *table, bool keep) {
    int32_t piece = table->next;
    if (piece == KT__NO_STATE) piece = kt__kv_state_take(s->kv);
    table->next = KT__NO_STATE;
    (void)kt__state_list_add(s, seg, seg->n_tok, piece, keep);
}

bool kt__state_list_take(kt__state_list *s, const kt__seg *seg, int i, kt__kv_table *table,
                         kt__snapshot kind) {
    if (!kt__kv_has_states(s->kv)) return true;
    if (i >= seg->n_states) return false;
    kt__seg_state *at = &s->list[seg->states - s->list + i];
    int64_t pos = seg->pos0 + at->n_tok;
    if (kind != KT__SNAPSHOT_NONE) kt__kv_table_keep(s->kv, table, at->piece, pos, kind);
    kt__kv_table_set_state(s->kv, table, at->piece, pos);
    at->piece = KT__NO_STATE;
    return true;
}
