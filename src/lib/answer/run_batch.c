#include "answer/batch.h"

#include "answer/batch_message.h"
#include "base/alloc.h"
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
