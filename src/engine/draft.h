/* A draft model: proposals from a smaller model with the same vocabulary.
 *
 * Owns: that model's forward pass and K/V store, how far it has followed each answer, the measured
 * time of its steps, and whether asking it pays. What it proposes is verified like any proposal
 * (spec.h): it can cost time, never change an answer. With the engine's turn. No allocation after
 * creation. */
#ifndef KT_ENGINE_DRAFT_H
#define KT_ENGINE_DRAFT_H

#include "engine/engine.h"
#include "engine/spec.h"

typedef struct kt__draft kt__draft;

/* How far the draft model has followed an answer: K/V of positions [0, n_done). */
typedef struct kt__draft_seq {
    kt__kv_table table;
    int32_t n_done;
    double right; /* share of its proposals that were right */
} kt__draft_seq;

/* KT_E_ARG where the vocabularies differ or the model belongs to another context. */
kt_status kt__draft_check(const kt_model *model, const kt_model *draft, kt_error *err) KT_CHECKED;
uint64_t kt__draft_plan_bytes(const kt_model *draft, const kt_engine_params *resolved);
kt_status kt__draft_create(kt_engine *engine, kt__draft **out, kt_error *err) KT_CHECKED;
void kt__draft_destroy(kt__draft *draft);

kt_status kt__draft_seq_init(const kt_engine *engine, kt__draft_seq *seq, kt_error *err) KT_CHECKED;
/* Its pages; the table's memory with kt__free(table.pages). */
void kt__draft_seq_drop(kt__draft *draft, kt__draft_seq *seq);

/* One answer that wants proposals. */
typedef struct kt__draft_ask {
    kt__draft_seq *seq;
    const int32_t *tokens;
    int32_t n_tok;
    int most;     /* proposals that may be used */
    int32_t *ids; /* [most] out */
    int n;        /* out */
} kt__draft_ask;

/* Proposals for asks[n], as many as pay: `rows` are in the verifying step without them, and bring
 * `tokens`. An answer that the draft model has not followed yet gets none until it has, some rows a
 * step. */
void kt__draft_propose(kt__draft *draft, kt__draft_ask *asks, int n, const kt__spec_costs *costs,
                       int rows, double tokens, bool eager);
/* What became of it: n_tok tokens were known when it was asked, n_drafted were verified, the first
 * n_accepted were right. */
void kt__draft_learn(kt__draft *draft, kt__draft_seq *seq, int32_t n_tok, int n_drafted,
                     int n_accepted);

#endif
