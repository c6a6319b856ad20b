/* OpenAI's embeddings: an input after the other, so that one request never fills the queue. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "serve/dialects.h"

enum { MAX_INPUTS = 2048 };

typedef struct inputs {
    json_t *list; /* of texts or of arrays of ids; job->json owns it */
    size_t n, at;
    int32_t *ids; /* of an input that is given so; in the wire's arena */
    bool base64;
    int64_t n_tokens;
} inputs;

/* Any of the shapes that OpenAI has: "text", ["text"], [ids], [[ids]]. */
static kt_status shape_of(kt__job *job, inputs *in, kt_error *err) {
    json_t *v = json_object_get(job->json, "input");
    bool list = json_is_array(v) && json_array_size(v) > 0;
    bool numbers = list && json_is_number(json_array_get(v, 0));
    if (!json_is_string(v) && !list)
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input: expected a text, an array of texts or of token ids");
    in->list = v;
    in->n = list && !numbers ? json_array_size(v) : 1;
    if (in->n > MAX_INPUTS)
        return kt__fail_at(err, KT_E_LIMIT, "input", UINT64_MAX, "input: at most %d texts",
                           (int)MAX_INPUTS);
    return KT_OK;
}

static kt_status read_ids(kt__job *job, json_t *list, size_t at, kt_error *err) {
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
    job->wire->req.ids = ids;
    job->wire->req.n_ids = n;
    return KT_OK;
}

/* The request's prompt becomes the next input. */
static kt_status set_input(kt__job *job, kt_error *err) {
    inputs *in = job->extra;
    kt_request *r = &job->wire->req;
    json_t *v = in->list;
    bool numbers = json_is_array(v) && json_is_number(json_array_get(v, 0));
    if (json_is_array(v) && !numbers) v = json_array_get(v, in->at);
    r->text = NULL;
    r->ids = NULL;
    if (json_is_array(v) && json_array_size(v) > 0) return read_ids(job, v, in->at, err);
    if (!json_is_string(v) || !json_string_length(v))
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                           "input[%zu]: expected a text that is not empty", in->at);
    r->text = json_string_value(v);
    r->text_len = json_string_length(v);
    return KT_OK;
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
    job->wire->req.pooling =
        pooling && !strcmp(pooling, "last") ? KT_POOLING_LAST : KT_POOLING_MEAN;
    return KT_OK;
}

static kt_status read(kt__job *job, kt_error *err) {
    kt_status status;
    KT__TRY(kt__job_parse(job, err));
    inputs *in = kt__arena_calloc(&job->arena, 1, sizeof *in);
    job->wire = kt__calloc(1, sizeof *job->wire);
    if (!in || !job->wire) return kt__fail_nomem(err, "a request", sizeof *in);
    kt__arena_init(&job->wire->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    job->wire->req = kt__config_request(kt__server_config(job->server));
    job->wire->req.text_flags = KT_TOK_ADD_SPECIAL;
    job->extra = in;
    KT__TRY(shape_of(job, in, err));
    KT__TRY(read_options(job, in, err));
    KT__TRY(set_input(job, err));
    status = kt__job_use_model(job, json_string_value(json_object_get(job->json, "model")), err);
out:
    return status;
}

static void begin(kt__job *job) {
    (void)kt__buf_puts(&job->out, "{\"object\":\"list\",\"data\":[");
}

static void token(kt__job *job, const kt_event *event) {
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

static void error(kt__job *job, const kt_error *err) {
    kt__buf_clear(&job->out);
    job->out_at = 0;
    if (job->begun) job->status = kt__wire_http_status(err->code);
    kt__dialect_error_body(job, err);
}

static void finish(kt__job *job, const kt_event *event) {
    inputs *in = job->extra;
    kt__buf *out = &job->out;
    if (!event->embedding) {
        kt_error err;
        (void)kt__fail(&err, KT_E_CANCELLED, "%s", kt_finish_name(event->finish));
        job->failed = true;
        error(job, &err);
        return;
    }
    in->n_tokens += event->report->n_prompt;
    (void)kt__buf_printf(
        out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", in->at ? "," : "", in->at);
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
    (void)kt__buf_putc(out, '}');
}

static void end(kt__job *job) {
    inputs *in = job->extra;
    kt_error err;
    if (++in->at < in->n) {
        if (set_input(job, &err) == KT_OK) {
            job->again = true;
        } else {
            error(job, &err);
        }
        return;
    }
    (void)kt__buf_puts(&job->out, "],\"model\":");
    kt__wire_write_string(&job->out, kt__served_name(job->model),
                          strlen(kt__served_name(job->model)));
    (void)kt__buf_printf(&job->out, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}",
                         (long long)in->n_tokens, (long long)in->n_tokens);
}

const kt__dialect kt__dialect_embeddings = {"/v1/embeddings", read, NULL, begin, token,
                                            finish,           end,  error};
