#include "prompt/text.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "calls/format.h"
#include "calls/prompt.h"

enum { MAX_NOTES = 64 << 10 };

/* "/0/function/name" after `field` as requests name it: "tools[0].function.name" */
static void name_place(const char *field, const char *pointer, char *out, size_t size) {
    size_t len = (size_t)snprintf(out, size, "%s", field);
    while (*pointer == '/' && len + 3 < size) {
        const char *part = ++pointer;
        size_t n = strcspn(part, "/");
        bool number = n && strspn(part, "0123456789") == n;
        len += (size_t)snprintf(out + len, size - len, number ? "[%.*s]" : ".%.*s", (int)n, part);
        pointer += n;
        if (len >= size) return;
    }
}

kt_status kt__conversation_fail_in(const char *field, kt_status status, kt_error *err) {
    char place[sizeof((kt_error *)0)->where], message[sizeof((kt_error *)0)->message];
    if (!err) return status;
    name_place(field, err->where, place, sizeof place);
    snprintf(message, sizeof message, "%s", kt__error_without_place(err));
    return kt__fail_at(err, status, place, UINT64_MAX, "%s: %s", place, message);
}

static kt_status read_tools(kt__conversation *c, const kt_request_params *r, kt_error *err) {
    const char *choice = r->calls.choice ? r->calls.choice : "";
    if (!r->calls.tools) return KT_OK;
    kt_status status = kt__tools_read(r->calls.tools, strlen(r->calls.tools), &c->tools, err);
    if (status != KT_OK) return kt__conversation_fail_in("tools", status, err);
    status = kt__tool_choice_read(c->tools, choice, strlen(choice), &c->choice, err);
    return status == KT_OK ? KT_OK : kt__conversation_fail_in("tool_choice", status, err);
}

kt_status kt__conversation_open(const kt_request_params *r, kt__conversation **out, kt_error *err) {
    *out = NULL;
    if (!r->parts.split) {
        if (!r->calls.tools && !r->parts.reasoning_budget) return KT_OK;
        return kt__fail_at(err, KT_E_ARG, r->calls.tools ? "tools" : "reasoning_budget", UINT64_MAX,
                           "tools and a reasoning budget need an answer that is split");
    }
    if (!r->prompt.messages && !r->prompt.chat_json)
        return kt__fail(err, KT_E_ARG, "only answers in conversations can be split");
    kt__conversation *c = kt__calloc(1, sizeof *c);
    if (!c) return kt__fail_nomem(err, "a conversation", sizeof *c);
    kt__buf_init(&c->notes, MAX_NOTES);
    kt_status status = read_tools(c, r, err);
    if (status == KT_OK) {
        *out = c;
    } else {
        kt__conversation_free(c);
    }
    return status;
}

void kt__conversation_free(kt__conversation *c) {
    if (!c) return;
    kt__tools_free(c->tools);
    kt__free(c->tail);
    kt__buf_free(&c->notes);
    kt__free(c);
}

static void drop_call_event(void *ctx, const kt__call_event *event) {
    (void)ctx, (void)event;
}

static kt_status see_thinking(kt__conversation *c, const kt_model *model, kt_error *err) {
    const kt__call_options options = {.prompt_tail = c->tail, .prompt_tail_len = c->tail_len};
    kt__call_parser *parser;
    kt_status status = kt__call_parser_create(&model->style, &options, drop_call_event, NULL,
                                              &parser, err);
    if (status != KT_OK) return status;
    c->thinks = kt__call_in_reasoning(parser);
    kt__call_parser_free(parser);
    return KT_OK;
}

kt_status kt__conversation_keep_tail(kt__conversation *c, const kt_model *model,
                                     const kt__chat_out *prompt, kt_error *err) {
    const char *tail;
    if (!c) return KT_OK;
    kt__free(c->tail); /* of a prompt that was too long */
    kt__call_prompt_tail(prompt, &tail, &c->tail_len);
    c->tail = kt__strndup(tail, c->tail_len);
    return c->tail ? see_thinking(c, model, err)
                   : kt__fail_nomem(err, "a prompt's end", c->tail_len);
}

const char *kt__conversation_closing(const kt_model *model) {
    const kt__call_style *style = &model->style;
    if (!style->reasoning) return NULL;
    if (style->reasoning->close) return style->reasoning->close;
    bool harmony = !strcmp(kt__call_style_reasoning(style), "harmony");
    return harmony ? "<|end|><|start|>assistant<|channel|>final<|message|>" : NULL;
}
