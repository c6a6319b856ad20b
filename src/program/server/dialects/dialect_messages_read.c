/* Anthropic's bodies in the words of wire.h: blocks become OpenAI's messages. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "dialects/dialects.h"
#include "wire/wire_value.h"

/* ---- blocks to messages ---- */

typedef struct blocks {
    const kt__wire_reader *r;
    json_t *messages; /* all */
    json_t *message;  /* that texts and calls go into; borrowed, NULL: the next one begins */
    const char *role;
} blocks;

static kt_status need_block_text(const blocks *t, const kt__wire_place *up, const json_t *block,
                                 const char *key, json_t **out) {
    kt__wire_place at = {.up = up, .key = key};
    *out = kt__wire_member(block, key);
    if (!*out) return kt__wire_fail_at(t->r, KT_E_ARG, &at, "is missing");
    return json_is_string(*out) ? KT_OK : kt__wire_fail_type(t->r, &at, "a string", *out);
}

/* The message at hand, begun where there is none. */
static json_t *open_message(blocks *t) {
    if (t->message) return t->message;
    t->message = json_pack("{s:s,s:[]}", "role", t->role, "content");
    return json_array_append_new(t->messages, t->message) == 0 ? t->message : NULL;
}

static kt_status add_to_list(const blocks *t, json_t *list, json_t *item) {
    return json_array_append_new(list, item) == 0 ? KT_OK : kt__wire_fail_nomem(t->r);
}

static kt_status add_text(blocks *t, json_t *text) {
    return add_to_list(t, json_object_get(open_message(t), "content"),
                       json_pack("{s:s,s:O}", "type", "text", "text", text));
}

static kt_status add_text_block(blocks *t, const kt__wire_place *at, json_t *block) {
    json_t *text;
    kt_status status = need_block_text(t, at, block, "text", &text);
    return status == KT_OK ? add_text(t, text) : status;
}

static kt_status add_use_block(blocks *t, const kt__wire_place *at, json_t *block) {
    kt__wire_place input_at = {.up = at, .key = "input"};
    json_t *id, *name, *input = kt__wire_member(block, "input");
    kt_status status = need_block_text(t, at, block, "id", &id);
    if (status == KT_OK) status = need_block_text(t, at, block, "name", &name);
    if (status != KT_OK) return status;
    if (!input) return kt__wire_fail_at(t->r, KT_E_ARG, &input_at, "is missing");
    if (!json_is_object(input)) return kt__wire_fail_type(t->r, &input_at, "an object", input);
    json_t *message = open_message(t), *calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        if (json_object_set_new(message, "tool_calls", calls) != 0)
            return kt__wire_fail_nomem(t->r);
    }
    return add_to_list(t, calls,
                       json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function", "function",
                                 "name", name, "arguments", input));
}

/* What was thought is in front of what the same turn says. */
static kt_status add_thinking_block(blocks *t, const kt__wire_place *at, json_t *block) {
    json_t *text;
    kt_status status = need_block_text(t, at, block, "thinking", &text);
    if (status != KT_OK) return status;
    return json_object_set(open_message(t), "reasoning_content", text) == 0
               ? KT_OK
               : kt__wire_fail_nomem(t->r);
}

/* A document whose source is text, or blocks of it, is a text of the turn, with its title before it. */
static kt_status add_document_block(blocks *t, const kt__wire_place *at, json_t *block) {
    kt__wire_place source_at = {.up = at, .key = "source"},
                   type_at = {.up = &source_at, .key = "type"};
    const json_t *source = kt__wire_member(block, "source");
    const char *type = json_string_value(json_object_get(source, "type"));
    json_t *title = kt__wire_member(block, "title"), *parts = kt__wire_member(source, "content"),
           *data = kt__wire_member(source, "data");
    bool of_text = type && !strcmp(type, "text") && json_is_string(data);
    bool of_parts = type && !strcmp(type, "content") &&
                    (json_is_array(parts) || json_is_string(parts));
    if (!of_text && !of_parts)
        return kt__wire_fail_at(t->r, KT_E_UNSUPPORTED, &type_at,
                                "only documents of \"text\" or \"content\" are read");
    if (json_is_string(title)) KT__STEP(add_text(t, title));
    if (of_text) return add_text(t, data);
    if (json_is_string(parts)) return add_text(t, parts);
    for (size_t i = 0; i < json_array_size(parts); i++)
        KT__STEP(add_text_block(t, at, json_array_get(parts, i)));
    return KT_OK;
}

/* The reader of the wire knows Anthropic's sources. */
static kt_status add_image_block(blocks *t, const kt__wire_place *at, json_t *block) {
    (void)at;
    return add_to_list(t, json_object_get(open_message(t), "content"), json_incref(block));
}

static kt_status skip_block(blocks *t, const kt__wire_place *at, json_t *block) {
    (void)t, (void)at, (void)block;
    return KT_OK;
}

/* Text blocks of a result as they are; the wire joins them. Absent: a result of nothing. */
static kt_status read_result_content(const blocks *t, const kt__wire_place *up, const json_t *block,
                                     json_t **out) {
    kt__wire_place at = {.up = up, .key = "content"};
    json_t *v = kt__wire_member(block, "content"), *text;
    *out = NULL;
    if (v && !json_is_string(v) && !json_is_array(v))
        return kt__wire_fail_type(t->r, &at, "a string or an array of blocks", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        kt__wire_place here = {.up = &at, .index = i}, type_at = {.up = &here, .key = "type"};
        const json_t *part = json_array_get(v, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!json_is_object(part)) return kt__wire_fail_type(t->r, &here, "an object", part);
        if (type && !strcmp(type, "image"))
            continue; /* the wire says in its place that it is one */
        if (!type || strcmp(type, "text") != 0)
            return kt__wire_fail_at(t->r, KT_E_UNSUPPORTED, &type_at, "only \"text\" is supported");
        kt_status status = need_block_text(t, &here, part, "text", &text);
        if (status != KT_OK) return status;
    }
    *out = v ? json_incref(v) : json_string("");
    return *out ? KT_OK : kt__wire_fail_nomem(t->r);
}

/* A tool that failed says so in front of what it says. */
static kt_status mark_failed(const blocks *t, json_t **content) {
    json_t *marked = json_is_array(*content) ? json_copy(*content) : json_array();
    json_t *text = json_is_array(*content)
                       ? NULL
                       : json_pack("{s:s,s:O}", "type", "text", "text", *content);
    bool made = marked && (!text || json_array_append_new(marked, text) == 0) &&
                json_array_insert_new(
                    marked, 0, json_pack("{s:s,s:s}", "type", "text", "text", "Error:")) == 0;
    json_decref(*content);
    *content = made ? marked : NULL;
    if (!made) json_decref(marked);
    return made ? KT_OK : kt__wire_fail_nomem(t->r);
}

/* A message of its own, in the order of the blocks. */
static kt_status add_result_block(blocks *t, const kt__wire_place *at, json_t *block) {
    json_t *id, *content = NULL;
    KT__STEP(need_block_text(t, at, block, "tool_use_id", &id));
    KT__STEP(read_result_content(t, at, block, &content));
    if (json_is_true(json_object_get(block, "is_error"))) KT__STEP(mark_failed(t, &content));
    t->message = NULL;
    return add_to_list(
        t, t->messages,
        json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content", content));
}

static kt_status add_block(blocks *t, const kt__wire_place *at, json_t *block) {
    static const struct {
        const char *type, *role; /* NULL: either */
        kt_status (*add)(blocks *t, const kt__wire_place *at, json_t *block);
    } kinds[] = {{"text", NULL, add_text_block},
                 {"image", "user", add_image_block},
                 {"document", "user", add_document_block},
                 {"server_tool_use", "assistant", skip_block},
                 {"web_search_tool_result", "assistant", skip_block},
                 {"tool_use", "assistant", add_use_block},
                 {"thinking", "assistant", add_thinking_block},
                 {"redacted_thinking", "assistant", skip_block},
                 {"tool_result", "user", add_result_block}};
    kt__wire_place type_at = {.up = at, .key = "type"};
    json_t *type;
    if (!json_is_object(block)) return kt__wire_fail_type(t->r, at, "an object", block);
    kt_status status = need_block_text(t, at, block, "type", &type);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(json_string_value(type), kinds[i].type) != 0) continue;
        if (!kinds[i].role || !strcmp(kinds[i].role, t->role)) return kinds[i].add(t, at, block);
        return kt__wire_fail_at(t->r, KT_E_ARG, &type_at, "\"%s\" belongs to role %s",
                                kinds[i].type, kinds[i].role);
    }
    return kt__wire_fail_at(t->r, KT_E_UNSUPPORTED, &type_at,
                            "\"%.40s\" is not supported, only text, image, tool_use, "
                            "tool_result and thinking",
                            json_string_value(type));
}

/* A text stays as it is; blocks become one message or several. */
static kt_status add_turn(blocks *t, const kt__wire_place *at, json_t *turn) {
    kt__wire_place role_at = {.up = at, .key = "role"}, content_at = {.up = at, .key = "content"};
    json_t *role, *content = kt__wire_member(turn, "content");
    kt_status status;
    if (!json_is_object(turn)) return kt__wire_fail_type(t->r, at, "an object", turn);
    KT__TRY(need_block_text(t, at, turn, "role", &role));
    t->role = json_string_value(role);
    t->message = NULL;
    if (strcmp(t->role, "user") != 0 && strcmp(t->role, "assistant") != 0 &&
        strcmp(t->role, "system") != 0)
        return kt__wire_fail_at(t->r, KT_E_ARG, &role_at,
                                "\"%.40s\" is not known: expected user or assistant", t->role);
    if (!content) return kt__wire_fail_at(t->r, KT_E_ARG, &content_at, "is missing");
    if (!json_is_array(content))
        return json_is_string(content)
                   ? add_to_list(t, t->messages, json_incref(turn))
                   : kt__wire_fail_type(t->r, &content_at, "a string or an array of blocks",
                                        content);
    for (size_t i = 0; status == KT_OK && i < json_array_size(content); i++) {
        kt__wire_place here = {.up = &content_at, .index = i};
        status = add_block(t, &here, json_array_get(content, i));
    }
    if (status == KT_OK && !json_array_size(content) && !open_message(t))
        status = kt__wire_fail_nomem(t->r);
out:
    return status;
}

static kt_status read_turns(const kt__wire_reader *r, const json_t *from, json_t *body) {
    kt__wire_place at = {.key = "messages"};
    json_t *list = kt__wire_member(from, "messages");
    blocks t = {.r = r, .messages = json_array()};
    kt_status status;
    KT__TRY(t.messages ? KT_OK : kt__wire_fail_nomem(r));
    if (list && !json_is_array(list)) KT__TRY(kt__wire_fail_type(r, &at, "an array", list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        KT__TRY(add_turn(&t, &here, json_array_get(list, i)));
    }
    if (list && json_object_set(body, "messages", t.messages) != 0) status = kt__wire_fail_nomem(r);
out:
    json_decref(t.messages);
    return status;
}

/* ---- the other members ---- */

/* What OpenAI's body has no word for, and kentang does not do. */
static kt_status refuse_members(const kt__wire_reader *r, const json_t *from) {
    static const char *const keys[] = {"mcp_servers", "container"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        kt__wire_place at = {.key = keys[i]};
        const json_t *v = kt__wire_member(from, keys[i]);
        if (v && !kt__wire_is_empty(v))
            return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "not supported");
    }
    return KT_OK;
}

/* {"type": "enabled", "budget_tokens"}, "disabled" or "adaptive" */
static kt_status read_thinking(const kt__wire_reader *r, const json_t *from, json_t *body) {
    kt__wire_place at = {.key = "thinking"}, type_at = {.up = &at, .key = "type"},
                   budget_at = {.up = &at, .key = "budget_tokens"};
    const json_t *v = kt__wire_member(from, "thinking");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *budget = kt__wire_member(v, "budget_tokens");
    bool on = type && (!strcmp(type, "enabled") || !strcmp(type, "adaptive"));
    int64_t n;
    if (!on && (!type || strcmp(type, "disabled") != 0))
        return kt__wire_fail_at(r, KT_E_ARG, &type_at, "expected enabled, disabled or adaptive");
    if (budget) {
        kt_status status = kt__wire_read_int(r, &budget_at, budget, 1, INT32_MAX, &n);
        if (status != KT_OK) return status;
        if (on && json_object_set(body, "reasoning_budget", budget) != 0)
            return kt__wire_fail_nomem(r);
    }
    return json_object_set_new(body, "enable_thinking", json_boolean(on)) == 0
               ? KT_OK
               : kt__wire_fail_nomem(r);
}

/* {"type", "name", "disable_parallel_tool_use"}; the library knows the rest of its words. */
static kt_status read_choice(const kt__wire_reader *r, const json_t *from, json_t *body) {
    kt__wire_place at = {.key = "tool_choice"};
    json_t *v = kt__wire_member(from, "tool_choice"), *tools = kt__wire_member(from, "tools");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    const char *type = json_string_value(json_object_get(v, "type"));
    bool none = type && (!strcmp(type, "auto") || !strcmp(type, "none"));
    bool one = json_is_true(json_object_get(v, "disable_parallel_tool_use"));
    if (one && json_object_set_new(body, "parallel_tool_calls", json_false()) != 0)
        return kt__wire_fail_nomem(r);
    if (none && (!tools || kt__wire_is_empty(tools))) return KT_OK;
    return json_object_set(body, "tool_choice", v) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* {"type": "json_schema", "schema"}: of output_config, or next to it as it was first */
static kt_status read_output(const kt__wire_reader *r, const json_t *from, json_t *body) {
    kt__wire_place at = {.key = "output_config"}, old_at = {.key = "output_format"},
                   format_at = {.up = &at, .key = "format"};
    const json_t *v = kt__wire_member(from, "output_config");
    if (v && !json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    json_t *effort = kt__wire_member(v, "effort"), *format = kt__wire_member(v, "format");
    const kt__wire_place *here = format ? &format_at : &old_at;
    if (effort && json_object_set(body, "reasoning_effort", effort) != 0)
        return kt__wire_fail_nomem(r);
    if (!format) format = kt__wire_member(from, "output_format");
    if (!format) return KT_OK;
    json_t *schema = kt__wire_member(format, "schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || strcmp(type, "json_schema") != 0 || !schema)
        return kt__wire_fail_at(r, KT_E_ARG, here,
                                "expected a \"json_schema\" with its \"schema\"");
    json_t *made = json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name",
                             "output", "schema", schema);
    return json_object_set_new(body, "response_format", made) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* The body in OpenAI's words. */
static kt_status to_chat(const kt__wire_reader *r, const json_t *from, json_t *body) {
    static const char *const same[] = {"model", "system", "max_tokens", "temperature", "top_p",
                                       "top_k", "stream", "seed",       "tools",       "adapter"};
    json_t *stop = json_object_get(from, "stop_sequences");
    const json_t *messages = json_object_get(from, "messages"),
                 *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    kt_status status = KT_OK;
    int rc = stop ? json_object_set(body, "stop", stop) : 0;
    if (role && !strcmp(role, "assistant")) /* the answer continues from it */
        rc |= json_object_set_new(body, "continue_final_message", json_true());
    for (size_t i = 0; i < sizeof same / sizeof same[0] && rc == 0; i++) {
        json_t *v = json_object_get(from, same[i]);
        if (v) rc = json_object_set(body, same[i], v);
    }
    if (rc != 0) return kt__wire_fail_nomem(r);
    KT__TRY(refuse_members(r, from));
    KT__TRY(read_thinking(r, from, body));
    KT__TRY(read_choice(r, from, body));
    KT__TRY(read_output(r, from, body));
    status = read_turns(r, from, body);
out:
    return status;
}

static kt_status read_conversation(kt__job *job, kt_error *err) {
    static const kt__wire_name client_names[] = {
        {"stop", "stop_sequences"},
        {"reasoning_effort", "output_config.effort"},
        {"response_format.json_schema", "output_config.format"},
        {"response_format", "output_config.format"},
        {NULL, NULL}};
    const kt__wire_reader r = {NULL, &job->arena, NULL, err, NULL};
    json_t *body = json_object();
    kt_status status;
    if (!body) return kt__fail_nomem(err, "a request", 0);
    job->request.names = client_names;
    KT__TRY(to_chat(&r, job->request.json, body));
    json_decref(job->request.json);
    job->request.json = body;
    body = NULL;
    status = kt__job_read_wire(job, KT__WIRE_SYSTEM, err);
out:
    json_decref(body);
    return status;
}

kt_status kt__messages_read(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status != KT_OK) return status;
    if (!json_is_number(json_object_get(job->request.json, "max_tokens")))
        return kt__fail_at(err, KT_E_ARG, "max_tokens", UINT64_MAX,
                           "max_tokens: a number is needed");
    return read_conversation(job, err);
}

/* {"input_tokens": 12}: of the prompt that the messages would be, which may be longer than the
 * context. */
kt_status kt__messages_count(kt__job *job, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(read_conversation(job, err));
    return kt__dialect_write_count(job, NULL, err);
}
