/* Questions close to corrected ones, with the model's own answers: what shall not change along with
 * what is taught.
 *
 * Owns: how they are found. The model itself continues from the first half of a corrected question,
 * at random, and answers what comes out; where that is a question that was corrected, it is left
 * out. Threads: as lesson.h says. */
#ifndef KT_TUTOR_OWN_ANSWERS_H
#define KT_TUTOR_OWN_ANSWERS_H

#include "tutor/lesson.h"

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
 * another binding[KT__OWN_REPLAY_BINDING], or damaged. n_vocab: ids are below it. */
enum { KT__OWN_REPLAY_BINDING = KT_FINGERPRINT_BYTES + 16 };
bool kt__own_replay_read(kt__lesson *lesson, const uint8_t *binding, const void *data, size_t n,
                         uint32_t n_vocab);

#endif
