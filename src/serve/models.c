#include "serve/models.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

struct kt__served {
    kt__models *models;
    const char *name, *path; /* path NULL: the demo model */
    const char *draft_path;  /* or NULL */
    const char *load_in;     /* or NULL */
    char *found[2];          /* the files that these are, as of the last load */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy;               /* being loaded or unloaded, without the lock */
    kt_model *model, *draft; /* draft: proposes tokens, or NULL */
    kt_engine *engine;       /* NULL: not loaded */
    kt_cache *cache;         /* below engine, or NULL */
    kt__adapter_table *adapters;
    kt_mem_plan plan;
    kt__file_stamp stamps[2];   /* of path and draft_path as they were loaded */
    kt__file_change changes[2]; /* that were told */
    char tuned[16];
    int32_t users;
    int64_t used_us, loaded_s;
    kt_engine_stats past; /* of engines that were closed */
};

struct kt__models {
    kt_ctx *ctx;
    kt__slog *log;
    const kt__config *config;
    kt_engine_params params;
    size_t n;
    kt__served list[];
};

/* ---- life ---- */

static kt_engine_params engine_params(const kt__config *c) {
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
    p.n_draft = (int32_t)c->draft;
    p.optimize = c->optimize;
    p.target_latency_ms = (int32_t)c->target_latency_ms;
    p.min_throughput = c->min_throughput;
    p.memory_threshold = c->memory_threshold;
    return p;
}

/* What tune found may be more threads than are chosen by default; those that no model uses sleep.
 */
static int threads_max(const kt__config *c) {
    bool tuned = c->use_tuned && c->find_tuned && !c->threads && !c->threads_batch;
    long n = tuned ? sysconf(_SC_NPROCESSORS_ONLN) : c->threads_batch;
    return n > 256 ? 256 : n > 0 ? (int)n : 0; /* 256: a pool's most */
}

kt_status kt__models_create(const kt__config *config, kt__slog *log, kt__models **out,
                            kt_error *err) {
    kt_ctx_params params = kt_ctx_params_default();
    *out = NULL;
    kt__models *m = kt__calloc(1, sizeof *m + config->n_models * sizeof m->list[0]);
    if (!m) return kt__fail_nomem(err, "the list of models", 0);
    m->log = log;
    m->config = config;
    m->params = engine_params(config);
    params.isa = config->isa;
    params.n_threads = (int)config->threads;
    params.n_threads_max = threads_max(config);
    params.mem_bytes = config->mem;
    params.log = kt__slog_library;
    params.log_user = log;
    params.log_level = KT_LOG_INFO;
    kt_status status = kt_ctx_open(&params, &m->ctx, err);
    if (status != KT_OK) {
        kt__free(m);
        return status;
    }
    for (m->n = 0; m->n < config->n_models; m->n++) {
        kt__served *s = &m->list[m->n];
        status = kt__adapter_table_create(&s->adapters, err);
        if (status != KT_OK) {
            kt__models_free(m);
            return status;
        }
        s->models = m;
        s->name = config->models[m->n].name;
        s->path = config->models[m->n].path;
        s->draft_path = config->models[m->n].draft_path;
        s->load_in = config->models[m->n].load_in;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
    }
    *out = m;
    return KT_OK;
}

kt_ctx *kt__models_ctx(const kt__models *models) {
    return models->ctx;
}

size_t kt__models_count(const kt__models *models) {
    return models->n;
}

kt__served *kt__models_at(kt__models *models, size_t index) {
    return &models->list[index];
}

const char *kt__served_name(const kt__served *served) {
    return served->name;
}

static kt__served *find_named(kt__models *m, const char *name) {
    for (size_t i = 0; i < m->n; i++) {
        if (!strcmp(m->list[i].name, name)) return &m->list[i];
    }
    return NULL;
}

/* By the configuration's further names; NULL: none of them fits. */
static kt__served *find_alias(kt__models *m, const char *name) {
    const kt__texts *aliases = &m->config->aliases;
    for (size_t i = 0; i < aliases->n; i++) {
        const char *alias = aliases->items[i] ? aliases->items[i] : "";
        size_t len = strcspn(alias, "=");
        bool fits = (len == 1 && alias[0] == '*') ||
                    (strlen(name) == len && !strncmp(alias, name, len));
        if (fits) return alias[len] ? find_named(m, alias + len + 1) : &m->list[0];
    }
    return NULL;
}

kt_status kt__models_find(kt__models *m, const char *name, kt__served **out, kt_error *err) {
    char names[256] = "";
    size_t len = 0;
    *out = &m->list[0];
    if (!name || !*name) return KT_OK;
    *out = find_named(m, name);
    if (!*out) *out = find_alias(m, name);
    if (*out) return KT_OK;
    for (size_t i = 0; i < m->n && len < sizeof names; i++) {
        int n = snprintf(names + len, sizeof names - len, "%s%s", i ? ", " : "", m->list[i].name);
        len += n > 0 ? (size_t)n : 0;
    }
    return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX,
                       "the model \"%.80s\" does not exist here; there is: %s", name, names);
}

/* "demo" of "demo:latest"; false: it has no such end, or is too long. */
static bool without_tag(const char *name, char *out, size_t size) {
    static const char tag[] = ":latest";
    size_t len = strlen(name), tag_len = sizeof tag - 1;
    if (len <= tag_len || len - tag_len >= size || strcmp(name + len - tag_len, tag) != 0)
        return false;
    memcpy(out, name, len - tag_len);
    out[len - tag_len] = '\0';
    return true;
}

kt_status kt__models_find_tagged(kt__models *models, const char *name, kt__served **out,
                                 kt_error *err) {
    char shorter[256];
    bool tagged = !find_named(models, name) && without_tag(name, shorter, sizeof shorter);
    /* an alias that fits everything comes last */
    if (tagged && (find_named(models, shorter) || !find_alias(models, name))) name = shorter;
    return kt__models_find(models, name, out, err);
}

/* ---- loading ---- */

/* A cache that cannot be used is no reason not to serve. */
static void open_cache(kt__served *s, kt_engine *engine) {
    const kt__config *c = s->models->config;
    const kt_cache_params params = {.dir = c->cache_dir, .max_bytes = c->cache_bytes};
    kt_error err;
    s->cache = NULL;
    if (!c->cache_dir) return;
    if (kt_cache_open(engine, &params, &s->cache, &err) == KT_OK) return;
    s->cache = NULL;
    kt__slog_line(s->models->log, KT_LOG_WARN, "%s: no disk cache: %s", s->name, err.message);
}

/* What was set wins over what tune found, and that over what is chosen. */
static void use_tuned(kt__served *s, const kt_model *model, kt_engine_params *params) {
    const kt__models *m = s->models;
    kt_model_info info;
    s->tuned[0] = '\0';
    if (!m->config->use_tuned || !m->config->find_tuned) return;
    kt_model_get_info(model, &info);
    if (!m->config->find_tuned(&info, kt_ctx_isa(m->ctx), kt_ctx_n_threads(m->ctx), params,
                               s->tuned, sizeof s->tuned))
        s->tuned[0] = '\0';
}

/* A name may come to mean another file, so it is looked up at every load. */
static kt_status find_file(kt__served *s, int which, kt_error *err) {
    const kt__config *config = s->models->config;
    const char *name = which ? s->draft_path : s->path;
    kt__free(s->found[which]);
    s->found[which] = NULL;
    if (!name) return KT_OK;
    if (config->find_model)
        return config->find_model(config, name, which ? NULL : s->load_in, true, &s->found[which],
                                  err);
    s->found[which] = kt__strdup(name);
    return s->found[which] ? KT_OK : kt__fail_nomem(err, "a path", strlen(name));
}

static kt_status open_file(kt__served *s, int which, kt_model **out, kt_error *err) {
    kt__models *m = s->models;
    kt_status status = find_file(s, which, err);
    if (status != KT_OK) return status;
    const char *path = s->found[which];
    kt_model_params params = kt_model_params_default();
    /* before it is read: what changes from then on is seen. Of what is in memory nothing matters. */
    s->stamps[which] = kt__file_stamp_of(m->config->use_mmap ? path : NULL);
    s->changes[which] = KT__FILE_SAME;
    params.use_mmap = m->config->use_mmap;
    params.use_mlock = m->config->use_mlock;
    return path ? kt_model_open(m->ctx, path, &params, out, err)
                : kt_model_open_demo(m->ctx, &params, out, err);
}

static void close_engine(kt__served *s, kt_model *model, kt_engine *engine) {
    kt_cache_close(s->cache);
    s->cache = NULL;
    kt_engine_close(engine);
    kt_model_close(s->draft);
    s->draft = NULL;
    kt__adapter_table_clear(s->adapters);
    kt_model_close(model);
}

static kt_status open_engine(kt__served *s, kt_model **model, kt_engine **engine, kt_error *err) {
    kt_engine_params params = s->models->params;
    *model = NULL;
    *engine = NULL;
    kt_status status = open_file(s, 0, model, err);
    if (status == KT_OK && s->draft_path) status = open_file(s, 1, &s->draft, err);
    params.draft = s->draft;
    if (status == KT_OK) use_tuned(s, *model, &params);
    if (status == KT_OK) status = kt_engine_plan(*model, &params, &s->plan, err);
    if (status == KT_OK) status = kt_engine_open(*model, &params, engine, err);
    if (status == KT_OK) open_cache(s, *engine);
    if (status == KT_OK) status = kt_engine_start(*engine, err);
    if (status != KT_OK) close_engine(s, *model, *engine);
    return status;
}

static void tell_loaded(kt__served *s, const kt_model *model, const kt_engine *engine, int64_t ms) {
    kt_engine_info info;
    kt_model_info of;
    kt_engine_get_info(engine, &info);
    kt_model_get_info(model, &of);
    const kt__slog_field fields[] = {
        {"model", s->name, 0},
        {"ms", NULL, (double)ms},
        {"arch", of.arch, 0},
        {"quant", of.quant, 0},
        {"isa", kt_ctx_isa(s->models->ctx), 0},
        {"threads", NULL, (double)info.n_threads},
        {"threads_batch", NULL, (double)info.n_threads_batch},
        {"why", s->tuned[0] ? "tuned" : kt_ctx_n_threads_why(s->models->ctx), 0},
        {"context", NULL, (double)info.n_ctx},
        {"batch", NULL, (double)info.n_batch},
        {"ubatch", NULL, (double)info.n_ubatch},
        {"parallel", NULL, (double)info.n_parallel},
        {"draft_model", s->draft_path ? s->draft_path : "none", 0}};
    kt__slog_write(s->models->log, KT_LOG_INFO, "model loaded", fields,
                   sizeof fields / sizeof fields[0]);
}

/* The same figures as /props and /metrics have. */
static void tell_plan(kt__served *s) {
    const kt_mem_plan *p = &s->plan;
    const kt__slog_field fields[] = {{"model", s->name, 0},
                                     {"weights", NULL, (double)p->weights_bytes},
                                     {"kv", NULL, (double)p->kv_bytes},
                                     {"scratch", NULL, (double)p->scratch_bytes},
                                     {"tables", NULL, (double)p->tables_bytes},
                                     {"draft", NULL, (double)p->draft_bytes},
                                     {"total", NULL, (double)p->total_bytes},
                                     {"others", NULL, (double)p->others_bytes},
                                     {"budget", NULL, (double)p->budget_bytes},
                                     {"weights_counted", p->weights_counted ? "yes" : "no", 0},
                                     {"kv_positions", NULL, (double)p->kv_positions}};
    kt__slog_write(s->models->log, KT_LOG_INFO, "memory plan, bytes", fields,
                   sizeof fields / sizeof fields[0]);
    if (kt__plan_exceeds_memory(p))
        kt__slog_line(s->models->log, KT_LOG_WARN,
                      "%s: %.0f MB of mapped weights and %.0f MB beside them, but memory for %.0f "
                      "MB: weights will be read from disk again and again; take a smaller model or "
                      "quantisation, less kv, or raise the limit (memory.max)",
                      s->name, (double)p->weights_bytes / 1e6,
                      (double)(p->kv_bytes + p->scratch_bytes + p->draft_bytes) / 1e6,
                      (double)p->budget_bytes / 1e6);
}

bool kt__plan_exceeds_memory(const kt_mem_plan *p) {
    uint64_t beside = p->kv_bytes + p->scratch_bytes + p->draft_bytes;
    return !p->weights_counted && p->budget_bytes && p->weights_bytes + beside > p->budget_bytes;
}

/* The lock is held, and let go meanwhile. */
static kt_status load_model(kt__served *s, kt_error *err) {
    kt_model *model;
    kt_engine *engine;
    int64_t begin_us = kt__now_us();
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    kt_status status = open_engine(s, &model, &engine, err);
    if (status == KT_OK) {
        tell_loaded(s, model, engine, (kt__now_us() - begin_us) / 1000);
        tell_plan(s);
    } else {
        kt__slog_line(s->models->log, KT_LOG_ERROR, "cannot load %s: %s", s->name, err->message);
    }
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    if (status == KT_OK) {
        s->model = model;
        s->engine = engine;
        s->loaded_s = (int64_t)time(NULL);
    }
    pthread_cond_broadcast(&s->changed);
    return status;
}

kt_status kt__served_use(kt__served *s, kt_model **model, kt_engine **engine, kt_error *err) {
    kt_error ignored;
    kt_status status = KT_OK;
    if (!err) err = &ignored;
    pthread_mutex_lock(&s->lock);
    while (s->busy) pthread_cond_wait(&s->changed, &s->lock);
    if (!s->engine) status = load_model(s, err);
    if (status == KT_OK) {
        s->users++;
        *model = s->model;
        *engine = s->engine;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

void kt__served_done(kt__served *s) {
    pthread_mutex_lock(&s->lock);
    s->users--;
    s->used_us = kt__now_us();
    pthread_mutex_unlock(&s->lock);
}

/* ---- adapters ---- */

kt_status kt__served_adapters(kt__served *s, const kt__config *config,
                              const kt__adapter_named *named, size_t n, kt_adapter_use *uses,
                              kt_error *err) {
    return kt__adapter_table_get(s->adapters, config, s->name, s->model, named, n, uses, err);
}

bool kt__served_adapter_info(kt__served *s, const char *name, kt_adapter_info *out) {
    return kt__adapter_table_info(s->adapters, name, out);
}

void kt__models_renew_adapters(kt__models *m, const kt__config *config) {
    for (size_t i = 0; i < m->n; i++)
        kt__adapter_table_renew(m->list[i].adapters, config, m->list[i].name);
}

/* ---- files that change below us ---- */

static const char *trouble_of(kt__file_change change) {
    switch (change) {
    case KT__FILE_TRUNCATED: return "the file was truncated while it is served";
    case KT__FILE_WRITTEN: return "the file was written to while it is served";
    default: return NULL;
    }
}

static void tell_change(const kt__served *s, kt__file_change change) {
    const char *trouble = trouble_of(change);
    const char *kept = change == KT__FILE_GONE ? "was removed" : "was replaced";
    if (trouble) {
        kt__slog_line(s->models->log, KT_LOG_WARN,
                      "%s: %s: its answers are wrong or errors until the server is restarted",
                      s->name, trouble);
    } else if (change != KT__FILE_SAME) {
        kt__slog_line(s->models->log, KT_LOG_WARN,
                      "%s: the file %s: the loaded one is served on, the next load takes what is "
                      "there then",
                      s->name, kept);
    }
}

/* The lock is held. */
static void check_files(kt__served *s) {
    const char *const paths[] = {s->found[0], s->found[1]};
    for (int i = 0; i < 2 && s->engine; i++) {
        kt__file_change change = kt__file_changed(paths[i], &s->stamps[i]);
        if (change != s->changes[i]) tell_change(s, change);
        s->changes[i] = change;
    }
}

/* ---- figures ---- */

static void add_counts(kt_engine_stats *to, const kt_engine_stats *from) {
#define ADD(member) to->member += from->member
    ADD(n_submitted);
    ADD(n_refused_busy);
    ADD(n_refused_deadline);
    ADD(n_refused_other);
    for (int i = 0; i < KT_FINISH_COUNT; i++) ADD(n_finished[i]);
    ADD(n_preempted);
    ADD(prompt_tokens);
    ADD(cached_tokens);
    ADD(queried_tokens);
    ADD(disk_tokens);
    ADD(prefill_tokens);
    ADD(generated_tokens);
    ADD(recomputed_tokens);
    ADD(drafted_tokens);
    ADD(accepted_tokens);
    ADD(n_prefill_batches);
    ADD(n_decode_batches);
    ADD(prefill_us);
    ADD(decode_us);
    ADD(sample_us);
    ADD(n_evicted_blocks);
    for (int i = 0; i < KT_ACTION_COUNT; i++) ADD(n_actions[i]);
#undef ADD
}

void kt__served_get_stats(kt__served *s, kt_engine_stats *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&s->lock);
    if (s->engine) kt_engine_get_stats(s->engine, out);
    add_counts(out, &s->past);
    pthread_mutex_unlock(&s->lock);
}

void kt__served_get_info(kt__served *s, kt__served_info *out) {
    memset(out, 0, sizeof *out);
    out->name = s->name;
    pthread_mutex_lock(&s->lock);
    out->users = s->users;
    if (s->engine) {
        out->loaded = true;
        out->loaded_s = s->loaded_s;
        out->plan = s->plan;
        out->targets = s->models->params;
        out->trouble = trouble_of(s->changes[0]);
        if (!out->trouble) out->trouble = trouble_of(s->changes[1]);
        snprintf(out->tuned, sizeof out->tuned, "%s", s->tuned);
        kt_model_get_info(s->model, &out->model);
        kt_model_get_hash(s->model, &out->hash);
        kt_engine_get_info(s->engine, &out->engine);
        snprintf(out->arch, sizeof out->arch, "%s", out->model.arch);
        snprintf(out->quant, sizeof out->quant, "%s", out->model.quant);
        snprintf(out->general_name, sizeof out->general_name, "%s", out->model.name);
        out->model.path = out->model.name = out->model.arch = out->model.quant = NULL;
        out->model.tokenizer = out->model.template_ = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- unloading ---- */

/* The lock is held, and let go meanwhile. */
static void unload_model(kt__served *s, int64_t drain_ms) {
    kt_engine *engine = s->engine;
    kt_engine_stats stats;
    kt_engine_get_stats(engine, &stats);
    add_counts(&s->past, &stats);
    s->busy = true;
    s->engine = NULL;
    s->loaded_s = 0;
    pthread_mutex_unlock(&s->lock);
    kt_engine_stop(engine, drain_ms);
    close_engine(s, s->model, engine);
    kt__slog_line(s->models->log, KT_LOG_INFO, "model %s unloaded", s->name);
    pthread_mutex_lock(&s->lock);
    s->model = NULL;
    s->busy = false;
    pthread_cond_broadcast(&s->changed);
}

void kt__models_tick(kt__models *m, int64_t idle_s) {
    bool done = false;
    for (size_t i = 0; i < m->n && !done; i++) {
        kt__served *s = &m->list[i];
        pthread_mutex_lock(&s->lock);
        bool idle = kt__now_us() - s->used_us > idle_s * 1000000;
        check_files(s);
        if (idle_s > 0 && s->engine && !s->users && !s->busy && idle) {
            unload_model(s, 0);
            done = true;
        }
        pthread_mutex_unlock(&s->lock);
    }
}

void kt__models_drain(kt__models *m, int64_t drain_ms) {
    int64_t until_us = kt__now_us() + drain_ms * 1000;
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        pthread_mutex_lock(&s->lock);
        kt_engine *engine = s->engine;
        pthread_mutex_unlock(&s->lock);
        int64_t left_ms = (until_us - kt__now_us()) / 1000;
        if (engine) kt_engine_stop(engine, left_ms > 0 ? left_ms : 0);
    }
}

void kt__models_free(kt__models *m) {
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        close_engine(s, s->model, s->engine);
        kt__free(s->found[0]);
        kt__free(s->found[1]);
        kt__adapter_table_free(s->adapters);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
    }
    kt_ctx_close(m->ctx);
    kt__free(m);
}
