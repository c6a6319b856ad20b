/* Questions close to corrected ones, with the model's own answers: what shall not change along with
 * what is taught.
 *
 * Owns: how they are found. The model itself continues from the first half of a corrected question,
 * at random, and answers what comes out; where that is a question that was corrected, it is left
 * out. Threads: as lesson.h says. */
#ifndef KT_TUTOR_NEAR_H
#define KT_TUTOR_NEAR_H

#include "tutor/lesson.h"

/* Adds about `each` neighbours for each correction among the lesson's samples so far that is the
 * first question of a conversation, at most own->n in all. */
kt_status kt__near_add(kt__lesson *lesson, kt_engine *engine, int each, const kt__lesson_own *own,
                       kt_error *err) KT_CHECKED;

#endif
