/* A request's prompt: its conversation through the model's template and tokenizer to token ids.
 *
 * Owns: that way; what a conversation says of its answer; where the prompt's recurrent state is worth keeping. Any
 * thread. */
#ifndef KT_PROMPT_TEXT_H
#define KT_PROMPT_TEXT_H

#include "calls/calls.h"
#include "context/types.h"
#include "prompt/pictures.h"
#include "tokenizer/tokenizer.h"

/* What a request's conversation says of its answer.
 *
 * The tools that the answer may call, and where the prompt left off, which tells a parser whether the answer begins
 * inside reasoning. Immutable once the prompt was rendered. Any thread. */

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

/* Where a prompt's recurrent state is worth keeping.
 *
 * The choice of positions at which a later prompt may depart from this one: the end of the first message, the ends of
 * the last ones, the prompt's own end, and every so many tokens. Keeps nothing itself (kv/kv.h). Any thread. */

enum {
    KT__SNAPSHOT_EVERY = 512, /* tokens */
    KT__SNAPSHOT_POINTS = 12  /* at most, of one slice */
};

/* Positions in (from, to] of a prompt of n_tok tokens, multiples of a page's, ascending; returns how
 * many. tok: or NULL. */
int kt__snapshot_points(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok,
                        int32_t from, int32_t to, int32_t out[KT__SNAPSHOT_POINTS]);

/* The end of the first message, a multiple of a page's; 0: there is none. */
int32_t kt__snapshot_first_border(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok);

/* A prompt of r, which has one of text, messages and chat_json, as ids for kt__free. What cannot be
 * `most` tokens or fewer is KT_E_CONTEXT_FULL before it is encoded where its length says so, else at
 * the first token too many. The time of the template and of the tokenizer are added to ns[0] and
 * ns[1]. conversation, or NULL, has its tools and gets its end; pictures, or NULL, are the opened ones of r. */
kt_status kt__text_encode_prompt(const kt_model *model, const kt_request_params *r,
                                 kt__conversation *conversation, kt__pictures *pictures,
                                 size_t most, int32_t **ids, size_t *n_ids, int64_t *ns,
                                 kt_error *err) KT_CHECKED;

#endif
