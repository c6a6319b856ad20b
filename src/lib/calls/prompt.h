/* The way into a prompt: messages with calls and results, the tools, and whether to reason.
 *
 * Owns: turning a conversation as clients send it into the JSON that a template renders, as that template needs it;
 * finding out what a template needs; the text of calls in each format (write.c); and the end of a rendered prompt
 * that a parser of the answer wants to see. Any thread. */
#ifndef KT_CALLS_PROMPT_H
#define KT_CALLS_PROMPT_H

#include "base/json.h"
#include "calls/calls.h"
#include "chat/chat_template.h"

/* Fills what style says of the template beyond its source, by rendering it over a small conversation
 * a few times. A template that refuses all of them leaves the style as it was. */
void kt__call_style_probe(const kt__chat_template *tmpl, const kt__chat_params *params,
                          kt__call_style *style);

typedef enum kt__reason_choice {
    KT__REASON_DEFAULT, /* the template's own */
    KT__REASON_ON,
    KT__REASON_OFF
} kt__reason_choice;

/* json[len]: an array of messages as OpenAI's interface has them (tool_calls with arguments as a
 * text or an object, role tool, content as a text, null, or a list of text parts), or an object
 * {"messages": [...], ...} whose further members become variables of the template. tools (or NULL)
 * are added. Appends the JSON for kt__chat_render_json to out: arguments in the form that the
 * template needs, ids by its rules, a result's name, content that is never null, what the template
 * does not show written into messages. KT_E_FORMAT with the place as a JSON pointer. */
kt_status KT_CHECKED kt__call_prompt_json(const kt__call_style *style, const char *json, size_t len,
                                          const kt__tools *tools, kt__reason_choice reasoning,
                                          kt__buf *out, kt_error *err);

/* What the template wrote after the last byte that came in with the messages: points into
 * prompt->text. */
void kt__call_prompt_tail(const kt__chat_out *prompt, const char **tail, size_t *len);

/* Calls as the models of a format write them.
 *
 * The text of calls in each format: for prompts of templates that do not write them, for the description of a format,
 * and for tests. Any thread. */

typedef struct kt__call_text {
    const char *name;
    size_t name_len;
    const char *id; /* or NULL */
    size_t id_len;
    const kt__json_node *args; /* an object, or NULL */
} kt__call_text;

void kt__calls_write(kt__buf *out, const kt__call_style *style, const kt__call_text *calls,
                     size_t n);

#endif
