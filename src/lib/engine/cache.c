/* kt_cache: a disk cache below an engine's prefix index. */
#include "base/alloc.h"
#include "base/error.h"
#include "context/join.h"
#include "context/model.h"
#include "requests/plan.h"
#include "context/scope.h"
#include "kv/disk.h"

struct kt_cache {
    kt_engine *engine;
    kt__disk *disk;
    uint64_t mem_bytes; /* charged to the context, beyond what the engine's plan has for it */
};

/* What the engine's plan has for the queue: a default budget is not divided into tables. */
static uint64_t planned_bytes(const kt_ctx *ctx) {
    return ctx->mem_given ? KT__PLAN_DISK_QUEUE_BYTES : 0;
}

/* The queue takes what the engine's plan keeps for it and, within its usual size, what the
 * context's budget has left; two blocks at least. */
static uint64_t queue_bytes(const kt_ctx *ctx, const kt_cache_params *params) {
    uint64_t used = atomic_load(&ctx->mem_used_bytes);
    uint64_t left = ctx->mem_bytes > used ? ctx->mem_bytes - used : 0;
    uint64_t usual = params->queue_bytes ? params->queue_bytes : (uint64_t)32 << 20;
    uint64_t most = left + planned_bytes(ctx);
    if (usual <= most) return params->queue_bytes;
    return most ? most : 1;
}

static void full_hash(void *user, uint8_t out[KT__DISK_HASH_BYTES]) {
    kt__model_full_hash(user, out);
}

/* What is kept for later processes is worth being bound to all of the model. */
static void start_hash(kt_model *model) {
    kt_error err;
    if (kt_model_start_hash(model, &err) == KT_OK) return;
    kt__log_line(&model->ctx->log, KT_LOG_WARN, "disk cache: %s", err.message);
}

static bool has_store(kt_engine *engine) {
    kt__ticket_lock(&engine->turn);
    bool has = kt__prefix_store(engine->prefix) != NULL;
    kt__ticket_unlock(&engine->turn);
    return has;
}

kt_status kt_cache_open(kt_engine *engine, const kt_cache_params *params, kt_cache **out,
                        kt_error *err) {
    uint8_t binding[KT__KV_BINDING_BYTES];
    kt_status status;
    *out = NULL;
    kt__error_clear(err);
    KT__STEP(kt__ctx_needs_whole(engine->model->ctx, "disk caches", err));
    if (!params->dir || !params->dir[0]) return kt__fail(err, KT_E_ARG, "no cache directory");
    if (has_store(engine)) return kt__fail(err, KT_E_STATE, "the engine has a cache already");
    kt_cache *cache = kt__calloc(1, sizeof *cache);
    if (!cache) return kt__fail_nomem(err, "the disk cache", sizeof *cache);
    KT__TRY(kt__engine_kv_binding(engine, NULL, binding, err));
    kt__disk_params p = {
        .dir = params->dir,
        .max_bytes = params->max_bytes,
        .queue_bytes = queue_bytes(engine->model->ctx, params),
        .binding = binding,
        .n_binding = sizeof binding,
        .full_hash = full_hash,
        .full_hash_user = engine->model,
        .log = &engine->model->ctx->log,
    };
    KT__TRY(kt__disk_open(&p, kt__kv_get_shape(engine->kv), &cache->disk, err));
    cache->engine = engine;
    uint64_t bytes = kt__disk_queue_bytes(cache->disk);
    uint64_t planned = planned_bytes(engine->model->ctx);
    cache->mem_bytes = bytes > planned ? bytes - planned : 0;
    atomic_fetch_add(&engine->model->ctx->mem_used_bytes, cache->mem_bytes);
    kt__kv_store store = kt__disk_store(cache->disk);
    kt__engine_set_kv_store(engine, &store);
    start_hash(engine->model);
    *out = cache;
    cache = NULL;
out:
    kt__free(cache);
    return status;
}

void kt_cache_close(kt_cache *cache) {
    if (!cache) return;
    kt__engine_set_kv_store(cache->engine, NULL);
    kt__disk_close(cache->disk);
    atomic_fetch_sub(&cache->engine->model->ctx->mem_used_bytes, cache->mem_bytes);
    kt__free(cache);
}

void kt_cache_get_stats(kt_cache *cache, kt_cache_stats *out) {
    kt__disk_get_stats(cache->disk, out);
}
