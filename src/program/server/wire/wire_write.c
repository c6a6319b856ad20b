/* Answers: kt__wire_answer to JSON. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "wire/wire.h"

void kt__wire_write_logprob(kt__buf *out, float logprob) {
    (void)kt__buf_printf(out, "%.6g", logprob > -9999.0f ? (double)logprob : -9999.0);
}

/* ---- log probabilities ---- */

void kt__wire_write_token_bytes(kt__buf *out, const kt__wire_token *t) {
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; i < t->len; i++) {
        (void)kt__buf_printf(out, "%s%d", i ? "," : "", (unsigned char)t->text[i]);
    }
    (void)kt__buf_putc(out, ']');
}

static void write_token(kt__buf *out, const kt__wire_token *t) {
    (void)kt__buf_puts(out, "{\"token\":");
    kt__json_string(out, t->text, t->len, KT__JSON_PLAIN);
    (void)kt__buf_puts(out, ",\"logprob\":");
    kt__wire_write_logprob(out, t->logprob);
    (void)kt__buf_printf(out, ",\"id\":%d,\"bytes\":", (int)t->id);
    kt__wire_write_token_bytes(out, t);
}

void kt__wire_write_logprobs(kt__buf *out, const kt__wire_token *tokens, size_t n) {
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        const kt__wire_token *t = &tokens[i];
        if (i) (void)kt__buf_putc(out, ',');
        write_token(out, t);
        (void)kt__buf_puts(out, ",\"top_logprobs\":[");
        for (size_t k = 0; k < t->n_top; k++) {
            if (k) (void)kt__buf_putc(out, ',');
            write_token(out, &t->top[k]);
            (void)kt__buf_putc(out, '}');
        }
        (void)kt__buf_puts(out, "]}");
    }
    (void)kt__buf_putc(out, ']');
}

/* All digits: clients compare and add them. The first token of a prompt has none. */
static void write_exact(kt__buf *out, float logprob) {
    if (isnan(logprob)) {
        (void)kt__buf_puts(out, "null");
    } else {
        (void)kt__buf_printf(out, "%.9g", logprob > -9999.0f ? (double)logprob : -9999.0);
    }
}

/* Tokens that are written alike: the first, which is the most probable, means them. */
static bool is_repeated(const kt__wire_token *t, size_t k) {
    for (size_t i = 0; i < k; i++) {
        if (t->top[i].len == t->top[k].len &&
            !memcmp(t->top[i].text, t->top[k].text, t->top[k].len))
            return true;
    }
    return false;
}

static void write_top_object(kt__buf *out, const kt__wire_token *t) {
    if (isnan(t->logprob)) {
        (void)kt__buf_puts(out, "null");
        return;
    }
    (void)kt__buf_putc(out, '{');
    for (size_t k = 0; k < t->n_top; k++) {
        if (is_repeated(t, k)) continue;
        if (k) (void)kt__buf_putc(out, ',');
        kt__json_string(out, t->top[k].text, t->top[k].len, KT__JSON_PLAIN);
        (void)kt__buf_putc(out, ':');
        write_exact(out, t->top[k].logprob);
    }
    (void)kt__buf_putc(out, '}');
}

/* {"tokens": [], "token_logprobs": [], "top_logprobs": [{}], "text_offset": []} */
static void write_text_logprobs(kt__buf *out, const kt__wire_choice *c) {
    size_t offset = 0;
    (void)kt__buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < c->n_tokens; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        kt__json_string(out, c->tokens[i].text, c->tokens[i].len, KT__JSON_PLAIN);
    }
    (void)kt__buf_puts(out, "],\"token_logprobs\":[");
    for (size_t i = 0; i < c->n_tokens; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_exact(out, c->tokens[i].logprob);
    }
    (void)kt__buf_puts(out, "],\"top_logprobs\":[");
    for (size_t i = 0; i < c->n_tokens; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_top_object(out, &c->tokens[i]);
    }
    (void)kt__buf_puts(out, "],\"text_offset\":[");
    for (size_t i = 0; i < c->n_tokens; i++) {
        (void)kt__buf_printf(out, "%s%zu", i ? "," : "", offset);
        offset += c->tokens[i].len;
    }
    (void)kt__buf_puts(out, "]}");
}

static void write_logprobs(kt__buf *out, kt__wire_form form, const kt__wire_choice *c) {
    (void)kt__buf_puts(out, ",\"logprobs\":");
    if (!c->tokens) {
        (void)kt__buf_puts(out, "null");
    } else if (form == KT__WIRE_TEXT) {
        write_text_logprobs(out, c);
    } else {
        (void)kt__buf_puts(out, "{\"content\":");
        kt__wire_write_logprobs(out, c->tokens, c->n_tokens);
        (void)kt__buf_putc(out, '}');
    }
}

/* ---- answers ---- */

const char *kt__wire_finish_reason(kt_finish finish) {
    switch (finish) {
    case KT_FINISH_NONE: return NULL;
    case KT_FINISH_EOG:
    case KT_FINISH_STOP: return "stop";
    case KT_FINISH_LENGTH:
    case KT_FINISH_LOOP:
    case KT_FINISH_CONTEXT: return "length";
    default: return kt_finish_name(finish);
    }
}

bool kt__wire_is_whole(kt_finish finish) {
    return finish == KT_FINISH_EOG || finish == KT_FINISH_STOP;
}

static void write_usage(kt__buf *out, const kt__wire_usage *u) {
    (void)kt__buf_printf(out,
                         ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
                         "\"total_tokens\":%lld,\"prompt_tokens_details\":{\"cached_tokens\":%lld},"
                         "\"completion_tokens_details\":{\"reasoning_tokens\":%lld}}",
                         (long long)u->n_prompt, (long long)u->n_generated,
                         (long long)(u->n_prompt + u->n_generated), (long long)u->n_cached,
                         (long long)u->n_reasoning);
}

/* OpenAI's clients know no other words for an answer that was cut short; ours is besides. */
static void write_finish(kt__buf *out, kt_finish finish, bool called, bool older) {
    bool cut = finish == KT_FINISH_CANCELLED || finish == KT_FINISH_DEADLINE;
    const char *reason = cut ? "length"
                         : called && kt__wire_is_whole(finish)
                             ? (older ? "function_call" : "tool_calls")
                             : kt__wire_finish_reason(finish);
    (void)kt__buf_puts(out, ",\"finish_reason\":");
    if (reason) {
        kt__json_text(out, reason);
    } else {
        (void)kt__buf_puts(out, "null");
    }
    if (reason && !kt__wire_is_whole(finish) && finish != KT_FINISH_LENGTH)
        (void)kt__buf_printf(out, ",\"finish_details\":{\"type\":\"%s\"}", kt_finish_name(finish));
}

void kt__wire_write_calls(kt__buf *out, const kt__wire_call *calls, size_t n, bool chunk) {
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        const kt__wire_call *c = &calls[i];
        (void)kt__buf_puts(out, i ? ",{" : "{");
        if (chunk) (void)kt__buf_printf(out, "\"index\":%d,", (int)c->index);
        if (c->id) {
            (void)kt__buf_puts(out, "\"id\":");
            kt__json_text(out, c->id);
            (void)kt__buf_puts(out, ",\"type\":\"function\",");
        }
        (void)kt__buf_puts(out, "\"function\":{");
        if (c->name) kt__json_member(out, "name", c->name);
        kt__json_key(out, "arguments");
        kt__json_string(out, c->arguments, c->len, KT__JSON_PLAIN);
        (void)kt__buf_puts(out, "}}");
    }
    (void)kt__buf_putc(out, ']');
}

static void write_reasoning(kt__buf *out, const char *key, const kt__wire_choice *c) {
    if (!c->reasoning_len) return;
    kt__json_key(out, key);
    kt__json_string(out, c->reasoning, c->reasoning_len, KT__JSON_PLAIN);
}

/* {"name", "arguments"}: of one call, as there was before tools. */
static void write_function_call(kt__buf *out, const kt__wire_call *c) {
    kt__json_key(out, "function_call");
    (void)kt__buf_putc(out, '{');
    if (c->name) kt__json_member(out, "name", c->name);
    kt__json_key(out, "arguments");
    kt__json_string(out, c->arguments, c->len, KT__JSON_PLAIN);
    (void)kt__buf_putc(out, '}');
}

static void write_tool_calls(kt__buf *out, const kt__wire_choice *c, bool chunk, bool older) {
    if (!c->n_calls) return;
    if (older) {
        write_function_call(out, &c->calls[0]);
        return;
    }
    kt__json_key(out, "tool_calls");
    kt__wire_write_calls(out, c->calls, c->n_calls, chunk);
}

static void write_message(kt__buf *out, const kt__wire_choice *c, bool older) {
    (void)kt__buf_puts(out, "{\"role\":\"assistant\",\"content\":");
    if (c->n_calls && !c->len) {
        (void)kt__buf_puts(out, "null");
    } else {
        kt__json_string(out, c->text, c->len, KT__JSON_PLAIN);
    }
    write_reasoning(out, "reasoning_content", c);
    write_tool_calls(out, c, false, older);
    (void)kt__buf_puts(out, ",\"refusal\":null}");
}

static void write_choice(kt__buf *out, kt__wire_form form, const kt__wire_choice *c, bool older) {
    (void)kt__buf_printf(out, "{\"index\":%d,", (int)c->index);
    if (form == KT__WIRE_CHAT) {
        (void)kt__buf_puts(out, "\"message\":");
        write_message(out, c, older);
    } else {
        (void)kt__buf_puts(out, "\"text\":");
        kt__json_string(out, c->text, c->len, KT__JSON_PLAIN);
        write_reasoning(out, "reasoning", c);
        write_tool_calls(out, c, false, false);
    }
    write_logprobs(out, form, c);
    write_finish(out, c->finish, c->called, older);
    (void)kt__buf_putc(out, '}');
}

static void write_head(kt__buf *out, const kt__wire_answer *a, const char *object) {
    (void)kt__buf_puts(out, "{\"id\":");
    kt__json_text(out, a->id);
    kt__json_member(out, "object", object);
    (void)kt__buf_printf(out, ",\"created\":%lld,\"system_fingerprint\":\"b%s-%d\"",
                         (long long)a->created_s, kt_version(), KENTANG_NUMERICS);
    kt__json_member(out, "model", a->model);
}

void kt__wire_write_lines(kt__buf *out, const char *lines) {
    (void)kt__buf_putc(out, '[');
    for (const char *at = lines ? lines : ""; *at;) {
        size_t len = strcspn(at, "\n");
        if (at != lines) (void)kt__buf_putc(out, ',');
        kt__json_string(out, at, len, KT__JSON_PLAIN);
        at += len + (at[len] == '\n');
    }
    (void)kt__buf_putc(out, ']');
}

static void write_seed(kt__buf *out, const kt__wire_answer *a) {
    (void)kt__buf_printf(out, ",\"kentang\":{\"seed\":%llu,\"numerics\":%d",
                         (unsigned long long)a->seed, KENTANG_NUMERICS);
    if (a->notes && *a->notes) {
        (void)kt__buf_puts(out, ",\"notes\":");
        kt__wire_write_lines(out, a->notes);
    }
    if (a->learned) (void)kt__buf_puts(out, a->learned);
    if (a->route) (void)kt__buf_puts(out, a->route);
    (void)kt__buf_putc(out, '}');
}

/* kentang's own: the text at the top, choices only where several were asked for. */
static void write_native(kt__buf *out, const kt__wire_answer *a, bool chunk) {
    const kt__wire_choice *c = a->n_choices ? &a->choices[0] : NULL;
    (void)kt__buf_puts(out, "{\"id\":");
    kt__json_text(out, a->id);
    if (c && (a->n_choices == 1 || chunk)) {
        if (c->index) (void)kt__buf_printf(out, ",\"index\":%d", (int)c->index);
        (void)kt__buf_puts(out, ",\"text\":");
        kt__json_string(out, c->text, c->len, KT__JSON_PLAIN);
        write_reasoning(out, "reasoning", c);
        write_tool_calls(out, c, chunk, false);
        if (c->tokens) write_logprobs(out, KT__WIRE_NATIVE, c);
        if (c->finish != KT_FINISH_NONE) kt__json_member(out, "finish", kt_finish_name(c->finish));
    } else if (c) {
        (void)kt__buf_puts(out, ",\"choices\":[");
        for (size_t i = 0; i < a->n_choices; i++) {
            if (i) (void)kt__buf_putc(out, ',');
            write_choice(out, KT__WIRE_NATIVE, &a->choices[i], false);
        }
        (void)kt__buf_putc(out, ']');
    }
    if (a->usage) write_usage(out, a->usage);
    if (!chunk) (void)kt__buf_printf(out, ",\"seed\":%llu", (unsigned long long)a->seed);
    if (!chunk && a->notes && *a->notes) {
        (void)kt__buf_puts(out, ",\"notes\":");
        kt__wire_write_lines(out, a->notes);
    }
    if (!chunk) kt__json_member(out, "model", a->model);
    (void)kt__buf_putc(out, '}');
}

void kt__wire_write_answer(kt__buf *out, const kt__wire_answer *a) {
    if (a->form == KT__WIRE_NATIVE) {
        write_native(out, a, false);
        return;
    }
    write_head(out, a, a->form == KT__WIRE_CHAT ? "chat.completion" : "text_completion");
    (void)kt__buf_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < a->n_choices; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_choice(out, a->form, &a->choices[i], a->older_calls);
    }
    (void)kt__buf_putc(out, ']');
    if (a->usage) write_usage(out, a->usage);
    write_seed(out, a);
    if (a->report) kt__wire_write_timings(out, a->report);
    if (a->more) (void)kt__buf_puts(out, a->more);
    (void)kt__buf_putc(out, '}');
}

static void write_delta(kt__buf *out, const kt__wire_choice *c, bool first,
                        const kt__wire_answer *a) {
    (void)kt__buf_printf(out, "{\"index\":%d,\"delta\":{", (int)c->index);
    if (first) (void)kt__buf_puts(out, "\"role\":\"assistant\",");
    if (c->len || (first && a->text_first)) {
        (void)kt__buf_puts(out, "\"content\":");
        kt__json_string(out, c->text, c->len, KT__JSON_PLAIN);
    } else if (first) { /* nothing was said yet, which an empty text would claim */
        (void)kt__buf_puts(out, "\"content\":null");
    }
    write_reasoning(out, "reasoning_content", c);
    write_tool_calls(out, c, true, a->older_calls);
    (void)kt__buf_putc(out, '}');
    write_logprobs(out, KT__WIRE_CHAT, c);
    write_finish(out, c->finish, c->called, a->older_calls);
    (void)kt__buf_putc(out, '}');
}

void kt__wire_write_chunk(kt__buf *out, const kt__wire_answer *a, bool first) {
    bool chat = a->form == KT__WIRE_CHAT;
    if (a->form == KT__WIRE_NATIVE) {
        write_native(out, a, true);
        return;
    }
    write_head(out, a, chat ? "chat.completion.chunk" : "text_completion");
    (void)kt__buf_puts(out, ",\"choices\":[");
    for (size_t i = 0; i < a->n_choices; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        if (chat) {
            write_delta(out, &a->choices[i], first, a);
        } else {
            write_choice(out, a->form, &a->choices[i], a->older_calls);
        }
    }
    (void)kt__buf_putc(out, ']');
    if (a->usage) write_usage(out, a->usage);
    if (a->n_choices && a->choices[0].finish != KT_FINISH_NONE) write_seed(out, a);
    if (a->report) kt__wire_write_timings(out, a->report);
    if (a->more) (void)kt__buf_puts(out, a->more);
    (void)kt__buf_putc(out, '}');
}

/* ---- errors ---- */

int kt__wire_http_status(kt_status status) {
    switch (status) {
    case KT_OK: return 200;
    case KT_E_ARG:
    case KT_E_FORMAT:
    case KT_E_UNSUPPORTED:
    case KT_E_CONTEXT_FULL:
    case KT_E_TEMPLATE: return 400;
    case KT_E_LIMIT: return 413;
    case KT_E_CANCELLED: return 499;
    case KT_E_BUSY:
    case KT_E_DEADLINE: return 429;
    case KT_E_STATE: /* it is being stopped */
    case KT_E_NOMEM: return 503;
    default: return 500;
    }
}

void kt__wire_write_error(kt__buf *out, const kt_error *err) {
    kt__wire_write_error_as(out, kt__wire_http_status(err->code), err);
}

void kt__wire_write_error_as(kt__buf *out, int http, const kt_error *err) {
    const char *message = err->message[0] ? err->message : kt_status_message(err->code);
    (void)kt__buf_puts(out, "{\"error\":{\"message\":");
    kt__json_text(out, message);
    kt__json_member(out, "type",
                    err->n_ctx    ? "exceed_context_size_error"
                    : http == 401 ? "authentication_error"
                    : http == 429 ? "rate_limit_error"
                    : http >= 500 ? "server_error"
                                  : "invalid_request_error");
    (void)kt__buf_puts(out, ",\"param\":");
    if (err->where[0] && http < 500) { /* a fault of ours is at a place of ours */
        kt__json_text(out, err->where);
    } else {
        (void)kt__buf_puts(out, "null");
    }
    kt__json_member(out, "code",
                    err->code == KT_E_CONTEXT_FULL ? "context_length_exceeded"
                                                   : kt_status_name(err->code));
    if (err->n_ctx)
        (void)kt__buf_printf(out, ",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld",
                             (long long)err->n_tokens, (long long)err->n_ctx);
    (void)kt__buf_puts(out, "}}");
}

/* ---- where the time went ---- */

double kt__tokens_per_second(const kt_request_report *r) {
    int64_t after_us = r->total_us - r->first_token_us;
    if (r->n_generated < 2 || r->first_token_us <= 0 || after_us <= 0) return 0;
    return (double)(r->n_generated - 1) * 1e6 / (double)after_us;
}

/* llama-server's members: of the prompt what was computed; of the answer all of it, and its rate after the first
 * token, which the prompt's last batch gave. With all digits, since clients compute one from the other. */
static void write_llama_members(kt__buf *out, const kt_request_report *r) {
    int32_t n_prompt = r->n_prompt - r->n_cached, n = r->n_generated, n_steps = n > 0 ? n - 1 : 0;
    double prompt_ms = (double)r->prefill_us / 1e3,
           ms = (double)(r->decode_us + r->sample_us) / 1e3;
    (void)kt__buf_printf(
        out,
        "\"cache_n\":%d,\"prompt_n\":%d,\"prompt_ms\":%.3f,"
        "\"prompt_per_token_ms\":%.15g,\"prompt_per_second\":%.15g,"
        "\"predicted_n\":%d,\"predicted_ms\":%.3f,\"predicted_per_token_ms\":%.15g,"
        "\"predicted_per_second\":%.15g",
        (int)r->n_cached, (int)n_prompt, prompt_ms, n_prompt > 0 ? prompt_ms / n_prompt : 0.0,
        prompt_ms > 0 ? 1e3 * n_prompt / prompt_ms : 0.0, (int)n, ms,
        n_steps > 0 ? ms / n_steps : 0.0, n_steps > 0 && ms > 0 ? 1e3 / ms * n_steps : 0.0);
    if (r->n_drafted)
        (void)kt__buf_printf(out, ",\"draft_n\":%d,\"draft_n_accepted\":%d", (int)r->n_drafted,
                             (int)r->n_accepted);
}

void kt__wire_write_llama_timings(kt__buf *out, const kt_request_report *r) {
    (void)kt__buf_puts(out, ",\"timings\":{");
    write_llama_members(out, r);
    (void)kt__buf_putc(out, '}');
}

void kt__wire_write_progress(kt__buf *out, const kt_event *event) {
    (void)kt__buf_printf(
        out,
        ",\"prompt_progress\":{\"total\":%zu,\"cache\":%zu,\"processed\":%zu,\"time_ms\":%lld}",
        event->n_prompt, event->n_cached, event->n_computed, (long long)(event->prefill_us / 1000));
}

void kt__wire_write_timings(kt__buf *out, const kt_request_report *r) {
    (void)kt__buf_puts(out, ",\"timings\":{");
    write_llama_members(out, r);
    (void)kt__buf_printf(
        out,
        ",\"total_ms\":%.3f,\"first_token_ms\":%.3f,\"tokenize_ms\":%.3f,"
        "\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"sample_ms\":%.3f,"
        "\"wait_ms\":%.3f,\"held_ms\":%.3f,\"lora_ms\":%.3f,\"tokens_per_second\":%.2f,\"preempted\":%d,"
        "\"kv_pressed\":%d,\"drafted\":%d,\"accepted\":%d,\"bottleneck\":",
        (double)r->total_us / 1e3, (double)r->first_token_us / 1e3, (double)r->tokenize_us / 1e3,
        (double)r->queue_us / 1e3, (double)r->prefill_us / 1e3, (double)r->decode_us / 1e3,
        (double)r->sample_us / 1e3, (double)r->wait_us / 1e3, (double)r->held_us / 1e3,
        (double)r->lora_us / 1e3, kt__tokens_per_second(r), r->n_preempted, r->n_pressed,
        r->n_drafted, r->n_accepted);
    const char *bottleneck = r->bottleneck ? r->bottleneck : "";
    kt__json_text(out, bottleneck);
    (void)kt__buf_putc(out, '}');
}
