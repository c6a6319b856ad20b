/* Sequences: tokens and pages that outlive the calls that compute them.
 *
 * Owns: kt_seq. A sequence has one user at a time: a task that runs on it borrows its state
 * (kt__seq_lend) and is the only one to touch it until it is given back; every call of kentang.h
 * that would change it meanwhile is refused with KT_E_STATE. */
#ifndef KT_REQUESTS_SEQ_H
#define KT_REQUESTS_SEQ_H

#include "context/work.h"

/* The task of a sequence's evaluations (eval.h): made once, so that they allocate nothing. */
typedef struct kt__eval {
    kt__work work; /* first member */
    kt_seq *seq;
    size_t n_before;   /* positions before the call */
    float *all_logits; /* the caller's, or NULL */
    int *n_left;       /* tasks of the call (kt__inbox_wait_for_call) */
    atomic_bool never; /* cancelled: only kt_engine_cancel ends an evaluation */
} kt__eval;

/* KT_E_STATE: a task runs on it; KT_E_ARG: it belongs to another engine. */
kt_status kt__seq_lend(kt_seq *seq, const kt_engine *engine, kt_error *err) KT_CHECKED;
void kt__seq_unlend(kt_seq *seq);

/* ---- while it is lent ---- */

/* How much of ids[n] seq holds, one short of all at most, so that there is something to compute
 * logits from. Any thread. */
size_t kt__seq_common(const kt_seq *seq, const int32_t *ids, size_t n);
/* The first n_keep positions are kept, and ids[n] will be computed after them. Pages follow with
 * kt__seq_set_end, before anything is computed. Any thread. */
void kt__seq_put_prompt(kt_seq *seq, size_t n_keep, const int32_t *ids, size_t n);
/* With the engine's turn: the logits after n_pos positions; its tokens and pages end there. */
void kt__seq_keep_logits(kt_seq *seq, const float *logits, size_t n_pos);
void kt__seq_set_end(kt_seq *seq, size_t n_pos);
/* The end is set, and the sequence is its owner's again. With the engine's turn. */
void kt__seq_give_back(kt_seq *seq, size_t n_pos);

#endif
