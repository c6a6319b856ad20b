#include "services/shared.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

/* ---- settings ---- */

void kt__settings_drop(kt__settings *settings) {
    if (!settings || atomic_fetch_sub(&settings->refs, 1) != 1) return;
    kt__keys_free(settings->keys);
    kt__config_free(settings->owned);
    kt__free(settings);
}

kt__settings *kt__shared_settings(kt__shared *shared) {
    pthread_mutex_lock(&shared->lock);
    kt__settings *settings = shared->settings;
    atomic_fetch_add(&settings->refs, 1);
    pthread_mutex_unlock(&shared->lock);
    return settings;
}

kt__limits kt__shared_limits(kt__shared *shared) {
    pthread_mutex_lock(&shared->lock);
    const kt__config *c = shared->settings->config;
    const kt__limits limits = {.max_body = (int64_t)c->max_body,
                               .bodies = (int64_t)c->bodies,
                               .output = (int64_t)c->output,
                               .requests_per_connection = c->requests_per_connection,
                               .request_s = c->request_s,
                               .stall_s = c->stall_s,
                               .ping_s = c->ping_s,
                               .idle_unload_s = c->idle_unload_s,
                               .drain_s = c->drain_s,
                               .queue = c->queue};
    pthread_mutex_unlock(&shared->lock);
    return limits;
}

kt_status kt__shared_set_settings(kt__shared *shared, kt__config *config, kt__keys *keys,
                                  kt_error *err) {
    kt__settings *next = kt__calloc(1, sizeof *next);
    if (!next) {
        kt__keys_free(keys);
        if (config != shared->start) kt__config_free(config);
        return kt__fail_nomem(err, "settings", sizeof *next);
    }
    atomic_init(&next->refs, 1);
    next->config = config;
    next->owned = config == shared->start ? NULL : config;
    next->keys = keys;
    pthread_mutex_lock(&shared->lock);
    kt__settings *before = shared->settings;
    shared->settings = next;
    pthread_mutex_unlock(&shared->lock);
    kt__settings_drop(before);
    return KT_OK;
}

/* ---- bytes of requests ---- */

bool kt__shared_hold(kt__shared *shared, size_t n) {
    int64_t most = kt__shared_limits(shared).bodies;
    if (!n) return true;
    if (atomic_fetch_add(&shared->n_held, (int64_t)n) + (int64_t)n <= most) return true;
    kt__shared_let_go(shared, n);
    return false;
}

void kt__shared_let_go(kt__shared *shared, size_t n) {
    atomic_fetch_sub(&shared->n_held, (int64_t)n);
}

/* ---- life ---- */

kt_status kt__shared_init(kt__shared *shared, kt__config *config, kt_error *err) {
    memset(shared, 0, sizeof *shared);
    shared->start = config;
    shared->connections = config->connections;
    shared->start_s = (int64_t)time(NULL);
    shared->start_us = kt__now_us();
    (void)kt__cond_init(&shared->job_ended);
    pthread_mutex_init(&shared->lock, NULL);
    kt__slog_init(&shared->log, STDERR_FILENO, !strcmp(config->log_format, "json"),
                  kt__slog_level(config->log_level));
    shared->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shared->wake < 0) return kt__fail_system(err, errno, NULL, "no eventfd");
    return kt__shared_set_settings(shared, config, NULL, err);
}

void kt__shared_free(kt__shared *shared) {
    kt__workers_free(shared->workers);
    kt__workers_free(shared->waiters);
    kt__responses_close(shared->responses);
    kt__routes_close(shared->routes);
    kt__llama_slots_free(shared->slots);
    kt__lora_scales_free(shared->lora_scales);
    kt__kept_answers_free(shared->kept);
    kt__event_loop_free(shared->loop);
    kt__metrics_free(shared->metrics);
    kt__pulls_free(shared->pulls);
    kt__models_free(shared->models);
    kt__settings_drop(shared->settings);
    kt__config_free(shared->start);
    if (shared->wake >= 0) close(shared->wake);
    kt__free(shared->jobs);
    pthread_cond_destroy(&shared->job_ended);
    pthread_mutex_destroy(&shared->lock);
    kt__slog_free(&shared->log);
}

/* ---- stopping ---- */

bool kt__shared_wait(kt__shared *shared) {
    struct pollfd poll_fd = {shared->wake, POLLIN, 0};
    uint64_t count;
    (void)poll(&poll_fd, 1, -1);
    ssize_t n = read(shared->wake, &count, sizeof count);
    (void)n;
    return atomic_load(&shared->stop_requested);
}

void kt__shared_wake(kt__shared *shared) {
    uint64_t one = 1;
    ssize_t n = write(shared->wake, &one, sizeof one);
    (void)n;
}

void kt__shared_request_stop(kt__shared *shared) {
    atomic_store(&shared->stop_requested, true);
    kt__shared_wake(shared);
}

const char *kt__shared_why_not_ready(kt__shared *shared) {
    kt__served_info info;
    if (atomic_load(&shared->stopping)) return "the server is being stopped";
    kt__served_get_info(kt__models_at(shared->models, 0), &info);
    if (!info.loaded && shared->start->preload) return "the model is not loaded";
    if (atomic_load(&shared->adapter_fails)) return "a default adapter cannot be loaded";
    return info.trouble;
}
