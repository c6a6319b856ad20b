/* What a question asks for: where, when, who, how much.
 *
 * Owns: the words for that, English and Indonesian. A pure function of the text; any thread. */
#ifndef KT_TUTOR_ASKING_WORD_H
#define KT_TUTOR_ASKING_WORD_H

#include <stdint.h>

/* The same number for questions that ask for the same kind of thing; 0: nothing in the text says which. */
uint64_t kt__asking_word(const char *text);

#endif
