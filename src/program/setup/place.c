#include "setup/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "setup/model_file.h"
#include "setup/tuned.h"

enum { LIST_BYTES = 4096 };

/* ---- parameters ---- */

static const char *const draft_words[KT_DRAFT_FROMS] = {"any", "text", "model"};
static const char *const pressure_words[KT_KV_PRESSURES] = {"off", "cache", "all"};

/* Which of the words it is; 0, the default, where it is none or NULL. */
static int index_of(const char *word, const char *const *words, int n) {
    for (int i = 0; word && i < n; i++) {
        if (!strcmp(word, words[i])) return i;
    }
    return 0;
}

kt_engine_params kt__place_engine_params(const kt__config *c) {
    kt_engine_params p = kt_engine_params_default();
    p.n_ctx = (int32_t)c->ctx;
    p.n_batch = (int32_t)c->batch;
    p.n_ubatch = (int32_t)c->ubatch;
    p.n_threads = (int32_t)c->threads;
    p.n_threads_batch = (int32_t)c->threads_batch;
    p.kv_bytes = c->kv;
    p.n_parallel = (int32_t)c->parallel;
    p.n_queue_max = (int32_t)c->queue;
    p.gap_ms = (int32_t)c->gap_ms;
    p.n_draft = c->draft > 0 ? (int32_t)c->draft : -1;
    p.draft_from = (kt_draft_from)index_of(c->draft_from, draft_words, KT_DRAFT_FROMS);
    p.kv_pressure = (kt_kv_pressure)index_of(c->kv_pressure, pressure_words, KT_KV_PRESSURES);
    p.optimize = c->optimize;
    p.target_latency_ms = (int32_t)c->target_latency_ms;
    p.min_throughput = c->min_throughput;
    p.memory_threshold = c->memory_threshold;
    return p;
}

kt_status kt__place_kv_params(const kt__config *c, kt_engine_params *params, kt_error *err) {
    if (c->kv_tail >= 0) params->kv_tail = c->kv_tail ? (int32_t)c->kv_tail : -1;
    kt_status status = kt__kv_types_read(c->kv_type, params, err);
    if (status == KT_OK && c->kv_keys) params->kv_keys = kt_kv_type_named(c->kv_keys);
    if (status == KT_OK && c->kv_values) params->kv_values = kt_kv_type_named(c->kv_values);
    return status;
}

static kt_rope_scaling rope_scaling_of(const char *word) {
    static const char *const words[] = {"model", "none", "linear", "yarn"};
    for (int i = 0; word && i < 4; i++) {
        if (!strcmp(word, words[i])) return (kt_rope_scaling)i;
    }
    return KT_ROPE_SCALING_MODEL;
}

bool kt__place_uses_blas(const kt__config *c) {
    return c->blas && *c->blas && strcmp(c->blas, "off") != 0;
}

/* Which devices passed their test, in the cache folder; NULL: there is none. One for the whole process. */
static const char *device_test_file(void) {
    static char dir[KT__FILES_PATH_MAX], path[KT__FILES_PATH_MAX];
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    kt_error ignored;
    int n = -1;
    if (xdg && kt__files_is_absolute(xdg))
        n = snprintf(dir, sizeof dir, "%s/kentang", xdg);
    else if (home && kt__files_is_absolute(home))
        n = snprintf(dir, sizeof dir, "%s/.cache/kentang", home);
    if (n <= 0 || (size_t)n >= sizeof dir) return NULL;
    bool there = kt__files_make_dir(dir, &ignored) == KT_OK &&
                 kt__files_path(path, dir, "devices", &ignored) == KT_OK;
    return there ? path : NULL;
}

kt_model_params kt__place_model_params(const kt__config *c) {
    kt_model_params p = kt_model_params_default();
    p.use_mmap = c->use_mmap;
    p.use_mlock = c->use_mlock;
    p.blas = kt__place_uses_blas(c);
    p.blas_library = p.blas && strcmp(c->blas, "on") != 0 ? c->blas : NULL;
    p.exact = c->exact;
    /* --device none is llama.cpp's way to say it */
    bool none = c->device && !strcmp(c->device, "none");
    p.n_gpu_layers = none ? 0 : (int32_t)c->gpu_layers;
    p.device = c->device && *c->device ? c->device : NULL;
    p.device_test = p.n_gpu_layers ? device_test_file() : NULL;
    p.plain_attention = c->flash_attn && !strcmp(c->flash_attn, "off");
    p.rope_scaling = rope_scaling_of(c->rope_scaling);
    p.rope_freq_base = (float)c->rope_freq_base;
    p.rope_freq_scale = (float)c->rope_freq_scale;
    p.yarn_orig_ctx = (int32_t)c->yarn_orig_ctx;
    p.yarn_ext_factor = (float)c->yarn_ext_factor;
    p.yarn_attn_factor = (float)c->yarn_attn_factor;
    p.yarn_beta_fast = (float)c->yarn_beta_fast;
    p.yarn_beta_slow = (float)c->yarn_beta_slow;
    p.chat_template = c->chat_template;
    p.chat_fallback = c->chat_fallback;
    return p;
}

static bool is_preset(const kt__config *c, const char *name) {
    return c->preset && !strcmp(c->preset, name);
}

static bool is_extreme(const kt__config *c) {
    return is_preset(c, "extreme");
}

static bool names_differ(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") != 0;
}

bool kt__place_is_own(const kt__config *c, const kt__config *base, int n) {
    return n > 1 || is_extreme(c) || names_differ(c->cpus, base->cpus) ||
           names_differ(c->isa, base->isa) || c->priority != base->priority ||
           c->threads != base->threads || c->threads_batch != base->threads_batch;
}

kt_ctx *kt__place_ctx(const kt__place *place, kt_ctx *shared) {
    return place->ctx ? place->ctx : shared;
}

/* ---- opening ---- */

/* Its share of the cores and, where the memory is given, of that. */
kt_status kt__place_open_ctx(const kt__place_asked *asked, int n_threads_max, kt_ctx **out,
                             kt_error *err) {
    const kt__config *c = asked->config;
    kt_ctx_params params = kt_ctx_params_default();
    char cpus[LIST_BYTES];
    params.isa = c->isa;
    params.cpus = c->cpus;
    params.priority = (int)c->priority;
    params.n_threads = asked->n > 1 ? 0 : (int)c->threads;
    params.n_threads_max = asked->n > 1 ? 0 : n_threads_max;
    params.mem_bytes = c->mem / (uint64_t)asked->n;
    params.log = asked->log;
    params.log_user = asked->log_user;
    params.log_level = asked->log_level;
    /* one processor of each core, where they are not given */
    if (asked->n > 1 || (is_extreme(c) && !c->cpus)) {
        kt_status status = kt_cpus_split(c->cpus, asked->n, asked->index, is_extreme(c), cpus,
                                         sizeof cpus, err);
        if (status != KT_OK) return status;
        params.cpus = cpus;
    }
    return kt_ctx_open(&params, out, err);
}

kt_status kt__place_join(const kt__config *c, kt_ctx *ctx, kt_error *err) {
    KT__STEP(kt_ctx_join(ctx, c->split, c->split_least, err));
    if (kt_ctx_rank(ctx) == 0) return KT_OK;
    kt_status status = kt_ctx_follow(ctx, err);
    if (status != KT_OK) fprintf(stderr, "kentang: error: %s\n", err->message);
    kt_ctx_close(ctx);
    exit(kt_status_exit_code(status));
}

/* Read by such a library when it is loaded: it then starts no threads that would only sleep. */
static void hold_blas_threads(void) {
    static const char *const names[] = {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                        "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)setenv(names[i], "1", 1);
    (void)setenv("MKL_THREADING_LAYER", "SEQUENTIAL", 1);
}

static bool is_of_mmproj(kt_status status) {
    return status == KT_E_ARG || status == KT_E_FORMAT || status == KT_E_UNSUPPORTED;
}

/* With the encoder that is given, or the one next to the model; that one may be another model's, and is left then. */
static kt_status open_seeing(const kt__config *c, kt_ctx *ctx, const char *path,
                             kt_model_params *params, kt_model **out, kt_error *err) {
    char found[4096];
    bool given = c->mmproj && *c->mmproj;
    if (given && strcmp(c->mmproj, "off") != 0) params->mmproj = c->mmproj;
    if (!given && !params->vocab_only && kt__mmproj_find(path, found, sizeof found))
        params->mmproj = found;
    kt_status status = kt_model_open(ctx, path, params, out, err);
    if (status == KT_OK || given || !params->mmproj || !is_of_mmproj(status)) return status;
    char why[sizeof err->message];
    snprintf(why, sizeof why, "%s", err->message);
    params->mmproj = NULL;
    status = kt_model_open(ctx, path, params, out, err);
    if (status == KT_OK)
        fprintf(stderr, "kentang: %s is left aside, and the model sees no pictures: %s\n", found,
                why);
    return status;
}

kt_status kt__place_open_model(const kt__config *c, kt_ctx *ctx, const char *path, bool vocab_only,
                               kt_model **out, kt_error *err) {
    kt_model_params params = kt__place_model_params(c);
    params.vocab_only = vocab_only;
    if (!vocab_only && !c->replica) KT__STEP(kt__place_join(c, ctx, err));
    if (params.blas) hold_blas_threads();
    if (!path) return kt_model_open_demo(ctx, &params, out, err);
    return open_seeing(c, ctx, path, &params, out, err);
}

static kt_status open_own(const kt__place_asked *asked, int n_threads_max, kt__place *p,
                          kt_error *err) {
    kt_status status = kt__place_open_ctx(asked, n_threads_max, &p->ctx, err);
    if (status != KT_OK) return status;
    return kt__place_open_model(asked->config, p->ctx, asked->path, false, &p->model, err);
}

/* A draft model is not stretched, and never worth a BLAS. */
static kt_status open_draft(const kt__place_asked *asked, kt_ctx *ctx, kt_model **out,
                            kt_error *err) {
    kt_model_params params = kt_model_params_default();
    params.use_mmap = asked->config->use_mmap;
    params.use_mlock = asked->config->use_mlock;
    return asked->draft_path[0] ? kt_model_open(ctx, asked->draft_path, &params, out, err)
                                : kt_model_open_demo(ctx, &params, out, err);
}

/* A cache that cannot be used is no reason not to serve. */
static kt_status open_cache(const kt__place_asked *asked, kt__place *p, kt_error *err) {
    const kt__config *c = asked->config;
    const kt_cache_params params = {.dir = c->cache_dir, .max_bytes = c->cache_bytes};
    char line[1200];
    if (!c->cache_dir) return KT_OK;
    kt_status status = kt_cache_open(p->engine, &params, &p->cache, err);
    if (status == KT_OK || asked->is_driven) return status;
    p->cache = NULL;
    snprintf(line, sizeof line, "%s: no disk cache: %s", asked->name, err->message);
    if (asked->log) asked->log(asked->log_user, KT_LOG_WARN, line);
    return KT_OK;
}

/* What was set wins over what tune found, and that over what is chosen. A number of threads that is
 * the automatic one anyway stays automatic, and so follows quota and affinity; threads that were
 * found for the whole machine say nothing of a part of it. Returns the number of places that is best
 * for several answers; 0: it was not measured. */
static int use_tuned(const kt__place_asked *asked, kt__place *p, kt_ctx *ctx,
                     kt_engine_params *params) {
    kt_model_info info;
    kt__tuned tuned;
    int automatic = kt_ctx_n_threads(ctx);
    if (!asked->config->use_tuned) return 0;
    kt_model_get_info(p->model, &info);
    if (!kt__tuned_load(&info, kt_ctx_isa(ctx), &tuned)) return 0;
    if (asked->n == 1 && !params->n_threads && !params->n_threads_batch) {
        if (tuned.n_threads != automatic) params->n_threads = tuned.n_threads;
        if (tuned.n_threads_batch != automatic) params->n_threads_batch = tuned.n_threads_batch;
    }
    if (!params->n_batch) params->n_batch = tuned.n_batch;
    if (!params->n_ubatch) params->n_ubatch = tuned.n_ubatch;
    snprintf(p->tuned, sizeof p->tuned, "%s", tuned.date);
    return tuned.n_contexts;
}

/* Again, with a pool for the threads that tune found best. */
static kt_status grow_pool(const kt__place_asked *asked, const kt_engine_params *params,
                           kt__place *p, kt_error *err) {
    int most = params->n_threads > params->n_threads_batch ? params->n_threads
                                                           : params->n_threads_batch;
    if (!p->ctx || !p->tuned[0] || most <= kt_ctx_n_threads(p->ctx)) return KT_OK;
    kt_model_close(p->model);
    kt_ctx_close(p->ctx);
    p->model = NULL;
    p->ctx = NULL;
    return open_own(asked, most, p, err);
}

/* What depends on the model: potato's context is no longer than it was trained for. */
static void use_potato(const kt__place_asked *asked, const kt__place *p, kt_engine_params *params) {
    enum { POTATO_CTX = 2048 };
    kt_model_info info;
    if (!is_preset(asked->config, "potato") || params->n_ctx) return;
    kt_model_get_info(p->model, &info);
    params->n_ctx = info.n_ctx_train > 0 && info.n_ctx_train < POTATO_CTX ? info.n_ctx_train
                                                                          : POTATO_CTX;
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
    if (!asked->config->use_tuned) return KT_OK;
    kt_status status = kt__place_open_model(asked->config, asked->shared, asked->path, false,
                                            &p.model, err);
    if (status == KT_OK) *out = use_tuned(asked, &p, asked->shared, &params);
    kt_model_close(p.model);
    return status;
}

/* What f16 would leave of a context that nobody asked to be shorter. */
static bool is_short_of_memory(const kt__place *p, const kt_engine_params *params,
                               kt_status status) {
    enum { USUAL_CTX = 4096 };
    kt_model_info info;
    if (status != KT_OK) return status == KT_E_NOMEM;
    kt_model_get_info(p->model, &info);
    int64_t usual = info.n_ctx_train < USUAL_CTX ? info.n_ctx_train : USUAL_CTX;
    return !params->n_ctx && p->plan.n_ctx < usual;
}

/* Keys and values are f16, but where memory is short for that, no type was asked for, and no other
 * model takes any of it: then the first type with which the context is longer. */
static kt_status plan_engine(const kt__place_asked *asked, kt__place *p, kt_engine_params *params,
                             kt_error *err) {
    static const struct {
        const char *name, *cost;
    } types[] = {{"q8", "in 8 bits (perplexity +0.2% at most)"},
                 {"k8v4", "in 8 and 4 bits (perplexity +0.4% at most)"}};
    const kt__config *c = asked->config;
    kt_status status = kt_engine_plan(p->model, params, &p->plan, err);
    bool given = c->kv_type || c->kv_keys || c->kv_values || p->plan.others_bytes > 0;
    if (given || !is_short_of_memory(p, params, status)) return status;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        kt_engine_params less = *params;
        kt_mem_plan plan;
        kt_error unused;
        if (!kt_kv_named(types[i].name, &less) ||
            kt_engine_plan(p->model, &less, &plan, &unused) != KT_OK)
            continue;
        if (status == KT_OK && plan.n_ctx <= p->plan.n_ctx) continue;
        char left[40] = "does not fit";
        if (status == KT_OK) snprintf(left, sizeof left, "leaves a context of %d", p->plan.n_ctx);
        snprintf(p->kv_why, sizeof p->kv_why, "keys and values %s: f16 (--kv f16) %s",
                 types[i].cost, left);
        *params = less;
        p->plan = plan;
        return KT_OK;
    }
    return status;
}

static kt_status open_engine(const kt__place_asked *asked, kt__place *p, kt_engine_params *params,
                             kt_error *err) {
    kt_ctx *ctx = kt__place_ctx(p, asked->shared);
    use_potato(asked, p, params);
    KT__STEP(kt__place_kv_params(asked->config, params, err));
    if (asked->draft_path && asked->config->draft > 0)
        KT__STEP(open_draft(asked, ctx, &p->draft, err));
    params->draft = p->draft;
    if (asked->is_single) {
        params->n_seq_max = 1;
        params->n_parallel = 0;
    }
    KT__STEP(plan_engine(asked, p, params, err));
    KT__STEP(kt_engine_open(p->model, params, &p->engine, err));
    KT__STEP(open_cache(asked, p, err));
    if (!asked->is_driven) KT__STEP(kt_engine_start(p->engine, err));
    return KT_OK;
}

/* Where a file lies in small pages, only speed is lost: no thread for it is no reason to end. Of a model that several
 * processes compute, each is to touch its part alone. */
static kt_status start_pages(const kt__place_asked *asked, const kt__place *p, kt_error *err) {
    if (kt_ctx_n_ranks(kt__place_ctx(p, asked->shared)) > 1) return KT_OK;
    if (!asked->config->use_mmap || !asked->config->large_pages || !asked->path) return KT_OK;
    return kt_model_start_pages(p->model, err);
}

kt_status kt__place_open(const kt__place_asked *asked, bool own, kt__place *p, kt_error *err) {
    kt_status status = KT_OK;
    kt_engine_params params = kt__place_engine_params(asked->config);
    *p = (kt__place){0};
    if (asked->n > 1) params.n_threads = params.n_threads_batch = 0; /* all of its part */
    KT__TRY(kt__adapter_table_create(&p->adapters, err));
    if (own)
        KT__TRY(open_own(asked, (int)asked->config->threads_batch, p, err));
    else
        KT__TRY(
            kt__place_open_model(asked->config, asked->shared, asked->path, false, &p->model, err));
    (void)use_tuned(asked, p, kt__place_ctx(p, asked->shared), &params);
    KT__TRY(grow_pool(asked, &params, p, err));
    KT__TRY(use_extreme(asked, p, kt__place_ctx(p, asked->shared), &params, err));
    KT__TRY(open_engine(asked, p, &params, err));
    KT__TRY(start_pages(asked, p, err));
out:
    if (status != KT_OK) kt__place_close(p);
    return status;
}

void kt__place_close_engine(kt__place *p) {
    kt_cache_close(p->cache);
    kt_engine_close(p->engine);
    p->cache = NULL;
    p->engine = NULL;
}

void kt__place_close(kt__place *p) {
    kt__place_close_engine(p);
    kt_model_close(p->draft);
    if (p->adapters) kt__adapter_table_clear(p->adapters);
    kt__adapter_table_free(p->adapters);
    kt_model_close(p->model);
    if (p->ctx) kt_ctx_close(p->ctx);
    *p = (kt__place){0};
}
