/* Proposals for answers: what a constraint most likely has next, else from their own tokens, else from the draft
 * model or the model's own block, as many as pay.
 *
 * Owns: what speculation has measured on an engine (the cost of steps by their rows, how proposals
 * of its answers turned out) and its draft model. Submitted requests and answers over sequences
 * both ask here (spec.h and draft.h say how proposals come about). With the engine's turn. No
 * allocation after creation. */
#ifndef KT_REQUESTS_SPECULATOR_H
#define KT_REQUESTS_SPECULATOR_H

#include "answer/spec.h"
#include "requests/draft.h"

typedef struct kt__speculator kt__speculator;

kt_status kt__speculator_create(kt_engine *engine, kt__speculator **out, kt_error *err) KT_CHECKED;
void kt__speculator_destroy(kt__speculator *speculator);
/* Every proposal is verified, whatever it costs. For tests. */
void kt__speculator_set_eager(kt__speculator *speculator, bool eager);

enum { KT__FORCED_MAX = 16 };

/* An answer's proposals for the step at hand, and how earlier ones turned out. */
typedef struct kt__proposals {
    kt__spec_state spec;
    int32_t ids[KT__DRAFTS_MAX];
    int n, match; /* their number; by n-grams: the match, else 0 */
    /* what a constraint most likely has next; set before a step by the answer's owner */
    int32_t forced[KT__FORCED_MAX];
    int n_forced;
    int32_t n_tok;   /* tokens that were known when they were made */
    int32_t n_first; /* and for the answer's first step */
    bool asked;      /* the draft model was */
} kt__proposals;

/* An answer begins as the engine's other answers went. */
void kt__proposals_init(const kt__speculator *speculator, kt__proposals *out);

typedef struct kt__draft_slot {
    kt__proposals *to;
    kt__draft_seq *draft_seq;
    kt__kv_table *table;   /* the answer's own pages */
    const int32_t *tokens; /* [n_tok], the last of them not computed yet */
    int32_t n_tok;
    int32_t n_left; /* that may come, at most */
    int most;       /* proposals that the answer has room for */
} kt__draft_slot;

/* Proposals for asks[n], n being the answers of a step that takes rows_max rows. */
void kt__speculate(kt__speculator *speculator, const kt__draft_slot *asks, int n, int rows_max);
/* What a step with some number of rows took. new_memory: it may be the first that wrote into some, which
 * says nothing of the next. */
void kt__speculator_measure(kt__speculator *speculator, int rows, int64_t us, bool new_memory);
/* Of the proposals the first n_verified were, in a step that came out, and the first n_accepted of
 * these were right. */
void kt__speculator_learn(kt__speculator *speculator, kt__proposals *made, kt__draft_seq *draft_seq,
                          int n_verified, int n_accepted);
/* What the draft model has of an answer: nothing beyond n_keep tokens. */
void kt__speculator_trim(kt__speculator *speculator, kt__draft_seq *draft_seq, int64_t n_keep);

#endif
