/* Requests that are answered at once: tokenize, detokenize, templates. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_out.h"
#include "serve/dialects.h"

static kt_status text_of(kt__job *job, const char *key, const char **text, size_t *len,
                         kt_error *err) {
    const json_t *v = json_object_get(job->json, key);
    *text = json_string_value(v);
    *len = *text ? json_string_length(v) : 0;
    if (*text) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: expected a text", key);
}

static bool flag_of(const kt__job *job, const char *key, bool otherwise) {
    const json_t *v = json_object_get(job->json, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static kt_status open_body(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status != KT_OK) return status;
    return kt__job_use_model(job, json_string_value(json_object_get(job->json, "model")), err);
}

/* A line of the socket is a final object: {"id":"...","done":true, */
static void begin_object(kt__job *job) {
    bool line = job->dialect == &kt__dialect_line_tokenize ||
                job->dialect == &kt__dialect_line_detokenize;
    (void)kt__buf_putc(&job->out, '{');
    if (!line) return;
    kt__json_member(&job->out, "id", job->name[0] ? job->name : job->id);
    (void)kt__buf_puts(&job->out, ",\"done\":true,");
}

/* {"content" or "text": "...", "add_special": false, "parse_special": true} -> {"tokens": []} */
static kt_status run_tokenize(kt__job *job, kt_error *err) {
    const char *text;
    size_t len, n = 0;
    int32_t *ids = NULL;
    kt_status status;
    KT__TRY(open_body(job, err));
    bool content = json_object_get(job->json, "content") != NULL;
    KT__TRY(text_of(job, content ? "content" : "text", &text, &len, err));
    unsigned flags = (flag_of(job, "add_special", false) ? KT_TOK_ADD_SPECIAL : 0u) |
                     (flag_of(job, "parse_special", true) ? KT_TOK_PARSE_SPECIAL : 0u);
    size_t cap = len + 16;
    ids = kt__calloc(cap, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", cap * sizeof *ids);
    KT__TRY(kt_tokenize(job->engine_model, text, len, flags, ids, cap, &n, err));
    begin_object(job);
    (void)kt__buf_puts(&job->out, "\"tokens\":[");
    for (size_t i = 0; i < n; i++)
        (void)kt__buf_printf(&job->out, "%s%d", i ? "," : "", (int)ids[i]);
    (void)kt__buf_puts(&job->out, "]}");
out:
    kt__free(ids);
    return status;
}

static kt_status read_ids(kt__job *job, int32_t **ids, size_t *n, kt_error *err) {
    const json_t *list = json_object_get(job->json, "tokens"), *v;
    size_t i;
    if (!json_is_array(list))
        return kt__fail_at(err, KT_E_ARG, "tokens", UINT64_MAX, "tokens: expected an array");
    *n = json_array_size(list);
    *ids = kt__calloc(*n + 1, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "token ids", *n);
    json_array_foreach(list, i, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX)
            return kt__fail_at(err, KT_E_ARG, "tokens", UINT64_MAX,
                               "tokens[%zu]: expected a token id", i);
        (*ids)[i] = (int32_t)id;
    }
    return KT_OK;
}

/* {"tokens": []} -> {"content": "..."} */
static kt_status run_detokenize(kt__job *job, kt_error *err) {
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, len = 0;
    kt_status status;
    KT__TRY(open_body(job, err));
    KT__TRY(read_ids(job, &ids, &n, err));
    status = kt_detokenize(job->engine_model, ids, n, KT_TOK_RENDER_SPECIAL, NULL, 0, &len, err);
    if (status != KT_OK && status != KT_E_LIMIT) goto out;
    text = kt__malloc(len + 1);
    if (!text) {
        status = kt__fail_nomem(err, "text", len);
        goto out;
    }
    KT__TRY(kt_detokenize(job->engine_model, ids, n, KT_TOK_RENDER_SPECIAL, text, len, &len, err));
    begin_object(job);
    (void)kt__buf_puts(&job->out, "\"content\":");
    kt__json_string(&job->out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(&job->out, '}');
out:
    kt__free(text);
    kt__free(ids);
    return status;
}

static kt_status line_tokenize(kt__job *job, kt_error *err) {
    kt_status status = run_tokenize(job, err);
    if (status == KT_OK) (void)kt__buf_putc(&job->out, '\n');
    return status;
}

static kt_status line_detokenize(kt__job *job, kt_error *err) {
    kt_status status = run_detokenize(job, err);
    if (status == KT_OK) (void)kt__buf_putc(&job->out, '\n');
    return status;
}

/* {"messages": [...]} -> {"prompt": "..."}: as the model will see it */
static kt_status apply_template(kt__job *job, kt_error *err) {
    char *prompt = NULL;
    size_t len = 0;
    kt_status status;
    KT__TRY(kt__job_read_wire(job, KT__WIRE_CHAT, err));
    KT__TRY(kt_chat_render(job->engine_model, job->wire->req.messages, job->wire->req.n_messages,
                           job->wire->req.chat_flags, &prompt, &len, err));
    (void)kt__buf_puts(&job->out, "{\"prompt\":");
    kt__json_string(&job->out, prompt, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(&job->out, '}');
out:
    kt_free(prompt);
    return status;
}

static void line_error(kt__job *job, const kt_error *err) {
    kt__buf_clear(&job->out);
    kt__dialect_native.error(job, err);
}

#define AT_ONCE(name, path, call, write_error) \
    const kt__dialect name = {                 \
        .route = path,                         \
        .error_body = kt__openai_error_body,   \
        .run = call,                           \
        .error = write_error,                  \
    }

AT_ONCE(kt__dialect_tokenize, "/tokenize", run_tokenize, kt__dialect_whole_error);
AT_ONCE(kt__dialect_detokenize, "/detokenize", run_detokenize, kt__dialect_whole_error);
AT_ONCE(kt__dialect_template, "/apply-template", apply_template, kt__dialect_whole_error);
AT_ONCE(kt__dialect_line_tokenize, "socket", line_tokenize, line_error);
AT_ONCE(kt__dialect_line_detokenize, "socket", line_detokenize, line_error);
