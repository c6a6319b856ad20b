/* What a request's conversation says of its answer.
 *
 * Owns: the tools that the answer may call, and where the prompt left off, which tells a parser
 * whether the answer begins inside reasoning. Immutable once the prompt was rendered. Any
 * thread. */
#ifndef KT_PROMPT_CONVERSATION_H
#define KT_PROMPT_CONVERSATION_H

#include "calls/calls.h"
#include "context/types.h"

typedef struct kt__conversation {
    kt__tools *tools; /* NULL: none */
    kt__tool_choice choice;
    char *tail; /* what the template wrote after the messages, NUL-terminated */
    size_t tail_len;
    bool thinks;   /* the answer begins inside reasoning */
    kt__buf notes; /* a line each */
} kt__conversation;

/* What r says of tools; *out is NULL where its answer is not to be split. Errors have the place in
 * the words of requests: "tools[0].function.name". */
kt_status kt__conversation_open(const kt_request_params *r, kt__conversation **out,
                                kt_error *err) KT_CHECKED;
/* An error in a field whose place is a JSON pointer within it. */
kt_status kt__conversation_fail_in(const char *field, kt_status status, kt_error *err);
void kt__conversation_free(kt__conversation *conversation); /* NULL is allowed */
/* Copies the end of the rendered prompt. conversation may be NULL. */
kt_status kt__conversation_keep_tail(kt__conversation *conversation, const kt_model *model,
                                     const kt__chat_out *prompt, kt_error *err) KT_CHECKED;
/* What ends the model's reasoning and begins its answer; NULL: it has no reasoning. */
const char *kt__conversation_closing(const kt_model *model);

#endif
