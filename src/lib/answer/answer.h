/* An answer in the making: from logits to tokens, from tokens to text, from text to parts.
 *
 * Owns: the sampler, stop strings and detokeniser of one answer, the text that a token released, and its division
 * into reasoning, content and calls. Does not know sequences, pages or batches. One user at a time; sampling uses the
 * engine's scratch and needs its lock. No allocation for a token, but where it releases more text than ever before. */
#ifndef KT_ANSWER_ANSWER_H
#define KT_ANSWER_ANSWER_H

#include "calls/calls.h"
#include "context/types.h"
#include "prompt/text.h"
#include "sample/held.h"
#include "sample/stops.h"

#include <kentang.h>

/* The parts of an answer: what the model thinks, says and calls. Owns the parser of the answer, the parts that a
 * token released, and the closing of reasoning that continues for too long. Does not know logits. */

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

enum { KT__ANSWER_WAY = 8 }; /* tokens of the way to the end that are kept */

typedef struct kt__answer {
    kt_engine *engine;
    kt__sampler *sampler;
    bool drawn; /* the last token came from the sampler: nothing else determined it */
    kt__stops *stops;
    kt__detok detok;
    kt__buf piece; /* what the detokeniser released */
    kt__buf text;  /* what the last token released */
    int32_t n_predict, n_generated;
    int32_t min_tokens;
    bool ignore_eog;
    kt__held *held; /* NULL: to nothing */
    /* With finish_within: tokens that end it, were they to come next; n_way SIZE_MAX: unknown */
    bool finish_within;
    size_t n_way;
    int32_t way[KT__ANSWER_WAY];
    kt__loop loop;
    kt__parts *parts; /* NULL: the text is not split */
    kt_finish finish;
    int32_t stop; /* the stop string that ended it, or -1 */
    uint64_t seed;
} kt__answer;

/* choice: index among several answers to a prompt. What params points to is copied. No lock. */
kt_status kt__answer_init(kt__answer *answer, kt_engine *engine, const kt_gen_params *params,
                          uint32_t choice, kt_error *err) KT_CHECKED;
/* Before its first token. The constraint outlives the answer. */
kt_status kt__answer_hold(kt__answer *answer, kt__constraint *constraint, bool finish_within,
                          kt_error *err) KT_CHECKED;
/* From now on its text is split. The conversation outlives it. */
kt_status kt__answer_split(kt__answer *answer, const kt__conversation *conversation,
                           const kt_request_params *request, uint64_t id_seed,
                           kt_error *err) KT_CHECKED;
void kt__answer_free(kt__answer *answer);
/* A token of the prompt. */
void kt__answer_accept(kt__answer *answer, int32_t id);
/* Draws the token that will take position; it counts as accepted. */
kt_status kt__answer_sample(kt__answer *answer, const float *logits, uint64_t position, int32_t *id,
                            kt_error *err) KT_CHECKED;
/* Logarithms of the probabilities that token id was just drawn from: id's own in out[0], then the n most probable
 * ones (id -1: there are fewer). Before the next token is drawn by any answer. */
void kt__answer_probs(const kt__answer *answer, int32_t id, kt_logprob *out, int n);
/* The token's text into `text`; finish where it ends the answer. */
kt_status kt__answer_push(kt__answer *answer, int32_t id, kt_error *err) KT_CHECKED;
/* The answer is over for the given reason (unless what was held back says otherwise): the rest of
 * its text is appended to `text`. */
kt_status kt__answer_end(kt__answer *answer, kt_finish finish, kt_error *err) KT_CHECKED;
/* `text` and its length, or the content and all parts of a split one; KT_E_LIMIT where a token
 * released too much. */
kt_status kt__answer_text(const kt__answer *answer, kt_event *out, kt_error *err) KT_CHECKED;

/* Log-probabilities of tokens under the model alone, by the contract's own arithmetic. Any thread. */

/* out[0]: of id. out[1..n]: the n most probable (ties: the lowest id first), -1 where there are not
 * so many. */
void kt__logprobs(const float *logits, int32_t n_vocab, int32_t id, kt_logprob *out, int n);

/* The logit that makes id's share (1 - weight) p + weight, 0 < weight < 1, where all others stay: the
 * rest is (1 - weight) of what it was then. */
float kt__mixed_logit(const float *logits, int32_t n_vocab, int32_t id, double weight);

#endif
