#include "serve/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/sd.h"
#include "serve/unix.h"

enum { CREW = 2, TICKS_A_SECOND = 10 };

/* ---- running jobs ---- */

bool kt__server_add_job(kt__server *s, kt__job *job) {
    bool added = true;
    pthread_mutex_lock(&s->lock);
    if (s->n_jobs == s->cap_jobs) {
        size_t cap = s->cap_jobs ? s->cap_jobs * 2 : 64;
        kt__job **jobs = kt__realloc_array(s->jobs, cap, sizeof(kt__job *));
        added = jobs != NULL;
        if (added) {
            s->jobs = jobs;
            s->cap_jobs = cap;
        }
    }
    if (added) {
        kt__job_ref(job);
        s->jobs[s->n_jobs++] = job;
    }
    pthread_mutex_unlock(&s->lock);
    return added;
}

/* Called with the job's lock held, by somebody who holds a reference of his own. */
void kt__server_remove_job(kt__server *s, kt__job *job) {
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_jobs && !found; i++) {
        if (s->jobs[i] != job) continue;
        s->jobs[i] = s->jobs[--s->n_jobs];
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (found) atomic_fetch_sub(&job->refs, 1);
}

/* The n-th job with a reference; NULL: there are fewer. */
static kt__job *job_at(kt__server *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    kt__job *job = n < s->n_jobs ? s->jobs[n] : NULL;
    if (job) kt__job_ref(job);
    pthread_mutex_unlock(&s->lock);
    return job;
}

bool kt__server_cancel(kt__server *s, const char *id, const char *client) {
    kt__job *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_jobs && !found; i++) {
        kt__job *job = s->jobs[i];
        if (!strcmp(job->id, id) && !strcmp(job->client, client)) found = job;
    }
    if (found) kt__job_ref(found);
    pthread_mutex_unlock(&s->lock);
    if (!found) return false;
    kt__job_cancel(found);
    kt__job_release(found);
    return true;
}

/* ---- figures ---- */

static void text_member(kt__buf *out, const char *key, const char *text) {
    (void)kt__buf_printf(out, "\"%s\":", key);
    kt__wire_write_string(out, text, strlen(text));
}

/* What was planned when the model was loaded. */
static void write_plan(kt__buf *out, const kt__served_info *info) {
    const kt_mem_plan *p = &info->plan;
    (void)kt__buf_printf(
        out,
        ",\"plan\":{\"weights_bytes\":%llu,\"kv_bytes\":%llu,\"scratch_bytes\":%llu,"
        "\"tables_bytes\":%llu,\"draft_bytes\":%llu,\"total_bytes\":%llu,\"others_bytes\":%llu,"
        "\"budget_bytes\":%llu,\"weights_counted\":%s,\"kv_positions\":%lld},",
        (unsigned long long)p->weights_bytes, (unsigned long long)p->kv_bytes,
        (unsigned long long)p->scratch_bytes, (unsigned long long)p->tables_bytes,
        (unsigned long long)p->draft_bytes, (unsigned long long)p->total_bytes,
        (unsigned long long)p->others_bytes, (unsigned long long)p->budget_bytes,
        p->weights_counted ? "true" : "false", (long long)p->kv_positions);
    text_member(out, "tuned", info->tuned);
}

/* Of the whole file, in the background. */
static void write_hash(kt__buf *out, const kt_hash_info *h) {
    static const char *const states[] = {[KT_HASH_NONE] = "none",
                                         [KT_HASH_RUNNING] = "running",
                                         [KT_HASH_KNOWN] = "known",
                                         [KT_HASH_FAILED] = "failed"};
    (void)kt__buf_printf(out, ",\"full_hash\":{\"state\":\"%s\"", states[h->state]);
    if (h->state != KT_HASH_NONE) {
        (void)kt__buf_printf(out, ",\"bytes_done\":%llu,\"bytes_all\":%llu",
                             (unsigned long long)h->bytes_done, (unsigned long long)h->bytes_all);
    }
    if (h->state == KT_HASH_KNOWN) {
        (void)kt__buf_puts(out, ",\"hash\":\"");
        for (size_t i = 0; i < sizeof h->hash; i++) (void)kt__buf_printf(out, "%02x", h->hash[i]);
        (void)kt__buf_putc(out, '"');
    }
    (void)kt__buf_putc(out, '}');
}

static void write_model(kt__buf *out, kt__served *served) {
    kt__served_info info;
    kt_engine_stats st;
    kt__served_get_info(served, &info);
    kt__served_get_stats(served, &st);
    (void)kt__buf_putc(out, '{');
    text_member(out, "name", info.name);
    (void)kt__buf_printf(out, ",\"loaded\":%s", info.loaded ? "true" : "false");
    if (info.loaded) {
        (void)kt__buf_putc(out, ',');
        text_member(out, "arch", info.arch);
        (void)kt__buf_putc(out, ',');
        text_member(out, "quant", info.quant);
        (void)kt__buf_printf(
            out,
            ",\"context\":%d,\"parallel\":%d,\"threads\":%d,\"parameters\":%llu,"
            "\"file_bytes\":%llu,\"weight_bytes\":%llu,\"kv_bytes\":%llu,\"scratch_bytes\":%llu",
            (int)info.engine.n_ctx, (int)info.engine.n_parallel, (int)info.engine.n_threads,
            (unsigned long long)info.model.n_params, (unsigned long long)info.model.file_bytes,
            (unsigned long long)st.mem_weights_bytes, (unsigned long long)st.mem_kv_bytes,
            (unsigned long long)st.mem_scratch_bytes);
        write_plan(out, &info);
        write_hash(out, &info.hash);
    }
    (void)kt__buf_printf(
        out,
        ",\"running\":%d,\"waiting\":%d,\"held\":%d,\"prompt_tokens\":%llu,\"cached_tokens\":%llu,"
        "\"generated_tokens\":%llu,\"prefill_tokens_per_second\":%.1f,\"decode_step_ms\":%.3f,"
        "\"predicted_wait_ms\":%lld}",
        st.running, st.waiting, st.held, (unsigned long long)st.prompt_tokens,
        (unsigned long long)st.cached_tokens, (unsigned long long)st.generated_tokens,
        st.prefill_tok_s, st.decode_step_us / 1e3, (long long)st.predicted_wait_ms);
}

static void write_job(kt__buf *out, kt__job *job) {
    pthread_mutex_lock(&job->lock);
    (void)kt__buf_putc(out, '{');
    text_member(out, "id", job->id);
    (void)kt__buf_putc(out, ',');
    text_member(out, "route", job->dialect->route);
    (void)kt__buf_putc(out, ',');
    text_member(out, "client", job->client);
    (void)kt__buf_printf(out, ",\"age_ms\":%lld,\"state\":\"%s\",\"unread_bytes\":%zu}",
                         (long long)((kt__now_us() - job->begin_us) / 1000),
                         job->stalled ? "held"
                         : job->begun ? "running"
                                      : "waiting",
                         job->out.len - job->out_at);
    pthread_mutex_unlock(&job->lock);
}

void kt__server_write_stats(kt__server *s, kt__buf *out) {
    (void)kt__buf_printf(out, "{\"version\":\"%s\",\"numerics\":%d,\"pid\":%d,\"uptime_s\":%lld,",
                         kt_version(), KENTANG_NUMERICS, (int)getpid(),
                         (long long)((kt__now_us() - s->start_us) / 1000000));
    text_member(out, "isa", kt_ctx_isa(kt__models_ctx(s->models)));
    (void)kt__buf_puts(out, ",\"models\":[");
    for (size_t i = 0; i < kt__models_count(s->models); i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_model(out, kt__models_at(s->models, i));
    }
    (void)kt__buf_puts(out, "],\"requests\":[");
    kt__job *job;
    for (size_t i = 0; (job = job_at(s, i)) != NULL; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_job(out, job);
        kt__job_release(job);
    }
    (void)kt__buf_puts(out, "]}");
}

bool kt__server_is_ready(kt__server *s) {
    kt__served_info info;
    kt__served_get_info(kt__models_at(s->models, 0), &info);
    bool first = info.loaded || !kt__server_config(s)->preload;
    return first && !atomic_load(&s->stopping);
}

/* ---- the clock ---- */

static void unload_idle(kt__work_item *item) {
    kt__server *s = (kt__server *)(void *)((char *)item - offsetof(kt__server, unload));
    kt__models_tick(s->models, kt__server_config(s)->idle_unload_s);
    atomic_store(&s->unloading, false);
}

/* Answers whose reader has taken nothing for too long; prompts that wait for room in the queue. */
static void look_after_jobs(kt__server *s) {
    int64_t before_us = kt__now_us() - kt__server_config(s)->stall_s * (int64_t)1000000;
    kt__job *job;
    for (size_t i = 0; (job = job_at(s, i)) != NULL; i++) {
        pthread_mutex_lock(&job->lock);
        bool stuck = job->stalled && job->moved_us < before_us && !job->gone;
        pthread_mutex_unlock(&job->lock);
        if (stuck) {
            kt__slog_line(&s->log, KT_LOG_WARN, "%s: its client reads nothing: let go", job->id);
            kt__job_abandon(job);
        }
        kt__job_retry(job);
        kt__job_release(job);
    }
}

static void tick(void *user) {
    kt__server *s = user;
    kt__http_tick(s->http);
    if (++s->ticks % TICKS_A_SECOND != 0) return;
    kt__unix_tick(s->unix_socket);
    look_after_jobs(s);
    if (kt__server_config(s)->idle_unload_s > 0 && !atomic_load(&s->stopping) &&
        !atomic_exchange(&s->unloading, true)) {
        s->unload.run = unload_idle;
        if (!kt__workers_add(s->workers, &s->unload)) atomic_store(&s->unloading, false);
    }
}

/* ---- starting ---- */

static kt_status read_keys(const kt__config *config, kt__keys **out, kt_error *err) {
    *out = NULL;
    return config->keys ? kt__keys_read(config->keys, out, err) : KT_OK;
}

static kt_status preload(kt__server *s, kt_error *err) {
    kt_model *model;
    kt_engine *engine;
    kt__served *first = kt__models_at(s->models, 0);
    if (!kt__server_config(s)->preload) return KT_OK;
    kt_status status = kt__served_use(first, &model, &engine, err);
    if (status == KT_OK) kt__served_done(first);
    return status;
}

static kt_status check_file(const char *path, kt_error *err) {
    if (!path || access(path, R_OK) == 0) return KT_OK;
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read the model %s: %s", path,
                       strerror(errno));
}

kt_status kt__server_check(const kt__config *config, kt_error *err) {
    kt__keys *keys;
    kt_status status = read_keys(config, &keys, err);
    if (status == KT_OK) kt__keys_free(keys);
    for (size_t i = 0; i < config->n_models && status == KT_OK; i++) {
        status = check_file(config->models[i].path, err);
        if (status == KT_OK) status = check_file(config->models[i].draft_path, err);
    }
    return status == KT_OK ? kt__http_check(config, err) : status;
}

static kt_status open_all(kt__server *s, kt_error *err) {
    const kt__config *c = kt__server_config(s);
    int lines, http;
    kt_status status;
    kt__keys *keys;
    KT__TRY(kt__server_check(c, err));
    kt__sd_sockets(&lines, &http);
    KT__TRY(read_keys(c, &keys, err));
    atomic_store(&s->keys, keys);
    KT__TRY(kt__models_create(c, &s->log, &s->models, err));
    KT__TRY(kt__metrics_create(s->models, &s->metrics, err));
    KT__TRY(kt__event_loop_create(tick, s, &s->loop, err));
    KT__TRY(kt__workers_create(CREW, (int)c->queue + 16, &s->workers, err));
    KT__TRY(preload(s, err));
    if (c->socket || lines >= 0)
        KT__TRY(kt__unix_open(s, c->socket, (mode_t)c->socket_mode, lines, &s->unix_socket, err));
    if (c->listen || http >= 0) KT__TRY(kt__http_open(s, c->listen, http, &s->http, err));
    if (!s->unix_socket && !s->http)
        return kt__fail(err, KT_E_ARG,
                        "nothing to listen on: give --listen ADDRESS:PORT or --socket PATH");
    KT__TRY(kt__event_loop_start(s->loop, err));
out:
    return status;
}

kt_status kt__server_start(kt__config *config, kt__server **out, kt_error *err) {
    *out = NULL;
    kt__server *s = kt__calloc(1, sizeof *s);
    if (!s) {
        kt__config_free(config);
        return kt__fail_nomem(err, "the server", sizeof *s);
    }
    atomic_store(&s->config, config);
    s->start_s = (int64_t)time(NULL);
    s->start_us = kt__now_us();
    pthread_mutex_init(&s->lock, NULL);
    kt__slog_init(&s->log, STDERR_FILENO, !strcmp(config->log_format, "json"),
                  kt__slog_level(config->log_level));
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    kt_status status = s->wake < 0 ? kt__fail(err, KT_E_IO, "no eventfd: %s", strerror(errno))
                                   : open_all(s, err);
    if (status != KT_OK) {
        kt__server_stop(s);
        return status;
    }
    *out = s;
    return KT_OK;
}

/* ---- running ---- */

bool kt__server_wait(kt__server *s) {
    struct pollfd poll_fd = {s->wake, POLLIN, 0};
    uint64_t count;
    (void)poll(&poll_fd, 1, -1);
    ssize_t n = read(s->wake, &count, sizeof count);
    (void)n;
    return atomic_load(&s->stop_requested) != 0;
}

void kt__server_wake(kt__server *s) {
    uint64_t one = 1;
    ssize_t n = write(s->wake, &one, sizeof one);
    (void)n;
}

static void keep_old(kt__server *s, void *old_config, void *old_keys) {
    pthread_mutex_lock(&s->lock);
    void **old = kt__realloc_array(s->old, s->n_old + 2, sizeof *old);
    if (old) {
        s->old = old;
        s->old[s->n_old++] = old_config;
        s->old[s->n_old++] = old_keys;
    }
    pthread_mutex_unlock(&s->lock);
}

/* "sampling.top_k: 40 -> 20" */
static void tell_change(kt__server *s, const kt__config *now, const kt__config *next,
                        const kt__setting *setting) {
    kt__buf was, is;
    kt__buf_init(&was, 400);
    kt__buf_init(&is, 400);
    kt__config_print_value(now, setting, &was);
    kt__config_print_value(next, setting, &is);
    bool live = setting->live;
    kt__slog_line(&s->log, live ? KT_LOG_INFO : KT_LOG_WARN, "reload: %s: %s -> %s%s", setting->key,
                  was.failed ? "..." : was.data, is.failed ? "..." : is.data,
                  live ? "" : " needs a restart: not changed");
    kt__buf_free(&was);
    kt__buf_free(&is);
}

static bool same_name(const char *a, const char *b) {
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_models(const kt__config *a, const kt__config *b) {
    bool same = a->n_models == b->n_models;
    for (size_t i = 0; same && i < a->n_models; i++) {
        const kt__model_config *x = &a->models[i], *y = &b->models[i];
        same = same_name(x->name, y->name) && same_name(x->path, y->path) &&
               same_name(x->draft_path, y->draft_path);
    }
    return same;
}

/* Says what is different; settings that a reload cannot change keep the values that are in force.
 */
static void keep_fixed(kt__server *s, const kt__config *now, kt__config *next) {
    static const size_t sizes[] = {sizeof(bool),      sizeof(int64_t), sizeof(double),
                                   sizeof(uint64_t),  sizeof(char *),  sizeof(char *),
                                   sizeof(kt__texts), sizeof(int64_t)};
    _Static_assert(sizeof sizes / sizeof *sizes == KT__SET_MODE + 1, "a size for each kind");
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        const kt__setting *setting = &settings[i];
        if (!kt__config_same(now, next, setting)) tell_change(s, now, next, setting);
        if (setting->live) continue;
        memcpy((char *)next + setting->at, (const char *)now + setting->at, sizes[setting->kind]);
    }
    if (!same_models(now, next))
        kt__slog_line(&s->log, KT_LOG_WARN,
                      "reload: the list of models needs a restart: not changed");
    next->models = now->models;
    next->n_models = now->n_models;
}

void kt__server_reload(kt__server *s, kt__config *next) {
    const kt__config *now = kt__server_config(s);
    kt_error err;
    kt__keys *keys;
    if (read_keys(next, &keys, &err) != KT_OK || (atomic_load(&s->keys) && !keys)) {
        kt__slog_line(&s->log, KT_LOG_ERROR, "reload refused, all is as before: %s",
                      next->keys ? err.message : "keys cannot be taken away without a restart");
        kt__config_free(next);
        return;
    }
    keep_fixed(s, now, next);
    if (keys) kt__slog_line(&s->log, KT_LOG_INFO, "reload: keys read from %s", next->keys);
    if (now->tls_cert)
        kt__slog_line(&s->log, KT_LOG_INFO,
                      "reload: certificate and key are read at start; a new one needs a restart");
    atomic_store(&s->log.level, (int)kt__slog_level(next->log_level));
    keep_old(s, (void *)(uintptr_t)now, atomic_load(&s->keys));
    atomic_store_explicit(&s->config, next, memory_order_release);
    atomic_store(&s->keys, keys);
    kt__slog_line(&s->log, KT_LOG_INFO, "configuration reloaded%s%s", next->file ? " from " : "",
                  next->file ? next->file : "");
}

/* ---- stopping ---- */

static void wait_for_jobs(kt__server *s) {
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&s->lock);
        size_t n = s->n_jobs;
        pthread_mutex_unlock(&s->lock);
        if (!n) return;
        usleep(10000);
    }
}

/* Answers that are finished still want to be sent. */
static void wait_for_clients(kt__server *s) {
    for (int i = 0; i < 20 && kt__unix_n_clients(s->unix_socket) > 0; i++) usleep(10000);
}

void kt__server_stop(kt__server *s) {
    if (!s) return;
    const kt__config *config = kt__server_config(s);
    bool ran = s->loop && s->workers && s->metrics;
    atomic_store(&s->stopping, true);
    if (ran) {
        kt__unix_stop_accepting(s->unix_socket);
        kt__http_stop_accepting(s->http);
        kt__workers_stop(s->workers);
        kt__models_drain(s->models, config->drain_s * 1000);
        wait_for_jobs(s);
        wait_for_clients(s);
    }
    kt__http_close(s->http);
    kt__event_loop_stop(s->loop);
    kt__unix_close(s->unix_socket);
    kt__http_free(s->http);
    if (s->loop) kt__event_loop_run_posted(s->loop);
    kt__workers_free(s->workers);
    kt__event_loop_free(s->loop);
    kt__metrics_free(s->metrics);
    kt__models_free(s->models);
    kt__slog_line(&s->log, KT_LOG_INFO, "stopped");
    for (size_t i = 0; i < s->n_old; i += 2) {
        kt__config_free(s->old[i]);
        kt__keys_free(s->old[i + 1]);
    }
    kt__keys_free(atomic_load(&s->keys));
    kt__config_free((kt__config *)(uintptr_t)config);
    if (s->wake >= 0) close(s->wake);
    kt__free(s->old);
    kt__free(s->jobs);
    pthread_mutex_destroy(&s->lock);
    kt__slog_free(&s->log);
    kt__free(s);
}
