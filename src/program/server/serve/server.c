#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "dialects/batches.h"
#include "jobs/job.h"
#include "jobs/trainer.h"
#include "services/created.h"
#include "services/sd.h"
#include "setup/config_set.h"
#include "setup/serve_opts.h"
#include "transports/http.h"
#include "transports/http_listen.h"
#include "transports/http_peer.h"
#include "transports/unix.h"

enum {
    N_WORKERS = 2,
    USUAL_SLOTS = 16, /* as many as answers are computed at once where that is not said */
    TICKS_A_SECOND = 10,
    OWN_DESCRIPTORS = 384, /* models, learners, files, the loop */
    LEAST_CONNECTIONS = 16
};

/* ---- the clock ---- */

/* On a worker: looking at files and loading may take a while. */
static void look_after_models(kt__work_item *item) {
    kt__server *s = (kt__server *)(void *)((char *)item - offsetof(kt__server, models_item));
    kt__models_tick(s->shared.models, kt__shared_limits(&s->shared).idle_unload_s);
    atomic_store(&s->models_busy, false);
}

static void send_for_models(kt__server *s) {
    if (atomic_load(&s->shared.stopping) || atomic_exchange(&s->models_busy, true)) return;
    s->models_item.run = look_after_models;
    if (!kt__workers_add(s->shared.workers, &s->models_item)) atomic_store(&s->models_busy, false);
}

/* Answers whose reader has taken nothing for too long; prompts that wait for room in the queue;
 * streams that were silent. */
static void look_after_jobs(kt__server *s, const kt__limits *limits) {
    int64_t before_us = kt__now_us() - limits->stall_s * 1000000;
    kt__shared *shared = &s->shared;
    for (kt__job *job = kt__jobs_next(shared, NULL); job; job = kt__jobs_next(shared, job)) {
        pthread_mutex_lock(&job->lock);
        bool stuck = job->answer.paused && job->answer.moved_us < before_us &&
                     job->interest < KT__JOB_ABANDONED;
        pthread_mutex_unlock(&job->lock);
        if (stuck) {
            kt__slog_line(&s->shared.log, KT_LOG_WARN, "%s: its client reads nothing: let go",
                          job->id);
            kt__job_abandon(job);
        }
        kt__job_retry(job);
        kt__job_ping(job, limits->ping_s);
    }
}

/* Some times a second, for who watches a model come. */
static void look_after_followers(kt__shared *shared) {
    if (!shared->pulls) return;
    for (kt__job *job = kt__jobs_next(shared, NULL); job; job = kt__jobs_next(shared, job))
        kt__job_look(job);
}

/* What needs a descriptor then cannot say why it fails. */
static void look_after_descriptors(kt__server *s) {
    unsigned n_kept;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return;
    }
    if ((errno != EMFILE && errno != ENFILE) || !kt__slog_may(&s->descriptors, 60000000, &n_kept))
        return;
    kt__slog_line(&s->shared.log, KT_LOG_WARN,
                  "no file descriptor is left: %s: new connections wait, and files cannot be "
                  "opened; raise the limit (ulimit -n, LimitNOFILE) or lower limits.connections",
                  strerror(errno));
}

/* After that nothing can be computed any more, and every answer fails. */
static void look_after_ranks(kt__server *s) {
    kt_error err;
    if (s->lost || kt_ctx_check_ranks(kt__models_ctx(s->shared.models), &err) == KT_OK) return;
    s->lost = true;
    kt__slog_line(&s->shared.log, KT_LOG_ERROR, "%s: the server ends", err.message);
    kt__server_hurry(s);
    kt__shared_request_stop(&s->shared);
}

static void server_tick(void *user) {
    kt__server *s = user;
    look_after_ranks(s);
    kt__http_tick(s->http);
    kt__trainer_tick(s->shared.trainer);
    look_after_followers(&s->shared);
    if (++s->ticks % TICKS_A_SECOND != 0) return;
    const kt__limits limits = kt__shared_limits(&s->shared);
    kt__unix_tick(s->unix_socket);
    look_after_descriptors(s);
    look_after_jobs(s, &limits);
    send_for_models(s);
}

/* ---- starting ---- */

/* Those that answers get unless they say otherwise, of a model that is in use. */
static kt_status open_default_adapters(kt__shared *shared, const kt__config *config,
                                       kt__served *first, const kt_engine *engine, kt_error *err) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    kt_adapter_use uses[KT_ADAPTERS_MAX];
    size_t n = kt__adapters_default(config, named, names);
    kt_status status = kt__served_adapters(first, engine, config, named, n, uses, err);
    atomic_store(&shared->adapter_fails, status != KT_OK);
    for (size_t i = 0; status == KT_OK && i < n; i++) kt_adapter_close(uses[i].adapter);
    return status;
}

static kt_status use_first(kt__shared *shared, const kt__config *config, kt_error *err) {
    kt_model *model;
    kt_engine *engine;
    kt__served *first = kt__models_at(shared->models, 0);
    kt_status status = kt__served_use(first, NULL, &model, &engine, err);
    if (status != KT_OK) return status;
    status = open_default_adapters(shared, config, first, engine, err);
    kt__served_done(first, engine);
    return status;
}

static kt_status preload_first(kt__shared *shared, kt_error *err) {
    return shared->start->preload ? use_first(shared, shared->start, err) : KT_OK;
}

/* After a reload: what is loaded gets the adapters that hold now. */
static void renew_adapters(kt__shared *shared, const kt__config *config) {
    kt__served_info info;
    kt_error err;
    kt__models_renew_adapters(shared->models, config);
    kt__served_get_info(kt__models_at(shared->models, 0), &info);
    if (info.loaded && use_first(shared, config, &err) != KT_OK)
        kt__slog_line(&shared->log, KT_LOG_ERROR, "a default adapter cannot be loaded: %s",
                      err.message);
}

static kt_status check_file(const kt__config *config, const char *path, kt_error *err) {
    char *found = NULL;
    if (!path || access(path, R_OK) == 0) return KT_OK;
    if (config->find_model) {
        kt_status status = config->find_model(config, path, NULL, false, &found, err);
        kt__free(found);
        return status;
    }
    return kt__fail_system(err, errno, path, "cannot read the model %s", path);
}

kt_status kt__server_check(const kt__config *config, kt_error *err) {
    kt__keys *keys;
    kt_status status = kt__keys_read(config->keys, config->api_key, kt__keys_least(config->listen),
                                     &keys, err);
    if (status == KT_OK) kt__keys_free(keys);
    for (size_t i = 0; i < config->n_models && status == KT_OK; i++) {
        status = check_file(config, config->models[i].path, err);
        if (status == KT_OK) status = check_file(config, config->models[i].draft_path, err);
    }
    return status == KT_OK ? kt__http_check(config, err) : status;
}

static kt_status open_learning(kt__shared *shared, kt_error *err) {
    const kt__config *c = shared->start;
    kt_status status = kt__kept_answers_create(c->learn_keep, &shared->kept, err);
    if (status != KT_OK) return status;
    kt__metrics_show_learning(shared->metrics);
    return kt__trainer_create(shared, &shared->trainer, err);
}

static kt_status open_services(kt__server *s, kt_error *err) {
    kt__shared *shared = &s->shared;
    kt__config *c = shared->start;
    kt__keys *keys;
    KT__STEP(kt__keys_read(c->keys, c->api_key, kt__keys_least(c->listen), &keys, err));
    if (kt__keys_are_short(keys))
        kt__slog_line(
            &shared->log, KT_LOG_WARN,
            "an API key has fewer than %d characters: it can be guessed, so this server is "
            "for this machine alone",
            (int)KT__KEY_LEAST);
    KT__STEP(kt__shared_set_settings(shared, c, keys, err));
    if (c->pull || c->create) KT__STEP(kt__created_add_all(c, &shared->log, shared->models, err));
    if (c->pull) KT__STEP(kt__pulls_create(c, &shared->log, shared->models, &shared->pulls, err));
    if (c->responses_bytes)
        KT__STEP(kt__responses_open(c->responses_dir, c->responses_bytes, &shared->responses, err));
    if (c->routes)
        KT__STEP(kt__routes_open(c->routes, shared->models, &shared->log, &shared->routes, err));
    if (c->slots_dir)
        KT__STEP(kt__llama_slots_create(c->parallel > 0 ? (int)c->parallel : USUAL_SLOTS,
                                        &shared->slots, err));
    KT__STEP(kt__lora_scales_create(&shared->lora_scales, err));
    KT__STEP(kt__metrics_create(shared->models, &shared->metrics, err));
    KT__STEP(kt__event_loop_create(server_tick, s, &shared->loop, err));
    if (c->learn) KT__STEP(open_learning(shared, err));
    /* one that waits for a correction's states, or for an encoder, is enough: the next ones queue */
    if (c->learn || c->routes)
        KT__STEP(kt__workers_create(1, (int)c->queue + 16, &shared->waiters, err));
    return kt__workers_create(N_WORKERS, (int)c->queue + 16, &shared->workers, err);
}

static kt_status open_transports(kt__server *s, int lines, kt_error *err) {
    const kt__config *c = s->shared.start;
    kt_status status = KT_OK;
    if (c->socket || lines >= 0)
        KT__TRY(kt__unix_open(&s->shared, c->socket, (unsigned)c->socket_mode, lines,
                              &s->unix_socket, err));
    if (s->http) KT__TRY(kt__http_start(s->http, err));
    if (!s->unix_socket && s->http && c->no_run_dir)
        kt__slog_line(
            &s->shared.log, KT_LOG_WARN,
            "no socket, since XDG_RUNTIME_DIR is not set: `kentang ps` and `kentang stop` "
            "need --socket PATH; GET /props and a signal do the same");
    if (!s->unix_socket && !s->http && !c->other_transport)
        return kt__fail(err, KT_E_ARG,
                        "nothing to listen on: give --listen ADDRESS:PORT or --socket PATH");
out:
    return status;
}

static kt_status open_all(kt__server *s, kt_error *err) {
    int lines, http;
    kt_status status;
    /* first of all: of a process that follows another one's job nothing else is needed */
    KT__TRY(kt__models_create(s->shared.start, &s->shared.log, &s->shared.models, err));
    KT__TRY(kt__server_check(s->shared.start, err));
    kt__sd_sockets(&lines, &http);
    KT__TRY(open_services(s, err));
    /* the address is taken before a model is loaded, which may take minutes for nothing */
    if (s->shared.start->listen || http >= 0)
        KT__TRY(kt__http_open(&s->shared, s->shared.start->listen, http, &s->http, err));
    KT__TRY(preload_first(&s->shared, err));
    KT__TRY(open_transports(s, lines, err));
    KT__TRY(kt__event_loop_start(s->shared.loop, err));
    if (s->shared.start->batches_dir)
        status = kt__batches_open(&s->shared, s->shared.start->batches_dir, &s->shared.batches,
                                  err);
out:
    return status;
}

/* As many as this process may have, and no more connections than these are enough for: so that
 * neither listener ever finds none, and /health is answered. */
static void provide_descriptors(kt__shared *shared) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT32_MAX) return;
    int64_t most = ((int64_t)limit.rlim_cur - OWN_DESCRIPTORS) / 2 - KT__HTTP_SPARE_CONNECTIONS;
    if (most < LEAST_CONNECTIONS) most = LEAST_CONNECTIONS;
    if (shared->connections <= most) return;
    kt__slog_line(&shared->log, KT_LOG_WARN,
                  "%lld connections at once, not the %lld of limits.connections: this process may "
                  "have %lld descriptors: raise that limit (ulimit -Hn, LimitNOFILE)",
                  (long long)most, (long long)shared->connections, (long long)limit.rlim_cur);
    shared->connections = most;
}

kt_status kt__server_start(kt__config *config, kt__server **out, kt_error *err) {
    *out = NULL;
    kt__server *s = kt__calloc(1, sizeof *s);
    if (!s) {
        kt__config_free(config);
        return kt__fail_nomem(err, "the server", sizeof *s);
    }
    kt_status status = kt__shared_init(&s->shared, config, err);
    if (status == KT_OK) provide_descriptors(&s->shared);
    if (status == KT_OK) status = open_all(s, err);
    if (status != KT_OK) {
        kt__server_stop(s);
        return status;
    }
    *out = s;
    return KT_OK;
}

/* ---- running ---- */

bool kt__server_wait(kt__server *s) {
    return kt__shared_wait(&s->shared);
}

void kt__server_wake(kt__server *s) {
    kt__shared_wake(&s->shared);
}

enum { MOST_CHANGES = 400 }; /* bytes of a list: both find room in a line of the log */

/* What a reload does, each a list: for one line. */
typedef struct reload {
    kt__buf changed, refused;
} reload;

static void add_item(kt__buf *list) {
    if (list->len > 0) (void)kt__buf_puts(list, ", ");
}

/* "sampling.top_k 40 -> 20" */
static void add_change(reload *r, const kt__config *now, const kt__config *next,
                       const kt__setting *setting) {
    kt__buf *list = setting->live ? &r->changed : &r->refused;
    add_item(list);
    (void)kt__buf_printf(list, "%s ", setting->key);
    kt__config_print_value(now, setting, list);
    (void)kt__buf_puts(list, " -> ");
    kt__config_print_value(next, setting, list);
}

static bool same_name(const char *a, const char *b) {
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_models(const kt__config *a, const kt__config *b) {
    bool same = a->n_models == b->n_models;
    for (size_t i = 0; same && i < a->n_models; i++) {
        const kt__model_config *x = &a->models[i], *y = &b->models[i];
        same = same_name(x->name, y->name) && same_name(x->path, y->path) &&
               same_name(x->draft_path, y->draft_path) && same_name(x->load_in, y->load_in);
    }
    return same;
}

/* Notes what is different; settings that a reload cannot change keep the values that are in force,
 * whose texts live in the start-up configuration. */
static void keep_fixed(const kt__server *s, const kt__config *now, kt__config *next, reload *r) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        const kt__setting *setting = &settings[i];
        if (!kt__config_same(now, next, setting)) add_change(r, now, next, setting);
        if (setting->live) continue;
        memcpy((char *)next + setting->at, (const char *)now + setting->at,
               kt__setting_size(setting->kind));
    }
    if (next->queue > s->shared.start->queue) {
        add_item(&r->refused);
        (void)kt__buf_printf(&r->refused, "limits.queue above the start's %lld",
                             (long long)s->shared.start->queue);
    }
    if (!same_models(now, next)) {
        add_item(&r->refused);
        (void)kt__buf_puts(&r->refused, "the list of models");
    }
    next->models = now->models;
    next->n_models = now->n_models;
}

/* Keys that cannot be read, or that are gone, leave everything as it was. */
static kt_status read_new_keys(const kt__settings *now, const kt__config *next, kt__keys **keys,
                               kt_error *err) {
    kt_status status = kt__keys_read(next->keys, next->api_key, kt__keys_least(next->listen), keys,
                                     err);
    if (status != KT_OK || *keys || !now->keys) return status;
    return kt__fail(err, KT_E_ARG, "keys cannot be taken away without a restart");
}

static const char *list_text(const kt__buf *list, const char *none) {
    if (list->failed) return "more than a line holds";
    return list->len > 0 ? list->data : none;
}

/* All in one line. What a reload never touches: models that are loaded, what they keep of earlier
 * prompts, and answers that run. */
static void tell_reloaded(kt__server *s, const kt__config *next, const reload *r) {
    kt__slog *log = &s->shared.log;
    bool refused = r->refused.failed || r->refused.len > 0;
    atomic_store(&log->level, (int)kt__slog_level(next->log_level));
    kt__slog_line(log, refused ? KT_LOG_WARN : KT_LOG_INFO,
                  "configuration reloaded%s%s: changed: %s%s%s; kept: models, caches, answers%s; "
                  "refused, since it needs a restart: %s",
                  next->file ? " from " : "", next->file ? next->file : "",
                  list_text(&r->changed, "nothing"), next->keys ? ", keys from " : "",
                  next->keys ? next->keys : "", next->tls_cert ? ", certificate and key" : "",
                  list_text(&r->refused, "nothing"));
}

void kt__server_reload(kt__server *s, kt__config *next) {
    kt__settings *now = kt__shared_settings(&s->shared);
    kt_error err;
    kt__keys *keys;
    reload r;
    kt__buf_init(&r.changed, MOST_CHANGES);
    kt__buf_init(&r.refused, MOST_CHANGES);
    kt_status status = read_new_keys(now, next, &keys, &err);
    if (status == KT_OK) {
        keep_fixed(s, now->config, next, &r);
        status = kt__shared_set_settings(&s->shared, next, keys, &err);
    } else {
        kt__config_free(next);
    }
    kt__settings_drop(now);
    if (status == KT_OK) {
        renew_adapters(&s->shared, next);
        tell_reloaded(s, next, &r);
    } else {
        kt__slog_line(&s->shared.log, KT_LOG_ERROR, "reload refused, all is as before: %s",
                      err.message);
    }
    kt__buf_free(&r.changed);
    kt__buf_free(&r.refused);
}

/* ---- stopping ---- */

enum {
    HURRY_MS = 100, /* a signal handler asks for it, and can only leave a flag */
    SEND_MS = 200   /* for answers that are finished and not yet sent */
};

/* false: some are left. */
static bool wait_for_jobs(kt__server *s, int64_t ms, bool heeds_hurry) {
    int64_t until_us = kt__now_us() + ms * 1000;
    bool ended = kt__jobs_wait(&s->shared, 0);
    for (int64_t left_ms = ms; !ended && left_ms > 0;) {
        if (heeds_hurry && atomic_load(&s->shared.hurry)) break;
        ended = kt__jobs_wait(&s->shared, left_ms < HURRY_MS ? left_ms : HURRY_MS);
        left_ms = (until_us - kt__now_us()) / 1000;
    }
    return ended;
}

/* Answers whose readers are late would wait for them. */
static void abandon_jobs(kt__server *s) {
    kt__shared *shared = &s->shared;
    for (int tries = 0; tries < 10; tries++) { /* what was on its way meanwhile is abandoned, too */
        for (kt__job *job = kt__jobs_next(shared, NULL); job; job = kt__jobs_next(shared, job))
            kt__job_abandon(job);
        if (kt__jobs_wait(shared, HURRY_MS)) return;
    }
}

void kt__server_hurry(kt__server *s) {
    atomic_store(&s->shared.hurry, true);
}

void kt__server_end_with_launcher(kt__server *s) {
    kt_ctx *ctx = kt__models_ctx(s->shared.models);
    if (kt_ctx_n_ranks(ctx) == 1) return;
    s->drain_most_ms = kt__several_end_ms();
    kt_ctx_hurry_ranks(ctx, (int32_t)s->drain_most_ms);
}

static int64_t drain_ms(kt__server *s) {
    int64_t ms = kt__shared_limits(&s->shared).drain_s * 1000;
    return s->drain_most_ms && s->drain_most_ms < ms ? s->drain_most_ms : ms;
}

void kt__server_drain(kt__server *s) {
    kt__shared *shared = &s->shared;
    if (shared->loop && !s->drained) kt__batches_stop(shared->batches);
    atomic_store(&shared->stopping, true);
    if (s->drained || !shared->loop || !shared->workers || !shared->metrics) return;
    s->drained = true;
    kt__unix_stop_accepting(s->unix_socket);
    if (!wait_for_jobs(s, drain_ms(s), true))
        kt__slog_line(&shared->log, KT_LOG_WARN, "stopping: %zu unfinished answers are cut short",
                      kt__jobs_count(shared));
    kt__http_stop_accepting(s->http); /* so long /health and /ready say what is going on */
    kt__models_stop_waiting(shared->models);
    kt__workers_stop(shared->waiters); /* what they have done is the others' */
    kt__workers_stop(shared->workers);
    kt__trainer_stop(shared->trainer);
    kt__models_drain(shared->models, 0);
    (void)wait_for_jobs(s, atomic_load(&shared->hurry) ? 500 : 3000, false);
    abandon_jobs(s);
    (void)kt__unix_wait(s->unix_socket, SEND_MS);
}

void kt__server_stop(kt__server *s) {
    if (!s) return;
    kt__shared *shared = &s->shared;
    kt__server_drain(s);
    kt__http_close(s->http);
    kt__event_loop_stop(shared->loop);
    if (shared->models) look_after_ranks(s); /* since the last tick */
    kt__unix_close(s->unix_socket);
    kt__http_free(s->http);
    kt__batches_close(shared->batches);
    kt__trainer_free(shared->trainer);
    if (shared->loop) kt__event_loop_run_posted(shared->loop);
    kt__slog_line(&shared->log, KT_LOG_INFO, "stopped");
    kt__shared_free(shared);
    kt__free(s);
}
