/* Ollama's /api/chat and /api/generate: lines of JSON. What its bodies say is put into the words of
 * wire.h first. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* ---- reading ---- */

static void copy_member(json_t *to, const char *as, const json_t *from, const char *key) {
    json_t *v = json_object_get(from, key);
    if (v && !json_is_null(v)) (void)json_object_set(to, as, v);
}

static kt_status read_format(json_t *body, json_t *format, kt_error *err) {
    const char *name = json_string_value(format);
    if (!format || json_is_null(format) || (name && !*name)) return KT_OK;
    if (name && !strcmp(name, "json")) {
        json_object_set_new(body, "response_format", json_pack("{s:s}", "type", "json_object"));
        return KT_OK;
    }
    if (!json_is_object(format))
        return kt__fail_at(err, KT_E_ARG, "format", UINT64_MAX,
                           "format: expected \"json\" or a JSON Schema");
    json_object_set_new(body, "response_format",
                        json_pack("{s:s,s:O}", "type", "json_schema", "schema", format));
    return KT_OK;
}

/* Options and the words that the same have in our body: their part after "options." is the
 * option's name. */
static const kt__wire_name client_names[] = {{"temperature", "options.temperature"},
                                             {"top_k", "options.top_k"},
                                             {"top_p", "options.top_p"},
                                             {"min_p", "options.min_p"},
                                             {"typical_p", "options.typical_p"},
                                             {"repeat_penalty", "options.repeat_penalty"},
                                             {"repeat_last_n", "options.repeat_last_n"},
                                             {"seed", "options.seed"},
                                             {"stop", "options.stop"},
                                             {"mirostat", "options.mirostat"},
                                             {"mirostat_tau", "options.mirostat_tau"},
                                             {"mirostat_eta", "options.mirostat_eta"},
                                             {"presence_penalty", "options.presence_penalty"},
                                             {"frequency_penalty", "options.frequency_penalty"},
                                             {"max_tokens", "options.num_predict"},
                                             {"reasoning_effort", "think"},
                                             {"response_format.schema", "format"},
                                             {NULL, NULL}};
static kt_status read_options(json_t *body, const json_t *options, kt_error *err) {
    static const size_t skip = sizeof "options." - 1;
    json_t *n = json_object_get(options, "num_predict");
    if (options && !json_is_object(options) && !json_is_null(options))
        return kt__fail_at(err, KT_E_ARG, "options", UINT64_MAX, "options: expected an object");
    for (const kt__wire_name *name = client_names; name->ours; name++)
        if (!strncmp(name->theirs, "options.", skip))
            copy_member(body, name->ours, options, name->theirs + skip);
    /* -1 and -2: until it ends, or the context does */
    if (json_is_number(n) && json_number_value(n) < 0)
        json_object_set_new(body, "max_tokens", json_integer(-1));
    return KT_OK;
}

/* A number of seconds, or "5m" and its like. It is checked and no more: how long models stay is the
 * server's to say (idle_unload_s), not its clients'. */
static kt_status check_keep_alive(const json_t *v, kt_error *err) {
    const char *text = json_string_value(v);
    char *end = NULL;
    if (!v || json_is_null(v) || json_is_number(v)) return KT_OK;
    if (text) (void)strtod(text, &end);
    if (text && end != text && strspn(end, "hmsunµ0123456789.") == strlen(end)) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "keep_alive", UINT64_MAX,
                       "keep_alive: expected seconds, or a duration such as \"5m\"");
}

/* true and false, or how much. */
static kt_status read_think(json_t *body, const json_t *think, kt_error *err) {
    if (!think || json_is_null(think)) return KT_OK;
    if (json_is_boolean(think)) {
        json_object_set_new(body, "enable_thinking", json_boolean(json_is_true(think)));
    } else if (json_is_string(think)) {
        json_object_set(body, "reasoning_effort", (json_t *)think);
    } else {
        return kt__fail_at(err, KT_E_ARG, "think", UINT64_MAX,
                           "think: expected true, false, or low, medium or high");
    }
    return KT_OK;
}

/* The protocol has no tool_choice; ours is taken. */
static void copy_tools(json_t *body, const json_t *from) {
    static const char *const names[] = {"tools", "tool_choice", "parallel_tool_calls"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        copy_member(body, names[i], from, names[i]);
}

static kt_status refuse_member(const json_t *from, const char *key, kt_error *err) {
    const json_t *v = json_object_get(from, key);
    if (!v || json_is_null(v) || json_is_false(v) || (json_is_array(v) && !json_array_size(v)) ||
        (json_is_string(v) && !json_string_length(v)) ||
        (json_is_number(v) && json_number_value(v) == 0))
        return KT_OK;
    return kt__fail_at(err, KT_E_UNSUPPORTED, key, UINT64_MAX, "%s: not supported", key);
}

static kt_status refuse_unsupported(const json_t *from, kt_error *err) {
    static const char *const names[] = {"template", "context"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        kt_status status = refuse_member(from, names[i], err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__ollama_rename(kt__job *job, kt_error *err) {
    const char *name = json_string_value(json_object_get(job->request.json, "model"));
    kt__served *found;
    kt_error ignored;
    if (!name || !*name) return KT_OK;
    if (kt__models_find_tagged(job->shared->models, name, &found, &ignored) != KT_OK) return KT_OK;
    if (json_object_set_new(job->request.json, "model", json_string(kt__served_name(found))) == 0)
        return KT_OK;
    return kt__fail_nomem(err, "a request", strlen(name));
}

/* No prompt, or no message: the model is loaded, and that is all. */
static bool only_loads(const json_t *from, bool chat) {
    const json_t *v = json_object_get(from, chat ? "messages" : "prompt");
    if (!v || json_is_null(v)) return true;
    return chat ? json_is_array(v) && !json_array_size(v)
                : json_is_string(v) && !json_string_length(v);
}

/* The prompt as a conversation, unless it is raw. */
static kt__wire_form read_prompt(json_t *body, const json_t *from) {
    const json_t *prompt = json_object_get(from, "prompt");
    const char *suffix = json_string_value(json_object_get(from, "suffix"));
    if (suffix && *suffix) {
        copy_member(body, "prompt", from, "prompt");
        copy_member(body, "suffix", from, "suffix");
        return KT__WIRE_NATIVE;
    }
    if (json_is_true(json_object_get(from, "raw")) || !json_is_string(prompt)) {
        copy_member(body, "prompt", from, "prompt");
        return KT__WIRE_NATIVE;
    }
    copy_member(body, "system", from, "system");
    json_t *message = json_pack("{s:s,s:O}", "role", "user", "content", prompt);
    copy_member(message, "images", from, "images");
    json_object_set_new(body, "messages", json_pack("[o]", message));
    return KT__WIRE_SYSTEM;
}

/* "logprobs": true and "top_logprobs": N. Of a prompt that is continued as it is, the reader knows
 * them as a number. */
static void copy_logprobs(json_t *body, const json_t *from, kt__wire_form form) {
    const json_t *on = json_object_get(from, "logprobs");
    json_t *top = json_object_get(from, "top_logprobs");
    if (!json_is_true(on)) return;
    if (form != KT__WIRE_NATIVE) {
        copy_member(body, "logprobs", from, "logprobs");
        copy_member(body, "top_logprobs", from, "top_logprobs");
    } else {
        json_object_set_new(body, "logprobs", json_integer(json_integer_value(top)));
    }
}

static kt_status read_ollama(kt__job *job, bool chat, kt_error *err) {
    json_t *body = json_object();
    kt_status status;
    KT__TRY(kt__job_parse(job, err));
    const json_t *from = job->request.json;
    if (!body) return kt__fail_nomem(err, "a request", 0);
    job->request.names = client_names;
    KT__TRY(kt__ollama_rename(job, err));
    KT__TRY(refuse_unsupported(from, err));
    KT__TRY(check_keep_alive(json_object_get(from, "keep_alive"), err));
    bool loads = only_loads(from, chat);
    kt__wire_form form = KT__WIRE_NATIVE;
    if (loads) {
        json_object_set_new(body, "prompt", json_string("none"));
    } else if (chat) {
        form = KT__WIRE_CHAT;
        copy_member(body, "messages", from, "messages");
        copy_tools(body, from);
    } else {
        form = read_prompt(body, from);
        if (form == KT__WIRE_NATIVE) KT__TRY(refuse_member(from, "images", err));
    }
    copy_member(body, "model", from, "model");
    copy_member(body, "adapter", from, "adapter");
    const json_t *stream = json_object_get(from, "stream");
    json_object_set_new(body, "stream", json_boolean(!stream || !json_is_false(stream)));
    copy_logprobs(body, from, form);
    KT__TRY(read_format(body, json_object_get(from, "format"), err));
    KT__TRY(read_think(body, json_object_get(from, "think"), err));
    KT__TRY(read_options(body, json_object_get(from, "options"), err));
    json_decref(job->request.json);
    job->request.json = body;
    body = NULL;
    KT__TRY(kt__job_read_wire(job, form, err));
    if (job->request.wire->n_prompts > 1)
        status = kt__fail_at(err, KT_E_UNSUPPORTED, "messages", UINT64_MAX,
                             "messages: one conversation a request here");
    if (loads) job->request.wire->n_prompts = 0;
out:
    json_decref(body);
    return status;
}

static kt_status read_chat(kt__job *job, kt_error *err) {
    return read_ollama(job, true, err);
}

static kt_status read_generate(kt__job *job, kt_error *err) {
    return read_ollama(job, false, err);
}

/* ---- answering ---- */

/* What a line has of an answer; its texts may be NULL. */
typedef struct ollama_piece {
    const char *text, *thinking;
    size_t len, thinking_len;
    const kt__job_choice *calls_of; /* whose calls, from `call` on, or NULL */
    size_t call, n_calls;
    const kt__wire_token *tokens; /* [n_tokens] with log probabilities, or NULL */
    size_t n_tokens;
} ollama_piece;

/* Arguments as an object; of a call that was cut short they are none, and it is left out. */
static void write_ollama_calls(kt__job *job, const ollama_piece *p) {
    kt__wire_call *calls = kt__arena_calloc(&job->arena, p->call + p->n_calls + 1, sizeof *calls);
    bool any = false;
    if (!calls) {
        job->answer.out.failed = true;
        return;
    }
    (void)kt__wire_blocks_calls(&p->calls_of->said, calls);
    for (size_t i = p->call; i < p->call + p->n_calls; i++) {
        const kt__wire_call *c = &calls[i];
        json_t *v = json_loadb(c->arguments, c->len, 0, NULL);
        char *object = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
        json_decref(v);
        if (!object) continue;
        (void)kt__buf_puts(&job->answer.out, any ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":");
        kt__json_text(&job->answer.out, c->id);
        (void)kt__buf_printf(&job->answer.out, ",\"function\":{\"index\":%zu", i);
        kt__json_member(&job->answer.out, "name", c->name);
        (void)kt__buf_puts(&job->answer.out, ",\"arguments\":");
        (void)kt__buf_puts(&job->answer.out, object);
        (void)kt__buf_puts(&job->answer.out, "}}");
        free(object);
        any = true;
    }
    if (any) (void)kt__buf_putc(&job->answer.out, ']');
}

static void write_ollama_line(kt__job *job, const ollama_piece *p, bool done) {
    bool chat = job->dialect == &kt__dialect_ollama_chat;
    char when[40];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(when + n, sizeof when - n, ".%06ldZ", now.tv_nsec / 1000);
    const char *model = kt__served_name(job->model.served);
    (void)kt__buf_puts(&job->answer.out, "{\"model\":");
    kt__json_text(&job->answer.out, model);
    (void)kt__buf_printf(&job->answer.out, ",\"created_at\":\"%s\",%s", when,
                         chat ? "\"message\":{\"role\":\"assistant\",\"content\":"
                              : "\"response\":");
    kt__json_string(&job->answer.out, p->text ? p->text : "", p->len, KT__JSON_PLAIN);
    if (p->thinking_len) {
        (void)kt__buf_puts(&job->answer.out, ",\"thinking\":");
        kt__json_string(&job->answer.out, p->thinking, p->thinking_len, KT__JSON_PLAIN);
    }
    if (p->n_calls) write_ollama_calls(job, p);
    (void)kt__buf_printf(&job->answer.out, "%s,\"done\":%s", chat ? "}" : "",
                         done ? "true" : "false");
    if (!p->n_tokens) return;
    (void)kt__buf_puts(&job->answer.out, ",\"logprobs\":");
    kt__wire_write_logprobs(&job->answer.out, p->tokens, p->n_tokens);
}

static void write_ollama_piece(kt__job *job, const ollama_piece *p) {
    write_ollama_line(job, p, false);
    (void)kt__buf_puts(&job->answer.out, "}\n");
}

/* A call that is over: it goes out whole. */
static void write_last_call(kt__job *job, const kt__job_choice *c) {
    size_t n = kt__wire_blocks_calls(&c->said, NULL);
    if (!c->said.n || c->said.list[c->said.n - 1].kind != KT_PART_CALL) return;
    write_ollama_piece(job, &(ollama_piece){.calls_of = c, .call = n - 1, .n_calls = 1});
}

static void ollama_token(kt__job *job, const kt_event *event) {
    const kt__job_choice *c = &job->answer.choices[event->choice];
    kt_part one;
    size_t n;
    const kt_part *parts = kt__wire_parts(event, &one, &n);
    kt__job_choice *gathered = &job->answer.choices[event->choice];
    kt__dialect_gather_token(job, event);
    for (size_t i = 0; i < n; i++) {
        const kt_part *p = &parts[i];
        if (job->answer.stream && kt__wire_blocks_begins(&c->said, p)) write_last_call(job, c);
        kt__dialect_gather_part(job, event->choice, p);
        if (!job->answer.stream || p->kind == KT_PART_CALL) continue;
        ollama_piece piece = {.tokens = gathered->tokens, .n_tokens = gathered->n_tokens};
        bool thought = p->kind == KT_PART_REASONING;
        *(thought ? &piece.thinking : &piece.text) = p->text;
        *(thought ? &piece.thinking_len : &piece.len) = p->len;
        write_ollama_piece(job, &piece);
        gathered->n_tokens = 0;
    }
}

static void ollama_finish(kt__job *job, const kt_event *event) {
    const kt_request_report *r = event->report;
    const kt__job_choice *c = &job->answer.choices[event->choice];
    const ollama_piece whole = {.text = c->said.text.data,
                                .len = c->said.text.len,
                                .thinking = c->said.reasoning.data,
                                .thinking_len = c->said.reasoning.len,
                                .calls_of = c,
                                .n_calls = kt__wire_blocks_calls(&c->said, NULL),
                                .tokens = c->tokens,
                                .n_tokens = c->n_tokens};
    if (job->answer.stream) write_last_call(job, c);
    write_ollama_line(job, job->answer.stream ? &(ollama_piece){0} : &whole, true);
    (void)kt__buf_printf(&job->answer.out,
                         ",\"done_reason\":\"%s\",\"total_duration\":%lld,\"load_duration\":0,"
                         "\"prompt_eval_count\":%d,\"prompt_eval_duration\":%lld,\"eval_count\":%d,"
                         "\"eval_duration\":%lld",
                         kt__wire_finish_reason(event->finish), (long long)r->total_us * 1000,
                         (int)r->n_prompt, (long long)r->prefill_us * 1000, (int)r->n_generated,
                         (long long)(r->decode_us + r->sample_us) * 1000);
    kt__dialect_write_notes(job);
    kt__wire_write_timings(&job->answer.out, r);
    (void)kt__buf_puts(&job->answer.out, "}\n");
}

/* A request without a prompt has had no choice that finished. */
static void ollama_end(kt__job *job) {
    if (job->answer.n_choices) return;
    write_ollama_line(job, &(ollama_piece){0}, true);
    (void)kt__buf_puts(&job->answer.out, ",\"done_reason\":\"load\"}\n");
}

void kt__ollama_error_body(kt__buf *out, int status, const kt_error *err) {
    const char *message = err->message[0] ? err->message : kt_status_message(err->code);
    (void)status;
    (void)kt__buf_puts(out, "{\"error\":");
    kt__json_text(out, message);
    (void)kt__buf_puts(out, "}\n");
}

static void ollama_error(kt__job *job, const kt_error *err) {
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
    } else {
        kt__ollama_error_body(&job->answer.out, job->answer.status, err);
    }
}

#define OLLAMA(name, path, read_body)          \
    const kt__dialect name = {                 \
        .route = path,                         \
        .stream_type = "application/x-ndjson", \
        .stream_filler = "\n",                 \
        .error_body = kt__ollama_error_body,   \
        .read = read_body,                     \
        .token = ollama_token,                 \
        .finish = ollama_finish,               \
        .end = ollama_end,                     \
        .error = ollama_error,                 \
    }

OLLAMA(kt__dialect_ollama_chat, "/api/chat", read_chat);
OLLAMA(kt__dialect_ollama_generate, "/api/generate", read_generate);
