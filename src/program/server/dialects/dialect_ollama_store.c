/* Ollama's /api/pull, /api/create, /api/copy, /api/delete and /api/push: the folder of models, as far as the
 * configuration lets clients change it. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "services/created.h"

/* ---- bodies ---- */

static kt_status fail_field(const char *key, const char *expected, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: expected %s", key, expected);
}

/* A member that is a text; NULL with KT_OK where it is not there. */
static kt_status read_text(const json_t *body, const char *key, const char **out, kt_error *err) {
    const json_t *v = json_object_get(body, key);
    *out = json_string_value(v);
    if (*out && strlen(*out) != json_string_length(v)) return fail_field(key, "no NUL", err);
    return *out || !v || json_is_null(v) ? KT_OK : fail_field(key, "a text", err);
}

/* "model", in older clients "name". */
static kt_status read_name(kt__job *job, const char **out, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(read_text(job->request.json, "model", out, err));
    if (!*out) KT__STEP(read_text(job->request.json, "name", out, err));
    return *out && **out ? KT_OK : fail_field("model", "a name", err);
}

static bool wants_stream(const kt__job *job) {
    return !json_is_false(json_object_get(job->request.json, "stream"));
}

static kt_status refuse_change(kt__job *job, bool allowed, const char *setting, kt_error *err) {
    if (allowed) return KT_OK;
    job->answer.error_status = 403;
    return kt__fail(err, KT_E_STATE, "clients may not do that here: set %s", setting);
}

static kt_status need_create(kt__job *job, kt_error *err) {
    return refuse_change(job, job->request.settings->config->create, "http.create", err);
}

static void say_status(kt__job *job, const char *status) {
    (void)kt__buf_printf(&job->answer.out, "{\"status\":\"%s\"}\n", status);
}

/* ---- pull ---- */

typedef struct watcher {
    bool said_manifest, said_digest;
    uint64_t said_bytes;
    char digest[65];
} watcher;

static kt_status read_pull(kt__job *job, kt_error *err) {
    const char *name;
    KT__STEP(refuse_change(job, job->shared->pulls != NULL, "http.pull", err));
    KT__STEP(read_name(job, &name, err));
    watcher *w = kt__arena_calloc(&job->arena, 1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "a request", sizeof *w);
    kt_status status = kt__pulls_follow(job->shared->pulls, name, err);
    if (status == KT_E_BUSY) job->answer.error_status = 409;
    if (status != KT_OK) return status;
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s fetches %s", job->request.client, name);
    pthread_mutex_lock(&job->lock);
    job->extra = w;
    job->answer.stream = wants_stream(job);
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* Where a hub has no checksum, 64 digits that are always the same for this name. */
static void note_digest(watcher *w, const kt__pull_state *now) {
    if (w->digest[0]) return;
    kt__digest made = kt__hash_bytes(now->bytes, now->asked, strlen(now->asked));
    unsigned char bytes[sizeof made];
    memcpy(bytes, &made, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(w->digest + 2 * i, 3, "%02x", bytes[i]);
    if (now->digest[0]) memcpy(w->digest, now->digest, sizeof w->digest);
}

static void say_progress(kt__job *job, watcher *w, const kt__pull_state *now) {
    if (!w->said_manifest) say_status(job, "pulling manifest");
    w->said_manifest = true;
    if (!now->bytes || (w->said_digest && w->said_bytes == now->bytes_done)) return;
    note_digest(w, now);
    (void)kt__buf_printf(&job->answer.out,
                         "{\"status\":\"pulling %.12s\",\"digest\":\"sha256:%s\",\"total\":%llu",
                         w->digest, w->digest, (unsigned long long)now->bytes);
    if (now->bytes_done)
        (void)kt__buf_printf(&job->answer.out, ",\"completed\":%llu",
                             (unsigned long long)now->bytes_done);
    (void)kt__buf_puts(&job->answer.out, "}\n");
    w->said_digest = true;
    w->said_bytes = now->bytes_done;
}

static bool follow_pull(kt__job *job) {
    kt__pull_state now;
    kt_error err;
    if (!kt__pulls_get(job->shared->pulls, &now)) return true;
    if (atomic_load(&job->shared->stopping)) {
        (void)kt__fail(&err, KT_E_STATE, "the server is being stopped");
        kt__job_fail(job, &err);
        return true;
    }
    if (now.stage == KT__PULL_FETCHING || now.stage == KT__PULL_DONE)
        if (job->answer.stream) say_progress(job, job->extra, &now);
    if (now.stage == KT__PULL_FETCHING) return false;
    if (now.stage == KT__PULL_DONE) {
        if (job->answer.stream) say_status(job, "verifying sha256 digest");
        if (job->answer.stream) say_status(job, "writing manifest");
        say_status(job, "success");
        return true;
    }
    job->answer.error_status = 500;
    (void)kt__fail(&err, KT_E_IO, "pull model manifest: %s",
                   now.stage == KT__PULL_STOPPED ? "it was stopped" : now.why);
    kt__job_fail(job, &err);
    return true;
}

static void leave_pull(kt__job *job) {
    if (job->extra) kt__pulls_leave(job->shared->pulls);
}

static void store_error(kt__job *job, const kt_error *err) {
    if (job->answer.stream)
        kt__ollama_error_body(&job->answer.out, job->answer.status, err);
    else
        kt__dialect_whole_error(job, err);
}

/* ---- create ---- */

static kt_status add_texts(kt__modelfile *file, kt__modelfile_kind kind, const json_t *v,
                           const char *key, kt_error *err) {
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (!v || json_is_null(v)) return KT_OK;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (!text) return fail_field(key, "a text or a list of texts", err);
        KT__STEP(kt__modelfile_add(file, kind, NULL, text, err));
    }
    return KT_OK;
}

/* {"temperature": 0.2, "stop": ["a", "b"]} */
static kt_status add_parameters(kt__modelfile *file, json_t *parameters, kt_error *err) {
    const char *key;
    json_t *v;
    if (!parameters || json_is_null(parameters)) return KT_OK;
    if (!json_is_object(parameters)) return fail_field("parameters", "an object", err);
    json_object_foreach(parameters, key, v) {
        size_t n = json_is_array(v) ? json_array_size(v) : 1;
        for (size_t i = 0; i < n; i++) {
            const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
            char number[64];
            const char *text = json_string_value(one);
            if (json_is_integer(one))
                snprintf(number, sizeof number, "%lld", (long long)json_integer_value(one));
            else if (json_is_real(one))
                snprintf(number, sizeof number, "%.9g", json_real_value(one));
            else if (json_is_boolean(one))
                snprintf(number, sizeof number, "%s", json_is_true(one) ? "true" : "false");
            else if (!text)
                return fail_field("parameters", "numbers and texts", err);
            KT__STEP(
                kt__modelfile_add(file, KT__MODELFILE_PARAMETER, key, text ? text : number, err));
        }
    }
    return KT_OK;
}

static kt_status add_messages(kt__modelfile *file, const json_t *messages, kt_error *err) {
    if (messages && !json_is_null(messages) && !json_is_array(messages))
        return fail_field("messages", "a list", err);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        const char *content = json_string_value(json_object_get(m, "content"));
        if (!role || !content) return fail_field("messages", "role and content, texts", err);
        KT__STEP(kt__modelfile_add(file, KT__MODELFILE_MESSAGE, role, content, err));
    }
    return KT_OK;
}

/* What asks for files or for other weights. */
static kt_status refuse_files(const json_t *body, kt_error *err) {
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"files",
         "files are not sent here: put them into the server's folder of models, or pull them"},
        {"adapters",
         "files are not sent here: `kentang create` on the server's machine takes an ADAPTER"},
        {"quantize", "use `kentang quantize` on the server's machine"},
        {"quantization", "use `kentang quantize` on the server's machine"},
        {"path", "files of the server's machine are for `kentang create`"},
        {"renderer", "it names a part of Ollama's own program: the model's template is used"},
        {"parser", "it names a part of Ollama's own program: the model's template is used"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_object_get(body, refused[i].key);
        bool empty = !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) ||
                     (json_is_object(v) && !json_object_size(v));
        if (!empty)
            return kt__fail_at(err, KT_E_UNSUPPORTED, refused[i].key, UINT64_MAX,
                               "%s: not supported: %s", refused[i].key, refused[i].why);
    }
    return KT_OK;
}

/* The members of today, or a modelfile's text as older clients send it. */
static kt_status read_modelfile(const json_t *body, kt__modelfile *file, kt_error *err) {
    const char *text, *from, *template, *system;
    KT__STEP(refuse_files(body, err));
    KT__STEP(read_text(body, "modelfile", &text, err));
    KT__STEP(read_text(body, "from", &from, err));
    KT__STEP(read_text(body, "template", &template, err));
    KT__STEP(read_text(body, "system", &system, err));
    if (text) KT__STEP(kt__modelfile_read(file, text, strlen(text), err));
    if (from) KT__STEP(kt__modelfile_add(file, KT__MODELFILE_FROM, NULL, from, err));
    if (template) KT__STEP(kt__modelfile_add(file, KT__MODELFILE_TEMPLATE, NULL, template, err));
    if (system) KT__STEP(kt__modelfile_add(file, KT__MODELFILE_SYSTEM, NULL, system, err));
    KT__STEP(
        add_texts(file, KT__MODELFILE_LICENSE, json_object_get(body, "license"), "license", err));
    KT__STEP(add_parameters(file, json_object_get(body, "parameters"), err));
    return add_messages(file, json_object_get(body, "messages"), err);
}

static kt_status run_create(kt__job *job, kt_error *err) {
    const char *name;
    kt__modelfile file;
    kt_status status;
    KT__STEP(need_create(job, err));
    KT__STEP(read_name(job, &name, err));
    kt__modelfile_init(&file);
    KT__TRY(read_modelfile(job->request.json, &file, err));
    status = kt__created_make(job->request.settings->config, job->shared->models, name, &file, err);
    if (status == KT_E_BUSY || status == KT_E_STATE) job->answer.error_status = 409;
    if (status != KT_OK) goto out;
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s created the model %s", job->request.client,
                  name);
    if (wants_stream(job)) say_status(job, "writing manifest");
    say_status(job, "success");
out:
    kt__modelfile_free(&file);
    return status;
}

/* ---- copy, delete, push ---- */

static kt_status end_change(kt__job *job, kt_status status, bool found, const char *did,
                            const char *name) {
    if (!found) job->answer.error_status = 404;
    if (found && (status == KT_E_STATE || status == KT_E_BUSY)) job->answer.error_status = 409;
    if (status != KT_OK) return status;
    kt__slog_line(&job->shared->log, KT_LOG_INFO, "%s %s the model %s", job->request.client, did,
                  name);
    say_status(job, "success");
    return KT_OK;
}

static kt_status run_copy(kt__job *job, kt_error *err) {
    const char *from, *to;
    bool found;
    KT__STEP(need_create(job, err));
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(read_text(job->request.json, "source", &from, err));
    KT__STEP(read_text(job->request.json, "destination", &to, err));
    if (!from || !*from) return fail_field("source", "a name", err);
    if (!to || !*to) return fail_field("destination", "a name", err);
    kt_status status = kt__created_copy(job->request.settings->config, job->shared->models, from,
                                        to, &found, err);
    return end_change(job, status, found, "copied", from);
}

static kt_status run_delete(kt__job *job, kt_error *err) {
    const char *name;
    bool found;
    KT__STEP(need_create(job, err));
    KT__STEP(read_name(job, &name, err));
    kt_status status = kt__created_delete(job->request.settings->config, job->shared->models, name,
                                          &found, err);
    return end_change(job, status, found, "deleted", name);
}

static kt_status run_push(kt__job *job, kt_error *err) {
    job->answer.error_status = 501;
    return kt__fail(err, KT_E_UNSUPPORTED, "kentang sends no model anywhere: copy the file");
}

#define CHANGING(name, path, call)           \
    const kt__dialect name = {               \
        .route = path,                       \
        .exact_names = true,                 \
        .error_body = kt__ollama_error_body, \
        .run = call,                         \
        .error = kt__dialect_whole_error,    \
    }

CHANGING(kt__dialect_ollama_create, "/api/create", run_create);
CHANGING(kt__dialect_ollama_copy, "/api/copy", run_copy);
CHANGING(kt__dialect_ollama_delete, "/api/delete", run_delete);
CHANGING(kt__dialect_ollama_push, "/api/push", run_push);

const kt__dialect kt__dialect_ollama_pull = {
    .route = "/api/pull",
    .stream_type = "application/x-ndjson",
    .stream_filler = "\n",
    .error_body = kt__ollama_error_body,
    .read = read_pull,
    .follow = follow_pull,
    .leave = leave_pull,
    .error = store_error,
};
