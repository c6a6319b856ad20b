/* OpenAI's /v1/responses: one object, or named server-sent events. Each block of the answer is an
 * item of its output. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialect_responses.h"

/* ---- items ---- */

typedef enum item_state { ITEM_BEGUN, ITEM_DONE, ITEM_CUT } item_state;

/* Whether the tool's input is a text. */
static bool is_custom_call(const kt__job *job, const kt__wire_block *b) {
    const kt__responses_asked *asked = job->extra;
    const char *name = job->answer.choices[0].said.names.data + b->name;
    if (b->kind != KT_PART_CALL) return false;
    for (size_t i = 0; i < asked->n_custom; i++)
        if (asked->custom[i] && !strcmp(asked->custom[i], name)) return true;
    return false;
}

/* The answer's own id and the item's number, after what tells the kind. */
static void write_item_id(kt__buf *out, const kt__job *job, size_t index) {
    const kt__wire_block *b = &job->answer.choices[0].said.list[index];
    const char *own = strchr(job->id, '_');
    (void)kt__buf_printf(out, "\"%s_%s%02zx\"",
                         is_custom_call(job, b)         ? "ctc"
                         : b->kind == KT_PART_CALL      ? "fc"
                         : b->kind == KT_PART_REASONING ? "rs"
                                                        : "msg",
                         own ? own + 1 : job->id, index);
}

/* The one argument of a tool whose input is a text; of a call that was cut short, as far as it came. */
static void write_custom_input(kt__buf *out, const kt__job_choice *c, const kt__wire_block *b) {
    const char *text = kt__wire_block_text(&c->said, b);
    json_t *arguments = json_loadb(text, b->len, 0, NULL);
    const json_t *input = json_object_get(arguments, KT__RESPONSES_CUSTOM_ARGUMENT);
    if (json_is_string(input))
        kt__json_string(out, json_string_value(input), json_string_length(input), KT__JSON_PLAIN);
    else
        kt__json_string(out, text, b->len, KT__JSON_PLAIN);
    json_decref(arguments);
}

/* {"type":"output_text",...}: what a message's content is made of */
static void write_text_part(kt__buf *out, const kt__job_choice *c, const char *text, size_t len,
                            bool logprobs) {
    (void)kt__buf_puts(out, "{\"type\":\"output_text\",\"text\":");
    kt__json_string(out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_puts(out, ",\"annotations\":[],\"logprobs\":");
    kt__wire_write_logprobs(out, c->tokens, logprobs ? c->n_tokens : 0);
    (void)kt__buf_putc(out, '}');
}

static void write_reasoning_part(kt__buf *out, bool summary, const char *text, size_t len) {
    (void)kt__buf_printf(out,
                         "{\"type\":\"%s\",\"text\":", summary ? "summary_text" : "reasoning_text");
    kt__json_string(out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(out, '}');
}

static void write_reasoning_members(kt__job *job, const char *text, size_t len, item_state state) {
    const kt__responses_asked *asked = job->extra;
    kt__buf *out = &job->answer.out;
    bool done = state != ITEM_BEGUN;
    (void)kt__buf_puts(out, ",\"summary\":[");
    if (done && asked->summary) write_reasoning_part(out, true, text, len);
    (void)kt__buf_putc(out, ']');
    if (!asked->summary) (void)kt__buf_puts(out, ",\"content\":[");
    if (done && !asked->summary) write_reasoning_part(out, false, text, len);
    if (!asked->summary) (void)kt__buf_putc(out, ']');
    if (!done || !asked->encrypted) return;
    (void)kt__buf_puts(out, ",\"encrypted_content\":\"" KT__RESPONSES_SEALED);
    kt__json_chars(out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(out, '"');
}

static void write_call_members(kt__buf *out, const kt__job_choice *c, const kt__wire_block *b,
                               bool custom, bool done) {
    kt__json_member(out, "call_id", c->said.names.data + b->id);
    kt__json_member(out, "name", c->said.names.data + b->name);
    (void)kt__buf_puts(out, custom ? ",\"input\":" : ",\"arguments\":");
    if (custom && done)
        write_custom_input(out, c, b);
    else
        kt__json_string(out, kt__wire_block_text(&c->said, b), done ? b->len : 0, KT__JSON_PLAIN);
}

static void write_item(kt__job *job, const kt__job_choice *c, size_t index, item_state state) {
    static const char *const states[] = {"in_progress", "completed", "incomplete"};
    const kt__wire_block *b = &c->said.list[index];
    const char *text = kt__wire_block_text(&c->said, b);
    kt__buf *out = &job->answer.out;
    (void)kt__buf_puts(out, "{\"id\":");
    write_item_id(out, job, index);
    kt__json_member(out, "type",
                    is_custom_call(job, b)         ? "custom_tool_call"
                    : b->kind == KT_PART_CALL      ? "function_call"
                    : b->kind == KT_PART_REASONING ? "reasoning"
                                                   : "message");
    kt__json_member(out, "status", states[state]);
    if (b->kind == KT_PART_CALL) {
        write_call_members(out, c, b, is_custom_call(job, b), state != ITEM_BEGUN);
    } else if (b->kind == KT_PART_REASONING) {
        write_reasoning_members(job, text, b->len, state);
    } else {
        (void)kt__buf_puts(out, ",\"role\":\"assistant\",\"content\":[");
        if (state != ITEM_BEGUN) write_text_part(out, c, text, b->len, true);
        (void)kt__buf_putc(out, ']');
    }
    (void)kt__buf_putc(out, '}');
}

/* ---- the response ---- */

static void write_response_usage(kt__buf *out, const kt__wire_usage *u) {
    (void)kt__buf_printf(out,
                         ",\"usage\":{\"input_tokens\":%lld,\"input_tokens_details\":{"
                         "\"cached_tokens\":%lld},\"output_tokens\":%lld,"
                         "\"output_tokens_details\":{\"reasoning_tokens\":%lld},"
                         "\"total_tokens\":%lld}",
                         (long long)u->n_prompt, (long long)u->n_cached, (long long)u->n_generated,
                         (long long)u->n_reasoning, (long long)(u->n_prompt + u->n_generated));
}

/* What is known at the end: the finish in kentang's own word, and what was left aside. */
static void write_response_end(kt__job *job, const kt__job_choice *c) {
    kt__buf *out = &job->answer.out;
    write_response_usage(out, &job->answer.usage);
    (void)kt__buf_printf(out, ",\"kentang\":{\"seed\":%llu,\"numerics\":%d,\"finish\":\"%s\"",
                         (unsigned long long)job->answer.report.seed, KENTANG_NUMERICS,
                         kt_finish_name(c->finish));
    if (job->answer.notes) {
        (void)kt__buf_puts(out, ",\"notes\":");
        kt__wire_write_lines(out, job->answer.notes);
    }
    (void)kt__buf_puts(out, job->model.learned_json);
    if (job->model.route_json) (void)kt__buf_puts(out, job->model.route_json);
    (void)kt__buf_putc(out, '}');
    kt__wire_write_timings(out, &job->answer.report);
}

/* What was written from `from` on, for who comes back to it. */
static void keep_response(kt__job *job, size_t from) {
    const kt__responses_asked *asked = job->extra;
    kt__buf record;
    kt__buf_init(&record, (size_t)KT__WIRE_MAX_BYTES * 8);
    (void)kt__buf_putc(&record, '{');
    kt__json_member(&record, "client", job->request.client);
    (void)kt__buf_printf(&record, ",\"input\":%s,\"response\":", asked->input);
    (void)kt__buf_append(&record, job->answer.out.data + from, job->answer.out.len - from);
    (void)kt__buf_putc(&record, '}');
    if (!record.failed)
        (void)kt__responses_put(job->shared->responses, job->shared->workers, job->id, record.data,
                                record.len);
    kt__buf_free(&record);
}

/* err: what it failed of, or NULL; over: with its output, as far as that came */
static void write_response(kt__job *job, const char *status, const kt_error *err, bool over) {
    const kt__responses_asked *asked = job->extra;
    const kt__job_choice *c = &job->answer.choices[0];
    kt__buf *out = &job->answer.out;
    const size_t from = out->len;
    bool cut = over && !err && !kt__wire_is_whole(c->finish);
    (void)kt__buf_puts(out, "{\"id\":");
    kt__json_text(out, job->id);
    (void)kt__buf_printf(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
                         (long long)job->request.created_s, status);
    kt__json_member(out, "model", kt__served_name(job->model.served));
    (void)kt__buf_printf(out, ",\"incomplete_details\":%s,\"error\":",
                         cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    if (err) {
        (void)kt__buf_puts(out, "{\"code\":\"server_error\",\"message\":");
        kt__json_text(out, err->message[0] ? err->message : kt_status_message(err->code));
        (void)kt__buf_putc(out, '}');
    } else {
        (void)kt__buf_puts(out, "null");
    }
    (void)kt__buf_puts(out, ",\"output\":[");
    for (size_t i = 0; over && i < c->said.n; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_item(job, c, i, (cut || err) && i + 1 == c->said.n ? ITEM_CUT : ITEM_DONE);
    }
    (void)kt__buf_putc(out, ']');
    (void)kt__buf_puts(out, asked->echo);
    if (over && !err) {
        write_response_end(job, c);
    } else {
        (void)kt__buf_puts(out, ",\"usage\":null");
    }
    (void)kt__buf_putc(out, '}');
    if (over && !err && asked->keeps && !out->failed) keep_response(job, from);
}

/* ---- events ---- */

static void begin_named_event(kt__job *job, const char *type) {
    kt__responses_asked *asked = job->extra;
    (void)kt__buf_printf(&job->answer.out,
                         "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", type, type,
                         (long long)asked->sequence++);
}

static void end_named_event(kt__job *job) {
    (void)kt__buf_puts(&job->answer.out, "}\n\n");
}

static void write_response_event(kt__job *job, const char *type, const char *status,
                                 const kt_error *err, bool over) {
    begin_named_event(job, type);
    (void)kt__buf_puts(&job->answer.out, ",\"response\":");
    write_response(job, status, err, over);
    if (over && !err && job->request.wire->timings_per_token)
        kt__wire_write_llama_timings(&job->answer.out, &job->answer.report);
    end_named_event(job);
}

static void write_item_event(kt__job *job, const char *type, size_t index, item_state state) {
    begin_named_event(job, type);
    (void)kt__buf_printf(&job->answer.out, ",\"output_index\":%zu,\"item\":", index);
    write_item(job, &job->answer.choices[0], index, state);
    end_named_event(job);
}

/* Where in the answer an event belongs; a call has no parts, a summary its own numbers. */
static void begin_part_event(kt__job *job, const char *type, size_t index) {
    const kt__responses_asked *asked = job->extra;
    const kt__wire_block *b = &job->answer.choices[0].said.list[index];
    begin_named_event(job, type);
    (void)kt__buf_puts(&job->answer.out, ",\"item_id\":");
    write_item_id(&job->answer.out, job, index);
    (void)kt__buf_printf(&job->answer.out, ",\"output_index\":%zu", index);
    if (b->kind == KT_PART_CALL) return;
    bool summary = b->kind == KT_PART_REASONING && asked->summary;
    (void)kt__buf_printf(&job->answer.out, ",\"%s\":0",
                         summary ? "summary_index" : "content_index");
}

/* The event's names of a block's kind: "response.output_text" and its like. */
static const char *name_of_text(const kt__job *job, size_t index) {
    const kt__responses_asked *asked = job->extra;
    const kt__wire_block *b = &job->answer.choices[0].said.list[index];
    const kt_part_kind kind = b->kind;
    if (is_custom_call(job, b)) return "response.custom_tool_call_input";
    if (kind == KT_PART_CALL) return "response.function_call_arguments";
    if (kind == KT_PART_CONTENT) return "response.output_text";
    return asked->summary ? "response.reasoning_summary_text" : "response.reasoning_text";
}

static void write_part_event(kt__job *job, bool added, size_t index) {
    const kt__responses_asked *asked = job->extra;
    const kt__job_choice *c = &job->answer.choices[0];
    const kt__wire_block *b = &c->said.list[index];
    const char *text = kt__wire_block_text(&c->said, b);
    bool summary = b->kind == KT_PART_REASONING && asked->summary;
    char type[64];
    if (b->kind == KT_PART_CALL) return;
    snprintf(type, sizeof type, "response.%s.%s",
             summary ? "reasoning_summary_part" : "content_part", added ? "added" : "done");
    begin_part_event(job, type, index);
    (void)kt__buf_puts(&job->answer.out, ",\"part\":");
    if (b->kind == KT_PART_CONTENT) {
        write_text_part(&job->answer.out, c, text, added ? 0 : b->len, !added);
    } else {
        write_reasoning_part(&job->answer.out, summary, text, added ? 0 : b->len);
    }
    end_named_event(job);
}

/* The whole input at once: as a text it is known when the call is over. */
static void write_custom_done(kt__job *job, size_t index) {
    static const char *const ends[][2] = {{"delta", "delta"}, {"done", "input"}};
    const kt__job_choice *c = &job->answer.choices[0];
    for (int i = 0; i < 2; i++) {
        char type[64];
        snprintf(type, sizeof type, "%s.%s", name_of_text(job, index), ends[i][0]);
        begin_part_event(job, type, index);
        kt__json_key(&job->answer.out, ends[i][1]);
        write_custom_input(&job->answer.out, c, &c->said.list[index]);
        end_named_event(job);
    }
}

static void write_text_done(kt__job *job, size_t index) {
    const kt__job_choice *c = &job->answer.choices[0];
    const kt__wire_block *b = &c->said.list[index];
    bool call = b->kind == KT_PART_CALL;
    char type[64];
    if (is_custom_call(job, b)) {
        write_custom_done(job, index);
        return;
    }
    snprintf(type, sizeof type, "%s.done", name_of_text(job, index));
    begin_part_event(job, type, index);
    if (call) kt__json_member(&job->answer.out, "name", c->said.names.data + b->name);
    kt__json_key(&job->answer.out, call ? "arguments" : "text");
    kt__json_string(&job->answer.out, kt__wire_block_text(&c->said, b), b->len, KT__JSON_PLAIN);
    if (b->kind == KT_PART_CONTENT) {
        (void)kt__buf_puts(&job->answer.out, ",\"logprobs\":");
        kt__wire_write_logprobs(&job->answer.out, c->tokens, c->n_tokens);
    }
    end_named_event(job);
}

static void write_figures(kt__job *job) {
    const kt_request_report figures = kt__job_figures(job, 0);
    if (job->request.wire->timings_per_token)
        kt__wire_write_llama_timings(&job->answer.out, &figures);
}

static void write_text_delta(kt__job *job, const kt_part *part, size_t index) {
    kt__responses_asked *asked = job->extra;
    const kt__job_choice *c = &job->answer.choices[0];
    char type[64];
    snprintf(type, sizeof type, "%s.delta", name_of_text(job, index));
    begin_part_event(job, type, index);
    (void)kt__buf_puts(&job->answer.out, ",\"delta\":");
    kt__json_string(&job->answer.out, part->text, part->len, KT__JSON_PLAIN);
    if (part->kind == KT_PART_CONTENT) {
        (void)kt__buf_puts(&job->answer.out, ",\"logprobs\":");
        kt__wire_write_logprobs(&job->answer.out, c->tokens + asked->n_logprobs,
                                c->n_tokens - asked->n_logprobs);
        asked->n_logprobs = c->n_tokens;
    }
    write_figures(job);
    end_named_event(job);
}

static void open_item(kt__job *job, size_t index) {
    write_item_event(job, "response.output_item.added", index, ITEM_BEGUN);
    write_part_event(job, true, index);
}

static void close_item(kt__job *job, size_t index, item_state state) {
    write_text_done(job, index);
    write_part_event(job, false, index);
    write_item_event(job, "response.output_item.done", index, state);
}

/* ---- the dialect ---- */

static void responses_begin(kt__job *job) {
    if (!job->answer.stream) return;
    write_response_event(job, "response.created", "in_progress", NULL, false);
    write_response_event(job, "response.in_progress", "in_progress", NULL, false);
}

/* As llama-server: the same event again, with how far the prompt is. */
static void responses_progress(kt__job *job, const kt_event *event) {
    begin_named_event(job, "response.in_progress");
    (void)kt__buf_puts(&job->answer.out, ",\"response\":");
    write_response(job, "in_progress", NULL, false);
    kt__wire_write_progress(&job->answer.out, event);
    write_figures(job);
    end_named_event(job);
}

static void take_part(kt__job *job, const kt_part *part) {
    const kt__job_choice *c = &job->answer.choices[0];
    size_t n = c->said.n;
    kt__dialect_gather_part(job, 0, part);
    if (!job->answer.stream || job->answer.out.failed) return;
    if (c->said.n > n && n) close_item(job, n - 1, ITEM_DONE);
    if (c->said.n > n) open_item(job, n);
    if (part->len && !is_custom_call(job, &c->said.list[c->said.n - 1]))
        write_text_delta(job, part, c->said.n - 1);
}

static void responses_token(kt__job *job, const kt_event *event) {
    kt_part one;
    size_t n;
    const kt_part *parts = kt__wire_parts(event, &one, &n);
    kt__dialect_gather_token(job, event);
    for (size_t i = 0; i < n; i++) take_part(job, &parts[i]);
}

/* An answer of nothing is an empty message. */
static void responses_finish(kt__job *job, const kt_event *event) {
    const kt__job_choice *c = &job->answer.choices[0];
    bool whole = kt__wire_is_whole(event->finish);
    if (!c->said.n) take_part(job, &(kt_part){.kind = KT_PART_CONTENT, .text = ""});
    if (job->answer.out.failed) return;
    if (!job->answer.stream) {
        write_response(job, whole ? "completed" : "incomplete", NULL, true);
        return;
    }
    close_item(job, c->said.n - 1, whole ? ITEM_DONE : ITEM_CUT);
    write_response_event(job, whole ? "response.completed" : "response.incomplete",
                         whole ? "completed" : "incomplete", NULL, true);
}

/* What the reader of events looks for, and what makes OpenAI's client throw. */
static void responses_error(kt__job *job, const kt_error *err) {
    kt__buf body;
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    write_response_event(job, "response.failed", "failed", err, true);
    begin_named_event(job, "error");
    kt__json_member(&job->answer.out, "code", kt_status_name(err->code));
    kt__json_member(&job->answer.out, "message",
                    err->message[0] ? err->message : kt_status_message(err->code));
    kt__buf_init(&body, 4096);
    kt__openai_error_body(&body, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->answer.out, ",\"param\":null");
    if (body.len > 2) { /* "error": {...}, without the braces around */
        (void)kt__buf_putc(&job->answer.out, ',');
        (void)kt__buf_append(&job->answer.out, body.data + 1, body.len - 2);
    }
    kt__buf_free(&body);
    end_named_event(job);
}

const kt__dialect kt__dialect_responses = {
    .route = "/v1/responses",
    .stream_type = "text/event-stream",
    .stream_filler = ":\n\n",
    .error_body = kt__openai_error_body,
    .read = kt__responses_read,
    .begin = responses_begin,
    .token = responses_token,
    .progress = responses_progress,
    .finish = responses_finish,
    .error = responses_error,
};

static kt_status count_response(kt__job *job, kt_error *err) {
    KT__STEP(kt__responses_read(job, err));
    return kt__dialect_write_count(job, "response.input_tokens", err);
}

const kt__dialect kt__dialect_responses_count = {
    .route = "/v1/responses/input_tokens",
    .error_body = kt__openai_error_body,
    .run = count_response,
    .error = kt__dialect_whole_error,
};
