/* Anthropic's /v1/messages: JSON, or named server-sent events. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "serve/dialects.h"

/* ---- reading ---- */

static kt_status to_chat(const json_t *from, json_t *body, kt_error *err) {
    static const struct {
        const char *from, *to;
    } names[] = {{"model", "model"},
                 {"max_tokens", "max_tokens"},
                 {"temperature", "temperature"},
                 {"top_p", "top_p"},
                 {"top_k", "top_k"},
                 {"stop_sequences", "stop"},
                 {"stream", "stream"},
                 {"tools", "tools"}};
    const json_t *system = json_object_get(from, "system"), *item;
    const json_t *messages = json_object_get(from, "messages");
    const json_t *thinking = json_object_get(json_object_get(from, "thinking"), "type");
    size_t i;
    if (!json_is_integer(json_object_get(from, "max_tokens")))
        return kt__fail_at(err, KT_E_ARG, "max_tokens", UINT64_MAX,
                           "max_tokens: a number is needed");
    if (!json_is_array(messages))
        return kt__fail_at(err, KT_E_ARG, "messages", UINT64_MAX, "messages: expected an array");
    if (thinking &&
        strcmp(json_string_value(thinking) ? json_string_value(thinking) : "", "disabled") != 0)
        return kt__fail_at(err, KT_E_UNSUPPORTED, "thinking", UINT64_MAX,
                           "thinking: not supported");
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *v = json_object_get(from, names[i].from);
        if (v) (void)json_object_set(body, names[i].to, v);
    }
    json_t *list = json_array();
    if (system && !json_is_null(system))
        json_array_append_new(list, json_pack("{s:s,s:O}", "role", "system", "content", system));
    json_array_foreach(messages, i, item) {
        (void)json_array_append(list, (json_t *)(uintptr_t)item);
    }
    return json_object_set_new(body, "messages", list) == 0 ? KT_OK
                                                            : kt__fail_nomem(err, "a request", 0);
}

static kt_status read(kt__job *job, kt_error *err) {
    json_t *body = json_object();
    kt_status status;
    KT__TRY(kt__job_parse(job, err));
    if (!body) return kt__fail_nomem(err, "a request", 0);
    KT__TRY(to_chat(job->json, body, err));
    json_decref(job->json);
    job->json = body;
    body = NULL;
    status = kt__job_read_wire(job, KT__WIRE_CHAT, err);
out:
    json_decref(body);
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

static void text(kt__buf *out, const char *s) {
    kt__wire_write_string(out, s, strlen(s));
}

/* {"id":...,"role":"assistant","model":... */
static void head(kt__job *job) {
    (void)kt__buf_puts(&job->out, "{\"id\":");
    text(&job->out, job->id);
    (void)kt__buf_puts(&job->out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    text(&job->out, kt__served_name(job->model));
}

static void begin(kt__job *job) {
    if (!job->stream) return;
    (void)kt__buf_puts(&job->out, "event: message_start\ndata: {\"type\":\"message_start\","
                                  "\"message\":");
    head(job);
    (void)kt__buf_puts(&job->out,
                       ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
                       "\"input_tokens\":0,\"output_tokens\":0}}}\n\n"
                       "event: content_block_start\ndata: {\"type\":\"content_block_start\","
                       "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
}

static void token(kt__job *job, const kt_event *event) {
    if (!job->stream) {
        kt__job_gather(job, event);
    } else if (event->len) {
        (void)kt__buf_puts(&job->out, "event: content_block_delta\ndata: {\"type\":"
                                      "\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                                      "\"text_delta\",\"text\":");
        kt__wire_write_string(&job->out, event->text, event->len);
        (void)kt__buf_puts(&job->out, "}}\n\n");
    }
}

static void usage(kt__buf *out, const kt_req_report *r) {
    (void)kt__buf_printf(out,
                         "\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d,"
                         "\"cache_read_input_tokens\":%d,\"cache_creation_input_tokens\":0}",
                         (int)(r->n_prompt - r->n_cached), (int)r->n_generated, (int)r->n_cached);
}

static void finish(kt__job *job, const kt_event *event) {
    kt__buf *out = &job->out;
    const kt__job_choice *c = &job->choices[event->choice];
    const char *reason = stop_reason(event->finish);
    if (job->stream) {
        (void)kt__buf_printf(out,
                             "event: content_block_stop\ndata: {\"type\":\"content_block_stop\","
                             "\"index\":0}\n\nevent: message_delta\ndata: {\"type\":"
                             "\"message_delta\",\"delta\":{\"stop_reason\":\"%s\","
                             "\"stop_sequence\":null},",
                             reason);
        usage(out, event->report);
        (void)kt__buf_puts(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        return;
    }
    head(job);
    (void)kt__buf_puts(out, ",\"content\":[{\"type\":\"text\",\"text\":");
    kt__wire_write_string(out, c->text.data ? c->text.data : "", c->text.len);
    (void)kt__buf_printf(out, "}],\"stop_reason\":\"%s\",\"stop_sequence\":null,", reason);
    usage(out, event->report);
    (void)kt__buf_putc(out, '}');
}

static void end(kt__job *job) {
    (void)job;
}

static void error(kt__job *job, const kt_error *err) {
    int status = kt__wire_http_status(err->code);
    const char *message = err->message[0] ? err->message : kt_status_message(err->code);
    bool events = job->stream && job->begun;
    if (events) (void)kt__buf_puts(&job->out, "event: error\ndata: ");
    if (!events) kt__buf_clear(&job->out);
    if (!events && job->begun) job->status = status;
    (void)kt__buf_printf(&job->out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                         status == 429   ? "rate_limit_error"
                         : status == 404 ? "not_found_error"
                         : status == 503 ? "overloaded_error"
                         : status >= 500 ? "api_error"
                                         : "invalid_request_error");
    text(&job->out, message);
    (void)kt__buf_puts(&job->out, "}}");
    if (events) (void)kt__buf_puts(&job->out, "\n\n");
}

const kt__dialect kt__dialect_messages = {"/v1/messages", read,   NULL, begin,
                                          token,          finish, end,  error};
