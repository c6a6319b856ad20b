/* Other questions about what was corrected.
 *
 * Owns: questions by rule about a correction's subject, in English and Indonesian, that the correction does not answer,
 * each with the base's own answer. They are only measured: does what was taught come into them? One thread a lesson. */
#ifndef KT_TUTOR_SIBLINGS_H
#define KT_TUTOR_SIBLINGS_H

#include "tutor/lesson.h"

/* Of the lesson's corrections that answer a question in the template's own form and have a subject, at most own->n. */
kt_status kt__siblings_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                           kt_error *err) KT_CHECKED;

#endif
