/* Anthropic's /v1/messages: JSON, or named server-sent events; and its count of tokens. The bodies
 * are read in dialect_messages_read.c. */
#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* ---- answering ---- */

static const char *stop_reason(const kt_event *event) {
    switch (event->finish) {
    case KT_FINISH_EOG: return event->report->n_calls ? "tool_use" : "end_turn";
    case KT_FINISH_STOP: return "stop_sequence";
    default: return "max_tokens";
    }
}

/* {"id":...,"role":"assistant","model":... */
static void write_message_head(kt__job *job) {
    (void)kt__buf_puts(&job->answer.out, "{\"id\":");
    kt__json_text(&job->answer.out, job->id);
    (void)kt__buf_puts(&job->answer.out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    kt__json_text(&job->answer.out, kt__served_name(job->model.served));
}

static void messages_begin(kt__job *job) {
    size_t n_prompt = job->answer.parts[0].req ? kt_request_n_prompt(job->answer.parts[0].req) : 0;
    if (!job->answer.stream) return;
    (void)kt__buf_puts(&job->answer.out, "event: message_start\ndata: {\"type\":\"message_start\","
                                         "\"message\":");
    write_message_head(job);
    (void)kt__buf_printf(&job->answer.out,
                         ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
                         "\"input_tokens\":%zu,\"output_tokens\":0,\"cache_read_input_tokens\":0,"
                         "\"cache_creation_input_tokens\":0}}}\n\n"
                         "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                         n_prompt);
}

/* ---- content: a block each ---- */

/* What templates take back as reasoning needs no proof; clients expect one. */
static const char signature[] = "kentang";

/* text: its own, or "" where the block begins in a stream. */
static void write_block(kt__buf *out, const kt__job_choice *c, const kt__wire_block *b,
                        const char *text, size_t len) {
    if (b->kind == KT_PART_CALL) {
        (void)kt__buf_puts(out, "{\"type\":\"tool_use\"");
        kt__json_member(out, "id", c->said.names.data + b->id);
        kt__json_member(out, "name", c->said.names.data + b->name);
        (void)kt__buf_puts(out, ",\"input\":");
        kt__dialect_write_object(out, text, len);
    } else {
        bool thought = b->kind == KT_PART_REASONING;
        const char *kind = thought ? "thinking" : "text";
        (void)kt__buf_printf(out, "{\"type\":\"%s\",\"%s\":", kind, kind);
        kt__json_string(out, text, len, KT__JSON_PLAIN);
        if (thought) kt__json_member(out, "signature", len ? signature : "");
    }
    (void)kt__buf_putc(out, '}');
}

/* event: NAME, with what belongs to block `index` after it, but for the braces' end */
static void begin_block_event(kt__job *job, const char *name, size_t index) {
    (void)kt__buf_printf(&job->answer.out, "event: %s\ndata: {\"type\":\"%s\",\"index\":%zu", name,
                         name, index);
}

static void write_block_delta(kt__job *job, size_t index, const char *type, const char *member,
                              const char *text, size_t len) {
    begin_block_event(job, "content_block_delta", index);
    (void)kt__buf_printf(&job->answer.out, ",\"delta\":{\"type\":\"%s\",\"%s\":", type, member);
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_puts(&job->answer.out, "}}\n\n");
}

static void open_block(kt__job *job, const kt__job_choice *c, size_t index) {
    begin_block_event(job, "content_block_start", index);
    (void)kt__buf_puts(&job->answer.out, ",\"content_block\":");
    write_block(&job->answer.out, c, &c->said.list[index], "", 0);
    (void)kt__buf_puts(&job->answer.out, "}\n\n");
}

static void close_block(kt__job *job, const kt__job_choice *c, size_t index) {
    if (c->said.list[index].kind == KT_PART_REASONING)
        write_block_delta(job, index, "signature_delta", "signature", signature,
                          sizeof signature - 1);
    begin_block_event(job, "content_block_stop", index);
    (void)kt__buf_puts(&job->answer.out, "}\n\n");
}

static void take_part(kt__job *job, const kt_part *p) {
    static const struct {
        const char *type, *member;
    } deltas[] = {[KT_PART_CONTENT] = {"text_delta", "text"},
                  [KT_PART_REASONING] = {"thinking_delta", "thinking"},
                  [KT_PART_CALL] = {"input_json_delta", "partial_json"}};
    const kt__job_choice *c = &job->answer.choices[0];
    size_t n = c->said.n;
    kt__dialect_gather_part(job, 0, p);
    if (!job->answer.stream || job->answer.out.failed) return;
    if (c->said.n > n && n) close_block(job, c, n - 1);
    if (c->said.n > n) open_block(job, c, n);
    if (p->len)
        write_block_delta(job, c->said.n - 1, deltas[p->kind].type, deltas[p->kind].member, p->text,
                          p->len);
}

static void messages_token(kt__job *job, const kt_event *event) {
    kt_part one;
    size_t n;
    const kt_part *parts = kt__wire_parts(event, &one, &n);
    for (size_t i = 0; i < n; i++) take_part(job, &parts[i]);
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
    (void)kt__buf_printf(&job->answer.out,
                         "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(event));
    if (stop >= 0) {
        kt__json_text(&job->answer.out, job->request.wire->req.gen.stop[stop]);
    } else {
        (void)kt__buf_puts(&job->answer.out, "null");
    }
}

/* An answer of nothing is an empty text. */
static void messages_finish(kt__job *job, const kt_event *event) {
    kt__buf *out = &job->answer.out;
    const kt__job_choice *c = &job->answer.choices[0];
    if (!c->said.n) take_part(job, &(kt_part){.kind = KT_PART_CONTENT, .text = ""});
    if (out->failed) return;
    if (job->answer.stream) {
        close_block(job, c, c->said.n - 1);
        (void)kt__buf_puts(out,
                           "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
        write_stop_reason(job, event);
        (void)kt__buf_puts(out, "},");
        write_message_usage(out, event->report);
        kt__dialect_write_own(job, event->report);
        (void)kt__buf_puts(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        return;
    }
    write_message_head(job);
    (void)kt__buf_puts(out, ",\"content\":[");
    for (size_t i = 0; i < c->said.n; i++) {
        const kt__wire_block *b = &c->said.list[i];
        if (i) (void)kt__buf_putc(out, ',');
        write_block(out, c, b, kt__wire_block_text(&c->said, b), b->len);
    }
    (void)kt__buf_puts(out, "],");
    write_stop_reason(job, event);
    (void)kt__buf_putc(out, ',');
    write_message_usage(out, event->report);
    kt__dialect_write_own(job, event->report);
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
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->answer.out, "event: error\ndata: ");
    kt__messages_error_body(&job->answer.out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->answer.out, "\n\n");
}

const kt__dialect kt__dialect_messages = {
    .route = "/v1/messages",
    .stream_type = "text/event-stream",
    .stream_filler = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .error_body = kt__messages_error_body,
    .read = kt__messages_read,
    .begin = messages_begin,
    .token = messages_token,
    .finish = messages_finish,
    .error = messages_error,
};

const kt__dialect kt__dialect_count_tokens = {
    .route = "/v1/messages/count_tokens",
    .error_body = kt__messages_error_body,
    .run = kt__messages_count,
    .error = kt__dialect_whole_error,
};
