/* What was taught, by hidden states: the exact memory.
 *
 * Owns: kt_recall: blocks of pairs, one a source, shared between the recalls that have them; the
 * search for the nearest, what it changes in a row of logits, and how often a source did. Immutable
 * once made but for that, counted; any thread. The search allocates nothing. */
#ifndef KT_ANSWER_RECALL_H
#define KT_ANSWER_RECALL_H

#include "context/types.h"

/* A change of one logit, to be taken back. */
typedef struct kt__recall_change {
    int32_t id; /* -1: none */
    float logit;
} kt__recall_change;

/* key[d] of a hidden state; zeros of one that is zero or not finite. */
void kt__recall_key(const float *hidden, int32_t d, int8_t *key);
/* The nearest pair to key changes its token's logit in logits[n_vocab]. */
kt__recall_change kt__recall_mix(const kt_recall *recall, const int8_t *key, float *logits);
/* Takes it back. */
void kt__recall_undo(kt__recall_change change, float *logits);
bool kt__recall_is_of(const kt_recall *recall, const kt_model *model);

#endif
