/* Context distillation: what a model knows with a correction as a note in its prompt it shall know without.
 *
 * Owns: the questions for that: those that the model itself writes after the note, and the corrected one in fewer words;
 * and what each is trained to, as the model answers it with the note: the correction, where it gives that; else what it
 * says without. So the model itself tells other wordings from other questions about the same subject, in any language.
 * One thread a lesson; besides others that use the engine, or driving it where no thread does. */
#ifndef KT_TUTOR_DISTIL_H
#define KT_TUTOR_DISTIL_H

#include "tutor/lesson.h"

/* Of the lesson's corrections that answer a question in the template's own form, have a subject, and are given by the model
 * where they are in its prompt. At most 5/2 own->n questions are written for all of them together. */
kt_status kt__distil_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                         kt_error *err) KT_CHECKED;

#endif
