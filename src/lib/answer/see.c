#include "answer/see.h"

#include "answer/batch.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "context/ctx.h"

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
