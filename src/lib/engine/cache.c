/* kt_cache: a disk cache below an engine's prefix index. */
#include "base/alloc.h"
#include "base/error.h"
#include "context/kv_binding.h"
#include "context/model.h"
#include "engine/divide.h"
#include "kv/disk.h"
#include "requests/inbox.h"
#include "requests/plan.h"

struct kt_cache {
    kt_engine *engine;
    kt__disk *disk;
    kt__shared_store shared; /* where several processes have parts of the engine */
    uint64_t mem_bytes;      /* charged to the context, beyond what the engine's plan has for it */
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

/* What is kept for later processes is worth being bound to all of the model, but not being read by each of several
 * processes, which are to touch their part alone. */
static void start_hash(kt_model *model) {
    kt_error err;
    if (kt__ctx_split(model->ctx)) return;
    if (kt_model_start_hash(model, &err) == KT_OK) return;
    kt__log_line(&model->ctx->log, KT_LOG_WARN, "disk cache: %s", err.message);
}

static bool has_store(kt_engine *engine) {
    kt__ticket_lock(&engine->turn);
    bool has = kt__prefix_store(engine->prefix) != NULL;
    kt__ticket_unlock(&engine->turn);
    return has;
}

static kt_status open_disk(kt_engine *engine, const kt_cache_params *params, kt__disk **out,
                           kt_error *err) {
    uint8_t binding[KT__KV_BINDING_BYTES + KT__KV_HEADS_BYTES];
    KT__STEP(kt__engine_kv_binding(engine, NULL, binding, err));
    size_t n_heads = kt__engine_heads_binding(engine, binding + KT__KV_BINDING_BYTES);
    kt__disk_params p = {
        .dir = params->dir,
        .max_bytes = params->max_bytes,
        .queue_bytes = queue_bytes(engine->model->ctx, params),
        .binding = binding,
        .n_binding = KT__KV_BINDING_BYTES + n_heads,
        .full_hash = full_hash,
        .full_hash_user = engine->model,
        .log = &engine->model->ctx->log,
    };
    return kt__disk_open(&p, kt__kv_get_shape(engine->kv), out, err);
}

kt_status kt__cache_open_here(kt_engine *engine, const kt_cache_params *params, kt_cache **out,
                              kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    kt_cache *cache = kt__calloc(1, sizeof *cache);
    if (!cache) return kt__fail_nomem(err, "the disk cache", sizeof *cache);
    kt_status status = open_disk(engine, params, &cache->disk, err);
    if (status != KT_OK) {
        kt__free(cache);
        return status;
    }
    cache->engine = engine;
    uint64_t bytes = kt__disk_queue_bytes(cache->disk), planned = planned_bytes(ctx);
    cache->mem_bytes = bytes > planned ? bytes - planned : 0;
    atomic_fetch_add(&ctx->mem_used_bytes, cache->mem_bytes);
    *out = cache;
    return KT_OK;
}

void kt__cache_close_here(kt_cache *cache) {
    if (!cache) return;
    kt__disk_close(cache->disk);
    atomic_fetch_sub(&cache->engine->model->ctx->mem_used_bytes, cache->mem_bytes);
    kt__free(cache);
}

static kt_status check_asked(kt_engine *engine, const kt_cache_params *params, kt_error *err) {
    if (!params->dir || !params->dir[0]) return kt__fail(err, KT_E_ARG, "no cache directory");
    if (has_store(engine)) return kt__fail(err, KT_E_STATE, "the engine has a cache already");
    return KT_OK;
}

/* Here, and in the other processes that have a part of the engine. */
static kt_status open_everywhere(kt_engine *engine, const kt_cache_params *params, kt_cache **out,
                                 kt_error *err) {
    KT__STEP(kt__cache_tell(engine, params, err));
    kt_status here = kt__cache_open_here(engine, params, out, err);
    if (!engine->divided) return here;
    kt_status status = kt__divide_agree(engine->model->ctx, here, err);
    if (status == KT_OK) return KT_OK;
    kt__cache_tell_end(engine);
    if (here == KT_OK) kt__cache_close_here(*out);
    *out = NULL;
    return status;
}

kt_status kt_cache_open(kt_engine *engine, const kt_cache_params *params, kt_cache **out,
                        kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    KT__STEP(check_asked(engine, params, err));
    KT__STEP(open_everywhere(engine, params, out, err));
    kt_cache *cache = *out;
    kt__kv_store store = kt__disk_store(cache->disk);
    cache->shared = (kt__shared_store){.engine = engine, .own = store};
    if (engine->divided) store = kt__shared_store_of(&cache->shared);
    kt__engine_set_kv_store(engine, &store);
    start_hash(engine->model);
    return KT_OK;
}

void kt_cache_close(kt_cache *cache) {
    if (!cache) return;
    kt__engine_set_kv_store(cache->engine, NULL);
    kt__cache_tell_end(cache->engine);
    kt__cache_close_here(cache);
}

kt__kv_store kt__cache_store(const kt_cache *cache) {
    return kt__disk_store(cache->disk);
}

void kt_cache_get_stats(kt_cache *cache, kt_cache_stats *out) {
    kt__disk_get_stats(cache->disk, out);
}

size_t kt_engine_forget(kt_engine *engine, const char *cache_scope, const kt_adapter_use *uses,
                        size_t n_uses, const int32_t *ids, size_t n) {
    kt__adapters *adapters = NULL;
    kt_error err;
    if (kt__adapters_new(engine->model, uses, n_uses, &adapters, &err) != KT_OK) return 0;
    kt__kv_key root = kt__scope_root(engine->scope, cache_scope ? cache_scope : "", adapters);
    kt__ticket_lock(&engine->turn);
    int32_t n_given = kt__prefix_forget(engine->prefix, root, ids, n);
    kt__inbox_publish_pages(engine->inbox, kt__kv_n_used(engine->kv), kt__kv_n_kept(engine->kv));
    kt__ticket_unlock(&engine->turn);
    kt__adapters_release(adapters);
    return (size_t)n_given * KT__PAGE_POS;
}
