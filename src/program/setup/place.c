#include "setup/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "setup/kv_types.h"
#include "setup/step_threads.h"

enum { LIST_BYTES = 4096 };

/* ---- parameters ---- */

kt_engine_params kt__place_engine_params(const kt__config *c) {
    kt_engine_params p = kt_engine_params_default();
    p.n_ctx = (int32_t)c->ctx;
    p.n_batch = (int32_t)c->batch;
    p.n_ubatch = (int32_t)c->ubatch;
    p.n_threads = (int32_t)c->threads;
    p.n_threads_batch = (int32_t)c->threads_batch;
    p.kv_bytes = c->kv;
    p.kv_tail = c->kv_tail ? c->kv_tail < 0 ? 0 : (int32_t)c->kv_tail : -1;
    p.n_parallel = (int32_t)c->parallel;
    p.n_queue_max = (int32_t)c->queue;
    p.gap_ms = (int32_t)c->gap_ms;
    p.n_draft = (int32_t)c->draft;
    p.optimize = c->optimize;
    p.target_latency_ms = (int32_t)c->target_latency_ms;
    p.min_throughput = c->min_throughput;
    p.memory_threshold = c->memory_threshold;
    return p;
}

static kt_rope_scaling rope_scaling_of(const char *word) {
    static const char *const words[] = {"model", "none", "linear", "yarn"};
    for (int i = 0; word && i < 4; i++) {
        if (!strcmp(word, words[i])) return (kt_rope_scaling)i;
    }
    return KT_ROPE_SCALING_MODEL;
}

kt_model_params kt__place_model_params(const kt__config *c) {
    kt_model_params p = kt_model_params_default();
    p.use_mmap = c->use_mmap;
    p.use_mlock = c->use_mlock;
    p.blas = c->blas;
    p.rope_scaling = rope_scaling_of(c->rope_scaling);
    p.rope_freq_base = (float)c->rope_freq_base;
    p.rope_freq_scale = (float)c->rope_freq_scale;
    p.yarn_orig_ctx = (int32_t)c->yarn_orig_ctx;
    p.yarn_ext_factor = (float)c->yarn_ext_factor;
    p.yarn_attn_factor = (float)c->yarn_attn_factor;
    p.yarn_beta_fast = (float)c->yarn_beta_fast;
    p.yarn_beta_slow = (float)c->yarn_beta_slow;
    return p;
}

static bool is_extreme(const kt__config *c) {
    return c->preset && !strcmp(c->preset, "extreme");
}

static bool differs(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") != 0;
}

bool kt__place_is_own(const kt__config *c, const kt__config *base, int n) {
    return n > 1 || is_extreme(c) || differs(c->cpus, base->cpus) || differs(c->isa, base->isa) ||
           c->priority != base->priority || c->threads != base->threads ||
           c->threads_batch != base->threads_batch;
}

kt_ctx *kt__place_ctx(const kt__place *place, kt_ctx *shared) {
    return place->ctx ? place->ctx : shared;
}

/* ---- opening ---- */

/* Its share of the cores and, where the memory is given, of that. */
static kt_status open_own_ctx(const kt__place_asked *asked, kt_ctx **out, kt_error *err) {
    const kt__config *c = asked->config;
    kt_ctx_params params = kt_ctx_params_default();
    char cpus[LIST_BYTES];
    params.isa = c->isa;
    params.cpus = c->cpus;
    params.priority = (int)c->priority;
    params.n_threads = asked->n > 1 ? 0 : (int)c->threads;
    params.n_threads_max = asked->n > 1 ? 0 : (int)c->threads_batch;
    params.mem_bytes = c->mem / (uint64_t)asked->n;
    params.log = kt__slog_library;
    params.log_user = asked->log;
    params.log_level = KT_LOG_INFO;
    if (asked->n > 1 || is_extreme(c)) {
        kt_status status = kt_cpus_split(c->cpus, asked->n, asked->index, is_extreme(c), cpus,
                                         sizeof cpus, err);
        if (status != KT_OK) return status;
        params.cpus = cpus;
    }
    return kt_ctx_open(&params, out, err);
}

static kt_status open_model(const kt__place_asked *asked, kt_ctx *ctx, const char *path,
                            kt_model **out, kt_error *err) {
    kt_model_params params = kt__place_model_params(asked->config);
    /* read by OpenBLAS when it is loaded: it then starts no threads that would only sleep */
    if (params.blas) (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    return path ? kt_model_open(ctx, path, &params, out, err)
                : kt_model_open_demo(ctx, &params, out, err);
}

/* A draft model is not stretched, and never worth OpenBLAS. */
static kt_status open_draft(const kt__place_asked *asked, kt_ctx *ctx, kt_model **out,
                            kt_error *err) {
    kt_model_params params = kt_model_params_default();
    params.use_mmap = asked->config->use_mmap;
    params.use_mlock = asked->config->use_mlock;
    return kt_model_open(ctx, asked->draft_path, &params, out, err);
}

/* A cache that cannot be used is no reason not to serve. */
static void open_cache(const kt__place_asked *asked, kt__place *p) {
    const kt__config *c = asked->config;
    const kt_cache_params params = {.dir = c->cache_dir, .max_bytes = c->cache_bytes};
    kt_error err;
    if (!c->cache_dir) return;
    if (kt_cache_open(p->engine, &params, &p->cache, &err) == KT_OK) return;
    p->cache = NULL;
    kt__slog_line(asked->log, KT_LOG_WARN, "%s: no disk cache: %s", asked->name, err.message);
}

/* What was set wins over what tune found, and that over what is chosen. Threads that were found for
 * the whole machine say nothing of a part of it. */
static int use_tuned(const kt__place_asked *asked, kt__place *p, kt_ctx *ctx,
                     kt_engine_params *params) {
    const kt__config *c = asked->config;
    kt_model_info info;
    kt_engine_params found = *params;
    int n_contexts = 0;
    if (!c->use_tuned || !c->find_tuned) return 0;
    kt_model_get_info(p->model, &info);
    if (!c->find_tuned(&info, kt_ctx_isa(ctx), kt_ctx_n_threads(ctx), &found, &n_contexts, p->tuned,
                       sizeof p->tuned)) {
        p->tuned[0] = '\0';
        return 0;
    }
    if (asked->n > 1) {
        found.n_threads = params->n_threads;
        found.n_threads_batch = params->n_threads_batch;
    }
    *params = found;
    return n_contexts;
}

/* Prompts on all cores, generation on as many as are fastest. */
static kt_status use_extreme(const kt__place_asked *asked, kt__place *p, kt_ctx *ctx,
                             kt_engine_params *params, kt_error *err) {
    int n_cores = kt_ctx_n_threads(ctx), n_best;
    if (!is_extreme(asked->config)) return KT_OK;
    if (!params->n_threads_batch || params->n_threads_batch > n_cores)
        params->n_threads_batch = n_cores;
    snprintf(p->why, sizeof p->why, "preset extreme, %s",
             params->n_threads ? p->tuned[0] ? "tuned" : "as asked" : "measured");
    if (params->n_threads) return KT_OK;
    kt_status status = kt__step_threads_find(p->model, n_cores, &n_best, err);
    if (status == KT_OK) params->n_threads = n_best;
    return status;
}

kt_status kt__place_tuned_contexts(const kt__place_asked *asked, int *out, kt_error *err) {
    kt__place p = {0};
    kt_engine_params params = kt__place_engine_params(asked->config);
    *out = 0;
    if (!asked->config->use_tuned || !asked->config->find_tuned) return KT_OK;
    kt_status status = open_model(asked, asked->shared, asked->path, &p.model, err);
    if (status == KT_OK) *out = use_tuned(asked, &p, asked->shared, &params);
    kt_model_close(p.model);
    return status;
}

kt_status kt__place_open(const kt__place_asked *asked, bool own, kt__place *p, kt_error *err) {
    kt_status status = KT_OK;
    kt_engine_params params = kt__place_engine_params(asked->config);
    *p = (kt__place){0};
    if (asked->n > 1) params.n_threads = params.n_threads_batch = 0; /* all of its part */
    KT__TRY(kt__kv_types_read(asked->config->kv_type, &params, err));
    KT__TRY(kt__adapter_table_create(&p->adapters, err));
    if (own) KT__TRY(open_own_ctx(asked, &p->ctx, err));
    kt_ctx *ctx = kt__place_ctx(p, asked->shared);
    KT__TRY(open_model(asked, ctx, asked->path, &p->model, err));
    if (asked->draft_path) KT__TRY(open_draft(asked, ctx, &p->draft, err));
    params.draft = p->draft;
    (void)use_tuned(asked, p, ctx, &params);
    KT__TRY(use_extreme(asked, p, ctx, &params, err));
    KT__TRY(kt_engine_plan(p->model, &params, &p->plan, err));
    KT__TRY(kt_engine_open(p->model, &params, &p->engine, err));
    open_cache(asked, p);
    KT__TRY(kt_engine_start(p->engine, err));
out:
    if (status != KT_OK) kt__place_close(p);
    return status;
}

void kt__place_close(kt__place *p) {
    kt_cache_close(p->cache);
    kt_engine_close(p->engine);
    kt_model_close(p->draft);
    if (p->adapters) kt__adapter_table_clear(p->adapters);
    kt__adapter_table_free(p->adapters);
    kt_model_close(p->model);
    if (p->ctx) kt_ctx_close(p->ctx);
    *p = (kt__place){0};
}
