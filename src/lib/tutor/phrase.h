/* What a correction is about, as its question has it.
 *
 * Owns: finding these words in a question. Any thread; an arena a caller. */
#ifndef KT_TUTOR_PHRASE_H
#define KT_TUTOR_PHRASE_H

#include "bank/words.h"

enum { KT__PHRASE_BYTES = 96 };

/* Where a word of text begins, whatever its case; NULL: nowhere as it is written there. */
const char *kt__phrase_word(const char *text, const kt__word *word);
/* The part of a question from the first to the last word that says what it is about and is in the answer, too: *begin and
 * *len in question. false: there is none, or it is longer than KT__PHRASE_BYTES. */
bool kt__phrase_find(kt__arena *arena, const char *question, const char *answer, size_t *begin,
                     size_t *len);

#endif
