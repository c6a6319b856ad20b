/* Other wordings of what was asked.
 *
 * Owns: a question with words around it that leave it what it is, so that what was taught of it can be trained in some
 * wordings and measured in one that was not; by rule, in English and Indonesian, of other languages by case and
 * punctuation alone. Computes no model. One thread a lesson. */
#ifndef KT_TUTOR_WORDINGS_H
#define KT_TUTOR_WORDINGS_H

#include "tutor/lesson.h"

/* Each of the lesson's samples of feedback that answers a question in the template's own form gets up to n_trained
 * wordings that are trained and one that is measured, with the same answer. */
kt_status kt__wordings_add(kt__lesson *lesson, const kt_model *model, int n_trained, uint64_t seed,
                           kt_error *err) KT_CHECKED;

#endif
