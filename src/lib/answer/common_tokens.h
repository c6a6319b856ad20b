/* How many of the head's rows a proposal is worth (docs/decisions/speculation.md).
 *
 * Owns: the counts of texts' tokens by parts of the vocabulary, whose tokens are numbered by how common
 * they are, and the choice of its first parts. A token beyond them is a proposal that is wrong.
 *
 * Pure; one user at a time. No allocation. */
#ifndef KT_ANSWER_COMMON_TOKENS_H
#define KT_ANSWER_COMMON_TOKENS_H

#include <stdint.h>

enum { KT__VOCAB_PARTS = 32 }; /* by ids */

typedef struct kt__common_tokens {
    int n_in[KT__VOCAB_PARTS], n_seen;
} kt__common_tokens;

/* tokens[n] of a text, all below n_vocab. */
void kt__common_tokens_count(kt__common_tokens *common, int n_vocab, const int32_t *tokens,
                             int32_t n);
/* The first rows of the head that give the most tokens a second if a proposal is right wherever its
 * token is among them; 0: all. rest, head: the time of a proposal without the head and of all the
 * head, as shares of a step's. */
int kt__common_tokens_rows(const kt__common_tokens *common, int n_vocab, double rest, double head);

#endif
