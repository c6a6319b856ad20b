/* OpenAI's embeddings: each input is a prompt of the job. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_out.h"
#include "serve/dialects.h"

typedef struct inputs {
    bool base64;
    int64_t n_tokens;
} inputs;

static kt_status read_ids(kt__job *job, json_t *list, size_t at, kt__wire_prompt *out,
                          kt_error *err) {
    size_t i, n = json_array_size(list);
    json_t *v;
    int32_t *ids = kt__arena_calloc(&job->wire->arena, n + 1, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", n);
    json_array_foreach(list, i, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX)
            return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                               "input[%zu][%zu]: expected a token id", at, i);
        ids[i] = (int32_t)id;
    }
    out->ids = ids;
    out->n_ids = n;
    return KT_OK;
}

static kt_status read_input(kt__job *job, json_t *v, size_t at, kt__wire_prompt *out,
                            kt_error *err) {
    if (json_is_array(v) && json_array_size(v) > 0) return read_ids(job, v, at, out, err);
    if (!json_is_string(v) || !json_string_length(v))
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input[%zu]: expected a text that is not empty", at);
    out->text = json_string_value(v); /* job->json lives as long as the job */
    out->len = json_string_length(v);
    return KT_OK;
}

/* Any of the shapes that OpenAI has: "text", ["text"], [ids], [[ids]]. */
static kt_status read_inputs(kt__job *job, kt_error *err) {
    json_t *v = json_object_get(job->json, "input");
    bool list = json_is_array(v) && json_array_size(v) > 0;
    bool one = !list || json_is_number(json_array_get(v, 0));
    size_t n = one ? 1 : json_array_size(v);
    if (!json_is_string(v) && !list)
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input: expected a text, an array of texts or of token ids");
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__fail_at(err, KT_E_LIMIT, "input", UINT64_MAX, "input: at most %d texts",
                           (int)KT__WIRE_MAX_PROMPTS);
    kt__wire_prompt *prompts = kt__arena_calloc(&job->wire->arena, n, sizeof *prompts);
    kt_status status = prompts ? KT_OK : kt__fail_nomem(err, "a request", n);
    for (size_t i = 0; i < n && status == KT_OK; i++)
        status = read_input(job, one ? v : json_array_get(v, i), i, &prompts[i], err);
    job->wire->prompts = prompts;
    job->wire->n_prompts = n;
    return status;
}

static kt_status read_options(kt__job *job, inputs *in, kt_error *err) {
    const char *format = json_string_value(json_object_get(job->json, "encoding_format"));
    const char *pooling = json_string_value(json_object_get(job->json, "pooling"));
    const json_t *dimensions = json_object_get(job->json, "dimensions");
    if (dimensions && !json_is_null(dimensions))
        return kt__fail_at(
            err, KT_E_UNSUPPORTED, "dimensions", UINT64_MAX,
            "dimensions: not supported, an embedding is as long as the model makes it");
    if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        return kt__fail_at(err, KT_E_ARG, "encoding_format", UINT64_MAX,
                           "encoding_format: expected float or base64");
    if (pooling && strcmp(pooling, "mean") != 0 && strcmp(pooling, "last") != 0)
        return kt__fail_at(err, KT_E_ARG, "pooling", UINT64_MAX, "pooling: expected mean or last");
    in->base64 = format && !strcmp(format, "base64");
    job->wire->req.pooling = pooling && !strcmp(pooling, "last") ? KT_POOLING_LAST
                                                                 : KT_POOLING_MEAN;
    return KT_OK;
}

static kt_status read_body(kt__job *job, kt_error *err) {
    kt_status status;
    inputs *in = kt__arena_calloc(&job->arena, 1, sizeof *in);
    job->wire = kt__calloc(1, sizeof *job->wire);
    if (!in || !job->wire) return kt__fail_nomem(err, "a request", sizeof *in);
    kt__arena_init(&job->wire->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    job->wire->req = kt__config_request(job->settings->config);
    job->wire->req.text_flags = KT_TOK_ADD_SPECIAL;
    job->extra = in;
    KT__TRY(read_inputs(job, err));
    status = read_options(job, in, err);
out:
    return status;
}

static kt_status read_embeddings(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status == KT_OK) status = read_body(job, err);
    if (status != KT_OK) return status;
    return kt__job_use_model(job, json_string_value(json_object_get(job->json, "model")), err);
}

static void ignore_token(kt__job *job, const kt_event *event) {
    (void)job;
    (void)event;
}

static void write_base64(kt__buf *out, const unsigned char *data, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)data[i] << 16;
        if (i + 1 < n) v |= (unsigned)data[i + 1] << 8;
        if (i + 2 < n) v |= data[i + 2];
        (void)kt__buf_putc(out, digits[v >> 18]);
        (void)kt__buf_putc(out, digits[v >> 12 & 63]);
        (void)kt__buf_putc(out, i + 1 < n ? digits[v >> 6 & 63] : '=');
        (void)kt__buf_putc(out, i + 2 < n ? digits[v & 63] : '=');
    }
}

/* Kept with its choice: the list is written in the order of the inputs, not of their ends. */
static void embedding_finish(kt__job *job, const kt_event *event) {
    inputs *in = job->extra;
    kt__buf *out = &job->choices[event->choice].text;
    if (!event->embedding) {
        kt_error err;
        (void)kt__fail(&err, KT_E_CANCELLED, "%s", kt_finish_name(event->finish));
        kt__job_fail(job, &err);
        return;
    }
    in->n_tokens += event->report->n_prompt;
    if (in->base64) {
        (void)kt__buf_putc(out, '"');
        write_base64(out, (const unsigned char *)event->embedding,
                     event->n_embedding * sizeof *event->embedding); /* f32, little endian */
        (void)kt__buf_putc(out, '"');
    } else {
        (void)kt__buf_putc(out, '[');
        for (size_t i = 0; i < event->n_embedding; i++)
            (void)kt__buf_printf(out, "%s%.9g", i ? "," : "", (double)event->embedding[i]);
        (void)kt__buf_putc(out, ']');
    }
    if (out->failed) job->out.failed = true;
}

/* [0.1, ...] or "...", of input i; it is not needed again. */
static void write_embedding(kt__job *job, int32_t i) {
    kt__buf *text = &job->choices[i].text;
    (void)kt__buf_append(&job->out, text->data, text->len);
    kt__buf_free(text);
}

static void openai_list_end(kt__job *job) {
    const inputs *in = job->extra;
    const char *name = kt__served_name(job->model);
    (void)kt__buf_puts(&job->out, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < job->n_choices; i++) {
        (void)kt__buf_printf(&job->out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":",
                             i ? "," : "", (int)i);
        write_embedding(job, i);
        (void)kt__buf_putc(&job->out, '}');
    }
    (void)kt__buf_puts(&job->out, "],\"model\":");
    kt__json_text(&job->out, name);
    (void)kt__buf_printf(&job->out, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}",
                         (long long)in->n_tokens, (long long)in->n_tokens);
}

const kt__dialect kt__dialect_embeddings = {
    .route = "/v1/embeddings",
    .error_body = kt__openai_error_body,
    .read = read_embeddings,
    .token = ignore_token,
    .finish = embedding_finish,
    .end = openai_list_end,
    .error = kt__dialect_whole_error,
};

/* ---- Ollama's /api/embed: the same input, another answer ---- */

static kt_status read_ollama_embed(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status == KT_OK) status = kt__ollama_rename(job, err);
    if (status == KT_OK) status = read_body(job, err);
    if (status != KT_OK) return status;
    return kt__job_use_model(job, json_string_value(json_object_get(job->json, "model")), err);
}

static void ollama_list_end(kt__job *job) {
    const inputs *in = job->extra;
    const char *name = kt__served_name(job->model);
    (void)kt__buf_puts(&job->out, "{\"model\":");
    kt__json_text(&job->out, name);
    (void)kt__buf_puts(&job->out, ",\"embeddings\":[");
    for (int32_t i = 0; i < job->n_choices; i++) {
        if (i) (void)kt__buf_putc(&job->out, ',');
        write_embedding(job, i);
    }
    (void)kt__buf_printf(
        &job->out, "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld}",
        (long long)(kt__now_us() - job->begin_us) * 1000, (long long)in->n_tokens);
}

const kt__dialect kt__dialect_ollama_embed = {
    .route = "/api/embed",
    .error_body = kt__ollama_error_body,
    .read = read_ollama_embed,
    .token = ignore_token,
    .finish = embedding_finish,
    .end = ollama_list_end,
    .error = kt__dialect_whole_error,
};
