/* Anthropic's /v1/messages: JSON, or named server-sent events; and its count of tokens. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/json_out.h"
#include "serve/dialects.h"

/* ---- reading ---- */

/* What OpenAI's body has no word for, and kentang does not do; types that ask for nothing pass. */
static kt_status refuse_unsupported(const json_t *from, kt_error *err) {
    static const struct {
        const char *key, *types;
    } refused[] = {{"thinking", "disabled"}, {"tool_choice", "auto none"}, {"mcp_servers", ""},
                   {"container", ""},        {"output_format", ""},        {"output_config", ""}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *key = refused[i].key;
        const json_t *v = json_object_get(from, key);
        const char *type = json_string_value(json_object_get(v, "type"));
        bool empty = !v || json_is_null(v) || (json_is_array(v) && !json_array_size(v)) ||
                     (json_is_object(v) && !json_object_size(v));
        if (empty || (type && *type && strstr(refused[i].types, type))) continue;
        return kt__fail_at(err, KT_E_UNSUPPORTED, key, UINT64_MAX, "%s: not supported", key);
    }
    return KT_OK;
}

static const kt__wire_name client_names[] = {{"stop", "stop_sequences"}, {NULL, NULL}};

/* The body in OpenAI's words. */
static kt_status to_chat(const json_t *from, json_t *body, kt_error *err) {
    static const char *const same[] = {"model", "system", "messages", "max_tokens", "temperature",
                                       "top_p", "top_k",  "stream",   "seed",       "tools"};
    json_t *stop = json_object_get(from, "stop_sequences");
    const json_t *messages = json_object_get(from, "messages"),
                 *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    int rc = stop ? json_object_set(body, "stop", stop) : 0;
    if (role && !strcmp(role, "assistant")) /* the answer goes on from it */
        rc |= json_object_set_new(body, "continue_final_message", json_true());
    for (size_t i = 0; i < sizeof same / sizeof same[0] && rc == 0; i++) {
        json_t *v = json_object_get(from, same[i]);
        if (v) rc = json_object_set(body, same[i], v);
    }
    return rc == 0 ? KT_OK : kt__fail_nomem(err, "a request", 0);
}

/* What is to be counted may be longer than the context, what is to be answered not. */
static kt_status encode_prompt(kt__job *job, int32_t **ids, size_t *n, kt_error *err) {
    const kt_request_params *r = &job->wire->req;
    if (job->dialect != &kt__dialect_count_tokens)
        return kt_engine_encode(job->engine, r, ids, n, err);
    return kt_chat_encode(job->engine_model, r->messages, r->n_messages, r->chat_flags, ids, n,
                          err);
}

/* The prompt's ids take the messages' place: message_start tells their number. */
static kt_status encode_messages(kt__job *job, kt_error *err) {
    kt_request_params *r = &job->wire->req;
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status;
    KT__TRY(encode_prompt(job, &ids, &n, err));
    int32_t *copy = kt__arena_calloc(&job->wire->arena, n + 1, sizeof *copy);
    if (copy) memcpy(copy, ids, n * sizeof *ids);
    kt_free(ids);
    if (!copy) return kt__fail_nomem(err, "token ids", n * sizeof *ids);
    r->messages = NULL;
    r->n_messages = 0;
    r->ids = copy;
    r->n_ids = n;
out:
    return status;
}

static kt_status read_conversation(kt__job *job, kt_error *err) {
    json_t *body = json_object();
    kt_status status;
    if (!body) return kt__fail_nomem(err, "a request", 0);
    job->names = client_names;
    KT__TRY(refuse_unsupported(job->json, err));
    KT__TRY(to_chat(job->json, body, err));
    json_decref(job->json);
    job->json = body;
    body = NULL;
    KT__TRY(kt__job_read_wire(job, KT__WIRE_SYSTEM, err));
    status = encode_messages(job, err);
out:
    json_decref(body);
    return status;
}

static kt_status read_messages(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status != KT_OK) return status;
    if (!json_is_number(json_object_get(job->json, "max_tokens")))
        return kt__fail_at(err, KT_E_ARG, "max_tokens", UINT64_MAX,
                           "max_tokens: a number is needed");
    return read_conversation(job, err);
}

/* {"input_tokens": 12}: of the prompt that the messages would be */
static kt_status count_tokens(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status == KT_OK) status = read_conversation(job, err);
    if (status == KT_OK)
        (void)kt__buf_printf(&job->out, "{\"input_tokens\":%zu}", job->wire->req.n_ids);
    return status;
}

/* ---- answering ---- */

static const char *stop_reason(kt_finish finish) {
    switch (finish) {
    case KT_FINISH_EOG: return "end_turn";
    case KT_FINISH_STOP: return "stop_sequence";
    default: return "max_tokens";
    }
}

/* {"id":...,"role":"assistant","model":... */
static void write_message_head(kt__job *job) {
    (void)kt__buf_puts(&job->out, "{\"id\":");
    kt__json_text(&job->out, job->id);
    (void)kt__buf_puts(&job->out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    kt__json_text(&job->out, kt__served_name(job->model));
}

static void messages_begin(kt__job *job) {
    if (!job->stream) return;
    (void)kt__buf_puts(&job->out, "event: message_start\ndata: {\"type\":\"message_start\","
                                  "\"message\":");
    write_message_head(job);
    (void)kt__buf_printf(&job->out,
                         ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
                         "\"input_tokens\":%zu,\"output_tokens\":0,\"cache_read_input_tokens\":0,"
                         "\"cache_creation_input_tokens\":0}}}\n\n"
                         "event: content_block_start\ndata: {\"type\":\"content_block_start\","
                         "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
                         "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                         job->wire->req.n_ids);
}

static void messages_token(kt__job *job, const kt_event *event) {
    if (!job->stream) {
        kt__dialect_gather(job, event);
    } else if (event->len) {
        (void)kt__buf_puts(&job->out, "event: content_block_delta\ndata: {\"type\":"
                                      "\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                                      "\"text_delta\",\"text\":");
        kt__json_string(&job->out, event->text, event->len, KT__JSON_PLAIN);
        (void)kt__buf_puts(&job->out, "}}\n\n");
    }
}

static void write_message_usage(kt__buf *out, const kt_request_report *r) {
    (void)kt__buf_printf(out,
                         "\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d,"
                         "\"cache_read_input_tokens\":%d,\"cache_creation_input_tokens\":0}",
                         (int)(r->n_prompt - r->n_cached), (int)r->n_generated, (int)r->n_cached);
}

/* "stop_reason":"stop_sequence","stop_sequence":"END" */
static void write_stop_reason(kt__job *job, const kt_event *event) {
    int32_t stop = event->report->stop;
    (void)kt__buf_printf(&job->out,
                         "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(event->finish));
    if (stop >= 0) {
        kt__json_text(&job->out, job->wire->req.gen.stop[stop]);
    } else {
        (void)kt__buf_puts(&job->out, "null");
    }
}

static void messages_finish(kt__job *job, const kt_event *event) {
    kt__buf *out = &job->out;
    const kt__job_choice *c = &job->choices[event->choice];
    if (job->stream) {
        (void)kt__buf_puts(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\","
                                "\"index\":0}\n\nevent: message_delta\ndata: {\"type\":"
                                "\"message_delta\",\"delta\":{");
        write_stop_reason(job, event);
        (void)kt__buf_puts(out, "},");
        write_message_usage(out, event->report);
        (void)kt__buf_puts(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        return;
    }
    write_message_head(job);
    (void)kt__buf_puts(out, ",\"content\":[{\"type\":\"text\",\"text\":");
    kt__json_string(out, c->text.data ? c->text.data : "", c->text.len, KT__JSON_PLAIN);
    (void)kt__buf_puts(out, "}],");
    write_stop_reason(job, event);
    (void)kt__buf_putc(out, ',');
    write_message_usage(out, event->report);
    (void)kt__buf_putc(out, '}');
}

void kt__messages_error_body(kt__buf *out, int status, const kt_error *err) {
    const char *message = err->message[0] ? err->message : kt_status_message(err->code);
    (void)kt__buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                         status == 401   ? "authentication_error"
                         : status == 403 ? "permission_error"
                         : status == 404 ? "not_found_error"
                         : status == 413 ? "request_too_large"
                         : status == 429 ? "rate_limit_error"
                         : status == 503 ? "overloaded_error"
                         : status >= 500 ? "api_error"
                                         : "invalid_request_error");
    kt__json_text(out, message);
    (void)kt__buf_puts(out, "}}");
}

static void messages_error(kt__job *job, const kt_error *err) {
    if (!job->stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->out, "event: error\ndata: ");
    kt__messages_error_body(&job->out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->out, "\n\n");
}

const kt__dialect kt__dialect_messages = {
    .route = "/v1/messages",
    .stream_type = "text/event-stream",
    .stream_filler = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .error_body = kt__messages_error_body,
    .read = read_messages,
    .begin = messages_begin,
    .token = messages_token,
    .finish = messages_finish,
    .error = messages_error,
};

const kt__dialect kt__dialect_count_tokens = {
    .route = "/v1/messages/count_tokens",
    .error_body = kt__messages_error_body,
    .run = count_tokens,
    .error = kt__dialect_whole_error,
};
