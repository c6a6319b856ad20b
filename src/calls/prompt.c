#include "calls/prompt.h"

void kt__call_prompt_tail(const kt__chat_out *prompt, const char **tail, size_t *len) {
    size_t from = 0;
    for (size_t i = 0; i < prompt->n_segs; i++)
        if (!prompt->segs[i].from_template) from = prompt->segs[i].offset + prompt->segs[i].len;
    *tail = prompt->text ? prompt->text + from : "";
    *len = prompt->len - from;
}
