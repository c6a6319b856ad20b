/* Which tokens may follow a text.
 *
 * Owns: the set of tokens that a state leaves, for a prepared vocabulary: exactly those that
 * kt__grammar_feed takes. The common states are quick: within a string without limits the tokens
 * are known beforehand but for those that end it; what strings of a pattern take, and sets that took
 * long, are kept in a small cache. As a constraint: one user at a time. */
#ifndef KT_GRAMMAR_MASK_H
#define KT_GRAMMAR_MASK_H

#include "grammar/grammar_types.h"
#include "grammar/vocab.h"

/* Takes the memory that masks of this vocabulary need (about 32 sets of tokens); the vocabulary
 * outlives the constraint. Before the first mask. */
kt_status KT_CHECKED kt__gmask_attach(kt__grammar *grammar, const kt__gvocab *vocab, kt_error *err);
/* bits[vocab->n_words]: bit id % 64 of word id / 64 is set where the token may follow; of a
 * member's name of any text that comes near KT__GRAMMAR_NAME_BYTES only what ends it. KT_E_LIMIT: the
 * constraint is out of memory or steps. */
kt_status KT_CHECKED kt__gmask_fill(kt__grammar *grammar, const kt__gstate *state, uint64_t *bits,
                                    kt_error *err);

#endif
