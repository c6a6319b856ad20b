/* The way into a prompt: messages with calls and results, the tools, and whether to reason.
 *
 * Owns: turning a conversation as clients send it into the JSON that a template renders, as that
 * template needs it; and the end of a rendered prompt that a parser of the answer wants to see. Does
 * not render: kt__chat_render_json does. Any thread. */
#ifndef KT_CALLS_PROMPT_H
#define KT_CALLS_PROMPT_H

#include "calls/calls.h"
#include "chat/chat_template.h"

/* What the template wrote after the last byte that came in with the messages: points into
 * prompt->text. */
void kt__call_prompt_tail(const kt__chat_out *prompt, const char **tail, size_t *len);

#endif
