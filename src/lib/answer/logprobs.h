/* Log-probabilities of tokens under the model alone, by the contract's own arithmetic. Any thread.
 */
#ifndef KT_ANSWER_LOGPROBS_H
#define KT_ANSWER_LOGPROBS_H

#include <kentang.h>

/* out[0]: of id. out[1..n]: the n most probable (ties: the lowest id first), -1 where there are not
 * so many. */
void kt__logprobs(const float *logits, int32_t n_vocab, int32_t id, kt_logprob *out, int n);

/* The logit that makes id's share (1 - weight) p + weight, 0 < weight < 1, where all others stay: the
 * rest is (1 - weight) of what it was then. */
float kt__mixed_logit(const float *logits, int32_t n_vocab, int32_t id, double weight);

#endif
