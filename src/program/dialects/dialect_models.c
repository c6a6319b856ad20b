/* POST /v1/models/load and /v1/models/unload, where the configuration lets clients do that
 * (http.manage). */
#include <jansson.h>

#include "base/error.h"
#include "base/json_out.h"
#include "dialects/dialects.h"

/* The name that the body has; the first model where it has none. */
static kt_status read_name(kt__job *job, const char **name, kt_error *err) {
    if (!job->request.settings->config->manage) {
        job->answer.error_status = 403;
        return kt__fail(err, KT_E_STATE,
                        "clients may not load and unload models here: set http.manage");
    }
    KT__STEP(kt__job_parse(job, err));
    const json_t *model = json_object_get(job->request.json, "model");
    *name = json_string_value(model);
    if (*name || !model || json_is_null(model)) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX, "model: expected a text");
}

static void write_state(kt__job *job, const kt__served *served, bool loaded) {
    (void)kt__buf_puts(&job->answer.out, "{\"object\":\"model\"");
    kt__json_member(&job->answer.out, "id", kt__served_name(served));
    (void)kt__buf_printf(&job->answer.out, ",\"loaded\":%s}", loaded ? "true" : "false");
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

#define MANAGING(name, path, call)           \
    const kt__dialect name = {               \
        .route = path,                       \
        .error_body = kt__openai_error_body, \
        .run = call,                         \
        .waits = true,                       \
        .error = kt__dialect_whole_error,    \
    }

MANAGING(kt__dialect_load, "/v1/models/load", run_load);
MANAGING(kt__dialect_unload, "/v1/models/unload", run_unload);
