/* Drafts: proposals from a smaller model with the same vocabulary, or from the model's own block or
 * its assistant (draft.h).
 *
 * Owns: the smaller model's forward pass and K/V store, and how far it has followed each answer. Whether
 * drafts pay is up to spec.h. What it proposes is verified like any proposal (spec.h): it can
 * cost time, never change an answer. With the engine's turn. No allocation after creation. */
#ifndef KT_REQUESTS_DRAFT_H
#define KT_REQUESTS_DRAFT_H

#include "answer/spec.h"
#include "context/types.h"

/* One answer that wants proposals. Types only. */

typedef struct kt__draft_ask {
    kt__draft_seq *seq;
    kt__kv_table *table; /* the answer's own pages */
    const int32_t *tokens;
    int32_t n_tok, n_got, n_left; /* known; of these, of the answer; that may come at most */
    int most;                     /* proposals that may be used */
    int32_t *ids;                 /* [most] out */
    int n;                        /* out */
    bool ready; /* who proposes sets it: the answer's text is followed up to its end */
} kt__draft_ask;

typedef struct kt__draft kt__draft;

/* KT_E_ARG where the vocabularies differ, the model belongs to another context or is the assistant of
 * another model. */
kt_status kt__draft_check(const kt_model *model, const kt_model *draft, kt_error *err) KT_CHECKED;
/* Of resolved->draft. */
uint64_t kt__draft_plan_bytes(const kt_model *model, const kt_engine_params *resolved);
kt_status kt__draft_create(kt_engine *engine, kt__draft **out, kt_error *err) KT_CHECKED;
void kt__draft_destroy(kt__draft *draft);

kt_status kt__draft_seq_init(const kt_engine *engine, kt__draft_seq *seq, kt_error *err) KT_CHECKED;
void kt__draft_seq_free(kt__draft_seq *seq); /* after a trim to 0 */
/* What was followed beyond the first n_keep tokens is forgotten, its pages given back. */
void kt__draft_seq_trim(kt__draft *draft, kt__draft_seq *seq, int64_t n_keep);

/* Proposals for asks[n], as many as pay. An answer that the draft model has not followed gets none
 * until it has: where that pays, some rows a step, of as much of the text's end as pays. eager: all
 * is followed at once and asked. */
void kt__draft_propose(kt__draft *draft, kt__draft_ask *asks, int n, const kt__draft_step *step,
                       bool eager);
/* A step of the model took so long. */
void kt__draft_stepped(kt__draft *draft, int64_t us);
/* What became of it: n_tok tokens were known when it was asked, n_drafted were verified, the first
 * n_accepted were right. */
void kt__draft_learn(kt__draft *draft, kt__draft_seq *seq, int32_t n_tok, int n_drafted,
                     int n_accepted);

/* Proposals of the model's own block (model/fwd_steps.h) or its assistant (model/fwd_steps.h).
 *
 * Owns: the batches that it runs for that, and an assistant's forward pass. A block's keys and values
 * lie in the answers' own pages and are kept up with them; here it continues, a token of each answer at
 * a time, on positions whose keys and values the step that verifies writes again. An assistant reads
 * those pages at the position that comes next, for every proposal. With the engine's turn. No
 * allocation after creation. */

typedef struct kt__draft_block kt__draft_block;

kt_status kt__draft_block_create(kt_engine *engine, kt__draft_block **out,
                                 kt_error *err) KT_CHECKED;
void kt__draft_block_destroy(kt__draft_block *block);
/* The bytes that a proposal reads, as a share of a step's. */
double kt__draft_block_size(const kt_engine *engine);
/* Of the assistant resolved->draft, without its weights. */
uint64_t kt__draft_block_plan_bytes(const kt_model *model, const kt_engine_params *resolved);
/* Whether the state before an answer's last token is known. */
bool kt__draft_block_knows(const kt__draft_ask *ask);
/* k proposals, or fewer, for each of the asks[n] that are ready. Returns how many each got. */
int kt__draft_block_propose(kt__draft_block *block, kt__draft_ask *asks, int n, int k);

#endif
