/* GET and POST /v1/routes and /lora-adapters; POST /v1/models/load and /v1/models/unload, where the configuration lets
 * clients do that (http.manage); /v1/models/search, /v1/models/pull and /v1/models/pull/stop (http.pull). */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "jobs/stats.h"
#include "services/lora_scales.h"

static kt_status refuse_job(kt__job *job, const char *why, kt_error *err) {
    job->answer.error_status = 403;
    return kt__fail(err, KT_E_STATE, "%s", why);
}

/* The name that the body has; NULL where it has none. */
static kt_status read_model(kt__job *job, const char **name, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    const json_t *model = json_object_get(job->request.json, "model");
    *name = json_string_value(model);
    if (*name || !model || json_is_null(model)) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX, "model: expected a text");
}

/* NULL: the first model. */
static kt_status read_name(kt__job *job, const char **name, kt_error *err) {
    if (job->request.settings->config->manage) return read_model(job, name, err);
    return refuse_job(job, "clients may not load and unload models here: set http.manage", err);
}

static void write_state(kt__job *job, const kt__served *served, bool loaded) {
    (void)kt__buf_puts(&job->answer.out, "{\"object\":\"model\"");
    kt__json_member(&job->answer.out, "id", kt__served_name(served));
    (void)kt__buf_printf(&job->answer.out, ",\"loaded\":%s,\"success\":true}",
                         loaded ? "true" : "false");
}

static kt_status run_load(kt__job *job, kt_error *err) {
    const char *name;
    KT__STEP(read_name(job, &name, err));
    KT__STEP(kt__job_use_model(job, name, err));
    write_state(job, job->model.served, true);
    return KT_OK;
}

static kt_status run_unload(kt__job *job, kt_error *err) {
    const char *name;
    kt__served *served;
    KT__STEP(read_name(job, &name, err));
    kt_status status = kt__models_find(job->shared->models, name, &served, err);
    if (status != KT_OK) job->answer.error_status = 404;
    if (status != KT_OK) return status;
    if (!kt__served_unload(served, ": a client asked for it")) {
        job->answer.error_status = 409;
        return kt__fail(err, KT_E_BUSY, "the model \"%.80s\" answers or is being loaded",
                        kt__served_name(served));
    }
    write_state(job, served, false);
    return KT_OK;
}

/* ---- from the hub ---- */

static kt_status need_pulls(kt__job *job, kt_error *err) {
    if (job->shared->pulls) return KT_OK;
    return refuse_job(job, "clients may not fetch models here: set http.pull", err);
}

/* Answers at once, with the state that /props has as well. */
static kt_status run_pull(kt__job *job, kt_error *err) {
    const char *name;
    KT__STEP(need_pulls(job, err));
    KT__STEP(read_model(job, &name, err));
    if (!name || !*name)
        return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX,
                           "model: expected a name of the hub's, such as OWNER/REPO:TAG");
    kt_status status = kt__pulls_start(job->shared->pulls, name, err);
    if (status == KT_E_BUSY) job->answer.error_status = 409;
    if (status != KT_OK) return status;
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s fetches %s", job->request.client, name);
    (void)kt__stats_write_pull(job->shared, "", &job->answer.out);
    return KT_OK;
}

static kt_status run_pull_stop(kt__job *job, kt_error *err) {
    KT__STEP(need_pulls(job, err));
    bool runs = kt__pulls_stop(job->shared->pulls);
    if (runs) (void)kt__stats_write_pull(job->shared, "", &job->answer.out);
    if (runs) return KT_OK;
    job->answer.error_status = 409;
    return kt__fail(err, KT_E_STATE, "nothing is being fetched");
}

/* ---- routes ---- */

static kt_status need_routes(kt__job *job, kt_error *err) {
    if (job->shared->routes) return KT_OK;
    job->answer.error_status = 404;
    return kt__fail(err, KT_E_STATE, "no request is routed here: the setting `routes` is empty");
}

static kt_status show_routes(kt__job *job, kt_error *err) {
    KT__STEP(need_routes(job, err));
    return kt__routes_write(job->shared->routes, &job->answer.out, err);
}

static kt_status replace_routes(kt__job *job, kt_error *err) {
    KT__STEP(need_routes(job, err));
    if (!job->request.settings->config->manage)
        return refuse_job(job, "clients may not change routes here: set http.manage", err);
    const kt__buf *body = &job->request.body;
    KT__STEP(kt__routes_replace(job->shared->routes, body->data ? body->data : "", body->len, err));
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s changed the routes", job->request.client);
    return show_routes(job, err);
}

static kt_status run_search(kt__job *job, kt_error *err) {
    KT__STEP(need_pulls(job, err));
    KT__STEP(kt__job_parse(job, err));
    const char *words = json_string_value(json_object_get(job->request.json, "words"));
    if (!words || !*words || strlen(words) > 200)
        return kt__fail_at(err, KT_E_ARG, "words", UINT64_MAX,
                           "words: expected a text, such as \"qwen instruct\"");
    return kt__pulls_search(job->request.settings->config, job->shared->models, words,
                            &job->answer.out, err);
}

/* ---- scales of adapters, llama-server's ---- */

static kt_status show_scales(kt__job *job, kt_error *err) {
    (void)err;
    kt__lora_scales_write(job->shared->lora_scales, job->request.settings->config,
                          &job->answer.out);
    return KT_OK;
}

static kt_status set_scales(kt__job *job, kt_error *err) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    const kt__config *config = job->request.settings->config;
    const kt__buf *body = &job->request.body;
    json_t *list = NULL;
    size_t n;
    kt_status status;
    if (!config->lora_scales && !config->manage)
        return refuse_job(job, "clients may not change the adapters' scales here: set http.manage",
                          err);
    KT__TRY(kt__wire_parse(body->data ? body->data : "", body->len, &list, err));
    KT__TRY(kt__lora_read(config, list, "", named, names, &n, err));
    kt__lora_scales_set(job->shared->lora_scales, named, n);
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s changed the adapters' scales",
                  job->request.client);
    (void)kt__buf_puts(&job->answer.out, "{\"success\":true}");
out:
    json_decref(list);
    return status;
}

#define MANAGING(name, path, call, may_wait) \
    const kt__dialect name = {               \
        .route = path,                       \
        .exact_names = true,                 \
        .error_body = kt__openai_error_body, \
        .run = call,                         \
        .waits = may_wait,                   \
        .error = kt__dialect_whole_error,    \
    }

MANAGING(kt__dialect_load, "/v1/models/load", run_load, true);
MANAGING(kt__dialect_unload, "/v1/models/unload", run_unload, true);
MANAGING(kt__dialect_pull, "/v1/models/pull", run_pull, false);
MANAGING(kt__dialect_search, "/v1/models/search", run_search, true);
MANAGING(kt__dialect_pull_stop, "/v1/models/pull/stop", run_pull_stop, false);
MANAGING(kt__dialect_routes, "/v1/routes", show_routes, false);
MANAGING(kt__dialect_set_routes, "/v1/routes", replace_routes, false);
MANAGING(kt__dialect_scales, "/lora-adapters", show_scales, false);
MANAGING(kt__dialect_set_scales, "/lora-adapters", set_scales, false);
