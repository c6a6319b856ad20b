/* The body of /v1/responses in the words of wire.h: its input's items become messages. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "dialects/dialect_responses.h"
#include "wire/wire_value.h"

/* ---- items to messages ---- */

typedef struct transcript {
    const kt__wire_reader *r;
    json_t *messages;
    json_t *assistant; /* the last message, where calls may still join it; borrowed */
    json_t *reasoning; /* of the assistant's message that is to come; borrowed, or NULL */
} transcript;

static kt_status fail_memory(const transcript *t) {
    return kt__wire_fail_nomem(t->r);
}

static kt_status refuse_type(const transcript *t, const kt__wire_place *up, const char *type,
                             const char *known) {
    kt__wire_place at = {.up = up, .key = "type"};
    return kt__wire_fail_at(t->r, KT_E_UNSUPPORTED, &at, "\"%.40s\" is not supported, only %s",
                            type, known);
}

/* A member that is a text. */
static kt_status need_text(const transcript *t, const kt__wire_place *up, const json_t *item,
                           const char *key, json_t **out) {
    kt__wire_place at = {.up = up, .key = key};
    *out = kt__wire_member(item, key);
    if (!*out) return kt__wire_fail_at(t->r, KT_E_ARG, &at, "is missing");
    return json_is_string(*out) ? KT_OK : kt__wire_fail_type(t->r, &at, "a string", *out);
}

static bool is_text_type(const char *type) {
    return !strcmp(type, "input_text") || !strcmp(type, "output_text") || !strcmp(type, "text");
}

/* {"type": "input_text", "text": ...} to {"type": "text", "text": ...} */
static kt_status add_text_part(const transcript *t, const kt__wire_place *at, const json_t *part,
                               json_t *to) {
    json_t *type, *text;
    kt_status status;
    if (!json_is_object(part)) return kt__wire_fail_type(t->r, at, "an object", part);
    KT__TRY(need_text(t, at, part, "type", &type));
    const char *name = json_string_value(type);
    bool refusal = !strcmp(name, "refusal");
    if (!strcmp(name, "input_image") && json_is_string(json_object_get(part, "image_url")))
        return json_array_append(to, (json_t *)(uintptr_t)part) == 0 ? KT_OK : fail_memory(t);
    if (!refusal && !is_text_type(name))
        return refuse_type(t, at, name, "\"input_text\" and \"output_text\"");
    KT__TRY(need_text(t, at, part, refusal ? "refusal" : "text", &text));
    json_t *made = json_pack("{s:s,s:O}", "type", "text", "text", text);
    if (json_array_append_new(to, made) != 0) status = fail_memory(t);
out:
    return status;
}

/* A text, or an array of parts; *out is the caller's. */
static kt_status read_item_text(const transcript *t, const kt__wire_place *up, const json_t *item,
                                const char *key, json_t **out) {
    kt__wire_place at = {.up = up, .key = key};
    json_t *v = kt__wire_member(item, key), *parts;
    kt_status status = KT_OK;
    *out = NULL;
    if (!v) return kt__wire_fail_at(t->r, KT_E_ARG, &at, "is missing");
    if (!json_is_string(v) && !json_is_array(v))
        return kt__wire_fail_type(t->r, &at, "a string or an array of parts", v);
    parts = json_is_string(v) ? json_incref(v) : json_array();
    for (size_t i = 0; status == KT_OK && parts != v && i < json_array_size(v); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        status = add_text_part(t, &here, json_array_get(v, i), parts);
    }
    if (status == KT_OK && !parts) status = fail_memory(t);
    if (status == KT_OK) {
        *out = parts;
    } else {
        json_decref(parts);
    }
    return status;
}

/* message is taken over; it may be NULL. */
static kt_status add_to_transcript(transcript *t, json_t *message, bool assistant) {
    if (assistant && t->reasoning && message)
        json_object_set(message, "reasoning_content", t->reasoning);
    t->reasoning = NULL;
    t->assistant = assistant ? message : NULL;
    return json_array_append_new(t->messages, message) == 0 ? KT_OK : fail_memory(t);
}

static kt_status add_message_item(transcript *t, const kt__wire_place *at, json_t *item) {
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    kt__wire_place role_at = {.up = at, .key = "role"};
    json_t *role, *content = NULL;
    bool known = false;
    KT__STEP(need_text(t, at, item, "role", &role));
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        known |= !strcmp(json_string_value(role), roles[i]);
    if (!known)
        return kt__wire_fail_at(t->r, KT_E_ARG, &role_at,
                                "\"%.40s\" is not known: expected user, assistant, system or "
                                "developer",
                                json_string_value(role));
    KT__STEP(read_item_text(t, at, item, "content", &content));
    json_t *message = json_pack("{s:O,s:o}", "role", role, "content", content);
    return add_to_transcript(t, message, !strcmp(json_string_value(role), "assistant"));
}

/* The JSON of an object, as a text. */
static kt_status need_arguments(const transcript *t, const kt__wire_place *up, const json_t *item,
                                json_t **out) {
    kt__wire_place at = {.up = up, .key = "arguments"};
    json_t *object;
    kt_error why;
    kt_status status = need_text(t, up, item, "arguments", out);
    if (status != KT_OK || !json_string_length(*out)) return status;
    status = kt__wire_parse(json_string_value(*out), json_string_length(*out), &object, &why);
    bool bad = status == KT_OK && !json_is_object(object);
    json_decref(object);
    return bad ? kt__wire_fail_at(t->r, KT_E_ARG, &at, "the text is not a JSON object") : KT_OK;
}

/* Calls that follow each other, or an assistant's text, are of one message. */
static kt_status add_call_item(transcript *t, const kt__wire_place *at, json_t *item) {
    json_t *id, *name, *arguments;
    kt_status status;
    KT__TRY(need_text(t, at, item, "call_id", &id));
    KT__TRY(need_text(t, at, item, "name", &name));
    KT__TRY(need_arguments(t, at, item, &arguments));
    if (!t->assistant)
        KT__TRY(add_to_transcript(t, json_pack("{s:s,s:n}", "role", "assistant", "content"), true));
    json_t *calls = json_object_get(t->assistant, "tool_calls");
    if (!calls) {
        calls = json_array();
        if (json_object_set_new(t->assistant, "tool_calls", calls) != 0) return fail_memory(t);
    }
    json_t *call = json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    if (json_array_append_new(calls, call) != 0) status = fail_memory(t);
out:
    return status;
}

/* A call of a tool whose input is a text. */
static kt_status add_custom_item(transcript *t, const kt__wire_place *at, json_t *item) {
    json_t *input;
    kt_status status;
    KT__STEP(need_text(t, at, item, "input", &input));
    json_t *object = json_pack("{s:O}", KT__RESPONSES_CUSTOM_ARGUMENT, input);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_t *call = json_copy(item);
    if (!text || json_object_set_new(call, "arguments", json_string(text)) != 0)
        KT__TRY(fail_memory(t));
    status = add_call_item(t, at, call);
out:
    json_decref(object);
    json_decref(call);
    free(text);
    return status;
}

static kt_status add_output_item(transcript *t, const kt__wire_place *at, json_t *item) {
    json_t *id, *content = NULL;
    KT__STEP(need_text(t, at, item, "call_id", &id));
    KT__STEP(read_item_text(t, at, item, "output", &content));
    return add_to_transcript(
        t, json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content", content),
        false);
}

/* The first text of a list of parts; NULL: there is none. */
static json_t *first_text(const json_t *item, const char *key) {
    json_t *text = json_object_get(json_array_get(json_object_get(item, key), 0), "text");
    return json_is_string(text) ? text : NULL;
}

/* What was thought before the message or the calls that follow. A server's own "encrypted_content"
 * is unreadable here unless it is ours, and then "content" says the same. */
static kt_status add_reasoning_item(transcript *t, const kt__wire_place *at, json_t *item) {
    static const size_t skip = sizeof KT__RESPONSES_SEALED - 1;
    const char *sealed = json_string_value(json_object_get(item, "encrypted_content"));
    json_t *text = first_text(item, "content");
    (void)at;
    if (!text && sealed && !strncmp(sealed, KT__RESPONSES_SEALED, skip)) {
        text = json_string(sealed + skip);
        if (!text || json_object_set_new(item, "content", json_pack("[{s:o}]", "text", text)) != 0)
            return fail_memory(t);
        text = first_text(item, "content");
    }
    t->reasoning = text ? text : first_text(item, "summary");
    t->assistant = NULL;
    return KT_OK;
}

/* What tools that OpenAI runs itself left in a conversation: web_search_call and its like. */
static bool is_foreign_item(const char *type) {
    static const char *const types[] = {"web_search_call",
                                        "file_search_call",
                                        "code_interpreter_call",
                                        "image_generation_call",
                                        "computer_call",
                                        "local_shell_call",
                                        "mcp_call",
                                        "mcp_list_tools",
                                        "tool_search_call",

                                        "compaction",
                                        "local_shell_call_output",
                                        "computer_call_output"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(type, types[i])) return true;
    return false;
}

static kt_status add_item(transcript *t, const kt__wire_place *at, json_t *item) {
    static const struct {
        const char *type;
        kt_status (*add)(transcript *t, const kt__wire_place *at, json_t *item);
    } kinds[] = {{"message", add_message_item},
                 {"function_call", add_call_item},
                 {"function_call_output", add_output_item},
                 {"custom_tool_call", add_custom_item},
                 {"custom_tool_call_output", add_output_item},
                 {"reasoning", add_reasoning_item}};
    json_t *type;
    if (!json_is_object(item)) return kt__wire_fail_type(t->r, at, "an object", item);
    if (!kt__wire_member(item, "type")) return add_message_item(t, at, item);
    kt_status status = need_text(t, at, item, "type", &type);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!strcmp(json_string_value(type), kinds[i].type)) return kinds[i].add(t, at, item);
    }
    if (is_foreign_item(json_string_value(type))) return KT_OK;
    return refuse_type(t, at, json_string_value(type),
                       "message, function_call, custom_tool_call, their outputs, and reasoning");
}

/* An item as it is listed: with an id, and a message's text as a part. */
static json_t *listed_item(const json_t *from) {
    static const char letters[] = "0123456789abcdef";
    char id[40];
    unsigned char random[12];
    json_t *item = json_copy((json_t *)from);
    const json_t *content = json_object_get(item, "content");
    const char *role = json_string_value(json_object_get(item, "role"));
    const char *type = json_string_value(json_object_get(item, "type"));
    bool message = !type || !strcmp(type, "message");
    if (!type) (void)json_object_set_new(item, "type", json_string("message"));
    if (message && json_is_string(content))
        (void)json_object_set_new(
            item, "content",
            json_pack("[{s:s,s:O}]", "type",
                      role && !strcmp(role, "assistant") ? "output_text" : "input_text", "text",
                      content));
    if (!json_object_get(item, "status"))
        (void)json_object_set_new(item, "status", json_string("completed"));
    if (json_object_get(item, "id")) return item;
    if (!kt__random_bytes(random, sizeof random)) memset(random, 0, sizeof random);
    size_t n = (size_t)snprintf(id, sizeof id, "%s", message ? "msg_" : "item_");
    for (size_t i = 0; i < sizeof random; i++) {
        id[n++] = letters[random[i] >> 4];
        id[n++] = letters[random[i] & 15];
    }
    (void)json_object_set_new(item, "id", json_stringn(id, n));
    return item;
}

/* The items of "input", which may be a text. */
static kt_status read_input(transcript *t, const json_t *from, json_t *items) {
    kt__wire_place at = {.key = "input"};
    json_t *input = kt__wire_member(from, "input");
    if (!input) return kt__wire_fail_at(t->r, KT_E_ARG, &at, "is missing");
    if (json_is_string(input)) {
        json_t *message = json_pack("{s:s,s:O}", "role", "user", "content", input);
        json_t *listed = message ? listed_item(message) : NULL;
        bool whole = listed && json_array_append_new(items, listed) == 0;
        kt_status status = whole ? add_to_transcript(t, message, false) : fail_memory(t);
        if (!whole) json_decref(message);
        return status;
    }
    if (!json_is_array(input))
        return kt__wire_fail_type(t->r, &at, "a string or an array of items", input);
    if (!json_array_size(input)) return kt__wire_fail_at(t->r, KT_E_ARG, &at, "is empty");
    for (size_t i = 0; i < json_array_size(input); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        json_t *item = json_array_get(input, i);
        KT__STEP(add_item(t, &here, item));
        if (json_array_append_new(items, listed_item(item)) != 0) return fail_memory(t);
    }
    return KT_OK;
}

/* What was said before, and what was answered to it. */
static kt_status add_earlier(transcript *t, const json_t *earlier, json_t *items) {
    kt__wire_place at = {.key = "previous_response_id"};
    json_t *const parts[] = {json_object_get(earlier, "input"),
                             json_object_get(json_object_get(earlier, "response"), "output")};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < json_array_size(parts[k]); i++) {
            json_t *item = json_array_get(parts[k], i);
            KT__STEP(add_item(t, &at, item));
            if (json_array_append(items, item) != 0) return fail_memory(t);
        }
    }
    return KT_OK;
}

/* "input" and "instructions" to messages, after those of an earlier response or NULL; items gets all that
 * the model is given, but for the instructions, which are each response's own. */
static kt_status read_conversation(transcript *t, const json_t *from, const json_t *earlier,
                                   json_t *items) {
    kt__wire_place first = {.key = "instructions"};
    json_t *head = kt__wire_member(from, "instructions");
    if (head && !json_is_string(head)) return kt__wire_fail_type(t->r, &first, "a string", head);
    if (head)
        KT__STEP(
            add_to_transcript(t, json_pack("{s:s,s:O}", "role", "system", "content", head), false));
    if (earlier) KT__STEP(add_earlier(t, earlier, items));
    return read_input(t, from, items);
}

/* ---- tools whose input is a text ---- */

/* How its input is to look, in words for the model; of a regular expression it is enforced, too. */
static json_t *custom_description(const json_t *tool, const json_t *format) {
    const char *text = json_string_value(json_object_get(tool, "description"));
    const char *syntax = json_string_value(json_object_get(format, "syntax"));
    const char *definition = json_string_value(json_object_get(format, "definition"));
    if (!definition) return json_string(text ? text : "");
    return json_sprintf("%s%sThe input has the form of this %s grammar:\n%s", text ? text : "",
                        text ? "\n" : "", syntax ? syntax : "", definition);
}

/* {"type": "custom", "name", "description", "format"} as a function with one argument. */
static json_t *function_of_custom(const json_t *tool) {
    const json_t *format = json_object_get(tool, "format");
    const char *syntax = json_string_value(json_object_get(format, "syntax"));
    json_t *definition = json_object_get(format, "definition");
    json_t *input = json_pack("{s:s}", "type", "string");
    if (syntax && !strcmp(syntax, "regex") && json_is_string(definition))
        (void)json_object_set_new(input, "pattern",
                                  json_sprintf("^(?:%s)$", json_string_value(definition)));
    return json_pack("{s:s,s:O,s:o,s:{s:s,s:{s:o},s:[s],s:b}}", "type", "function", "name",
                     json_object_get(tool, "name"), "description", custom_description(tool, format),
                     "parameters", "type", "object", "properties", KT__RESPONSES_CUSTOM_ARGUMENT,
                     input, "required", KT__RESPONSES_CUSTOM_ARGUMENT, "additionalProperties", 0);
}

static bool is_custom(const json_t *v) {
    const char *type = json_string_value(json_object_get(v, "type"));
    return type && !strcmp(type, "custom") && json_is_string(json_object_get(v, "name"));
}

static kt_status read_custom_tools(const kt__wire_reader *r, const json_t *from, json_t *body,
                                   kt__responses_asked *asked) {
    json_t *given = json_object_get(from, "tools"), *choice = json_object_get(from, "tool_choice");
    json_t *tools = json_array();
    kt_status status = tools ? KT_OK : kt__wire_fail_nomem(r);
    asked->custom = kt__arena_calloc(r->arena, json_array_size(given) + 1, sizeof *asked->custom);
    if (!asked->custom) status = kt__wire_fail_nomem(r);
    for (size_t i = 0; i < json_array_size(given) && status == KT_OK; i++) {
        json_t *tool = json_array_get(given, i);
        bool custom = is_custom(tool);
        const char *name = json_string_value(json_object_get(tool, "name"));
        if (custom)
            asked->custom[asked->n_custom++] = kt__arena_strndup(r->arena, name, strlen(name));
        if (json_array_append_new(tools, custom ? function_of_custom(tool) : json_incref(tool)) !=
            0)
            status = kt__wire_fail_nomem(r);
    }
    if (status == KT_OK && asked->n_custom && json_object_set(body, "tools", tools) != 0)
        status = kt__wire_fail_nomem(r);
    if (status == KT_OK && is_custom(choice) &&
        json_object_set_new(body, "tool_choice",
                            json_pack("{s:s,s:O}", "type", "function", "name",
                                      json_object_get(choice, "name"))) != 0)
        status = kt__wire_fail_nomem(r);
    json_decref(tools);
    return status;
}

/* ---- the other members ---- */

/* What needs a server that keeps answers, or a service that is none of ours. */
static kt_status refuse_members(const kt__wire_reader *r, const json_t *from) {
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"conversation", "send \"previous_response_id\", or the whole conversation in \"input\""},
        {"background", "an answer comes on the connection that asked for it"},
        {"prompt", "no prompts are stored here: give \"instructions\" and \"input\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        kt__wire_place at = {.key = refused[i].key};
        const json_t *v = kt__wire_member(from, refused[i].key);
        if (v && !kt__wire_is_empty(v))
            return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "not supported: %s", refused[i].why);
    }
    return KT_OK;
}

/* The record of the response that this one follows; *out NULL: it follows none. */
static kt_status find_earlier(const kt__wire_reader *r, kt__job *job, json_t **out) {
    kt__wire_place at = {.key = "previous_response_id"};
    const json_t *id = kt__wire_member(job->request.json, at.key);
    *out = NULL;
    if (!id || kt__wire_is_empty(id)) return KT_OK;
    if (!json_is_string(id)) return kt__wire_fail_type(r, &at, "a string", id);
    if (job->shared->responses)
        *out = kt__responses_get(job->shared->responses, json_string_value(id),
                                 job->request.client);
    if (*out) return KT_OK;
    job->answer.error_status = 404;
    return kt__wire_fail_at(r, KT_E_ARG, &at, "no response \"%.60s\" is kept here%s",
                            json_string_value(id),
                            job->shared->responses ? "" : ": responses.max is 0");
}

static kt_status read_store(const kt__wire_reader *r, const kt__job *job,
                            kt__responses_asked *asked) {
    kt__wire_place at = {.key = "store"};
    const json_t *v = kt__wire_member(job->request.json, "store");
    bool store = true;
    kt_status status = v ? kt__wire_read_bool(r, &at, v, &store) : KT_OK;
    asked->keeps = store && job->shared->responses;
    return status;
}

/* {"format": {"type": "json_schema", "name", "schema", ...}} to OpenAI's older response_format. */
static kt_status read_text_format(const kt__wire_reader *r, const json_t *from, json_t *body) {
    kt__wire_place at = {.key = "text"}, format_at = {.up = &at, .key = "format"};
    const json_t *text = kt__wire_member(from, "text");
    if (text && !json_is_object(text)) return kt__wire_fail_type(r, &at, "an object", text);
    json_t *format = text ? kt__wire_member(text, "format") : NULL;
    if (!format) return KT_OK;
    if (!json_is_object(format)) return kt__wire_fail_type(r, &format_at, "an object", format);
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type && !strcmp(type, "json_schema")) {
        json_t *inner = json_copy(format);
        if (json_object_del(inner, "type") != 0) return kt__wire_fail_nomem(r);
        format = json_pack("{s:s,s:o}", "type", type, "json_schema", inner);
    } else {
        json_incref(format);
    }
    if (json_object_set_new(body, "response_format", format) == 0) return KT_OK;
    return kt__wire_fail_nomem(r);
}

/* {"effort", "summary"} */
static kt_status read_effort(const kt__wire_reader *r, const json_t *from, json_t *body,
                             kt__responses_asked *asked) {
    kt__wire_place at = {.key = "reasoning"};
    const json_t *v = kt__wire_member(from, "reasoning");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    json_t *effort = kt__wire_member(v, "effort");
    asked->summary = kt__wire_member(v, "summary") != NULL;
    if (!effort || json_object_set(body, "reasoning_effort", effort) == 0) return KT_OK;
    return kt__wire_fail_nomem(r);
}

/* Of what may be included, the rest belongs to tools of OpenAI's own. */
static kt_status read_include(const kt__wire_reader *r, const json_t *from, json_t *body,
                              kt__responses_asked *asked) {
    kt__wire_place at = {.key = "include"};
    const json_t *v = kt__wire_member(from, "include");
    bool logprobs = false;
    if (v && !json_is_array(v)) return kt__wire_fail_type(r, &at, "an array", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        const char *name = json_string_value(json_array_get(v, i));
        if (!name) return kt__wire_fail_type(r, &here, "a string", json_array_get(v, i));
        asked->encrypted |= !strcmp(name, "reasoning.encrypted_content");
        logprobs |= !strcmp(name, "message.output_text.logprobs");
    }
    if (!logprobs) (void)json_object_del(body, "top_logprobs");
    if (!logprobs || json_object_set_new(body, "logprobs", json_true()) == 0) return KT_OK;
    return kt__wire_fail_nomem(r);
}

/* ---- what the answer repeats ---- */

static bool echo_member(kt__buf *out, const json_t *from, const char *key, const char *otherwise) {
    const json_t *v = json_object_get(from, key);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (v && !text) return false;
    kt__json_key(out, key);
    (void)kt__buf_puts(out, text ? text : otherwise);
    free(text);
    return true;
}

static kt_status make_echo(kt__job *job, const json_t *from, kt__responses_asked *asked,
                           kt_error *err) {
    static const struct {
        const char *key, *otherwise;
    } members[] = {{"instructions", "null"},
                   {"max_output_tokens", "null"},
                   {"max_tool_calls", "null"},
                   {"metadata", "{}"},
                   {"parallel_tool_calls", "true"},
                   {"previous_response_id", "null"},
                   {"prompt_cache_key", "null"},
                   {"reasoning", "{\"effort\":null,\"summary\":null}"},
                   {"safety_identifier", "null"},
                   {"temperature", "null"},
                   {"text", "{\"format\":{\"type\":\"text\"}}"},
                   {"tool_choice", "\"auto\""},
                   {"tools", "[]"},
                   {"top_logprobs", "0"},
                   {"top_p", "null"},
                   {"user", "null"}};
    kt__buf out;
    bool made = true;
    kt__buf_init(&out, (size_t)KT__WIRE_MAX_BYTES * 8);
    (void)kt__buf_printf(&out,
                         ",\"background\":false,\"service_tier\":\"default\",\"store\":%s,"
                         "\"truncation\":\"disabled\"",
                         asked->keeps ? "true" : "false");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        made &= echo_member(&out, from, members[i].key, members[i].otherwise);
    if (made && !out.failed) asked->echo = kt__arena_strndup(&job->arena, out.data, out.len);
    kt__buf_free(&out);
    return asked->echo ? KT_OK : kt__fail_nomem(err, "a request", out.len);
}

/* ---- the whole body ---- */

/* Members that mean something else here, or nothing. */
static kt_status copy_body(const kt__wire_reader *r, json_t *from, json_t **out) {
    static const char *const ours[] = {"input",
                                       "instructions",
                                       "text",
                                       "reasoning",
                                       "include",
                                       "messages",
                                       "prompt",
                                       "response_format",
                                       "max_tokens",
                                       "background",
                                       "n",
                                       "logprobs",
                                       "previous_response_id",
                                       "store"};
    json_t *most = json_object_get(from, "max_output_tokens");
    *out = json_copy(from);
    if (!*out) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) (void)json_object_del(*out, ours[i]);
    if (!most || json_is_null(most)) return KT_OK;
    return json_object_set(*out, "max_tokens", most) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* All that the model is given, as a text that lives as long as the job. */
static kt_status keep_input(const kt__wire_reader *r, const json_t *items,
                            kt__responses_asked *asked) {
    if (!asked->keeps) return KT_OK;
    char *text = json_dumps(items, JSON_COMPACT);
    asked->input = text ? kt__arena_strndup(r->arena, text, strlen(text)) : NULL;
    free(text);
    return asked->input ? KT_OK : kt__wire_fail_nomem(r);
}

static kt_status to_chat(const kt__wire_reader *r, kt__job *job, kt__responses_asked *asked,
                         json_t **out) {
    transcript t = {.r = r, .messages = json_array()};
    json_t *from = job->request.json, *body = NULL, *earlier = NULL, *items = json_array();
    kt_status status;
    KT__TRY(refuse_members(r, from));
    KT__TRY(find_earlier(r, job, &earlier));
    KT__TRY(read_store(r, job, asked));
    KT__TRY(copy_body(r, from, &body));
    KT__TRY(read_text_format(r, from, body));
    KT__TRY(read_effort(r, from, body, asked));
    KT__TRY(read_include(r, from, body, asked));
    KT__TRY(read_custom_tools(r, from, body, asked));
    KT__TRY(t.messages && items ? read_conversation(&t, from, earlier, items)
                                : kt__wire_fail_nomem(r));
    KT__TRY(keep_input(r, items, asked));
    /* an item of the assistant's at the end is what it said before */
    if (!json_object_get(body, "add_generation_prompt"))
        json_object_set_new(body, "add_generation_prompt", json_true());
    if (json_object_set(body, "messages", t.messages) != 0) status = kt__wire_fail_nomem(r);
    if (status == KT_OK) *out = json_incref(body);
out:
    json_decref(t.messages);
    json_decref(items);
    json_decref(earlier);
    json_decref(body);
    return status;
}

kt_status kt__responses_read(kt__job *job, kt_error *err) {
    static const kt__wire_name client_names[] = {{"response_format.json_schema", "text.format"},
                                                 {"response_format", "text.format"},
                                                 {"reasoning_effort", "reasoning.effort"},
                                                 {"max_tokens", "max_output_tokens"},
                                                 {"messages", "input"},
                                                 {NULL, NULL}};
    const kt__wire_reader r = {NULL, &job->arena, NULL, err, NULL};
    kt__responses_asked *asked = kt__arena_calloc(&job->arena, 1, sizeof *asked);
    json_t *body = NULL;
    kt_status status;
    if (!asked) return kt__fail_nomem(err, "a request", sizeof *asked);
    KT__TRY(kt__job_parse(job, err));
    KT__TRY(to_chat(&r, job, asked, &body));
    KT__TRY(make_echo(job, job->request.json, asked, err));
    job->request.names = client_names;
    json_decref(job->request.json);
    job->request.json = body;
    status = kt__job_read_wire(job, KT__WIRE_CHAT, err);
    job->extra = asked;
out:
    return status;
}
