/* What belongs to a conversation besides its texts: tools, calls and their results, reasoning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "setup/thinking.h"
#include "wire/wire_value.h"

/* v as JSON text in the arena. */
static kt_status keep_json(const kt__wire_reader *r, const json_t *v, const char **out,
                           size_t *len) {
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    size_t n = text ? strlen(text) : 0;
    *out = text ? kt__arena_strndup(r->arena, text, n) : NULL;
    if (len) *len = n;
    free(text);
    return *out ? KT_OK : kt__wire_fail_nomem(r);
}

/* ---- tools ---- */

/* Tools that other services run themselves, or that are no functions: agents send them along
 * whatever the server is, and get on without them. Anthropic's have a date: web_search_20250305. */
static bool is_foreign_tool(const char *type) {
    static const char *const types[] = {
        "custom",           "local_shell",          "shell",       "apply_patch",
        "web_search",       "web_search_preview",   "file_search", "code_interpreter",
        "image_generation", "computer_use_preview", "tool_search", "mcp"};
    size_t len = strlen(type);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(type, types[i])) return true;
    return len > 9 && type[len - 9] == '_' && strspn(type + len - 8, "0123456789") == 8;
}

/* A tool that can be called goes into `kept`, those of a namespace one by one; another is noted. */
static kt_status keep_tool(const kt__wire_reader *r, const kt__wire_place *at, json_t *tool,
                           json_t *kept) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *inner = json_object_get(tool, "tools"),
                 *schema = kt__wire_member(tool, "input_schema");
    if (type && !strcmp(type, "namespace")) {
        for (size_t i = 0; i < json_array_size(inner); i++) {
            kt__wire_place tools_at = {.up = at, .key = "tools"},
                           here = {.up = &tools_at, .index = i};
            KT__STEP(keep_tool(r, &here, json_array_get(inner, i), kept));
        }
        return KT_OK;
    }
    if (type && is_foreign_tool(type) && !schema)
        return kt__wire_note(r, at, "a tool of type %.60s is left out", type);
    return json_array_append(kept, tool) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* OpenAI's older "functions": tools without their wrapping. */
static kt_status wrap_functions(const kt__wire_reader *r, const json_t *list, json_t *kept) {
    kt__wire_place at = {.key = "functions"};
    if (!json_is_array(list)) return kt__wire_fail_type(r, &at, "an array", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *tool = json_pack("{s:s,s:O}", "type", "function", "function",
                                 json_array_get(list, i));
        if (json_array_append_new(kept, tool) != 0) return kt__wire_fail_nomem(r);
    }
    return KT_OK;
}

static kt_status keep_tools(const kt__wire_reader *r, const json_t *v, json_t *kept) {
    kt__wire_place at = {.key = "tools"};
    for (size_t i = 0; i < json_array_size(v); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        KT__STEP(keep_tool(r, &here, json_array_get(v, i), kept));
    }
    return json_array_size(kept) ? keep_json(r, kept, &r->request->req.calls.tools, NULL) : KT_OK;
}

/* Which of the shapes a tool may have, and what its schema can say, is the library's to judge. */
static kt_status read_tools(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "tools"};
    const json_t *v = kt__wire_member(body, "tools"), *older = kt__wire_member(body, "functions");
    bool in_chat = r->request->form != KT__WIRE_TEXT && kt__wire_member(body, "messages");
    json_t *kept = json_array();
    kt_status status = kept ? KT_OK : kt__wire_fail_nomem(r);
    if (v && !json_is_array(v)) KT__TRY(kt__wire_fail_type(r, &at, "an array", v));
    if (json_array_size(v) && !in_chat)
        KT__TRY(kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "only with \"messages\""));
    if (older && !kt__wire_is_empty(older)) {
        KT__TRY(wrap_functions(r, older, kept));
        r->request->older_calls = !json_array_size(v);
    }
    KT__TRY(keep_tools(r, v, kept));
out:
    json_decref(kept);
    return status;
}

/* {"name": "f"} */
static kt_status keep_older_choice(const kt__wire_reader *r, const kt__wire_place *at,
                                   const json_t *v) {
    kt__wire_place name_at = {.up = at, .key = "name"};
    json_t *name = kt__wire_member(v, "name");
    if (!json_is_string(name)) return kt__wire_fail_at(r, KT_E_ARG, &name_at, "expected a string");
    json_t *choice = json_pack("{s:s,s:O}", "type", "function", "name", name);
    kt_status status = choice ? keep_json(r, choice, &r->request->req.calls.choice, NULL)
                              : kt__wire_fail_nomem(r);
    json_decref(choice);
    return status;
}

/* Without tools only what asks for none is taken. "function_call" is the older name, and has the name
 * of the function without its wrapping. */
static kt_status read_tool_choice(const kt__wire_reader *r, const json_t *body) {
    bool older = !kt__wire_member(body, "tool_choice");
    kt__wire_place at = {.key = older ? "function_call" : "tool_choice"};
    const json_t *v = kt__wire_member(body, at.key);
    const char *text = v ? json_string_value(v) : NULL;
    if (!v) return KT_OK;
    if (!json_is_string(v) && !json_is_object(v))
        return kt__wire_fail_type(r, &at, "a string or an object", v);
    if (r->request->req.calls.tools && older && json_is_object(v))
        return keep_older_choice(r, &at, v);
    if (r->request->req.calls.tools) return keep_json(r, v, &r->request->req.calls.choice, NULL);
    if (text && (!strcmp(text, "auto") || !strcmp(text, "none"))) return KT_OK;
    return kt__wire_fail_at(r, KT_E_ARG, &at, "there are no \"tools\" to choose from");
}

static kt_status read_parallel(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "parallel_tool_calls"};
    const json_t *v = kt__wire_member(body, "parallel_tool_calls");
    bool parallel = true;
    kt_status status = v ? kt__wire_read_bool(r, &at, v, &parallel) : KT_OK;
    r->request->req.calls.one = !parallel || r->request->older_calls;
    return status;
}

/* ---- reasoning: variables that templates know ---- */

static kt_status read_effort(const kt__wire_reader *r, const json_t *body, json_t *vars) {
    kt__wire_place at = {.key = "reasoning_effort"};
    const json_t *v = kt__wire_member(body, "reasoning_effort");
    bool known;
    if (!v) return KT_OK;
    if (!json_is_string(v)) return kt__wire_fail_type(r, &at, "a string", v);
    KT__STEP(kt__thinking_effort(vars, json_string_value(v), &known, r->err));
    if (known) return KT_OK;
    return kt__wire_fail_at(
        r, KT_E_ARG, &at,
        "\"%.40s\" is not known: expected none, minimal, low, medium, high, xhigh or max",
        json_string_value(v));
}

static kt_status read_enable(const kt__wire_reader *r, const json_t *body, json_t *vars) {
    kt__wire_place at = {.key = "enable_thinking"};
    const json_t *v = kt__wire_member(body, "enable_thinking");
    bool on;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_bool(r, &at, v, &on);
    return status == KT_OK ? kt__thinking_switch(vars, on, r->err) : status;
}

/* The template's own variables; not what the request says elsewhere. */
static kt_status read_kwargs(const kt__wire_reader *r, const json_t *body, json_t *vars) {
    static const char *const taken[] = {"messages", "tools", "documents", "add_generation_prompt",
                                        "continue_final_message"};
    kt__wire_place at = {.key = "chat_template_kwargs"};
    json_t *v = kt__wire_member(body, "chat_template_kwargs");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        kt__wire_place here = {.up = &at, .key = taken[i]};
        if (json_object_get(v, taken[i]))
            return kt__wire_fail_at(r, KT_E_ARG, &here, "is not a variable to be set");
    }
    return json_object_update(vars, v) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* 0: the answer begins at once; -1: no limit. */
static kt_status read_budget(const kt__wire_reader *r, const json_t *body, json_t *vars) {
    kt__wire_place at = {.key = "reasoning_budget"};
    const json_t *v = kt__wire_member(body, "reasoning_budget");
    int64_t n = -1;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_int(r, &at, v, -1, INT32_MAX, &n);
    if (status != KT_OK) return status;
    r->request->req.parts.reasoning_budget = n < 0 ? 0 : n ? (int32_t)n : -1;
    return n ? KT_OK : kt__thinking_switch(vars, false, r->err);
}

static kt_status read_reasoning(const kt__wire_reader *r, const json_t *body) {
    json_t *vars = json_object();
    kt_status status;
    KT__TRY(vars ? KT_OK : kt__wire_fail_nomem(r));
    KT__TRY(read_budget(r, body, vars));
    KT__TRY(read_effort(r, body, vars));
    KT__TRY(read_enable(r, body, vars));
    KT__TRY(read_kwargs(r, body, vars));
    if (json_object_size(vars))
        KT__TRY(keep_json(r, vars, &r->request->req.prompt.template_vars, NULL));
out:
    json_decref(vars);
    return status;
}

kt_status kt__wire_read_calling(const kt__wire_reader *r, const json_t *body) {
    KT__STEP(read_tools(r, body));
    KT__STEP(read_tool_choice(r, body));
    KT__STEP(read_parallel(r, body));
    return read_reasoning(r, body);
}

/* ---- messages with more than a text ---- */

/* By one of the names that clients have for it: DeepSeek's, vLLM's, Ollama's. */
static const char *const reasoning_names[] = {"reasoning_content", "reasoning", "thinking"};

static bool has_more(const kt__wire_reader *r, const json_t *message) {
    static const char *const names[] = {"tool_calls", "function_call", "tool_call_id", "tool_name"};
    bool more = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *v = kt__wire_member(message, names[i]);
        more |= v && !kt__wire_is_empty(v);
    }
    more |= kt__wire_has_pictures(message) || kt__wire_count_returned(r, message) > 0;
    for (size_t i = 0; i < sizeof reasoning_names / sizeof reasoning_names[0]; i++)
        more |= json_is_string(kt__wire_member(message, reasoning_names[i]));
    return more;
}

/* What templates are given is an object; OpenAI's clients send it as text. *out is the caller's. */
static kt_status read_arguments(const kt__wire_reader *r, const kt__wire_place *up,
                                const json_t *function, json_t **out) {
    kt__wire_place at = {.up = up, .key = "arguments"};
    json_t *v = kt__wire_member(function, "arguments");
    if (v && !json_is_string(v) && !json_is_object(v))
        return kt__wire_fail_type(r, &at, "an object, or its JSON as a string", v);
    if (!v || kt__wire_is_empty(v)) {
        *out = json_object();
    } else if (json_is_object(v)) {
        *out = json_incref(v);
    } else {
        kt_error why;
        kt_status status = kt__wire_parse(json_string_value(v), json_string_length(v), out, &why);
        if (status == KT_OK && json_is_object(*out)) return KT_OK;
        json_decref(*out);
        *out = NULL;
        if (status == KT_OK)
            return kt__wire_fail_at(r, KT_E_ARG, &at, "the text is not a JSON object");
        *out =
            json_object(); /* a call that was cut short, as answers of a limited length have it */
    }
    return *out ? KT_OK : kt__wire_fail_nomem(r);
}

static kt_status read_name(const kt__wire_reader *r, const kt__wire_place *up,
                           const json_t *function, json_t **out) {
    kt__wire_place at = {.up = up, .key = "name"};
    *out = kt__wire_member(function, "name");
    if (!*out) return kt__wire_fail_at(r, KT_E_ARG, &at, "is missing");
    return json_is_string(*out) ? KT_OK : kt__wire_fail_type(r, &at, "a string", *out);
}

/* {"id", "type": "function", "function": {"name", "arguments"}}; to: an array */
static kt_status add_call(const kt__wire_reader *r, const kt__wire_place *at, const json_t *call,
                          size_t index, json_t *to) {
    kt__wire_place function_at = {.up = at, .key = "function"}, id_at = {.up = at, .key = "id"};
    const json_t *function = kt__wire_member(call, "function");
    json_t *name, *arguments = NULL, *id = kt__wire_member(call, "id");
    char own[32];
    kt_status status;
    if (!json_is_object(call)) return kt__wire_fail_type(r, at, "an object", call);
    if (!function) return kt__wire_fail_at(r, KT_E_ARG, &function_at, "is missing");
    if (!json_is_object(function))
        return kt__wire_fail_type(r, &function_at, "an object", function);
    if (id && !json_is_string(id)) return kt__wire_fail_type(r, &id_at, "a string", id);
    status = read_name(r, &function_at, function, &name);
    if (status == KT_OK) status = read_arguments(r, &function_at, function, &arguments);
    if (status != KT_OK) return status;
    snprintf(own, sizeof own, "call_%zu", index);
    json_t *made = json_pack("{s:o,s:s,s:{s:O,s:o}}", "id", id ? json_incref(id) : json_string(own),
                             "type", "function", "function", "name", name, "arguments", arguments);
    return json_array_append_new(to, made) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

/* OpenAI's older "function_call" of a message: one call, without an id. */
static kt_status add_older_call(const kt__wire_reader *r, const kt__wire_place *up,
                                json_t *function, json_t *to, json_t **calls) {
    kt__wire_place at = {.up = up, .key = "function_call"};
    json_t *call = json_pack("{s:O}", "function", function);
    *calls = json_array();
    kt_status status = call && json_object_set_new(to, "tool_calls", *calls) == 0
                           ? add_call(r, &at, call, 0, *calls)
                           : kt__wire_fail_nomem(r);
    json_decref(call);
    return status;
}

static kt_status add_calls(const kt__wire_reader *r, const kt__wire_place *up, const json_t *from,
                           json_t *to, json_t **calls) {
    kt__wire_place at = {.up = up, .key = "tool_calls"};
    const json_t *v = kt__wire_member(from, "tool_calls");
    json_t *older = kt__wire_member(from, "function_call");
    kt_status status = KT_OK;
    if (older && !kt__wire_is_empty(older) && (!v || kt__wire_is_empty(v)))
        return add_older_call(r, up, older, to, calls);
    if (!v || kt__wire_is_empty(v)) return KT_OK;
    if (!json_is_array(v)) return kt__wire_fail_type(r, &at, "an array", v);
    *calls = json_array();
    if (json_object_set_new(to, "tool_calls", *calls) != 0) return kt__wire_fail_nomem(r);
    for (size_t i = 0; status == KT_OK && i < json_array_size(v); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        status = add_call(r, &here, json_array_get(v, i), i, *calls);
    }
    return status;
}

/* The call that a result answers: by its id, else by its place. calls may be NULL. */
static const json_t *call_of(const json_t *calls, const char *id, size_t n_answered) {
    for (size_t i = 0; id && i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        if (!strcmp(json_string_value(json_object_get(call, "id")), id)) return call;
    }
    return id ? NULL : json_array_get(calls, n_answered);
}

/* A result: with the id and the name of its call. */
static kt_status add_result(const kt__wire_reader *r, const kt__wire_place *up, const json_t *from,
                            json_t *to, const json_t *calls, size_t n_answered) {
    kt__wire_place at = {.up = up, .key = "tool_call_id"};
    json_t *id = kt__wire_member(from, "tool_call_id"), *name = kt__wire_member(from, "tool_name");
    if (id && !json_is_string(id)) return kt__wire_fail_type(r, &at, "a string", id);
    const json_t *call = call_of(calls, id ? json_string_value(id) : NULL, n_answered);
    if (id && calls && !call)
        return kt__wire_fail_at(r, KT_E_ARG, &at, "\"%.40s\" is no call of the message before",
                                json_string_value(id));
    if (!json_is_string(name)) name = kt__wire_member(from, "name");
    if (!json_is_string(name)) name = json_object_get(json_object_get(call, "function"), "name");
    if (!id) id = json_object_get(call, "id");
    if ((id && json_object_set(to, "tool_call_id", id) != 0) ||
        (json_is_string(name) && json_object_set(to, "name", name) != 0))
        return kt__wire_fail_nomem(r);
    return KT_OK;
}

static kt_status add_thoughts(const kt__wire_reader *r, const json_t *from, json_t *to) {
    for (size_t i = 0; i < sizeof reasoning_names / sizeof reasoning_names[0]; i++) {
        json_t *v = kt__wire_member(from, reasoning_names[i]);
        if (!json_is_string(v) || !json_string_length(v)) continue;
        return json_object_set(to, "reasoning_content", v) == 0 ? KT_OK : kt__wire_fail_nomem(r);
    }
    return KT_OK;
}

/* The calls of the last assistant's message, and how many results came since. */
typedef struct turns {
    json_t *list, *calls;
    size_t n_answered;
    size_t n_returned; /* pictures of the last results, which the user shows */
} turns;

static kt_status show_returned(const kt__wire_reader *r, turns *t) {
    json_t *nothing = json_object();
    json_t *parts = kt__wire_picture_parts(nothing, t->n_returned);
    json_decref(nothing);
    t->n_returned = 0;
    json_t *made = json_pack("{s:s,s:o}", "role", "user", "content", parts);
    return json_array_append_new(t->list, made) == 0 ? KT_OK : kt__wire_fail_nomem(r);
}

static kt_status add_turn(const kt__wire_reader *r, turns *t, const kt_message *message,
                          const kt__wire_place *at, const json_t *from) {
    bool of_tool = !strcmp(message->role, "tool"), of_user = !strcmp(message->role, "user");
    if (t->n_returned && !of_tool && !of_user) KT__STEP(show_returned(r, t));
    json_t *made = from && of_user && (kt__wire_has_pictures(from) || t->n_returned)
                       ? json_pack("{s:s,s:o}", "role", message->role, "content",
                                   kt__wire_picture_parts(from, t->n_returned))
                       : json_pack("{s:s,s:s}", "role", message->role, "content", message->content);
    if (json_array_append_new(t->list, made) != 0) return kt__wire_fail_nomem(r);
    t->n_returned = of_tool ? t->n_returned + kt__wire_count_returned(r, from) : 0;
    if (of_tool) return add_result(r, at, from, made, t->calls, t->n_answered++);
    if (strcmp(message->role, "assistant") != 0) return KT_OK;
    t->calls = NULL;
    t->n_answered = 0;
    kt_status status = add_calls(r, at, from, made, &t->calls);
    return status == KT_OK ? add_thoughts(r, from, made) : status;
}

static kt_status end_turns(const kt__wire_reader *r, turns *t) {
    kt_request_params *req = &r->request->req;
    if (t->n_returned) KT__STEP(show_returned(r, t));
    return keep_json(r, t->list, &req->prompt.chat_json, &req->prompt.chat_json_len);
}

kt_status kt__wire_read_turns(const kt__wire_reader *r, const kt__wire_place *at,
                              const json_t *list) {
    kt_request_params *req = &r->request->req;
    size_t n = json_array_size(list), first = req->prompt.n_messages - n;
    bool more = false;
    for (size_t i = 0; i < n && !more; i++) more = has_more(r, json_array_get(list, i));
    if (!more) return KT_OK;
    turns t = {.list = json_array()};
    kt_status status = t.list ? KT_OK : kt__wire_fail_nomem(r);
    for (size_t i = 0; i < req->prompt.n_messages && status == KT_OK; i++) {
        kt__wire_place here = {.up = at, .index = i - first};
        const json_t *from = i < first ? NULL : json_array_get(list, i - first);
        status = add_turn(r, &t, &req->prompt.messages[i], &here, from);
    }
    if (status == KT_OK) status = end_turns(r, &t);
    json_decref(t.list);
    req->prompt.messages = NULL;
    req->prompt.n_messages = 0;
    return status;
}
