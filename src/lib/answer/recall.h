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
    uint64_t source; /* of the pair */
} kt__recall_change;

/* key[d] of a hidden state; zeros of one that is zero or not finite. */
void kt__recall_key(const float *hidden, int32_t d, int8_t *key);
/* The entries of a bank that a conversation opens: of pairs that are scoped, only these are recalled. */
typedef struct kt__recall_scope {
    const uint64_t *opened; /* [n] */
    size_t n;
    bool known; /* false: the request has no bank, and all are */
} kt__recall_scope;

/* The nearest pair to key changes its token's logit in logits[n_vocab]. */
kt__recall_change kt__recall_mix(const kt_recall *recall, const kt__recall_scope *scope,
                                 const int8_t *key, float *logits);
/* The same by what the answer was so far, said[n]: as long as these are the first ids of a source's pairs, its
 * next one. */
kt__recall_change kt__recall_continue(const kt_recall *recall, uint64_t source, const int32_t *said,
                                      size_t n, float *logits);
/* The same where that token does no more than end a word that was begun. */
kt__recall_change kt__recall_end_word(const kt_recall *recall, uint64_t source, const int32_t *said,
                                      size_t n, float *logits);
/* A token that is to be said: a change without a source. */
kt__recall_change kt__recall_certain(int32_t id, int32_t n_vocab, float *logits);
/* Takes it back. */
void kt__recall_undo(kt__recall_change change, float *logits);
bool kt__recall_is_of(const kt_recall *recall, const kt_model *model);

#endif
