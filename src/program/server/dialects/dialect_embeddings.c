/* OpenAI's embeddings: each input is a prompt of the job. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "wire/wire_value.h"

typedef struct inputs {
    bool base64;
    size_t n_dimensions; /* of an embedding that are given; 0: all */
    int64_t n_tokens;
} inputs;

static kt_status read_ids(kt__job *job, json_t *list, size_t at, kt__wire_prompt *out,
                          kt_error *err) {
    size_t i, n = json_array_size(list);
    json_t *v;
    int32_t *ids = kt__arena_calloc(&job->request.wire->arena, n + 1, sizeof *ids);
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

static kt_status fail_input(size_t at, const char *what, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX, "input[%zu]%s", at, what);
}

/* [12, "text", 34]: one input of ids and texts. */
static kt_status read_mixed(kt__job *job, const json_t *list, size_t at, kt__wire_prompt *out,
                            kt_error *err) {
    json_t *ids = NULL;
    KT__STEP(kt__dialect_mixed_ids(job, "input", list, &ids, err));
    kt_status status = read_ids(job, ids, at, out, err);
    json_decref(ids);
    return status;
}

/* {"content": [{"type": "text", "text": TEXT}, ...]}: the texts one after the other, or {"prompt_string": TEXT}. */
static kt_status read_input_object(kt__job *job, const json_t *v, size_t at, kt__wire_prompt *out,
                                   kt_error *err) {
    const json_t *text = json_object_get(v, "prompt_string"),
                 *parts = json_object_get(v, "content"), *part;
    size_t i, len = 0;
    if (!text && !json_array_size(parts))
        return fail_input(at, ": expected \"prompt_string\" or an array of parts as \"content\"",
                          err);
    if (text && !json_is_string(text))
        return fail_input(at, ".prompt_string: expected a text", err);
    for (i = 0; i < json_array_size(parts); i++)
        len += json_string_length(json_object_get(json_array_get(parts, i), "text"));
    char *joined = kt__arena_calloc(&job->request.wire->arena, len + 1, 1), *to = joined;
    if (!joined) return kt__fail_nomem(err, "a request", len);
    json_array_foreach((json_t *)(uintptr_t)parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *own = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(own))
            return fail_input(
                at, ".content: expected parts of type \"text\", which are all that is read", err);
        memcpy(to, json_string_value(own), json_string_length(own));
        to += json_string_length(own);
    }
    out->text = text ? json_string_value(text) : joined;
    out->len = text ? json_string_length(text) : len;
    return KT_OK;
}

static kt_status read_input(kt__job *job, json_t *v, size_t at, kt__wire_prompt *out,
                            kt_error *err) {
    if (json_is_object(v)) return read_input_object(job, v, at, out, err);
    if (kt__dialect_is_mixed(v)) return read_mixed(job, v, at, out, err);
    if (json_is_array(v) && json_array_size(v) > 0) return read_ids(job, v, at, out, err);
    if (!json_is_string(v)) return fail_input(at, ": expected a text", err);
    out->text = json_string_value(v); /* job->request.json lives as long as the job */
    out->len = json_string_length(v);
    return KT_OK;
}

/* Any of the shapes that OpenAI has: "text", ["text"], [ids], [[ids]]; and of llama-server's: ids and texts mixed, and
 * objects. The model must be in use. */
static kt_status read_inputs(kt__job *job, kt_error *err) {
    json_t *v = json_object_get(job->request.json, "input");
    bool list = json_is_array(v) && json_array_size(v) > 0;
    bool one = !list || json_is_number(json_array_get(v, 0)) || kt__dialect_is_mixed(v);
    size_t n = one ? 1 : json_array_size(v);
    if (!json_is_string(v) && !json_is_object(v) && !list)
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input: expected a text, an array of texts or of token ids");
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__fail_at(err, KT_E_LIMIT, "input", UINT64_MAX, "input: at most %d texts",
                           (int)KT__WIRE_MAX_PROMPTS);
    kt__wire_prompt *prompts = kt__arena_calloc(&job->request.wire->arena, n, sizeof *prompts);
    kt_status status = prompts ? KT_OK : kt__fail_nomem(err, "a request", n);
    for (size_t i = 0; i < n && status == KT_OK; i++)
        status = read_input(job, one ? v : json_array_get(v, i), i, &prompts[i], err);
    job->request.wire->prompts = prompts;
    job->request.wire->n_prompts = n;
    return status;
}

static bool read_pooling(const char *name, kt_pooling *out) {
    static const struct {
        const char *name;
        kt_pooling pooling;
    } names[] = {{"model", KT_POOLING_MODEL},
                 {"mean", KT_POOLING_MEAN},
                 {"last", KT_POOLING_LAST},
                 {"cls", KT_POOLING_CLS}};
    *out = KT_POOLING_MODEL;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        *out = names[i].pooling;
        if (!strcmp(name, names[i].name)) return true;
    }
    return !name;
}

/* A reranker's own pooling gives one number for a pair. The model must be in use. */
static kt_status refuse_reranker(const kt__job *job, kt_error *err) {
    kt_model_info info;
    kt_model_get_info(job->model.loaded, &info);
    if (job->request.wire->req.embedding.pooling != KT_POOLING_MODEL ||
        info.pooling != KT_POOLING_RANK)
        return KT_OK;
    return kt__fail_at(err, KT_E_UNSUPPORTED, "model", UINT64_MAX,
                       "the model %s is a reranker: ask it at /v1/rerank, or say which pooling the "
                       "embedding shall have",
                       kt__served_name(job->model.served));
}

static kt_status read_options(kt__job *job, inputs *in, kt_error *err) {
    const char *format = json_string_value(json_object_get(job->request.json, "encoding_format"));
    const char *pooling = json_string_value(json_object_get(job->request.json, "pooling"));
    const char *usual = job->request.settings->config->pooling;
    if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        return kt__fail_at(err, KT_E_ARG, "encoding_format", UINT64_MAX,
                           "encoding_format: expected float or base64");
    if (!pooling && usual && !strcmp(usual, "none"))
        return kt__fail_at(
            err, KT_E_UNSUPPORTED, "pooling", UINT64_MAX,
            "pooling: the server has none by default, and an embedding is of a whole "
            "text here: say mean, last, cls or model");
    if (!pooling && usual && strcmp(usual, "rank") != 0) pooling = usual;
    if (!read_pooling(pooling, &job->request.wire->req.embedding.pooling))
        return kt__fail_at(err, KT_E_ARG, "pooling", UINT64_MAX,
                           "pooling: expected model, mean, last or cls");
    const kt__wire_reader reader = {job->request.wire, &job->request.wire->arena, NULL, err, NULL};
    kt_status status = kt__wire_read_adapters(&reader, job->request.json);
    if (status != KT_OK) return status;
    in->base64 = format && !strcmp(format, "base64");
    return KT_OK;
}

/* The model must be in use. */
static kt_status read_dimensions(kt__job *job, kt_error *err) {
    const json_t *v = json_object_get(job->request.json, "dimensions");
    inputs *in = job->extra;
    kt_model_info info;
    if (!v || json_is_null(v)) return KT_OK;
    kt_model_get_info(job->model.loaded, &info);
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;
    if (n < 1 || n > info.d_model)
        return kt__fail_at(err, KT_E_ARG, "dimensions", UINT64_MAX,
                           "dimensions: expected a whole number from 1 to %d", (int)info.d_model);
    in->n_dimensions = (size_t)n;
    return KT_OK;
}

static kt_status read_body(kt__job *job, kt_error *err) {
    inputs *in = kt__arena_calloc(&job->arena, 1, sizeof *in);
    job->request.wire = kt__calloc(1, sizeof *job->request.wire);
    if (!in || !job->request.wire) return kt__fail_nomem(err, "a request", sizeof *in);
    kt__arena_init(&job->request.wire->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    job->request.wire->req = kt__config_request(job->request.settings->config);
    job->request.wire->req.prompt.text_flags = KT_TOK_ADD_SPECIAL;
    job->extra = in;
    return read_options(job, in, err);
}

static kt_status read_embedding_job(kt__job *job, kt_error *err) {
    KT__STEP(read_body(job, err));
    KT__STEP(kt__job_use_model(job, json_string_value(json_object_get(job->request.json, "model")),
                               err));
    KT__STEP(kt__job_use_adapters(job, err));
    KT__STEP(refuse_reranker(job, err));
    KT__STEP(read_inputs(job, err));
    return read_dimensions(job, err);
}

static kt_status read_embeddings(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    return status == KT_OK ? read_embedding_job(job, err) : status;
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

/* The first n of an embedding, of length 1 again; in place, where it is the job's copy. */
static void cut_embedding(float *e, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)e[i] * (double)e[i];
    if (sum <= 0) return;
    double scale = 1.0 / sqrt(sum);
    for (size_t i = 0; i < n; i++) e[i] = (float)((double)e[i] * scale);
}

static void write_numbers(kt__buf *out, const float *e, size_t n, bool base64) {
    if (base64) {
        (void)kt__buf_putc(out, '"');
        write_base64(out, (const unsigned char *)e, n * sizeof *e); /* f32, little endian */
        (void)kt__buf_putc(out, '"');
        return;
    }
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) (void)kt__buf_printf(out, "%s%.9g", i ? "," : "", (double)e[i]);
    (void)kt__buf_putc(out, ']');
}

/* Kept with its choice: the list is written in the order of the inputs, not of their ends. */
static void embedding_finish(kt__job *job, const kt_event *event) {
    inputs *in = job->extra;
    kt__buf *out = &job->answer.choices[event->choice].said.text;
    if (!event->embedding) {
        kt_error err;
        (void)kt__fail(&err, KT_E_CANCELLED, "%s", kt_finish_name(event->finish));
        kt__job_fail(job, &err);
        return;
    }
    in->n_tokens += event->report->n_prompt;
    size_t n = event->n_embedding;
    float *copy = kt__calloc(n, sizeof *copy);
    if (copy) {
        memcpy(copy, event->embedding, n * sizeof *copy);
        if (in->n_dimensions) cut_embedding(copy, n = in->n_dimensions);
        write_numbers(out, copy, n, in->base64);
        kt__free(copy);
    } else {
        out->failed = true;
    }
    if (out->failed) job->answer.out.failed = true;
}

/* [0.1, ...] or "...", of input i; it is not needed again. */
static void write_embedding(kt__job *job, int32_t i) {
    kt__buf *text = &job->answer.choices[i].said.text;
    (void)kt__buf_append(&job->answer.out, text->data, text->len);
    kt__buf_free(text);
}

static void openai_list_end(kt__job *job) {
    const inputs *in = job->extra;
    const char *name = kt__served_name(job->model.served);
    (void)kt__buf_puts(&job->answer.out, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        (void)kt__buf_printf(
            &job->answer.out,
            "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "", (int)i);
        write_embedding(job, i);
        (void)kt__buf_putc(&job->answer.out, '}');
    }
    (void)kt__buf_puts(&job->answer.out, "],\"model\":");
    kt__json_text(&job->answer.out, name);
    (void)kt__buf_printf(&job->answer.out,
                         ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}",
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

/* ---- llama-server's /embedding: {"content": TEXT}, answered with an array of the vectors of each ---- */

static kt_status read_llama_embedding(kt__job *job, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    json_t *content = json_object_get(job->request.json, "content");
    if (content && !json_object_get(job->request.json, "input") &&
        json_object_set(job->request.json, "input", content) != 0)
        return kt__fail_nomem(err, "a request", 0);
    return read_embedding_job(job, err);
}

static void llama_list_end(kt__job *job) {
    (void)kt__buf_putc(&job->answer.out, '[');
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        (void)kt__buf_printf(&job->answer.out, "%s{\"index\":%d,\"embedding\":[", i ? "," : "",
                             (int)i);
        write_embedding(job, i);
        (void)kt__buf_puts(&job->answer.out, "]}");
    }
    (void)kt__buf_putc(&job->answer.out, ']');
}

const kt__dialect kt__dialect_embedding = {
    .route = "/embedding",
    .error_body = kt__openai_error_body,
    .read = read_llama_embedding,
    .token = ignore_token,
    .finish = embedding_finish,
    .end = llama_list_end,
    .error = kt__dialect_whole_error,
};

/* ---- Ollama's /api/embed: the same input, another answer ---- */

/* A text that is too long is cut to the context, as Ollama does unless it is told not to. */
static kt_status cut_to_context(kt__job *job, kt__wire_prompt *p, kt_error *err) {
    kt_model_info info;
    kt_engine_info of;
    size_t n = 0;
    kt_model_get_info(job->model.loaded, &info);
    kt_engine_get_info(job->model.engine, &of);
    size_t n_ctx = (size_t)of.n_ctx, len = p->len;
    if (info.bytes_per_token > 0 && len / (size_t)info.bytes_per_token > 2 * n_ctx)
        len = 2 * n_ctx * (size_t)info.bytes_per_token; /* more cannot matter */
    if (!p->text || p->len < n_ctx) return KT_OK;
    int32_t *ids = kt__arena_calloc(&job->request.wire->arena, n_ctx, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", n_ctx);
    kt_status status = kt_tokenize(job->model.loaded, p->text, len, KT_TOK_ADD_SPECIAL, ids, n_ctx,
                                   &n, err);
    if (status != KT_E_LIMIT) return status;
    if (info.add_eos && info.eos_id >= 0) ids[n_ctx - 1] = info.eos_id;
    *p = (kt__wire_prompt){.ids = ids, .n_ids = n_ctx};
    return KT_OK;
}

static kt_status read_ollama_body(kt__job *job, kt_error *err) {
    const json_t *truncate = json_object_get(job->request.json, "truncate");
    KT__STEP(kt__ollama_rename(job, err));
    KT__STEP(read_embedding_job(job, err));
    kt__wire_prompt *prompts = (kt__wire_prompt *)(uintptr_t)
                                   job->request.wire->prompts; /* made here */
    for (size_t i = 0; i < job->request.wire->n_prompts && !json_is_false(truncate); i++)
        KT__STEP(cut_to_context(job, &prompts[i], err));
    return KT_OK;
}

/* An empty text, or none: the model is loaded, and there are no embeddings. */
static kt_status read_ollama_embed(kt__job *job, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    const json_t *input = json_object_get(job->request.json, "input");
    bool loads = !input || json_is_null(input) ||
                 (json_is_string(input) && !json_string_length(input)) ||
                 (json_is_array(input) && !json_array_size(input));
    if (loads) json_object_set_new(job->request.json, "input", json_string("none"));
    KT__STEP(read_ollama_body(job, err));
    if (loads) job->request.wire->n_prompts = 0;
    return KT_OK;
}

static void ollama_list_end(kt__job *job) {
    const inputs *in = job->extra;
    const char *name = kt__served_name(job->model.served);
    (void)kt__buf_puts(&job->answer.out, "{\"model\":");
    kt__json_text(&job->answer.out, name);
    (void)kt__buf_puts(&job->answer.out, ",\"embeddings\":[");
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        if (i) (void)kt__buf_putc(&job->answer.out, ',');
        write_embedding(job, i);
    }
    (void)kt__buf_printf(
        &job->answer.out,
        "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld}",
        (long long)(kt__now_us() - job->request.begin_us) * 1000, (long long)in->n_tokens);
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

/* ---- Ollama's older /api/embeddings: one text, as `prompt` ---- */

static kt_status read_ollama_embeddings(kt__job *job, kt_error *err) {
    static const kt__wire_name client_names[] = {{"input", "prompt"}, {NULL, NULL}};
    kt_status status = kt__job_parse(job, err);
    if (status != KT_OK) return status;
    json_t *prompt = json_object_get(job->request.json, "prompt");
    job->request.names = client_names;
    if (!json_is_string(prompt) || !json_string_length(prompt))
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input: expected a text that is not empty");
    if (json_object_set(job->request.json, "input", prompt) != 0)
        return kt__fail_nomem(err, "a request", 0);
    return read_ollama_body(job, err);
}

static void ollama_one_end(kt__job *job) {
    (void)kt__buf_puts(&job->answer.out, "{\"embedding\":");
    write_embedding(job, 0);
    (void)kt__buf_putc(&job->answer.out, '}');
}

const kt__dialect kt__dialect_ollama_embeddings = {
    .route = "/api/embeddings",
    .error_body = kt__ollama_error_body,
    .read = read_ollama_embeddings,
    .token = ignore_token,
    .finish = embedding_finish,
    .end = ollama_one_end,
    .error = kt__dialect_whole_error,
};
