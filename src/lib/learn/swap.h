/* Answers given to other questions: does an adapter know which answer belongs to which question?
 *
 * Owns: the pairing of held-out samples with one another's answers. An adapter that was trained on
 * answers without a bearing on their questions predicts either as well. Threads: as learn.h says. */
#ifndef KT_LEARN_SWAP_H
#define KT_LEARN_SWAP_H

#include "learn/learner.h"

/* Of n samples list[n] that shall be likely: gain[i] = loss of another's answer - loss of its own,
 * and n_tok[i] tokens of each, beside one another for *n_pair pairs; 0 where all answers are the
 * same. seed: which others. scores: of their own answers, as kt__learner_score. */
kt_status kt__swap_measure(kt__learner *learner, const kt__factors *factors,
                           const kt__sample *samples, const size_t *list, size_t n, uint64_t seed,
                           const kt__sample_score *scores, double *gain, double *n_tok,
                           size_t *n_pair, kt_error *err) KT_CHECKED;

#endif
