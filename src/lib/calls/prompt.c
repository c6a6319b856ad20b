#include "calls/prompt.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "calls/format.h"
#include "calls/tools_impl.h"

#include <string.h>

/* ---- what a template needs ---- */

/* Words that no template has by itself. The id is one that every family takes. */
#define PROBE_TOOLS                                                                              \
    "[{\"type\":\"function\",\"function\":{\"name\":\"ktprobetool\",\"description\":\"Probe.\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"ktprobekey\":{\"type\":\"string\","   \
    "\"description\":\"Probe.\"}},\"required\":[\"ktprobekey\"]}}}]"

static const char with_tools[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"tools\":" PROBE_TOOLS "}";

#define PROBE_CALL(arguments)                                                                  \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\","        \
    "\"content\":"                                                                             \
    "\"\",\"tool_calls\":[{\"id\":\"ktprobe01\",\"type\":\"function\",\"function\":{\"name\":" \
    "\"ktprobetool\",\"arguments\":" arguments "}}]},{\"role\":\"tool\",\"tool_call_id\":"     \
    "\"ktprobe01\",\"name\":\"ktprobetool\",\"content\":\"ktproberesult\"}],"                  \
    "\"tools\":" PROBE_TOOLS "}"

static const char with_object[] = PROBE_CALL("{\"ktprobekey\":\"ktprobevalue\"}");
static const char with_text[] = PROBE_CALL("\"{\\\"ktprobekey\\\": \\\"ktprobevalue\\\"}\"");

static bool text_has(const kt__chat_out *out, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= out->len; i++)
        if (memcmp(out->text + i, word, n) == 0) return true;
    return false;
}

typedef struct probe_result {
    bool rendered, tool, value, result;
} probe_result;

static probe_result probe_render(const kt__chat_template *tmpl, const kt__chat_params *params,
                                 const char *json) {
    kt__chat_out out = {0};
    probe_result r = {0};
    if (kt__chat_render_json(tmpl, json, strlen(json), params, &out, NULL) != KT_OK) return r;
    r.rendered = true;
    r.tool = text_has(&out, "ktprobetool");
    /* not as Python prints a dictionary, nor as a text within JSON */
    r.value = text_has(&out, "ktprobevalue") && !text_has(&out, "{'ktprobekey'") &&
              !text_has(&out, "\\\"ktprobekey");
    r.result = text_has(&out, "ktproberesult");
    kt__chat_out_free(&out);
    return r;
}

void kt__call_style_probe(const kt__chat_template *tmpl, const kt__chat_params *params,
                          kt__call_style *style) {
    probe_result shown = probe_render(tmpl, params, with_tools);
    probe_result object = probe_render(tmpl, params, with_object);
    probe_result text = probe_render(tmpl, params, with_text);
    if (shown.rendered) style->tools_in_system = !shown.tool;
    if (!object.rendered && !text.rendered) {
        style->calls_in_content = style->results_in_user = true;
        return;
    }
    style->args_text = !object.value && text.value;
    style->calls_in_content = !object.value && !text.value;
    style->results_in_user = !object.result && !text.result;
}

/* ---- messages and tools ---- */

enum {
    MAX_PROMPT_JSON = 256 << 20,
    MOST_EARLIER = 64 /* calls of a turn that are compared */
};

typedef struct prompt_writer {
    const kt__call_style *style;
    const kt__tools *tools;
    const kt__json_node *messages;
    kt__arena *arena;
    kt__buf *out;
    bool described; /* the tools are in a system message */
    /* of the user's turn so far, the last ones; n_calls: all of them */
    const kt__json_node *calls[MOST_EARLIER];
    size_t n_calls;
    kt_error *err;
} prompt_writer;

static const kt__json_node *part_of(const kt__json_node *node, const char *name) {
    return node && node->type == KT__JSON_OBJECT ? kt__jdoc_member(node, name, strlen(name)) : NULL;
}

static kt_status prompt_error(const prompt_writer *w, const kt__json_node *node, const char *what) {
    char place[256];
    kt__jdoc_pointer(node, place, sizeof place);
    return kt__fail_at(w->err, KT_E_FORMAT, place, UINT64_MAX, "%s", what);
}

/* ---- ids ---- */

static bool is_alnum_9(const kt__json_node *id) {
    for (uint32_t i = 0; i < id->n; i++) {
        char c = id->s[i], low = (char)(c | 32);
        if (!(low >= 'a' && low <= 'z') && !(c >= '0' && c <= '9')) return false;
    }
    return id->n == 9;
}

/* An id as the template takes it: the same text always gives the same one. */
static void put_id(const prompt_writer *w, const kt__json_node *id) {
    static const char alnum[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char nine[9];
    if (w->style->calls->id_rule != KT__ID_ALNUM_9 || is_alnum_9(id)) {
        kt__json_string(w->out, id->s, id->n, KT__JSON_PLAIN);
        return;
    }
    uint64_t h = kt__hash_bytes(0, id->s, id->n).w[0];
    for (int i = 0; i < 9; i++, h /= 62) nine[i] = alnum[h % 62];
    kt__json_string(w->out, nine, 9, KT__JSON_PLAIN);
}

static bool same_text(const kt__json_node *a, const kt__json_node *b) {
    return a && b && a->type == KT__JSON_STRING && b->type == KT__JSON_STRING && a->n == b->n &&
           memcmp(a->s, b->s, a->n) == 0;
}

static const kt__json_node *call_name(const kt__json_node *call) {
    const kt__json_node *function = part_of(call, "function");
    return part_of(function ? function : call, "name");
}

/* The name of the call that a result answers, or NULL. */
static const kt__json_node *answered_name(const prompt_writer *w, const kt__json_node *id) {
    for (const kt__json_node *m = w->messages->first; m; m = m->next) {
        const kt__json_node *calls = part_of(m, "tool_calls");
        if (!calls || calls->type != KT__JSON_ARRAY) continue;
        for (const kt__json_node *call = calls->first; call; call = call->next)
            if (same_text(part_of(call, "id"), id)) return call_name(call);
    }
    return NULL;
}

/* ---- calls ---- */

/* The arguments as an object: *out is NULL where there are none. */
static kt_status args_object(const prompt_writer *w, const kt__json_node *call,
                             const kt__json_node **out) {
    const kt__json_node *function = part_of(call, "function");
    const kt__json_node *args = part_of(function ? function : call, "arguments");
    kt__json_node *parsed;
    *out = NULL;
    if (!args || args->type == KT__JSON_NULL) return KT_OK;
    if (args->type == KT__JSON_STRING) {
        if (args->n == 0) return KT_OK;
        kt_status status = kt__jdoc_parse(w->arena, args->s, args->n, &parsed, w->err);
        if (status == KT_E_FORMAT) return prompt_error(w, args, "a call's arguments are JSON");
        if (status != KT_OK) return status;
        *out = parsed;
    } else {
        *out = args;
    }
    return (*out)->type == KT__JSON_OBJECT
               ? KT_OK
               : prompt_error(w, args, "a call's arguments are a JSON object");
}

static kt_status check_call(const prompt_writer *w, const kt__json_node *call) {
    const kt__json_node *name = call_name(call), *id = part_of(call, "id");
    if (!name || name->type != KT__JSON_STRING) return prompt_error(w, call, "a call has a name");
    if (id && id->type != KT__JSON_STRING) return prompt_error(w, id, "an id is a text");
    return KT_OK;
}

static kt_status write_prompt_call(const prompt_writer *w, const kt__json_node *call) {
    const kt__json_node *args, *id = part_of(call, "id");
    kt_status status = check_call(w, call);
    if (status == KT_OK) status = args_object(w, call, &args);
    if (status != KT_OK) return status;
    kt__buf_putc(w->out, '{');
    if (id) {
        kt__buf_puts(w->out, "\"id\": ");
        put_id(w, id);
        kt__buf_puts(w->out, ", ");
    }
    kt__buf_puts(w->out, "\"type\": \"function\", \"function\": {\"name\": ");
    kt__jnode_write(w->out, call_name(call));
    kt__buf_puts(w->out, ", \"arguments\": ");
    kt__buf text;
    kt__buf_init(&text, MAX_PROMPT_JSON);
    if (args)
        kt__jnode_write(&text, args);
    else
        kt__buf_puts(&text, "{}");
    if (w->style->args_text)
        kt__json_string(w->out, text.data, text.len, KT__JSON_PLAIN);
    else
        kt__buf_append(w->out, text.data, text.len);
    if (text.failed) w->out->failed = true;
    kt__buf_free(&text);
    kt__buf_puts(w->out, "}}");
    return KT_OK;
}

static kt_status write_prompt_calls(const prompt_writer *w, const kt__json_node *calls) {
    kt_status status = KT_OK;
    kt__buf_puts(w->out, ", \"tool_calls\": [");
    for (const kt__json_node *call = calls->first; call && status == KT_OK; call = call->next) {
        if (call != calls->first) kt__buf_puts(w->out, ", ");
        status = write_prompt_call(w, call);
    }
    kt__buf_putc(w->out, ']');
    return status;
}

/* Earlier calls as the model wrote them, after the content. */
static kt_status append_calls(const prompt_writer *w, const kt__json_node *calls,
                              kt__buf *content) {
    kt_status status = KT_OK;
    kt__call_text *texts = kt__arena_calloc(w->arena, calls->n + 1, sizeof *texts);
    size_t n = 0;
    if (!texts) return kt__fail_nomem(w->err, "a prompt's calls", calls->n * sizeof *texts);
    for (const kt__json_node *call = calls->first; call && status == KT_OK; call = call->next) {
        const kt__json_node *id = part_of(call, "id");
        status = check_call(w, call);
        if (status == KT_OK) status = args_object(w, call, &texts[n].args);
        if (status != KT_OK) break;
        texts[n].name = call_name(call)->s;
        texts[n].name_len = call_name(call)->n;
        texts[n].id = id ? id->s : NULL;
        texts[n++].id_len = id ? id->n : 0;
    }
    if (content->len > 0 && w->style->calls->lead) kt__buf_puts(content, w->style->calls->lead);
    if (status == KT_OK) kt__calls_write(content, w->style, texts, n);
    return status;
}

/* ---- a call that was made twice ----
 *
 * A small model that has the result of its call may not see that, and make the call once more, and
 * again with the next result. A sentence after the second result ends it; after the first one it
 * would keep the model from calls that are still to be made. */

static const char made_before[] =
    "\n\nThis call was made before, and this is its result. Answer the "
    "question with it, or call a function for what is still missing.";

/* Name and arguments, however they are written; false: they are no such. */
static bool put_call(const prompt_writer *w, const kt__json_node *call, kt__buf *out) {
    const kt__json_node *function = part_of(call, "function");
    const kt__json_node *args = part_of(function ? function : call, "arguments");
    kt__json_node *parsed = NULL;
    if (!call_name(call) || call_name(call)->type != KT__JSON_STRING) return false;
    kt__jnode_write(out, call_name(call));
    if (args && args->type == KT__JSON_STRING && args->n > 0) {
        if (kt__jdoc_parse(w->arena, args->s, args->n, &parsed, NULL) != KT_OK) return false;
        args = parsed;
    }
    if (args) kt__jnode_write(out, args);
    return !out->failed;
}

static bool same_call(const prompt_writer *w, const kt__json_node *a, const kt__json_node *b) {
    kt__buf x, y;
    kt__buf_init(&x, MAX_PROMPT_JSON);
    kt__buf_init(&y, MAX_PROMPT_JSON);
    bool same = same_text(call_name(a), call_name(b)) && put_call(w, a, &x) && put_call(w, b, &y) &&
                x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    kt__buf_free(&x);
    kt__buf_free(&y);
    return same;
}

/* The message has been written: its calls are among those of the turn, which a user's begins. */
static void keep_calls(prompt_writer *w, const kt__json_node *message) {
    const kt__json_node *calls = part_of(message, "tool_calls");
    if (kt__jdoc_is(part_of(message, "role"), "user")) w->n_calls = 0;
    if (!calls || calls->type != KT__JSON_ARRAY) return;
    for (const kt__json_node *call = calls->first; call; call = call->next)
        w->calls[w->n_calls++ % MOST_EARLIER] = call;
}

/* Whether a message has the result of a call that the model had made before in this turn. */
static bool is_made_before(const prompt_writer *w, const kt__json_node *message) {
    const kt__json_node *id = part_of(message, "tool_call_id"), *own = NULL;
    size_t n = id ? w->n_calls : 0;
    for (size_t i = n, left = MOST_EARLIER; i-- > 0 && left > 0; left--) {
        const kt__json_node *call = w->calls[i % MOST_EARLIER];
        if (own && same_call(w, own, call)) return true;
        if (!own && same_text(part_of(call, "id"), id)) own = call;
    }
    return false;
}

/* ---- content ---- */

static bool is_text_part(const kt__json_node *part) {
    const kt__json_node *text = part_of(part, "text");
    return text && text->type == KT__JSON_STRING;
}

/* Content as one text; false: it has parts that are none. */
static bool plain_content(const kt__json_node *content, kt__buf *out) {
    if (!content || content->type == KT__JSON_NULL) return true;
    if (content->type == KT__JSON_STRING) return kt__buf_append(out, content->s, content->n);
    if (content->type != KT__JSON_ARRAY) return false;
    for (const kt__json_node *part = content->first; part; part = part->next)
        if (!is_text_part(part)) return false;
    for (const kt__json_node *part = content->first; part; part = part->next)
        kt__buf_append(out, part_of(part, "text")->s, part_of(part, "text")->n);
    return true;
}

/* The tools as a text for the system message. */
static void describe_tools(const prompt_writer *w, kt__buf *out) {
    const kt__call_text example = {.name = "NAME", .name_len = 4, .id = "000000000", .id_len = 9};
    kt__buf_puts(out, "# Tools\n\nThese functions can be called:\n<tools>\n");
    for (uint32_t i = 0; i < w->tools->n; i++) {
        const kt__tool *tool = &w->tools->items[i];
        kt__buf_puts(out, "{\"name\": ");
        kt__json_text(out, tool->name);
        if (tool->description) {
            kt__buf_puts(out, ", \"description\": ");
            kt__jnode_write(out, tool->description);
        }
        kt__buf_puts(out, ", \"parameters\": ");
        if (tool->parameters)
            kt__jnode_write(out, tool->parameters);
        else
            kt__buf_puts(out, "{}");
        kt__buf_puts(out, "}\n");
    }
    kt__buf_puts(out, "</tools>\n\nTo call one, write its name and its arguments, which fit its "
                      "parameters, in place of NAME and {} here:\n");
    kt__calls_write(out, w->style, &example, 1);
}

static bool role_is(const kt__json_node *message, const char *role) {
    const kt__json_node *r = part_of(message, "role");
    return r && kt__jdoc_is(r, role);
}

static bool is_system(const kt__json_node *message) {
    return role_is(message, "system") || role_is(message, "developer");
}

/* The message's text with what the template would not show. */
static kt_status whole_content(prompt_writer *w, const kt__json_node *message, kt__buf *text) {
    const kt__json_node *calls = part_of(message, "tool_calls");
    if (w->described && is_system(message) && message == w->messages->first) {
        if (text->len > 0) kt__buf_puts(text, "\n\n");
        describe_tools(w, text);
    }
    if (calls && calls->type == KT__JSON_ARRAY && calls->n > 0 && w->style->calls_in_content)
        return append_calls(w, calls, text);
    return KT_OK;
}

static kt_status write_content(prompt_writer *w, const kt__json_node *message) {
    const kt__json_node *content = part_of(message, "content");
    bool result = role_is(message, "tool") && w->style->results_in_user;
    kt__buf text;
    kt__buf_init(&text, MAX_PROMPT_JSON);
    kt__buf_puts(w->out, ", \"content\": ");
    if (result) kt__buf_puts(&text, "<tool_response>\n");
    bool plain = plain_content(content, &text);
    if (plain && role_is(message, "tool") && is_made_before(w, message))
        kt__buf_puts(&text, made_before);
    if (result) kt__buf_puts(&text, "\n</tool_response>");
    kt_status status = plain ? whole_content(w, message, &text) : KT_OK;
    if (plain)
        kt__json_string(w->out, text.data ? text.data : "", text.len, KT__JSON_PLAIN);
    else
        kt__jnode_write(w->out, content);
    if (text.failed) w->out->failed = true;
    kt__buf_free(&text);
    return status;
}

/* ---- messages ---- */

static const char *const own_members[] = {"role", "content",           "tool_calls", "tool_call_id",
                                          "name", "reasoning_content", "reasoning",  "thinking"};

static bool is_own_member(const kt__json_node *member) {
    for (size_t i = 0; i < sizeof own_members / sizeof *own_members; i++)
        if (strlen(own_members[i]) == member->key_len &&
            memcmp(own_members[i], member->key, member->key_len) == 0)
            return true;
    return false;
}

static void write_role(const prompt_writer *w, const kt__json_node *message) {
    kt__buf_puts(w->out, "{\"role\": ");
    if (role_is(message, "developer") && w->style->no_developer)
        kt__buf_puts(w->out, "\"system\"");
    else if (role_is(message, "tool") && w->style->results_in_user)
        kt__buf_puts(w->out, "\"user\"");
    else
        kt__jnode_write(w->out, part_of(message, "role"));
}

static void write_reasoning(const prompt_writer *w, const kt__json_node *message) {
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    const kt__json_node *text = NULL;
    for (int i = 0; i < 3 && !text; i++) {
        text = part_of(message, names[i]);
        if (text && (text->type != KT__JSON_STRING || text->n == 0)) text = NULL;
    }
    if (!text) return;
    kt__buf_puts(w->out, ", \"reasoning_content\": ");
    kt__jnode_write(w->out, text);
    if (!w->style->thinking) return;
    kt__buf_puts(w->out, ", \"thinking\": ");
    kt__jnode_write(w->out, text);
}

static void write_result_of(const prompt_writer *w, const kt__json_node *message) {
    const kt__json_node *id = part_of(message, "tool_call_id"), *name = part_of(message, "name");
    if (id && id->type == KT__JSON_STRING) {
        kt__buf_puts(w->out, ", \"tool_call_id\": ");
        put_id(w, id);
        if (!name) name = answered_name(w, id);
    }
    if (!name) return;
    kt__buf_puts(w->out, ", \"name\": ");
    kt__jnode_write(w->out, name);
}

static kt_status write_message(prompt_writer *w, const kt__json_node *message) {
    const kt__json_node *calls = part_of(message, "tool_calls");
    if (message->type != KT__JSON_OBJECT) return prompt_error(w, message, "a message is an object");
    if (!part_of(message, "role") || part_of(message, "role")->type != KT__JSON_STRING)
        return prompt_error(w, message, "a message has a role");
    write_role(w, message);
    kt_status status = write_content(w, message);
    write_reasoning(w, message);
    write_result_of(w, message);
    for (const kt__json_node *m = message->first; m; m = m->next) {
        if (is_own_member(m)) continue;
        kt__buf_puts(w->out, ", ");
        kt__json_string(w->out, m->key, m->key_len, KT__JSON_PLAIN);
        kt__buf_puts(w->out, ": ");
        kt__jnode_write(w->out, m);
    }
    bool has_calls = calls && calls->type == KT__JSON_ARRAY && calls->n > 0;
    if (status == KT_OK && calls && !has_calls && calls->type > KT__JSON_NULL &&
        calls->type != KT__JSON_ARRAY)
        status = prompt_error(w, calls, "tool_calls are a list");
    if (status == KT_OK && has_calls && !w->style->calls_in_content)
        status = write_prompt_calls(w, calls);
    kt__buf_putc(w->out, '}');
    return status;
}

static void write_system(prompt_writer *w) {
    kt__buf text;
    kt__buf_init(&text, MAX_PROMPT_JSON);
    describe_tools(w, &text);
    kt__buf_puts(w->out, "{\"role\": \"system\", \"content\": ");
    kt__json_string(w->out, text.data ? text.data : "", text.len, KT__JSON_PLAIN);
    kt__buf_putc(w->out, '}');
    if (text.failed) w->out->failed = true;
    kt__buf_free(&text);
}

static kt_status write_messages(prompt_writer *w) {
    kt_status status = KT_OK;
    const kt__json_node *first = w->messages->first;
    kt__buf_puts(w->out, "\"messages\": [");
    w->described = w->style->tools_in_system && kt__tools_count(w->tools) > 0;
    if (w->described && !(first && is_system(first))) {
        write_system(w);
        if (first) kt__buf_puts(w->out, ", ");
    }
    for (const kt__json_node *m = first; m && status == KT_OK; m = m->next) {
        if (m != first) kt__buf_puts(w->out, ", ");
        status = write_message(w, m);
        if (status == KT_OK) keep_calls(w, m);
    }
    kt__buf_putc(w->out, ']');
    return status;
}

/* Templates have different names for one switch; those that a template does not use do nothing. */
static void write_reason_choice(const prompt_writer *w, kt__reason_choice choice) {
    if (choice == KT__REASON_ON)
        kt__buf_puts(w->out, ", \"enable_thinking\": true, \"thinking\": true, "
                             "\"thinking_mode\": \"enabled\"");
    if (choice == KT__REASON_OFF)
        kt__buf_puts(w->out, ", \"enable_thinking\": false, \"thinking\": false, "
                             "\"thinking_mode\": \"disabled\", \"thinking_budget\": 0");
}

static kt_status write_prompt(prompt_writer *w, const kt__json_node *root,
                              kt__reason_choice choice) {
    kt__buf_putc(w->out, '{');
    kt_status status = write_messages(w);
    if (kt__tools_count(w->tools) > 0 && !w->described) {
        kt__buf_puts(w->out, ", \"tools\": ");
        kt__buf_append(w->out, w->tools->json, w->tools->json_len);
    }
    write_reason_choice(w, choice);
    for (const kt__json_node *m = root->type == KT__JSON_OBJECT ? root->first : NULL; m;
         m = m->next) {
        if (m == w->messages) continue;
        kt__buf_puts(w->out, ", ");
        kt__json_string(w->out, m->key, m->key_len, KT__JSON_PLAIN);
        kt__buf_puts(w->out, ": ");
        kt__jnode_write(w->out, m);
    }
    kt__buf_putc(w->out, '}');
    if (status == KT_OK && w->out->failed) status = kt__fail_nomem(w->err, "a prompt", w->out->len);
    return status;
}

kt_status kt__call_prompt_json(const kt__call_style *style, const char *json, size_t len,
                               const kt__tools *tools, kt__reason_choice reasoning, kt__buf *out,
                               kt_error *err) {
    kt__arena arena;
    kt__json_node *root;
    prompt_writer w = {.style = style, .tools = tools, .arena = &arena, .out = out, .err = err};
    kt__arena_init(&arena, 16 << 10, 512 << 20);
    kt_status status = kt__jdoc_parse(&arena, json, len, &root, err);
    if (status == KT_OK) {
        w.messages = root->type == KT__JSON_ARRAY ? root : part_of(root, "messages");
        if (!w.messages || w.messages->type != KT__JSON_ARRAY)
            status = kt__fail_at(err, KT_E_FORMAT, "/messages", UINT64_MAX,
                                 "messages are a list of objects");
    }
    if (status == KT_OK) status = write_prompt(&w, root, reasoning);
    kt__arena_free(&arena);
    return status;
}

void kt__call_prompt_tail(const kt__chat_out *prompt, const char **tail, size_t *len) {
    size_t from = 0;
    for (size_t i = 0; i < prompt->n_segs; i++)
        if (!prompt->segs[i].from_template) from = prompt->segs[i].offset + prompt->segs[i].len;
    *tail = prompt->text ? prompt->text + from : "";
    *len = prompt->len - from;
}
