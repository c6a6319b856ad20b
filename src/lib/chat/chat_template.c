#include "chat/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "jinja/jinja_ast.h"
#include "jinja/jinja_run.h"
#include "jinja/json.h"

/* What a template makes of a user's text. */
typedef enum content_form {
    CONTENT_TEXT,  /* it shows as it is, or the probe said nothing */
    CONTENT_PARTS, /* only as [{"type": "text", "text": ...}] */
    CONTENT_LOST   /* in neither form */
} content_form;

struct kt__chat_template {
    kt__jinja *jinja;
    content_form form;
    bool constant; /* a text without an expression or a statement: the prompt, whatever is said */
};

/* What is to be rendered: an array of messages, or JSON. */
typedef struct request {
    const kt_message *messages;
    size_t n;
    const char *json; /* NULL: messages */
    size_t json_len;
    const kt__chat_params *params;
    bool no_null;      /* a content that is null is rendered as an empty text */
    bool front_system; /* system messages before all others */
    bool joined_turns; /* messages of one side that follow each other as one */
} request;

/* How the system messages at the start of the conversation are handled. */
typedef enum system_mode {
    SYSTEM_AS_IS,
    SYSTEM_PROBE,  /* the text of each replaced by a mark, to see whether the template uses it */
    SYSTEM_JOINED, /* several as one */
    SYSTEM_MERGED  /* put in front of the first user message */
} system_mode;

/* No template writes these of itself. The second is a character of a private area: one character
 * survives what a template does to a text. */
static const char probe_mark[] = "kentang:system-message-probe", user_mark[] = "\xef\xa3\xa7";

/* ---- the template ---- */

void kt__chat_template_free(kt__chat_template *tmpl) {
    if (!tmpl) return;
    kt__jinja_free(tmpl->jinja);
    kt__free(tmpl);
}

const char *kt__chat_template_builtin(const char *name) {
    static const char chatml[] =
        "{%- for message in messages %}"
        "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
    static const char llama3[] =
        "{{- bos_token }}"
        "{%- for message in messages %}"
        "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
        "{{- message['content'] | trim + '<|eot_id|>' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}"
        "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";
    static const char gemma[] =
        "{{- bos_token }}"
        "{%- for message in messages %}"
        "{%- if message['role'] == 'system' %}{{- raise_exception('no system role') }}{%- endif %}"
        "{{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') }}"
        "{{- '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}";
    static const char command_r[] =
        "{%- for message in messages %}"
        "{{- '<|START_OF_TURN_TOKEN|><|' }}"
        "{{- {'system': 'SYSTEM', 'assistant': 'CHATBOT'}.get(message['role'], 'USER') }}"
        "{{- '_TOKEN|>' + message['content'] | trim + '<|END_OF_TURN_TOKEN|>' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}"
        "{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}";
    static const struct {
        const char *name, *source;
    } all[] = {{"chatml", chatml}, {"llama3", llama3}, {"gemma", gemma}, {"command-r", command_r}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return all[i].source;
    return NULL;
}

int64_t kt__chat_now_local(void) {
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local)) return (int64_t)now;
    return (int64_t)timegm(&local);
}

/* ---- messages as template values ---- */

static bool is_utf8(const char *s, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = (unsigned char)s[i] < 0x80 ? 1 : kt__utf8_decode(s + i, len - i, &cp);
        if (n == 0) return false;
    }
    return true;
}

static kt_status text_value(kt__jx *x, const char *text, size_t len, bool from_template,
                            kt__jv *out) {
    const kt__jstr *s = kt__jstr_new(&x->arena, text, len, from_template);
    if (!s) return kt__jx_nomem(x);
    *out = kt__j_str(s);
    return KT_OK;
}

static kt_status put_text(kt__jx *x, kt__jdict *dict, const char *key, const char *text) {
    kt__jv k, v;
    KT__STEP(text_value(x, key, strlen(key), false, &k));
    KT__STEP(text_value(x, text, strlen(text), false, &v));
    return kt__jx_put(x, dict, k, v);
}

static kt_status message_values(kt__jx *x, const request *req, kt__jlist **out) {
    KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, out));
    for (size_t i = 0; i < req->n; i++) {
        const kt_message *m = &req->messages[i];
        if (!m->role || !m->content)
            return kt__fail(x->err, KT_E_ARG, "message %zu has no role or no content", i);
        if (!is_utf8(m->role, strlen(m->role)) || !is_utf8(m->content, strlen(m->content)))
            return kt__fail(x->err, KT_E_ARG, "message %zu is not UTF-8", i);
        kt__jdict *dict = kt__jdict_new(&x->arena);
        if (!dict) return kt__jx_nomem(x);
        KT__STEP(put_text(x, dict, "role", m->role));
        KT__STEP(put_text(x, dict, "content", m->content));
        kt__jx_allow(x, strlen(m->role) + strlen(m->content));
        KT__STEP(kt__jx_push(x, *out, kt__j_dict(dict)));
    }
    return KT_OK;
}

static kt_status set_functions(kt__jx *x, const kt__jv *tools) {
    static const kt__jargs none = {0};
    kt__jv text;
    if (!tools || tools->type != KT__J_LIST || !tools->u.l->n) return KT_OK;
    KT__STEP(kt__jx_filter(x, KT__JF_tojson, *tools, &none, &text));
    kt__jx_set(x, "functions", strlen("functions"), text);
    return KT_OK;
}

/* Sets the members of a JSON object as variables; an array is the messages. */
static kt_status json_values(kt__jx *x, const request *req, kt__jlist **out) {
    kt__jv root;
    kt__jx_allow(x, req->json_len);
    KT__STEP(kt__json_parse(&x->arena, req->json, req->json_len, &root, x->err));
    const kt__jv *messages = &root;
    if (root.type == KT__J_DICT) {
        messages = kt__jdict_find(root.u.d, "messages");
        if (req->params->extras) KT__STEP(set_functions(x, kt__jdict_find(root.u.d, "tools")));
        for (size_t i = 0; i < root.u.d->n; i++) {
            const kt__jstr *name = root.u.d->items[i].key.u.s;
            kt__jx_set(x, name->data, name->len, root.u.d->items[i].val);
        }
    }
    if (!messages || messages->type != KT__J_LIST)
        return kt__fail_at(x->err, KT_E_ARG, "messages", UINT64_MAX,
                           "expected an array of messages, or an object with one as \"messages\"");
    for (size_t i = 0; i < messages->u.l->n; i++) {
        if (messages->u.l->items[i].type != KT__J_DICT)
            return kt__fail_at(x->err, KT_E_ARG, "messages", UINT64_MAX,
                               "message %zu is not an object", i);
    }
    *out = messages->u.l;
    return KT_OK;
}

/* Variables besides the conversation. */
static kt_status extra_variables(kt__jx *x, const char *json) {
    kt__jv root;
    size_t len = json ? strlen(json) : 0;
    if (!json) return KT_OK;
    kt__jx_allow(x, len);
    KT__STEP(kt__json_parse(&x->arena, json, len, &root, x->err));
    if (root.type != KT__J_DICT)
        return kt__fail_at(x->err, KT_E_ARG, "template_vars", UINT64_MAX,
                           "template_vars: expected a JSON object");
    for (size_t i = 0; i < root.u.d->n; i++) {
        const kt__jstr *name = root.u.d->items[i].key.u.s;
        kt__jx_set(x, name->data, name->len, root.u.d->items[i].val);
    }
    return KT_OK;
}

/* A role that is one of the usual names may be part of a control token ("<|" + role + "|>"): a
 * template's author expects it there, and it is not a user's text. */
static kt_status trust_roles(kt__jx *x, kt__jlist *messages) {
    static const char *const known[] = {"system",   "user",      "assistant", "tool",
                                        "function", "developer", "ipython",   "model"};
    for (size_t i = 0; i < messages->n; i++) {
        kt__jdict *m = messages->items[i].u.d;
        const kt__jv *role = kt__jdict_find(m, "role");
        for (size_t k = 0; role && k < sizeof known / sizeof *known; k++) {
            kt__jv key, trusted;
            if (role->type != KT__J_STR || !kt__jstr_is(role->u.s, known[k])) continue;
            KT__STEP(text_value(x, "role", 4, false, &key));
            KT__STEP(text_value(x, known[k], strlen(known[k]), true, &trusted));
            KT__STEP(kt__jx_put(x, m, key, trusted));
            break;
        }
    }
    return KT_OK;
}

/* ---- system messages ---- */

static bool has_role(const kt__jv *message, const char *role) {
    const kt__jv *v = kt__jdict_find(message->u.d, "role");
    return v && v->type == KT__J_STR && kt__jstr_is(v->u.s, role);
}

static size_t count_system(const kt__jlist *messages) {
    size_t n = 0;
    while (n < messages->n && has_role(&messages->items[n], "system")) n++;
    return n;
}

/* Text of a content: a string, or the text parts of a list. */
static void add_content(kt__jsb *text, const kt__jv *content) {
    if (!content) return;
    if (content->type == KT__J_STR) kt__jsb_add_str(text, content->u.s);
    if (content->type != KT__J_LIST) return;
    for (size_t i = 0; i < content->u.l->n; i++) {
        const kt__jv *part = &content->u.l->items[i], *s;
        if (part->type != KT__J_DICT) continue;
        s = kt__jdict_find(part->u.d, "text");
        if (s && s->type == KT__J_STR) kt__jsb_add_str(text, s->u.s);
    }
}

/* The texts of the first n messages, a newline between. */
static kt_status system_text(kt__jx *x, const kt__jlist *messages, size_t n, kt__jv *out) {
    kt__jsb text;
    kt__jx_sink(x, &text);
    for (size_t i = 0; i < n; i++) {
        if (i) kt__jsb_add(&text, "\n", 1, false);
        add_content(&text, kt__jdict_find(messages->items[i].u.d, "content"));
    }
    return kt__jx_sink_done(x, &text, out);
}

static kt_status set_content(kt__jx *x, kt__jv message, kt__jv content) {
    kt__jv key;
    KT__STEP(text_value(x, "content", 7, false, &key));
    return kt__jx_put(x, message.u.d, key, content);
}

/* [{"type": "text", "text": ...}] + parts */
static kt_status prepend_part(kt__jx *x, kt__jv message, kt__jv text, const kt__jlist *parts) {
    kt__jv key;
    kt__jlist *all;
    kt__jdict *part = kt__jdict_new(&x->arena);
    if (!part) return kt__jx_nomem(x);
    KT__STEP(put_text(x, part, "type", "text"));
    KT__STEP(text_value(x, "text", 4, false, &key));
    KT__STEP(kt__jx_put(x, part, key, text));
    KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, &all));
    KT__STEP(kt__jx_push(x, all, kt__j_dict(part)));
    for (size_t i = 0; i < parts->n; i++) KT__STEP(kt__jx_push(x, all, parts->items[i]));
    return set_content(x, message, kt__j_list(all));
}

/* The n system messages become the first of them, with all their texts. */
static kt_status join_system(kt__jx *x, kt__jlist *messages, size_t n, kt__jv text) {
    if (n < 2) return KT_OK;
    KT__STEP(set_content(x, messages->items[0], text));
    memmove(messages->items + 1, messages->items + n, (messages->n - n) * sizeof *messages->items);
    messages->n -= n - 1;
    return KT_OK;
}

/* Takes the n system messages away and puts their text before the first user message's. *done is
 * false where there is none. */
static kt_status merge_system(kt__jx *x, kt__jlist *messages, size_t n, bool *done) {
    kt__jv text, content;
    kt__jsb merged;
    size_t user = n;
    while (user < messages->n && !has_role(&messages->items[user], "user")) user++;
    *done = user < messages->n;
    if (!*done) return KT_OK;
    const kt__jv *old = kt__jdict_find(messages->items[user].u.d, "content");
    KT__STEP(system_text(x, messages, n, &text));
    kt__jx_sink(x, &merged);
    kt__jsb_add_str(&merged, text.u.s);
    kt__jsb_add(&merged, "\n", 1, false);
    bool parts = old && old->type == KT__J_LIST;
    if (!parts) add_content(&merged, old);
    KT__STEP(kt__jx_sink_done(x, &merged, &content));
    KT__STEP(parts ? prepend_part(x, messages->items[user], content, old->u.l)
                   : set_content(x, messages->items[user], content));
    memmove(messages->items, messages->items + n, (messages->n - n) * sizeof *messages->items);
    messages->n -= n;
    return KT_OK;
}

/* "kentang:system-message-probe-3;" */
static size_t name_mark(size_t i, char out[sizeof probe_mark + 24]) {
    return (size_t)snprintf(out, sizeof probe_mark + 24, "%s-%zu;", probe_mark, i);
}

static kt_status mark_system(kt__jx *x, kt__jlist *messages, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char text[sizeof probe_mark + 24];
        kt__jv mark;
        const char *kept = kt__arena_strndup(&x->arena, text, name_mark(i, text));
        if (!kept) return kt__jx_nomem(x);
        KT__STEP(text_value(x, kept, strlen(kept), false, &mark));
        KT__STEP(set_content(x, messages->items[i], mark));
    }
    return KT_OK;
}

/* ---- contents in parts ---- */

static kt_status contents_to_parts(kt__jx *x, kt__jlist *messages) {
    static const kt__jlist none = {0};
    for (size_t i = 0; i < messages->n; i++) {
        const kt__jv *content = kt__jdict_find(messages->items[i].u.d, "content");
        if (!content || content->type != KT__J_STR) continue;
        KT__STEP(prepend_part(x, messages->items[i], *content, &none));
    }
    return KT_OK;
}

/* ---- contents that are null ---- */

static bool has_null_content(const kt__jlist *messages) {
    for (size_t i = 0; i < messages->n; i++) {
        const kt__jv *content = kt__jdict_find(messages->items[i].u.d, "content");
        if (content && content->type == KT__J_NONE) return true;
    }
    return false;
}

static kt_status empty_null_contents(kt__jx *x, kt__jlist *messages) {
    kt__jv empty;
    KT__STEP(text_value(x, "", 0, false, &empty));
    for (size_t i = 0; i < messages->n; i++) {
        const kt__jv *content = kt__jdict_find(messages->items[i].u.d, "content");
        if (content && content->type == KT__J_NONE)
            KT__STEP(set_content(x, messages->items[i], empty));
    }
    return KT_OK;
}

/* ---- conversations that templates refuse ---- */

/* System messages after others, as agents put reminders there. */
static size_t count_late_system(const kt__jlist *messages) {
    size_t n = 0;
    for (size_t i = count_system(messages); i < messages->n; i++)
        n += has_role(&messages->items[i], "system");
    return n;
}

/* All system messages before the others, in their order. */
static void front_system(kt__jlist *messages) {
    size_t to = count_system(messages);
    for (size_t i = to; i < messages->n; i++) {
        if (!has_role(&messages->items[i], "system")) continue;
        kt__jv moved = messages->items[i];
        memmove(messages->items + to + 1, messages->items + to, (i - to) * sizeof moved);
        messages->items[to++] = moved;
    }
}

/* Whether two messages of a user follow each other, or two texts of the assistant. */
static bool may_join(const kt__jv *a, const kt__jv *b) {
    bool users = has_role(a, "user") && has_role(b, "user");
    bool texts = has_role(a, "assistant") && has_role(b, "assistant") &&
                 !kt__jdict_find(a->u.d, "tool_calls") && !kt__jdict_find(b->u.d, "tool_calls");
    return users || texts;
}

static bool has_doubled_turns(const kt__jlist *messages) {
    for (size_t i = 1; i < messages->n; i++)
        if (may_join(&messages->items[i - 1], &messages->items[i])) return true;
    return false;
}

/* Messages of one side that follow each other become one, a newline between their texts. */
static kt_status join_turns(kt__jx *x, kt__jlist *messages) {
    size_t kept = 0;
    for (size_t i = 1; i < messages->n; i++) {
        kt__jv *before = &messages->items[kept], *now = &messages->items[i], joined;
        if (!may_join(before, now)) {
            messages->items[++kept] = *now;
            continue;
        }
        kt__jsb text;
        kt__jx_sink(x, &text);
        add_content(&text, kt__jdict_find(before->u.d, "content"));
        kt__jsb_add(&text, "\n", 1, false);
        add_content(&text, kt__jdict_find(now->u.d, "content"));
        KT__STEP(kt__jx_sink_done(x, &text, &joined));
        KT__STEP(set_content(x, *before, joined));
    }
    if (messages->n) messages->n = kept + 1;
    return KT_OK;
}

/* ---- one rendering ---- */

/* What a rendering found in the conversation. */
typedef struct findings {
    bool has_null;    /* a content is null */
    bool has_late;    /* a system message is after others */
    bool has_doubled; /* messages of one side follow each other */
    bool lost;        /* it was rendered, and a late system message is not in it */
} findings;

typedef struct attempt {
    kt__jx x;
    size_t n_system;
    kt__jv system; /* the system messages' text */
    bool merged;   /* SYSTEM_MERGED found a user message */
    findings found;
    kt__jv last;     /* the content that the answer continues from */
    kt__jv thoughts; /* and what was thought before it */
    kt__jlist *messages;
    const kt__jstr *text;
} attempt;

static kt_status take_last(attempt *a, kt__jlist *messages) {
    size_t n = messages->n;
    if (n < 2 || !has_role(&messages->items[n - 1], "assistant"))
        return kt__fail(a->x.err, KT_E_ARG,
                        "the answer is to continue the last message: it must be an assistant's, "
                        "with others before it");
    const kt__jv *content = kt__jdict_find(messages->items[n - 1].u.d, "content");
    const kt__jv *thoughts = kt__jdict_find(messages->items[n - 1].u.d, "reasoning_content");
    if (content) a->last = *content;
    if (thoughts) a->thoughts = *thoughts;
    messages->n--;
    return KT_OK;
}

static bool has_text(const kt__jv *content, const char *text) {
    return content->type == KT__J_STR &&
           kt__jstr_find(content->u.s, text, strlen(text), 0) != SIZE_MAX;
}

/* Whether the template began the answer by opening thoughts, which the answer's beginning is not among: it has no
 * marks of thoughts itself. *blank: a newline follows the mark. */
static bool opened_thoughts(const attempt *a, bool *blank) {
    size_t len = a->text->len;
    while (len && a->text->data[len - 1] == '\n') len--;
    *blank = len < a->text->len;
    bool said = a->last.type == KT__J_LIST || (a->last.type == KT__J_STR && a->last.u.s->len) ||
                (a->thoughts.type == KT__J_STR && a->thoughts.u.s->len);
    return said && kt__ends_with(a->text->data, len, "<think>") && !has_text(&a->last, "<think>") &&
           !has_text(&a->last, "</think>");
}

/* After what begins the answer: the thoughts that it had, closed, and its beginning. */
static kt_status append_last(attempt *a) {
    kt__jsb text;
    kt__jv joined;
    bool blank;
    kt__jx_sink(&a->x, &text);
    kt__jsb_add_str(&text, a->text);
    if (opened_thoughts(a, &blank)) {
        const char *close = blank ? "\n</think>\n\n" : "</think>";
        add_content(&text, &a->thoughts);
        kt__jsb_add(&text, close, strlen(close), true);
    }
    add_content(&text, &a->last);
    KT__STEP(kt__jx_sink_done(&a->x, &text, &joined));
    a->text = joined.u.s;
    return KT_OK;
}

static kt_status set_token(kt__jx *x, const char *name, const char *token) {
    kt__jv v;
    if (!token) return KT_OK;
    if (!is_utf8(token, strlen(token))) return kt__fail(x->err, KT_E_ARG, "%s is not UTF-8", name);
    KT__STEP(text_value(x, token, strlen(token), true, &v));
    kt__jx_set(x, name, strlen(name), v);
    return KT_OK;
}

static kt_status set_date(kt__jx *x, const char *name, const char *format) {
    kt__jv text, date;
    const kt__jargs args = {.pos = &text, .n_pos = 1};
    KT__STEP(text_value(x, format, strlen(format), true, &text));
    KT__STEP(kt__jx_global(x, KT__JG_strftime_now, &args, &date));
    kt__jx_set(x, name, strlen(name), date);
    return KT_OK;
}

static kt_status set_extras(kt__jx *x) {
    kt__jv none;
    KT__STEP(set_date(x, "date_string", "%d %b %Y"));
    KT__STEP(set_date(x, "datetime", "%b %d %Y"));
    KT__STEP(text_value(x, "", 0, true, &none));
    kt__jx_set(x, "functions", strlen("functions"), none);
    return KT_OK;
}

static kt_status set_variables(attempt *a, const request *req, system_mode mode, bool parts) {
    kt__jx *x = &a->x;
    kt__jlist *messages;
    kt__jx_set(x, "tools", 5, kt__j_none());
    kt__jx_set(x, "documents", 9, kt__j_none());
    kt__jx_set(x, "add_generation_prompt", 21, kt__j_bool(req->params->add_generation_prompt));
    if (req->params->extras) KT__STEP(set_extras(x));
    KT__STEP(extra_variables(x, req->params->vars));
    KT__STEP(req->json ? json_values(x, req, &messages) : message_values(x, req, &messages));
    if (req->params->continue_last) KT__STEP(take_last(a, messages));
    a->found.has_null = has_null_content(messages);
    a->found.has_late = count_late_system(messages) > 0;
    a->found.has_doubled = has_doubled_turns(messages);
    if (req->front_system) front_system(messages);
    if (req->joined_turns) KT__STEP(join_turns(x, messages));
    if (req->no_null) KT__STEP(empty_null_contents(x, messages));
    KT__STEP(trust_roles(x, messages));
    a->n_system = count_system(messages);
    KT__STEP(system_text(x, messages, a->n_system, &a->system));
    if (mode == SYSTEM_MERGED) KT__STEP(merge_system(x, messages, a->n_system, &a->merged));
    if (mode == SYSTEM_PROBE) KT__STEP(mark_system(x, messages, a->n_system));
    if (mode == SYSTEM_JOINED) KT__STEP(join_system(x, messages, a->n_system, a->system));
    if (parts) KT__STEP(contents_to_parts(x, messages));
    a->messages = messages;
    kt__jx_set(x, "messages", 8, kt__j_list(messages));
    KT__STEP(set_token(x, "bos_token", req->params->bos_token));
    return set_token(x, "eos_token", req->params->eos_token);
}

/* a->x is to be freed in any case. */
static kt_status render_once(attempt *a, const kt__chat_template *tmpl, const request *req,
                             system_mode mode, kt_error *err) {
    *a = (attempt){0};
    KT__STEP(kt__jx_init(&a->x, tmpl->jinja, req->params->now_local_s, err));
    KT__STEP(set_variables(a, req, mode, tmpl->form == CONTENT_PARTS));
    if (mode == SYSTEM_MERGED && !a->merged) return KT_E_TEMPLATE;
    KT__STEP(kt__jx_render(&a->x, &a->text));
    return req->params->continue_last ? append_last(a) : KT_OK;
}

/* Whether a text without the spaces around it is in the output, or there is none. */
static bool text_shows(const attempt *a, const kt__jstr *s) {
    size_t from = 0, to = s->len;
    while (from < to && strchr(" \t\r\n", s->data[from])) from++;
    while (from < to && strchr(" \t\r\n", s->data[to - 1])) to--;
    return from == to || kt__jstr_find(a->text, s->data + from, to - from, 0) != SIZE_MAX;
}

/* The text was not found as it is. The template may have changed it (taken a switch out of it), or
 * put something between two messages: what counts is whether plain words in their places are
 * rendered. */
static bool template_drops_system(const kt__chat_template *tmpl, const request *req) {
    attempt probe;
    kt_error ignored;
    bool drops = false;
    kt_status status = render_once(&probe, tmpl, req, SYSTEM_PROBE, &ignored);
    for (size_t i = 0; status == KT_OK && i < probe.n_system; i++) {
        char mark[sizeof probe_mark + 24];
        size_t len = name_mark(i, mark);
        drops = drops || kt__jstr_find(probe.text, mark, len, 0) == SIZE_MAX;
    }
    kt__jx_free(&probe.x);
    return drops;
}

/* Of a template that lost the probe's text: this conversation's last text of a user is there? */
static kt_status check_user(const kt__chat_template *tmpl, const attempt *a, kt_error *err) {
    size_t user = a->messages->n;
    if (tmpl->form != CONTENT_LOST || tmpl->constant) return KT_OK;
    while (user > 0 && !has_role(&a->messages->items[user - 1], "user")) user--;
    const kt__jv *content = user ? kt__jdict_find(a->messages->items[user - 1].u.d, "content")
                                 : NULL;
    if (!content || content->type != KT__J_STR || text_shows(a, content->u.s)) return KT_OK;
    return kt__fail(err, KT_E_TEMPLATE,
                    "the chat template leaves out what the user says, given as text and in parts: "
                    "it needs a conversation of another form, or variables of its own");
}

static kt_status copy_out(const kt__jstr *text, kt__chat_out *out, kt_error *err) {
    size_t n = text->n_runs ? text->n_runs : text->len != 0;
    *out = (kt__chat_out){.text = kt__strndup(text->data, text->len),
                          .segs = kt__calloc(n ? n : 1, sizeof *out->segs)};
    if (!out->text || !out->segs) {
        kt__chat_out_free(out);
        return kt__fail_nomem(err, "a rendered prompt", text->len);
    }
    out->len = text->len;
    out->n_segs = n;
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t end = text->n_runs ? text->runs[i].end : text->len;
        bool from_template = text->n_runs ? text->runs[i].from_template : text->from_template;
        out->segs[i] = (kt__chat_seg){at, end - at, from_template};
        at = end;
    }
    return KT_OK;
}

static kt_status give_out(const kt__chat_template *tmpl, const attempt *a, kt__chat_out *out,
                          kt_error *err) {
    kt_status status = check_user(tmpl, a, err);
    return status == KT_OK ? copy_out(a->text, out, err) : status;
}

/* The system messages in another place than theirs. KT_E_TEMPLATE, and err as it was: the template
 * has no use for them there either. */
static kt_status render_moved(const kt__chat_template *tmpl, const request *req, system_mode mode,
                              kt__chat_out *out, kt_error *err) {
    attempt moved;
    kt_error why = {0};
    kt_status status = render_once(&moved, tmpl, req, mode, &why);
    if (status == KT_OK && mode == SYSTEM_JOINED && !text_shows(&moved, moved.system.u.s))
        status = KT_E_TEMPLATE;
    if (status == KT_OK) {
        status = give_out(tmpl, &moved, out, err);
        if (status == KT_OK) out->system_merged = mode == SYSTEM_MERGED;
    } else if (status == KT_E_NOMEM) { /* not the template's error for this conversation */
        if (err) *err = why;
    } else {
        status = KT_E_TEMPLATE;
    }
    kt__jx_free(&moved.x);
    return status;
}

/* Whether a system message after others is not in the text. */
static bool loses_late(const attempt *a) {
    for (size_t i = a->n_system; i < a->messages->n; i++) {
        const kt__jv *message = &a->messages->items[i];
        const kt__jv *content = kt__jdict_find(message->u.d, "content");
        if (has_role(message, "system") && content && content->type == KT__J_STR &&
            !text_shows(a, content->u.s))
            return true;
    }
    return false;
}

/* As they are; where the template refuses or drops them, several as one; else in the user's. */
static kt_status render_merging(const kt__chat_template *tmpl, const request *req,
                                kt__chat_out *out, findings *found, kt_error *err) {
    attempt plain;
    kt_status moved = KT_E_TEMPLATE, status = render_once(&plain, tmpl, req, SYSTEM_AS_IS, err);
    bool refused = status == KT_E_TEMPLATE && plain.x.raised && plain.n_system > 0;
    bool dropped = status == KT_OK && !text_shows(&plain, plain.system.u.s) &&
                   template_drops_system(tmpl, req);
    if ((refused || dropped) && plain.n_system > 1)
        moved = render_moved(tmpl, req, SYSTEM_JOINED, out, err);
    if ((refused || dropped) && moved == KT_E_TEMPLATE)
        moved = render_moved(tmpl, req, SYSTEM_MERGED, out, err);
    if (moved != KT_E_TEMPLATE)
        status = moved;
    else if (status == KT_OK)
        status = give_out(tmpl, &plain, out, err);
    *found = plain.found;
    found->lost = moved == KT_E_TEMPLATE && status == KT_OK && loses_late(&plain);
    kt__jx_free(&plain.x);
    return status;
}

/* The conversation mended for a template that refuses it, or leaves a system message out: system messages
 * first, messages of one side as one, or both. KT_E_TEMPLATE: none of these is rendered. */
static kt_status render_mended(const kt__chat_template *tmpl, request req, const findings *found,
                               kt__chat_out *out) {
    for (int way = 1; way < 4; way++) {
        findings again;
        kt_error ignored;
        kt__chat_out mended = {0};
        req.front_system = way & 1;
        req.joined_turns = way & 2;
        if ((req.front_system && !found->has_late) ||
            (req.joined_turns && !found->has_doubled && way == 2))
            continue;
        kt_status status = render_merging(tmpl, &req, &mended, &again, &ignored);
        if (status == KT_OK && !again.lost) {
            kt__chat_out_free(out);
            *out = mended;
            return KT_OK;
        }
        if (status == KT_OK) kt__chat_out_free(&mended);
        if (status == KT_E_NOMEM) return status;
    }
    return KT_E_TEMPLATE;
}

/* A message with calls alone has a content of null by OpenAI's interface; a template that walks over contents fails with
 * it, and is given empty ones. The error stays that of the first rendering. */
static kt_status render_request(const kt__chat_template *tmpl, request req, kt__chat_out *out,
                                kt_error *err) {
    findings found;
    kt_error ignored;
    kt_status status = render_merging(tmpl, &req, out, &found, err);
    if (status == KT_E_TEMPLATE && found.has_null) {
        req.no_null = true;
        if (render_merging(tmpl, &req, out, &found, &ignored) == KT_OK) status = KT_OK;
    }
    if (status != KT_E_TEMPLATE && !found.lost) return status;
    if (render_mended(tmpl, req, &found, out) == KT_OK) return KT_OK;
    return status;
}

kt_status kt__chat_render(const kt__chat_template *tmpl, const kt_message *messages, size_t n,
                          const kt__chat_params *params, kt__chat_out *out, kt_error *err) {
    return render_request(tmpl, (request){.messages = messages, .n = n, .params = params}, out,
                          err);
}

kt_status kt__chat_render_json(const kt__chat_template *tmpl, const char *json, size_t json_len,
                               const kt__chat_params *params, kt__chat_out *out, kt_error *err) {
    return render_request(tmpl, (request){.json = json, .json_len = json_len, .params = params},
                          out, err);
}

/* ---- the probe, and the whole ---- */

static bool text_mentions(const kt__jstr *text, const char *what) {
    return kt__jstr_find(text, what, strlen(what), 0) != SIZE_MAX;
}

/* Whether a user's text shows in this form; *known is false where the template takes none alone. */
static kt_status probe_form(kt__chat_template *tmpl, content_form form, bool *known, bool *shows,
                            kt_error *err) {
    const kt_message message = {"user", user_mark};
    const kt__chat_params params = {
        .bos_token = "", .eos_token = "", .add_generation_prompt = true};
    const request req = {.messages = &message, .n = 1, .params = &params};
    attempt probe;
    kt_error why = {0};
    tmpl->form = form;
    kt_status status = render_once(&probe, tmpl, &req, SYSTEM_AS_IS, &why);
    *known = status == KT_OK;
    *shows = *known && text_mentions(probe.text, user_mark) &&
             !text_mentions(probe.text, "'type': 'text'") &&
             !text_mentions(probe.text, "\"type\": \"text\""); /* a list written as it is */
    kt__jx_free(&probe.x);
    if (status == KT_E_NOMEM && err) *err = why;
    return status == KT_E_NOMEM ? status : KT_OK;
}

static kt_status find_form(kt__chat_template *tmpl, kt_error *err) {
    bool known, shows;
    KT__STEP(probe_form(tmpl, CONTENT_TEXT, &known, &shows, err));
    if (!known || shows) return KT_OK;
    KT__STEP(probe_form(tmpl, CONTENT_PARTS, &known, &shows, err));
    if (!shows) tmpl->form = CONTENT_LOST;
    return KT_OK;
}

kt_status kt__chat_template_parse(const char *source, size_t len, kt__chat_template **out,
                                  kt_error *err) {
    kt__chat_template *tmpl = kt__calloc(1, sizeof *tmpl);
    if (!tmpl) return kt__fail_nomem(err, "a chat template", sizeof *tmpl);
    tmpl->constant = !memmem(source, len, "{{", 2) && !memmem(source, len, "{%", 2);
    kt_status status = kt__jinja_parse(source, len, &tmpl->jinja, err);
    if (status == KT_OK) status = find_form(tmpl, err);
    if (status != KT_OK) {
        kt__chat_template_free(tmpl);
        return status;
    }
    *out = tmpl;
    return KT_OK;
}

void kt__chat_out_free(kt__chat_out *out) {
    kt__free(out->text);
    kt__free(out->segs);
    *out = (kt__chat_out){0};
}
