/* Other wordings of what was asked.
 *
 * Owns: a question with words around it that leave it what it is, so that what was taught of it can be trained in some
 * wordings and measured in one that was not; by rule, in English and Indonesian, of other languages by case and
 * punctuation alone. Computes no model. One thread a lesson. */
#ifndef KT_TUTOR_QUESTIONS_H
#define KT_TUTOR_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bank/words.h"
#include "tutor/lesson.h"

/* Each of the lesson's samples of feedback that answers a question in the template's own form gets up to n_trained
 * wordings that are trained and one that is measured, with the same answer. */
kt_status kt__wordings_add(kt__lesson *lesson, const kt_model *model, int n_trained, uint64_t seed,
                           kt_error *err) KT_CHECKED;

/* A question in fewer words and another order.
 *
 * Owns: what stays of it: the words that say what it is about, together; of the others some, at random by a number. Of no
 * language, but of those that put blanks between words. Any thread. */

/* To out[size]; the subject is question[at, at + len). false: it does not fit, or is as it was. */
bool kt__rewrite_question(const char *question, size_t at, size_t len, uint64_t number, char *out,
                          size_t size);

/* What a correction is about, as its question has it.
 *
 * Owns: finding these words in a question. Any thread; an arena a caller. */

enum { KT__PHRASE_BYTES = 96 };

/* Where a word of text begins, whatever its case; NULL: nowhere as it is written there. */
const char *kt__phrase_word(const char *text, const kt__word *word);
/* The part of a question from the first to the last word that says what it is about and is in the answer, too: *begin and
 * *len in question. false: there is none, or it is longer than KT__PHRASE_BYTES. */
bool kt__phrase_find(kt__arena *arena, const char *question, const char *answer, size_t *begin,
                     size_t *len);

/* What a question asks for: where, when, who, how much.
 *
 * Owns: the words for that, English and Indonesian. A pure function of the text; any thread. */

/* The same number for questions that ask for the same kind of thing; 0: nothing in the text says which. */
uint64_t kt__asking_word(const char *text);

/* Other questions about what was corrected.
 *
 * Owns: questions by rule about a correction's subject, in English and Indonesian, that the correction does not answer,
 * each with the base's own answer. They are only measured: does what was taught come into them? One thread a lesson. */

/* Of the lesson's corrections that answer a question in the template's own form and have a subject, at most own->n. */
kt_status kt__siblings_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                           kt_error *err) KT_CHECKED;

#endif
