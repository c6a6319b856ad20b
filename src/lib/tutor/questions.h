/* The questions of a lesson besides those that were corrected, and what a model answers to them.
 *
 * Owns: asking the model for its lessons; other wordings of a question, by rule; questions close to corrected ones,
 * which are to be answered as before; and those that the model writes itself when it knows a correction. One thread a
 * lesson; besides others that use the engine, or driving it where no thread does. */
#ifndef KT_TUTOR_QUESTIONS_H
#define KT_TUTOR_QUESTIONS_H

#include "bank/words.h"
#include "tutor/lesson.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a model writes after given tokens: requests of low priority, which wait where the queue is full. */

enum { KT__ANSWER_MAX = 160 /* tokens */ };

/* out[*n_out], at most cap: the tokens that follow ids[n], to the end of turn, which is not among them; *ended: there
 * was one. KT_E_CANCELLED. */
kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) KT_CHECKED;
/* A prompt and its likeliest answer, the end of turn included. */
typedef struct kt__ask {
    int32_t *ids; /* [n], for kt__free */
    size_t n;
    bool may_be_cut; /* an answer that does not come to an end counts, without one */
    int32_t answer[KT__ANSWER_MAX + 1];
    size_t n_answer; /* 0: it says nothing, or does not come to an end */
} kt__ask;

enum { KT__ASKS_AT_ONCE = 16 };
/* The answers to asks[n], at most KT__ASKS_AT_ONCE, by the model alone. KT_E_CANCELLED. */
kt_status kt__asked_all(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                        kt_error *err) KT_CHECKED;
/* The same at random, of at most cap tokens; the seed counts up with them. */
kt_status kt__asked_drawn(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                          float temperature, uint64_t seed, size_t cap, kt_error *err) KT_CHECKED;
/* The likeliest answer to prompt[n], of the model alone, as a sample that is to stay; none where it says nothing. */
kt_status kt__asked_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                        const int32_t *prompt, size_t n, kt__sample_use use,
                        kt_error *err) KT_CHECKED;

/* Other wordings: a question with words around it that do not change its meaning, so that what was taught of it can
 * be trained in some wordings and measured in one that was not; by rule, in English and Indonesian, of other
 * languages by case and punctuation alone. Computes no model. */

/* Each of the lesson's samples of feedback that answers a question in the template's own form gets up to n_trained
 * wordings that are trained and one that is measured, with the same answer. */
kt_status kt__wordings_add(kt__lesson *lesson, const kt_model *model, int n_trained, uint64_t seed,
                           kt_error *err) KT_CHECKED;

/* A question in fewer words and another order.
 *
 * Owns: what stays of it: the words that say what it is about, together; of the others some, at random by a number.
 * Of no language, but of those that put blanks between words. Any thread. */

/* To out[size]; the subject is question[at, at + len). false: it does not fit, or is as it was. */
bool kt__rewrite_question(const char *question, size_t at, size_t len, uint64_t number, char *out,
                          size_t size);

/* What a correction is about, as its question has it.
 *
 * Owns: finding these words in a question. Any thread; an arena a caller. */

enum { KT__PHRASE_BYTES = 96 };

/* Where a word of text begins, whatever its case; NULL: nowhere as it is written there. */
const char *kt__phrase_word(const char *text, const kt__word *word);
/* The part of a question from the first to the last word that says what it is about and is in the answer, too: *begin
 * and *len in question. false: there is none, or it is longer than KT__PHRASE_BYTES. */
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
 * each with the base's own answer. Some are only measured: does what was taught come into them? Others are trained, so
 * that it does not. One thread a lesson. */

/* Of the lesson's corrections that answer a question in the template's own form and have a subject, at most own->n that
 * are measured or trained, as use says. */
kt_status kt__siblings_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                           kt__sample_use use, kt_error *err) KT_CHECKED;

/* Questions close to corrected ones, with the model's own answers, which are to stay. The model itself continues from
 * the first half of a corrected question, at random, and answers what comes out; a question that was corrected is
 * left out. */

/* Adds about `each` neighbours for each correction among the lesson's samples so far that is the
 * first question of a conversation, at most own->n in all. */
kt_status kt__near_add(kt__lesson *lesson, kt_engine *engine, int each, const kt__lesson_own *own,
                       kt_error *err) KT_CHECKED;

/* What a model wrote for its own replay, kept in a file for the next training.
 *
 * Owns: the file `replay` of a folder: conversations of one model, one seed and one number. It has
 * nothing of any user. A file of another model, another number, or a damaged one is written anew.
 * Any thread. */

/* Adds them to the lesson: from the folder where they are there, else written by the model, and kept.
 * A file that cannot be written is no error: the next training writes them again. */
kt_status kt__own_replay_add(kt__lesson *lesson, kt_engine *engine, const char *dir,
                             const kt__lesson_own *own, kt_error *err) KT_CHECKED;
/* The bytes of such a file into a lesson; false, with the lesson as it was, where they are none, of
 * another binding[KT__OWN_REPLAY_BINDING], or damaged. n_vocab: ids are below it. *done: how many of them were
 * tried to be written by then. */
enum { KT__OWN_REPLAY_BINDING = KT_FINGERPRINT_BYTES + 16 };
bool kt__own_replay_read(kt__lesson *lesson, const uint8_t *binding, const void *data, size_t n,
                         uint32_t n_vocab, int *done);

/* Context distillation: what a model knows with a correction as a note in its prompt it is to know without. The
 * questions are those that the model itself writes after the note, and the corrected one in fewer words; each is
 * trained to what the model answers with the note: the correction, where it gives that, else what it says without. So
 * the model itself separates other wordings from other questions about the same subject, in any language. */

/* Of the lesson's corrections that answer a question in the template's own form, have a subject, and are given by the
 * model where they are in its prompt. At most 5/2 own->n questions are written for all of them together. */
kt_status kt__distil_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                         kt_error *err) KT_CHECKED;

#endif
