/* What a training was made from, kept while it runs, so that it is resumed when its process has ended.
 *
 * Owns: two files in a learner's folder: `training.lesson`, the samples that the model has written for it, bound to
 * those that feedback gave and to the settings; and `training.state`, of learn/resume.h. Both have what users wrote
 * in them, and go with the first of: the training's end, a feedback that is deleted, the namespace. One training at a
 * time. */
#ifndef KT_TUTOR_KEPT_LESSON_H
#define KT_TUTOR_KEPT_LESSON_H

#include "base/files.h"
#include "tutor/lesson.h"

enum { KT__LESSON_BINDING = 32 };

/* Of the lesson as it is, and of n_own and seed. */
kt_status kt__lesson_bind(const kt__lesson *lesson, const kt_engine *engine, int n_own,
                          uint64_t seed, uint8_t binding[KT__LESSON_BINDING],
                          kt_error *err) KT_CHECKED;
/* The samples after those that the lesson has; false: there are none, and the lesson is as it was. */
bool kt__lesson_read_kept(kt__lesson *lesson, const char *dir, uint32_t n_vocab,
                          const uint8_t binding[KT__LESSON_BINDING]);
/* Those from `first` on. What cannot be written is no error. */
void kt__lesson_keep(const kt__lesson *lesson, size_t first, const char *dir,
                     const uint8_t binding[KT__LESSON_BINDING]);
/* The same from bytes. */
bool kt__lesson_parse(kt__lesson *lesson, uint32_t n_vocab,
                      const uint8_t binding[KT__LESSON_BINDING], const void *data, size_t n);
kt_status kt__lesson_state_path(char path[KT__FILES_PATH_MAX], const char *dir,
                                kt_error *err) KT_CHECKED;
/* Both files. */
void kt__lesson_drop_kept(const char *dir);

#endif
