/* What a request asks to be continued: a conversation, or prompts. */
#include <string.h>

#include "base/error.h"
#include "wire/wire_value.h"

/* ---- messages ---- */

static kt_status read_role(const kt__wire_reader *r, const kt__wire_place *up,
                           const json_t *message, const char **out) {
    static const char *const roles[] = {"system", "user",     "assistant",
                                        "tool",   "function", "developer"};
    kt__wire_place at = {.up = up, .key = "role"};
    const json_t *v = kt__wire_member(message, "role");
    if (!v) return kt__wire_fail_at(r, KT_E_ARG, &at, "is missing");
    if (!json_is_string(v)) return kt__wire_fail_type(r, &at, "a string", v);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(json_string_value(v), roles[i]) != 0) continue;
        /* "function" is the older name of "tool", "developer" the later one of "system" */
        *out = i == 4 ? "tool" : roles[i < 4 ? i : 0];
        return KT_OK;
    }
    return kt__wire_fail_at(
        r, KT_E_ARG, &at,
        "\"%.40s\" is not known: expected system, developer, user, assistant or tool",
        json_string_value(v));
}

/* A text as a part has it. */
typedef struct text_part {
    const char *s;
    size_t len;
} text_part;

/* The text of one element of a content array. A user's picture has none. One that a tool returned is
 * said to be one, so that a conversation is not lost for it; a refusal is what the assistant
 * said. */
static kt_status read_part(const kt__wire_reader *r, const kt__wire_place *at, const json_t *part,
                           const char *role, text_part *out) {
    static const char shown[] = "(an image, shown below)";
    static const char unseen[] = "(an image, which this model cannot see)";
    kt__wire_place type_at = {.up = at, .key = "type"}, text_at = {.up = at, .key = "text"};
    if (!json_is_object(part)) return kt__wire_fail_type(r, at, "an object", part);
    const json_t *type = kt__wire_member(part, "type");
    const char *name = json_string_value(type);
    if (!name) return kt__wire_fail_at(r, KT_E_ARG, &type_at, "expected a string");
    if (!strcmp(role, "user") && kt__wire_is_picture(name))
        return kt__wire_read_picture(r, at, part);
    if (!strcmp(role, "tool") && kt__wire_is_picture(name) && r->eyes && r->eyes->sees) {
        *out = (text_part){shown, sizeof shown - 1};
        return kt__wire_read_picture(r, at, part);
    }
    if (!strcmp(role, "tool") && kt__wire_is_picture(name)) {
        *out = (text_part){unseen, sizeof unseen - 1};
        return kt__wire_note(r, at, "a picture, which is not read");
    }
    if (!strcmp(name, "refusal")) text_at.key = "refusal";
    if (strcmp(name, "text") != 0 && strcmp(name, "refusal") != 0)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &type_at,
                                "\"%.40s\" is not supported, only \"text\"", name);
    const json_t *text = json_object_get(part, text_at.key);
    if (!text) return kt__wire_fail_at(r, KT_E_ARG, &text_at, "is missing");
    if (!json_is_string(text)) return kt__wire_fail_type(r, &text_at, "a string", text);
    *out = (text_part){json_string_value(text), json_string_length(text)};
    return KT_OK;
}

/* Parts are joined by newlines, as llama-server and vLLM join them. */
static kt_status join_parts(const kt__wire_reader *r, const kt__wire_place *at, const json_t *parts,
                            const char *role, const char **out) {
    size_t n = json_array_size(parts), bytes = 1;
    text_part *texts = kt__arena_calloc(r->arena, n + 1, sizeof *texts);
    if (!texts) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        kt__wire_place here = {.up = at, .index = i};
        KT__STEP(read_part(r, &here, json_array_get(parts, i), role, &texts[i]));
        bytes += texts[i].len + 1;
    }
    char *joined = kt__arena_calloc(r->arena, bytes, 1), *end = joined;
    if (!joined) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        if (!texts[i].s) continue;
        if (end > joined) *end++ = '\n';
        end = mempcpy(end, texts[i].s, texts[i].len);
    }
    *out = joined;
    return KT_OK;
}

static kt_status read_text_or_parts(const kt__wire_reader *r, const kt__wire_place *at,
                                    const json_t *v, const char *role, const char **out) {
    char *text;
    if (json_is_array(v)) return join_parts(r, at, v, role, out);
    if (!json_is_string(v)) return kt__wire_fail_type(r, at, "a string or an array of parts", v);
    kt_status status = kt__wire_read_string(r, at, v, &text, NULL);
    if (status == KT_OK) *out = text;
    return status;
}

static kt_status read_content(const kt__wire_reader *r, const kt__wire_place *up,
                              const json_t *message, kt_message *out) {
    kt__wire_place at = {.up = up, .key = "content"};
    const json_t *v = kt__wire_member(message, "content");
    bool of_tool = !strcmp(out->role, "tool");
    if (!v && (of_tool || !strcmp(out->role, "assistant"))) {
        out->content = "";
        return KT_OK;
    }
    if (!v) return kt__wire_fail_at(r, KT_E_ARG, &at, "is missing");
    return read_text_or_parts(r, &at, v, out->role, &out->content);
}

static kt_status read_message(const kt__wire_reader *r, const kt__wire_place *at,
                              const json_t *message, kt_message *out) {
    if (!json_is_object(message)) return kt__wire_fail_type(r, at, "an object", message);
    KT__STEP(read_role(r, at, message, &out->role));
    KT__STEP(kt__wire_read_images(r, at, message, !strcmp(out->role, "user")));
    return read_content(r, at, message, out);
}

/* A conversation's first message, where the body has it next to the others. */
static kt_status read_system(const kt__wire_reader *r, const json_t *v, kt_message *out) {
    kt__wire_place at = {.key = "system"};
    *out = (kt_message){.role = "system"};
    return read_text_or_parts(r, &at, v, "system", &out->content);
}

/* The beginning of an answer: a text of the assistant's that called no tools. */
static bool is_begun(const json_t *message) {
    const char *role = json_string_value(kt__wire_member(message, "role"));
    const json_t *content = kt__wire_member(message, "content");
    bool said = json_is_string(content) ? json_string_length(content) > 0
                                        : json_array_size(content) > 0;
    return role && !strcmp(role, "assistant") && said &&
           !json_array_size(kt__wire_member(message, "tool_calls"));
}

/* Whether the template begins an answer after the messages, or the last one is its beginning:
 * vLLM's and llama.cpp's words for it, and Mistral's `prefix` in the message; where nothing is said, as the defaults
 * have it. */
static kt_status read_chat_end(const kt__wire_reader *r, const kt__wire_place *at,
                               const json_t *body, const json_t *messages) {
    size_t n = json_array_size(messages);
    const json_t *last = json_array_get(messages, n - 1);
    kt__wire_place last_at = {.up = at, .index = n - 1};
    kt__wire_place go_on_at = {.key = "continue_final_message"},
                   begin_at = {.key = "add_generation_prompt"};
    const json_t *go_on = kt__wire_member(body, go_on_at.key),
                 *begin = kt__wire_member(body, begin_at.key);
    const char *role = json_string_value(kt__wire_member(last, "role"));
    bool usual = !go_on && !begin && r->request->prefill && is_begun(last);
    bool goes_on = usual || json_is_true(kt__wire_member(last, "prefix")), begins = true;
    if (go_on) KT__STEP(kt__wire_read_bool(r, &go_on_at, go_on, &goes_on));
    if (begin) KT__STEP(kt__wire_read_bool(r, &begin_at, begin, &begins));
    if (go_on && goes_on && begin && begins)
        return kt__wire_fail_at(
            r, KT_E_ARG, &go_on_at,
            "excludes add_generation_prompt: the answer begins anew, or continues");
    if (goes_on && (!role || strcmp(role, "assistant") != 0))
        return kt__wire_fail_at(r, KT_E_ARG, &go_on_at, "the last message is not an assistant's");
    if (usual && n > 1 && is_begun(json_array_get(messages, n - 2)))
        return kt__wire_fail_at(r, KT_E_ARG, &last_at,
                                "two messages of the assistant's at the end: an answer that "
                                "continues both has to say so (continue_final_message)");
    r->request->req.prompt.chat_flags = goes_on ? KT_CHAT_CONTINUE : begins ? KT_CHAT_GENERATE : 0;
    return KT_OK;
}

static kt_status read_messages(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                               const json_t *system) {
    if (!json_is_array(v)) return kt__wire_fail_type(r, at, "an array", v);
    size_t n = json_array_size(v), first = system ? 1 : 0;
    kt_status status = KT_OK;
    if (!n) return kt__wire_fail_at(r, KT_E_ARG, at, "is empty");
    if (n > KT__WIRE_MAX_MESSAGES) {
        return kt__wire_fail_at(r, KT_E_LIMIT, at, "%zu messages; at most %d are allowed", n,
                                KT__WIRE_MAX_MESSAGES);
    }
    kt_message *messages = kt__arena_calloc(r->arena, n + first, sizeof *messages);
    if (!messages) return kt__wire_fail_nomem(r);
    if (system) status = read_system(r, system, &messages[0]);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        kt__wire_place here = {.up = at, .index = i};
        status = read_message(r, &here, json_array_get(v, i), &messages[first + i]);
    }
    if (status != KT_OK) return status;
    r->request->req.prompt.messages = messages;
    r->request->req.prompt.n_messages = n + first;
    return KT_OK;
}

/* What becomes of a conversation that is too long. */
static kt_status read_shorten(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "shorten"};
    const json_t *v = kt__wire_member(body, "shorten");
    const char *word = json_string_value(v);
    if (!v) return KT_OK;
    if (word && !strcmp(word, "none")) return KT_OK;
    if (!word || strcmp(word, "oldest_turns") != 0)
        return kt__wire_fail_at(r, KT_E_ARG, &at, "expected \"oldest_turns\" or \"none\"");
    r->request->req.overflow.shorten = KT_SHORTEN_OLDEST_TURNS;
    return KT_OK;
}

/* One, with its turns and its end; into r->request->req. */
static kt_status read_conversation(const kt__wire_reader *r, const kt__wire_place *at,
                                   const json_t *body, const json_t *messages,
                                   const json_t *system) {
    kt_status status = read_messages(r, at, messages, system);
    if (status == KT_OK) status = kt__wire_read_turns(r, at, messages);
    return status == KT_OK ? read_chat_end(r, at, body, messages) : status;
}

/* [[messages], [messages], ...]: each is answered as it would be alone. */
static kt_status read_conversations(const kt__wire_reader *r, const kt__wire_place *at,
                                    const json_t *body, const json_t *list) {
    kt_request_params *req = &r->request->req;
    size_t n = json_array_size(list);
    if (r->request->form != KT__WIRE_CHAT)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, at,
                                "several conversations in one request are not supported here: send "
                                "one each, or all to /v1/chat/completions");
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__wire_fail_at(r, KT_E_LIMIT, at, "%zu conversations; at most %d are allowed", n,
                                KT__WIRE_MAX_PROMPTS);
    kt__wire_prompt *prompts = kt__arena_calloc(r->arena, n, sizeof *prompts);
    kt_status status = prompts ? KT_OK : kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        kt__wire_place here = {.up = at, .index = i};
        req->prompt.chat_json = NULL;
        req->prompt.chat_json_len = 0;
        status = read_conversation(r, &here, body, json_array_get(list, i), NULL);
        if (status == KT_OK && r->request->n_pictures)
            status = kt__wire_fail_at(r, KT_E_UNSUPPORTED, &here,
                                      "pictures go with one conversation a request");
        prompts[i] = (kt__wire_prompt){.messages = req->prompt.messages,
                                       .n_messages = req->prompt.n_messages,
                                       .chat_json = req->prompt.chat_json,
                                       .chat_json_len = req->prompt.chat_json_len,
                                       .chat_flags = req->prompt.chat_flags};
    }
    if (status != KT_OK) return status;
    r->request->prompts = prompts;
    r->request->n_prompts = n;
    kt__wire_set_prompt(r->request, 0, req);
    return KT_OK;
}

/* ---- prompts that are no conversation ---- */

static kt_status read_prompt_ids(const kt__wire_reader *r, const kt__wire_place *at,
                                 const json_t *v, kt__wire_prompt *out) {
    size_t n = json_array_size(v);
    if (!n) return kt__wire_fail_at(r, KT_E_ARG, at, "is empty");
    int32_t *ids = kt__arena_calloc(r->arena, n, sizeof *ids);
    if (!ids) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        kt__wire_place here = {.up = at, .index = i};
        int64_t id;
        kt_status status = kt__wire_read_int(r, &here, json_array_get(v, i), 0, INT32_MAX, &id);
        if (status != KT_OK) return status;
        ids[i] = (int32_t)id;
    }
    out->ids = ids;
    out->n_ids = n;
    return KT_OK;
}

/* "text" or [ids] */
static kt_status read_prompt(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                             kt__wire_prompt *out) {
    char *text;
    if (json_is_array(v)) return read_prompt_ids(r, at, v, out);
    if (!json_is_string(v))
        return kt__wire_fail_type(r, at, "a string or an array of token ids", v);
    kt_status status = kt__wire_read_string(r, at, v, &text, &out->len);
    if (status == KT_OK) out->text = text;
    return status;
}

/* Either of the two, or an array of them. */
static kt_status read_prompts(const kt__wire_reader *r, const json_t *v) {
    kt__wire_place at = {.key = "prompt"};
    const json_t *first = json_is_array(v) ? json_array_get(v, 0) : NULL;
    bool list = first && !json_is_number(first);
    size_t n = list ? json_array_size(v) : 1;
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__wire_fail_at(r, KT_E_ARG, &at, "%zu prompts; at most %d are allowed", n,
                                KT__WIRE_MAX_PROMPTS);
    if (n > 1 && r->request->form != KT__WIRE_TEXT)
        return kt__wire_fail_at(
            r, KT_E_UNSUPPORTED, &at,
            "several prompts in one request are not supported here: send one each");
    kt__wire_prompt *prompts = kt__arena_calloc(r->arena, n, sizeof *prompts);
    kt_status status = prompts ? KT_OK : kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        kt__wire_place here = {.up = &at, .index = i};
        status = read_prompt(r, list ? &here : &at, list ? json_array_get(v, i) : v, &prompts[i]);
    }
    if (status != KT_OK) return status;
    r->request->prompts = prompts;
    r->request->n_prompts = n;
    kt__wire_set_prompt(r->request, 0, &r->request->req);
    return KT_OK;
}

void kt__wire_set_prompt(const kt__wire_request *request, size_t index, kt_request_params *to) {
    if (!request->prompts) return;
    const kt__wire_prompt *p = &request->prompts[index];
    to->prompt.text = p->text;
    to->prompt.text_len = p->len;
    to->prompt.ids = p->ids;
    to->prompt.n_ids = p->n_ids;
    to->prompt.messages = p->messages;
    to->prompt.n_messages = p->n_messages;
    to->prompt.chat_json = p->chat_json;
    to->prompt.chat_json_len = p->chat_json_len;
    if (p->messages || p->chat_json) to->prompt.chat_flags = p->chat_flags;
    to->prompt.pair_from = p->pair_from;
}

/* What is after a gap that the answer fills in. */
static kt_status read_suffix(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "suffix"};
    json_t *v = kt__wire_member(body, "suffix");
    kt__wire_form form = r->request->form;
    char *text;
    size_t len;
    if (!v || json_is_null(v)) return KT_OK;
    kt_status status = kt__wire_read_string(r, &at, v, &text, &len);
    if (status != KT_OK) return status;
    if (form == KT__WIRE_CHAT || form == KT__WIRE_SYSTEM || !r->request->prompts ||
        !r->request->prompts[0].text)
        return kt__wire_fail_at(r, KT_E_ARG, &at, "goes with a \"prompt\" that is a text");
    r->request->req.prompt.fim_suffix = text;
    r->request->req.prompt.fim_suffix_len = len;
    return KT_OK;
}

static kt_status read_whole_subject(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place prompt_at = {.key = "prompt"}, messages_at = {.key = "messages"};
    kt__wire_form form = r->request->form;
    const json_t *messages = kt__wire_member(body, "messages"),
                 *prompt = kt__wire_member(body, "prompt");
    const json_t *system = form == KT__WIRE_SYSTEM ? kt__wire_member(body, "system") : NULL;
    bool chat = form == KT__WIRE_CHAT || form == KT__WIRE_SYSTEM;
    if (prompt && messages) {
        return kt__wire_fail_at(r, KT_E_ARG, &prompt_at, "give either \"prompt\" or \"messages\"");
    }
    if (messages && form == KT__WIRE_TEXT) {
        return kt__wire_fail_at(r, KT_E_ARG, &messages_at,
                                "a conversation is for /v1/chat/completions");
    }
    if (messages) {
        kt_status status = read_shorten(r, body);
        if (status != KT_OK) return status;
        r->request->req.parts.split = true;
        if (json_is_array(json_array_get(messages, 0)))
            return read_conversations(r, &messages_at, body, messages);
        return read_conversation(r, &messages_at, body, messages,
                                 system && !kt__wire_is_empty(system) ? system : NULL);
    }
    if (prompt && !chat) return read_prompts(r, prompt);
    if (form == KT__WIRE_TEXT) { /* as empty as "" */
        r->request->req.prompt.text = "";
        return KT_OK;
    }
    return kt__wire_fail_at(r, KT_E_ARG, chat ? &messages_at : &prompt_at, "is missing%s",
                            form == KT__WIRE_NATIVE ? ": give \"prompt\" or \"messages\"" : "");
}

kt_status kt__wire_read_subject(const kt__wire_reader *r, const json_t *body) {
    kt_status status = read_whole_subject(r, body);
    return status == KT_OK ? read_suffix(r, body) : status;
}
