/* An answer in parts: what the model thinks, says and calls.
 *
 * Owns: the parser of one answer, the parts that a token released, and the closing of reasoning
 * that continues for too long. Does not know logits. One user at a time. */
#ifndef KT_ANSWER_PARTS_H
#define KT_ANSWER_PARTS_H

#include "calls/calls.h"
#include "prompt/conversation.h"

typedef struct kt__parts kt__parts;

/* Calls count in whatever way the model spells them: not where the request says otherwise, or holds the answer to a
 * form of its own. */
bool kt__request_any_spelling(const kt_request_params *request);

/* conversation must outlive it. id_seed: the ids of calls are made of it. */
kt_status kt__parts_create(const kt_model *model, const kt__conversation *conversation,
                           const kt_request_params *request, uint64_t id_seed, kt__parts **out,
                           kt_error *err) KT_CHECKED;
void kt__parts_free(kt__parts *parts); /* NULL is allowed */
/* Whether the text of a control token may belong to a marker. */
bool kt__parts_shows(const kt__parts *parts, int32_t id);
/* The next token that closes reasoning by force, or -1. */
int32_t kt__parts_forced(kt__parts *parts);
/* A token's text, which may be empty; with last: the answer is over. What it releases is kept until
 * the next call. */
kt_status kt__parts_push(kt__parts *parts, const char *text, size_t len, bool last,
                         kt_error *err) KT_CHECKED;
/* After a push: as kt__call_take_args. */
bool kt__parts_take_args(kt__parts *parts, kt__call_args *out);
/* [*n], and the content among them, joined; valid until the next call. */
const kt_part *kt__parts_get(const kt__parts *parts, size_t *n);
const kt__buf *kt__parts_content(const kt__parts *parts);
int32_t kt__parts_n_calls(const kt__parts *parts);
int32_t kt__parts_n_reasoning(const kt__parts *parts); /* tokens */

/* Copies parts[n] to out[n], with their texts into memory, which is emptied before; false: no
 * memory. */
bool kt__parts_copy(kt_part *out, const kt_part *parts, size_t n, kt__buf *memory);

#endif
