/* The instant loop: one step of an adapter of rank 1 or 2 on the final hidden state, at a feedback.
 *
 * Owns: the adapter's values, how much each mattered to earlier feedback (its Fisher information), and the step. The
 * hidden states of the right answer are given, as keys, so that nothing is computed of the model but the logits of
 * some tokens: those of the right answer, of the answer that the model gave instead, and a few others. The softmax is
 * over these alone: what else the model might have said is not pushed down. Knows no files, no users.
 *
 * A step is a pure function of the values before it and of the lesson, in an order of sums that no tier changes
 * (docs/NUMERICS.md), so that a version's adapter is the same whether it was made step by step or again from the
 * journal. Computes on the calling thread; one user at a time. */
#ifndef KT_LEARN_INSTANT_H
#define KT_LEARN_INSTANT_H

#include "learn/factors.h"

enum { KT__INSTANT_RANK = 2, KT__INSTANT_TOKENS = 32, KT__INSTANT_CANDIDATES = 96 };

typedef struct kt__instant kt__instant;

typedef struct kt__instant_params {
    float
        rate; /* a step moves the adapter's values by this much, as a mean over the hidden state's numbers */
    float ewc; /* how much less a value moves that mattered to earlier feedback; 0: no less */
} kt__instant_params;

/* What is learned at a feedback: keys as kt_recall_keys writes them. */
typedef struct kt__instant_lesson {
    uint64_t id;        /* of the feedback: which other tokens are compared with */
    const int8_t *keys; /* [n][d_model] of the states after which ids[n] are right; */
    const int32_t *ids; /* the first KT__INSTANT_TOKENS count */
    size_t n;
    const int32_t *said; /* [n_said] the answer that the model gave */
    size_t n_said;
} kt__instant_lesson;

/* It adds nothing yet. KT_E_UNSUPPORTED: an architecture that cannot be trained, or whose last norm subtracts a
 * mean. */
kt_status kt__instant_open(const kt__net *net, const kt__kernels *kernels,
                           const kt__instant_params *params, kt__instant **out,
                           kt_error *err) KT_CHECKED;
void kt__instant_close(kt__instant *instant); /* NULL allowed */
/* Takes the step; false: its numbers are not finite, or nothing is to be learned, and nothing was changed. */
bool kt__instant_step(kt__instant *instant, const kt__instant_lesson *lesson);
int kt__instant_n_step(const kt__instant *instant);
/* Nats a token over the candidates, of the last step's lesson before it. */
double kt__instant_loss(const kt__instant *instant);
/* The adapter as it is now; it is written anew at the next call. */
const kt__factors *kt__instant_factors(kt__instant *instant);

#endif
