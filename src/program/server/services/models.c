#include "services/models.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/thread.h"
#include "services/asked_name.h"
#include "services/stats_sum.h"
#include "setup/made.h"
#include "setup/model_file.h"
#include "setup/place.h"
#include "setup/serve_opts.h"
#include "setup/tuned.h"

enum {
    MAX_PLACES = 64,
    MAX_ADDED = 256,      /* models besides those that are configured */
    ROOM_WAIT_MS = 30000, /* for answers of other models to end */
    ROOM_RETRY_MS = 5000
};

struct kt__served {
    kt__models *models;
    const kt__config *config; /* the settings as they hold for it */
    const char *name, *path;  /* path NULL: the demo model */
    const char *draft_path;   /* or NULL */
    const char *load_in;      /* or NULL */
    char *found[2];           /* the files that these are, as of the last load */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy; /* being loaded or unloaded, without the lock */
    kt__place places[MAX_PLACES];
    int n_places;     /* 0: not loaded */
    bool own_ctx;     /* of each place, as of the last load */
    bool fits_not;    /* not even where nothing else was loaded */
    kt_mem_plan plan; /* of all places together */
    kt__learner_table *learners;
    kt__file_stamp stamps[2];   /* of path and draft_path as they were loaded */
    kt__file_change changes[2]; /* that were told */
    int64_t used_us, loaded_s;
    int64_t step_us;      /* of one answer, for the web page; 0: not measured */
    kt_engine_stats past; /* of engines that were closed */
    char *added;          /* the name, where it is no text of the configuration's */
    kt__made made;        /* of a created model: config is its own */
    bool gone;            /* it was deleted, and is meant by no name any more; under the lock */
};

struct kt__models {
    kt_ctx *ctx;
    kt__slog *log;
    const kt__config *config;
    pthread_mutex_t room_lock; /* after a model's own */
    pthread_cond_t room;       /* something ended that may have held memory */
    uint64_t n_ended;
    bool waiting, stopping; /* one waits for room; none is to wait any longer */
    pthread_mutex_t add_lock;
    atomic_bool named_otherwise; /* a request had another name for the only model: said once */
    atomic_size_t n;             /* those below it stay as they are */
    size_t cap;
    kt__served list[];
};

/* ---- life ---- */

/* What tune found may be more threads than are chosen by default; those that no model uses sleep.
 */
static int threads_max(const kt__config *c) {
    bool tuned = c->use_tuned && !c->threads && !c->threads_batch;
    int64_t n = tuned ? kt__system_processors() : c->threads_batch;
    return n > 256 ? 256 : n > 0 ? (int)n : 0; /* 256: a pool's most */
}

static kt_status open_shared_ctx(kt__models *m, const kt__config *config, kt_error *err) {
    kt_ctx_params params = kt_ctx_params_default();
    params.isa = config->isa;
    params.cpus = config->cpus;
    params.priority = (int)config->priority;
    params.n_threads = (int)config->threads;
    params.n_threads_max = threads_max(config);
    params.mem_bytes = config->mem;
    params.log = kt__slog_library;
    params.log_user = m->log;
    params.log_level = KT_LOG_INFO;
    KT__STEP(kt_ctx_open(&params, &m->ctx, err));
    KT__STEP(kt__place_join(config, m->ctx, err));
    return kt_ctx_n_ranks(m->ctx) > 1 ? kt__several_check(config, err) : KT_OK;
}

/* made is taken over; what was there before is freed. */
static void set_made(kt__served *s, kt__made *made, const kt__config *base) {
    kt__made_close(&s->made);
    s->made = *made;
    s->config = made->config ? made->config : base;
    *made = (kt__made){0};
}

/* Takes `added` over, also on failure. */
static kt_status append_model(kt__models *m, const kt__model_config *from, char *added,
                              kt_error *err) {
    kt__served *s = &m->list[m->n];
    kt__made made;
    kt_status status = kt__made_open(from->own, from->name, from->path, &made, err);
    if (status == KT_OK) status = kt__learner_table_create(&s->learners, err);
    if (status != KT_OK) {
        kt__made_close(&made);
        kt__free(added);
        return status;
    }
    s->models = m;
    set_made(s, &made, from->own);
    s->name = from->name;
    s->path = from->path;
    s->draft_path = from->draft_path;
    s->load_in = from->load_in;
    s->added = added;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    m->n++; /* from here on others see it */
    return KT_OK;
}

kt_status kt__models_create(const kt__config *config, kt__slog *log, kt__models **out,
                            kt_error *err) {
    *out = NULL;
    size_t cap = config->n_models + (config->pull || config->create ? MAX_ADDED : 0);
    kt__models *m = kt__calloc(1, sizeof *m + cap * sizeof m->list[0]);
    if (!m) return kt__fail_nomem(err, "the list of models", 0);
    m->cap = cap;
    m->log = log;
    m->config = config;
    pthread_mutex_init(&m->room_lock, NULL);
    pthread_mutex_init(&m->add_lock, NULL);
    (void)kt__cond_init(&m->room);
    kt_status status = open_shared_ctx(m, config, err);
    if (status != KT_OK) {
        kt__models_free(m);
        return status;
    }
    for (size_t i = 0; i < config->n_models && status == KT_OK; i++)
        status = append_model(m, &config->models[i], NULL, err);
    if (status != KT_OK) {
        kt__models_free(m);
        return status;
    }
    *out = m;
    return KT_OK;
}

static kt__served *find_there(kt__models *m, const char *name) {
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        if (!strcmp(s->name, name) || (s->path && !strcmp(s->path, name))) return s;
    }
    return NULL;
}

bool kt__served_is_gone(kt__served *s) {
    pthread_mutex_lock(&s->lock);
    bool gone = s->gone;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

const char *kt__served_path(const kt__served *s) {
    return s->path;
}

bool kt__served_is_added(const kt__served *s) {
    return s->added != NULL;
}

static char *copy_of(kt__served *s, char *const *text) {
    pthread_mutex_lock(&s->lock);
    char *copy = *text ? kt__strdup(*text) : NULL;
    pthread_mutex_unlock(&s->lock);
    return copy;
}

char *kt__served_words(kt__served *s) {
    return copy_of(s, &s->made.words);
}

char *kt__served_modelfile(kt__served *s) {
    return copy_of(s, &s->made.text);
}

const kt__config *kt__served_made(const kt__served *s) {
    return s->made.config;
}

bool kt__served_request(kt__served *s, kt_request_params *out) {
    pthread_mutex_lock(&s->lock);
    bool made = s->made.config != NULL;
    if (made) *out = kt__config_request(s->made.config);
    pthread_mutex_unlock(&s->lock);
    return made;
}

kt_ctx *kt__models_ctx(const kt__models *models) {
    return models->ctx;
}

size_t kt__models_count(const kt__models *models) {
    return models->n;
}

size_t kt__models_cap(const kt__models *models) {
    return models->cap;
}

kt__served *kt__models_at(kt__models *models, size_t index) {
    return &models->list[index];
}

const char *kt__served_name(const kt__served *served) {
    return served->name;
}

static kt__served *find_named(kt__models *m, const char *name) {
    for (size_t i = 0; i < m->n; i++) {
        if (!strcmp(m->list[i].name, name) && !kt__served_is_gone(&m->list[i])) return &m->list[i];
    }
    return NULL;
}

/* "qwen2.5:1b" lies in the folder of models as "qwen2.5/1b". */
static kt__served *find_with_tag(kt__models *m, const char *name) {
    char path[256];
    const char *colon = strrchr(name, ':');
    if (!colon || strlen(name) >= sizeof path) return NULL;
    snprintf(path, sizeof path, "%.*s/%s", (int)(colon - name), name, colon + 1);
    return find_named(m, path);
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

/* By the file's base name or its repository; NULL: none, or several. */
static kt__served *find_by_file(kt__models *m, const char *name) {
    kt__served *found = NULL;
    for (size_t i = 0; i < m->n; i++) {
        if (!kt__asked_name_fits(name, m->list[i].path) || kt__served_is_gone(&m->list[i]))
            continue;
        if (found) return NULL;
        found = &m->list[i];
    }
    return found;
}

/* The one model whose name begins so; NULL: none, or several. */
static kt__served *find_by_prefix(kt__models *m, const char *name) {
    kt__served *found = NULL;
    size_t len = strlen(name);
    for (size_t i = 0; i < m->n; i++) {
        if (strncmp(m->list[i].name, name, len) != 0 || kt__served_is_gone(&m->list[i])) continue;
        if (found) return NULL;
        found = &m->list[i];
    }
    return found;
}

/* The only model answers to any name: programs have names of other services' models in them. */
static kt__served *find_only(kt__models *m, const char *name) {
    if (m->n != 1) return NULL;
    if (!atomic_exchange(&m->named_otherwise, true))
        kt__slog_line(m->log, KT_LOG_INFO,
                      "a request names the model \"%.80s\"; %s answers it, as the only one "
                      "(strict_names = true refuses such names)",
                      name, m->list[0].name);
    return &m->list[0];
}

kt_status kt__models_find_for(kt__models *m, const char *name, kt__served **out, kt_error *err) {
    if (m->config->strict_names || kt__models_find(m, name, out, err) == KT_OK)
        return kt__models_find(m, name, out, err);
    *out = find_by_prefix(m, name);
    if (!*out) *out = find_only(m, name);
    return *out ? KT_OK : err->code;
}

kt_status kt__models_find(kt__models *m, const char *name, kt__served **out, kt_error *err) {
    char names[256] = "";
    size_t len = 0;
    *out = &m->list[0];
    if (!name || !*name) return KT_OK;
    *out = find_named(m, name);
    if (!*out) *out = find_with_tag(m, name);
    if (!*out) *out = find_alias(m, name);
    if (!*out) *out = find_by_file(m, name);
    if (*out) return KT_OK;
    for (size_t i = 0; i < m->n && len < sizeof names; i++) {
        if (kt__served_is_gone(&m->list[i])) continue;
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

kt_status kt__served_file(const kt__served *s, char **path, kt_error *err) {
    const kt__config *config = s->models->config;
    *path = NULL;
    if (!s->path) return KT_OK;
    if (config->find_model) return config->find_model(config, s->path, NULL, false, path, err);
    *path = kt__strdup(s->path);
    return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(s->path));
}

bool kt__served_has_mmproj(const kt__served *s, const char *path) {
    const char *given = s->config->mmproj;
    char found[4096];
    if (given && *given) return path && strcmp(given, "off") != 0;
    return path && kt__mmproj_find(path, found, sizeof found);
}

static void look_for_eye(void *user, const kt_model *model) {
    kt_model_info info;
    kt_model_get_info(model, &info);
    *(bool *)user = info.vision != NULL;
}

bool kt__served_sees(kt__served *s) {
    bool sees = false;
    char *path = NULL;
    kt_error ignored;
    if (kt__served_look(s, look_for_eye, &sees)) return sees;
    if (kt__served_file(s, &path, &ignored) == KT_OK) sees = kt__served_has_mmproj(s, path);
    kt__free(path);
    return sees;
}

/* Before it is read: what changes from then on is seen. Of what is in memory nothing matters. */
static kt_status find_and_stamp(kt__served *s, int which, kt_error *err) {
    kt_status status = find_file(s, which, err);
    s->stamps[which] = kt__file_stamp_of(s->config->use_mmap ? s->found[which] : NULL);
    s->changes[which] = KT__FILE_SAME;
    return status;
}

static kt__place_asked asked_of(const kt__served *s, int index, int n) {
    return (kt__place_asked){.config = s->config,
                             .name = s->name,
                             .path = s->found[0],
                             .draft_path = s->found[1],
                             .shared = s->models->ctx,
                             .log = kt__slog_library,
                             .log_user = s->models->log,
                             .log_level = KT_LOG_INFO,
                             .index = index,
                             .n = n};
}

/* As many as are set, or as tune found. Those that there are no cores for are refused by the first. */
static kt_status count_places(kt__served *s, int *n, kt_error *err) {
    kt__place_asked asked = asked_of(s, 0, 1);
    kt_status status = KT_OK;
    *n = kt_ctx_n_ranks(s->models->ctx) > 1 ? 1 : (int)s->config->contexts;
    if (!*n) status = kt__place_tuned_contexts(&asked, n, err);
    if (*n < 1) *n = 1;
    if (*n > MAX_PLACES) *n = MAX_PLACES;
    return status;
}

static void add_plan(kt_mem_plan *to, const kt_mem_plan *from, bool first) {
    if (first) *to = *from;
    if (first) return;
    to->kv_bytes += from->kv_bytes;
    to->scratch_bytes += from->scratch_bytes;
    to->draft_bytes += from->draft_bytes;
    to->kv_f16_bytes += from->kv_f16_bytes;
    to->state_bytes += from->state_bytes;
    to->kv_draft_bytes += from->kv_draft_bytes;
    to->expert_kept_bytes += from->expert_kept_bytes;
    to->tables_bytes += from->tables_bytes;
    to->total_bytes += from->total_bytes;
    to->kv_positions += from->kv_positions;
}

static void close_places(kt__served *s, int n) {
    kt__learner_table_clear(s->learners); /* before their engine */
    for (int i = 0; i < n; i++) kt__place_close(&s->places[i]);
}

static kt_status open_places(kt__served *s, int *n, kt_error *err) {
    kt_status status;
    int n_open = 0;
    *n = 0;
    KT__TRY(find_and_stamp(s, 0, err));
    if (s->draft_path) KT__TRY(find_and_stamp(s, 1, err));
    KT__TRY(count_places(s, n, err));
    bool own = kt__place_is_own(s->config, s->models->config, *n);
    s->own_ctx = own;
    for (; n_open < *n; n_open++) {
        kt__place_asked asked = asked_of(s, n_open, *n);
        KT__TRY(kt__place_open(&asked, own, &s->places[n_open], err));
        add_plan(&s->plan, &s->places[n_open].plan, n_open == 0);
    }
out:
    if (status != KT_OK) close_places(s, n_open);
    return status;
}

static void tell_loaded(const kt__served *s, const kt__place *p, int64_t ms) {
    kt_ctx *ctx = kt__place_ctx(p, s->models->ctx);
    kt_engine_info info;
    kt_model_info of;
    kt_engine_get_info(p->engine, &info);
    kt_model_get_info(p->model, &of);
    const char *why = p->why[0] ? p->why : p->tuned[0] ? "tuned" : kt_ctx_n_threads_why(ctx);
    const kt__slog_field fields[] = {{"model", s->name, 0},
                                     {"ms", NULL, (double)ms},
                                     {"arch", of.arch, 0},
                                     {"quant", of.quant, 0},
                                     {"isa", kt_ctx_isa(ctx), 0},
                                     {"threads", NULL, (double)info.n_threads},
                                     {"threads_batch", NULL, (double)info.n_threads_batch},
                                     {"why", why, 0},
                                     {"context", NULL, (double)info.n_ctx},
                                     {"batch", NULL, (double)info.n_batch},
                                     {"ubatch", NULL, (double)info.n_ubatch},
                                     {"parallel", NULL, (double)info.n_parallel},
                                     {"draft_model", s->draft_path ? s->draft_path : "none", 0}};
    kt__slog_write(s->models->log, KT_LOG_INFO, "model loaded", fields,
                   sizeof fields / sizeof fields[0]);
}

static uint64_t beside_weights(const kt_mem_plan *p) {
    return p->kv_bytes + p->kv_f16_bytes + p->state_bytes + p->scratch_bytes + p->draft_bytes;
}

/* The same figures as /props and /metrics have. */
static void tell_plan(kt__served *s) {
    const kt_mem_plan *p = &s->plan;
    const kt__slog_field fields[] = {{"model", s->name, 0},
                                     {"weights", NULL, (double)p->weights_bytes},
                                     {"kv", NULL, (double)p->kv_bytes},
                                     {"kv_f16", NULL, (double)p->kv_f16_bytes},
                                     {"states", NULL, (double)p->state_bytes},
                                     {"kv_keys", kt_kv_type_name(p->kv_keys), 0},
                                     {"kv_values", kt_kv_type_name(p->kv_values), 0},
                                     {"kv_tail", NULL, (double)p->kv_tail},
                                     {"kv_f16_layers", NULL, (double)p->n_f16_layers},
                                     {"scratch", NULL, (double)p->scratch_bytes},
                                     {"tables", NULL, (double)p->tables_bytes},
                                     {"draft", NULL, (double)p->draft_bytes},
                                     {"total", NULL, (double)p->total_bytes},
                                     {"others", NULL, (double)p->others_bytes},
                                     {"budget", NULL, (double)p->budget_bytes},
                                     {"experts_kept", NULL, (double)p->expert_kept_bytes},
                                     {"experts", NULL, (double)p->expert_bytes},
                                     {"weights_counted", p->weights_counted ? "yes" : "no", 0},
                                     {"kv_positions", NULL, (double)p->kv_positions}};
    kt__slog_write(s->models->log, KT_LOG_INFO, "memory plan, bytes", fields,
                   sizeof fields / sizeof fields[0]);
    if (s->places[0].kv_why[0])
        kt__slog_line(s->models->log, KT_LOG_WARN, "%s: %s", s->name, s->places[0].kv_why);
    if (kt__plan_exceeds_memory(p))
        kt__slog_line(s->models->log, KT_LOG_WARN,
                      "%s: %.0f MB of mapped weights and %.0f MB besides, but memory for %.0f "
                      "MB: weights will be read from disk again and again; take a smaller model or "
                      "quantisation, less kv, or raise the limit (memory.max)",
                      s->name, (double)p->weights_bytes / 1e6, (double)beside_weights(p) / 1e6,
                      (double)p->budget_bytes / 1e6);
}

bool kt__plan_exceeds_memory(const kt_mem_plan *p) {
    return !p->weights_counted && p->budget_bytes &&
           p->weights_bytes + beside_weights(p) > p->budget_bytes;
}

/* What the page promises until there was an answer. A few steps, once, before there are any. */
static int64_t measure_step(const kt__served *s) {
    kt_error ignored;
    kt_engine_info engine;
    int64_t us;
    if (!s->config->web || !s->config->listen) return 0;
    kt_engine_get_info(s->places[0].engine, &engine);
    kt_status status = kt__step_threads_time(s->places[0].model, engine.n_threads, &us, &ignored);
    return status == KT_OK ? us : 0;
}

/* The lock is held, and let go meanwhile. */
static kt_status load_model(kt__served *s, kt_error *err) {
    int64_t begin_us = kt__now_us();
    int n;
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    kt_status status = open_places(s, &n, err);
    if (status == KT_OK) {
        int64_t ms = (kt__now_us() - begin_us) / 1000;
        if (!s->step_us) s->step_us = measure_step(s);
        for (int i = 0; i < n; i++) tell_loaded(s, &s->places[i], ms);
        tell_plan(s);
    }
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    if (status == KT_OK) {
        s->n_places = n;
        s->fits_not = false;
        s->loaded_s = (int64_t)time(NULL);
        s->used_us = kt__now_us();
    }
    pthread_cond_broadcast(&s->changed);
    return status;
}

/* ---- counts ---- */

/* The lock is held. */
static void get_live_stats(const kt__served *s, kt_engine_stats *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < s->n_places; i++) {
        kt_engine_stats one;
        kt_engine_get_stats(s->places[i].engine, i ? &one : out);
        if (!i) continue;
        kt__stats_add_counts(out, &one);
        kt__stats_add_state(out, &one);
    }
}

/* ---- unloading ---- */

/* All at once take no more, each for as long as is left. */
static void stop_engines(kt_engine *const *engines, int n, int64_t drain_ms) {
    int64_t until_us = kt__now_us() + drain_ms * 1000;
    for (int i = 0; i < n; i++) {
        int64_t left_ms = (until_us - kt__now_us()) / 1000;
        kt_engine_stop(engines[i], left_ms > 0 ? left_ms : 0);
    }
}

/* The lock is held; returns how many. */
static int engines_of(const kt__served *s, kt_engine *engines[MAX_PLACES]) {
    for (int i = 0; i < s->n_places; i++) engines[i] = s->places[i].engine;
    return s->n_places;
}

/* The lock is held, and let go meanwhile. */
static void unload_model(kt__served *s, int64_t drain_ms, const char *why) {
    kt_engine *engines[MAX_PLACES];
    kt_engine_stats stats;
    int n = engines_of(s, engines);
    get_live_stats(s, &stats);
    kt__stats_add_counts(&s->past, &stats);
    s->busy = true;
    s->n_places = 0;
    s->loaded_s = 0;
    pthread_mutex_unlock(&s->lock);
    stop_engines(engines, n, drain_ms);
    close_places(s, n);
    kt__slog_line(s->models->log, KT_LOG_INFO, "model %s unloaded%s", s->name, why);
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    pthread_cond_broadcast(&s->changed);
}

static int32_t users_of(const kt__served *s) {
    int32_t n = 0;
    for (int i = 0; i < s->n_places; i++) n += s->places[i].users;
    return n;
}

/* ---- room for another one ---- */

static void tell_ended(kt__models *m) {
    pthread_mutex_lock(&m->room_lock);
    m->n_ended++;
    pthread_cond_broadcast(&m->room);
    pthread_mutex_unlock(&m->room_lock);
}

/* The one of the others, loaded in the shared context without a request, that was used longest ago.
 * *any: there is another one, in use or on its way. */
static kt__served *longest_idle(kt__models *m, const kt__served *but, bool *any) {
    kt__served *found = NULL;
    int64_t found_us = 0;
    *any = false;
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        if (s == but) continue;
        pthread_mutex_lock(&s->lock);
        bool there = (s->n_places || s->busy) && !s->own_ctx;
        if (there) *any = true;
        if (there && !s->busy && !users_of(s) && (!found || s->used_us < found_us)) {
            found = s;
            found_us = s->used_us;
        }
        pthread_mutex_unlock(&s->lock);
    }
    return found;
}

bool kt__served_unload(kt__served *s, const char *why) {
    pthread_mutex_lock(&s->lock);
    bool free_now = !s->busy && !users_of(s);
    if (free_now && s->n_places) unload_model(s, 0, why);
    pthread_mutex_unlock(&s->lock);
    return free_now;
}

/* Until something ended after *seen; one at a time, since a waiting one keeps a worker from answers
 * that are to end. */
static bool wait_for_end(kt__models *m, uint64_t seen, int64_t until_us) {
    bool ended = false;
    struct timespec until = kt__time_in_ms((until_us - kt__now_us()) / 1000);
    pthread_mutex_lock(&m->room_lock);
    if (!m->waiting) {
        m->waiting = true;
        while (m->n_ended == seen && !m->stopping && kt__now_us() < until_us)
            (void)pthread_cond_timedwait(&m->room, &m->room_lock, &until);
        ended = m->n_ended != seen && !m->stopping;
        m->waiting = false;
    }
    pthread_mutex_unlock(&m->room_lock);
    return ended;
}

static kt_status fail_room(const kt__served *s, kt_error *err) {
    kt_status status = kt__fail(
        err, KT_E_BUSY, "there is no memory for the model \"%.80s\" while others answer", s->name);
    err->retry_ms = ROOM_RETRY_MS;
    return status;
}

/* Unloads one that is idle, or waits for one to become so. KT_OK: it is worth trying again. No lock
 * is held. */
static kt_status make_room(kt__served *s, int64_t until_us, kt_error *err) {
    kt__models *m = s->models;
    bool any;
    char why[160];
    pthread_mutex_lock(&m->room_lock);
    uint64_t seen = m->n_ended;
    pthread_mutex_unlock(&m->room_lock);
    kt__served *idle = longest_idle(m, s, &any);
    snprintf(why, sizeof why, ": its memory is needed for %.100s", s->name);
    if (idle) {
        (void)kt__served_unload(idle, why); /* false: somebody was faster, and it is in use again */
        return KT_OK;
    }
    if (!any) return KT_E_NOMEM; /* as err has it */
    return wait_for_end(m, seen, until_us) ? KT_OK : fail_room(s, err);
}

/* Others that are idle make room; what did not fit alone is tried without that. The lock is held,
 * and let go meanwhile. */
static kt_status load_with_room(kt__served *s, kt_error *err) {
    int64_t until_us = kt__now_us() + ROOM_WAIT_MS * 1000;
    kt_status status = load_model(s, err);
    while (status == KT_E_NOMEM && !s->own_ctx && !s->fits_not) {
        pthread_mutex_unlock(&s->lock);
        kt_status room = make_room(s, until_us, err);
        pthread_mutex_lock(&s->lock);
        if (room == KT_E_NOMEM) s->fits_not = true;
        if (room != KT_OK) {
            status = room;
            break;
        }
        while (s->busy) pthread_cond_wait(&s->changed, &s->lock);
        status = s->n_places ? KT_OK : load_model(s, err);
    }
    if (status != KT_OK)
        kt__slog_line(s->models->log, KT_LOG_ERROR, "cannot load %s: %s", s->name, err->message);
    return status;
}

void kt__models_stop_waiting(kt__models *m) {
    pthread_mutex_lock(&m->room_lock);
    m->stopping = true;
    pthread_cond_broadcast(&m->room);
    pthread_mutex_unlock(&m->room_lock);
}

/* ---- models that come and go ---- */

/* What the folder has under the name of an added model now. */
static kt_status renew_model(kt__served *s, kt_error *err) {
    const kt__config *base = s->models->config;
    kt__made made;
    kt_status status = kt__made_open(base, s->name, s->path, &made, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&s->lock);
    if (s->busy || users_of(s)) {
        status = kt__fail(err, KT_E_BUSY, "the model \"%.80s\" answers or is being loaded",
                          s->name);
    } else {
        if (s->n_places) unload_model(s, 0, ": it was created anew");
        set_made(s, &made, base);
        s->gone = false;
    }
    pthread_mutex_unlock(&s->lock);
    kt__made_close(&made);
    return status;
}

kt_status kt__models_add(kt__models *m, const char *name, kt_error *err) {
    kt_status status = KT_OK;
    pthread_mutex_lock(&m->add_lock);
    kt__served *there = find_there(m, name);
    if (there && there->added && (there->made.config || kt__served_is_gone(there)))
        status = renew_model(there, err);
    else if (!there && m->n == m->cap)
        status = kt__fail(err, KT_E_LIMIT, "%zu models are served, and no more can be", m->cap);
    if (!there && status == KT_OK) {
        char *own = kt__strdup(name);
        const kt__model_config from = {.name = own, .path = own, .own = m->config};
        status = own ? append_model(m, &from, own, err)
                     : kt__fail_nomem(err, "a model's name", strlen(name));
    }
    pthread_mutex_unlock(&m->add_lock);
    return status;
}

void kt__served_forget(kt__served *s) {
    pthread_mutex_lock(&s->lock);
    s->gone = true;
    if (s->n_places && !s->busy && !users_of(s)) unload_model(s, 0, ": it was deleted");
    pthread_mutex_unlock(&s->lock);
}

/* ---- use ---- */

/* The place with the fewest requests; among such, who comes again finds what was kept of its prompts.
 */
static kt__place *choose_place(kt__served *s, const char *who) {
    size_t first = who ? (size_t)kt__hash_bytes(1, who, strlen(who)).w[0] % (size_t)s->n_places : 0;
    kt__place *best = &s->places[first];
    for (int i = 0; i < s->n_places; i++) {
        if (s->places[i].users < best->users) best = &s->places[i];
    }
    return best;
}

kt_status kt__served_use(kt__served *s, const char *who, kt_model **model, kt_engine **engine,
                         kt_error *err) {
    kt_error ignored;
    kt_status status = KT_OK;
    if (!err) err = &ignored;
    pthread_mutex_lock(&s->lock);
    while (s->busy) pthread_cond_wait(&s->changed, &s->lock);
    if (!s->n_places) status = load_with_room(s, err);
    if (status == KT_OK) {
        kt__place *p = choose_place(s, who);
        p->users++;
        *model = p->model;
        *engine = p->engine;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Of a place that somebody uses, and that stays therefore. */
static kt__place *place_of(kt__served *s, const kt_engine *engine) {
    kt__place *found = &s->places[0];
    for (int i = 1; i < s->n_places; i++) {
        if (s->places[i].engine == engine) found = &s->places[i];
    }
    return found;
}

void kt__served_done(kt__served *s, const kt_engine *engine) {
    pthread_mutex_lock(&s->lock);
    place_of(s, engine)->users--;
    s->used_us = kt__now_us();
    pthread_mutex_unlock(&s->lock);
    tell_ended(s->models);
}

/* ---- adapters ---- */

kt_status kt__served_adapters(kt__served *s, const kt_engine *engine, const kt__config *config,
                              const kt__adapter_named *named, size_t n, kt_adapter_use *uses,
                              kt_error *err) {
    pthread_mutex_lock(&s->lock);
    kt__place *p = place_of(s, engine);
    pthread_mutex_unlock(&s->lock);
    return kt__adapter_table_get(p->adapters, config, s->name, p->model, named, n, uses, err);
}

/* ---- learners ---- */

/* They compute with the first place; what they serve is of the file, and holds in every place. */
kt_status kt__served_learner(kt__served *s, const kt__config *config, const char *name, bool make,
                             kt_learner **out, kt_error *err) {
    return kt__learner_table_get(s->learners, config, s->name, s->places[0].engine, name, make, out,
                                 err);
}

void kt__served_learner_done(kt__served *s, const kt_learner *learner) {
    kt__learner_table_done(s->learners, learner);
}

kt__learner_table *kt__served_learners(kt__served *s) {
    return s->learners;
}

bool kt__served_adapter_info(kt__served *s, const char *name, kt_adapter_info *out) {
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_places && !found; i++)
        found = kt__adapter_table_info(s->places[i].adapters, name, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

void kt__models_renew_adapters(kt__models *m, const kt__config *config) {
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        pthread_mutex_lock(&s->lock);
        for (int k = 0; k < s->n_places; k++)
            kt__adapter_table_renew(s->places[k].adapters, config, s->name);
        pthread_mutex_unlock(&s->lock);
    }
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
    for (int i = 0; i < 2 && s->n_places; i++) {
        kt__file_change change = kt__file_changed(paths[i], &s->stamps[i]);
        if (change != s->changes[i]) tell_change(s, change);
        s->changes[i] = change;
    }
}

/* ---- figures ---- */

void kt__served_get_stats(kt__served *s, kt_engine_stats *out) {
    pthread_mutex_lock(&s->lock);
    get_live_stats(s, out);
    kt__stats_add_counts(out, &s->past);
    pthread_mutex_unlock(&s->lock);
}

/* The lock is held; it is loaded. */
static void get_loaded_info(const kt__served *s, kt__served_info *out) {
    const kt__place *p = &s->places[0];
    out->loaded = true;
    out->contexts = s->n_places;
    out->loaded_s = s->loaded_s;
    out->step_us = s->step_us;
    out->plan = s->plan;
    out->trouble = trouble_of(s->changes[0]);
    if (!out->trouble) out->trouble = trouble_of(s->changes[1]);
    snprintf(out->tuned, sizeof out->tuned, "%s", p->tuned);
    kt_model_get_info(p->model, &out->model);
    kt_model_get_hash(p->model, &out->hash);
    kt_engine_get_info(p->engine, &out->engine);
    snprintf(out->arch, sizeof out->arch, "%s", out->model.arch);
    snprintf(out->quant, sizeof out->quant, "%s", out->model.quant);
    snprintf(out->general_name, sizeof out->general_name, "%s", out->model.name);
    out->model.path = out->model.name = out->model.arch = out->model.quant = NULL;
    out->model.tokenizer = out->model.template_ = NULL;
}

void kt__served_get_info(kt__served *s, kt__served_info *out) {
    memset(out, 0, sizeof *out);
    out->name = s->name;
    pthread_mutex_lock(&s->lock);
    out->targets = kt__place_engine_params(s->config);
    out->gone = s->gone;
    out->users = users_of(s);
    if (s->n_places) get_loaded_info(s, out);
    pthread_mutex_unlock(&s->lock);
}

bool kt__served_look(kt__served *s, kt__look_fn *look, void *user) {
    pthread_mutex_lock(&s->lock);
    bool loaded = s->n_places > 0;
    if (loaded) look(user, s->places[0].model);
    pthread_mutex_unlock(&s->lock);
    return loaded;
}

/* ---- by the clock, and at the end ---- */

void kt__models_tick(kt__models *m, int64_t idle_s) {
    bool done = false;
    for (size_t i = 0; i < m->n && !done; i++) {
        kt__served *s = &m->list[i];
        pthread_mutex_lock(&s->lock);
        bool idle = s->gone || (idle_s > 0 && kt__now_us() - s->used_us > idle_s * 1000000);
        check_files(s);
        if (s->n_places && !users_of(s) && !s->busy && idle) {
            unload_model(s, 0, "");
            done = true;
        }
        pthread_mutex_unlock(&s->lock);
    }
}

void kt__models_drain(kt__models *m, int64_t drain_ms) {
    int64_t until_us = kt__now_us() + drain_ms * 1000;
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        kt_engine *engines[MAX_PLACES];
        pthread_mutex_lock(&s->lock);
        int n = engines_of(s, engines);
        pthread_mutex_unlock(&s->lock);
        stop_engines(engines, n, (until_us - kt__now_us()) / 1000);
    }
}

void kt__models_free(kt__models *m) {
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) {
        kt__served *s = &m->list[i];
        close_places(s, s->n_places);
        kt__free(s->found[0]);
        kt__free(s->found[1]);
        kt__learner_table_free(s->learners);
        set_made(s, &(kt__made){0}, NULL);
        kt__free(s->added);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
    }
    if (m->ctx) kt_ctx_close(m->ctx);
    pthread_cond_destroy(&m->room);
    pthread_mutex_destroy(&m->room_lock);
    pthread_mutex_destroy(&m->add_lock);
    kt__free(m);
}
