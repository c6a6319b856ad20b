/* Files of feedback as lessons.
 *
 * Owns: the form of their lines. One thread. */
#ifndef KT_MAKE_LESSON_FILE_H
#define KT_MAKE_LESSON_FILE_H

#include "tutor/lesson.h"

/* A JSON object a line: "messages" (the last may be the answer) or "prompt", and "correction",
 * "answer" with "rating" ("up", "down") or without (it shall be learned), or "keep": true (an
 * answer that shall stay as it is; without one, the model's own answer). Besides "conversation" (a
 * name: lines that belong together), "weight" and "earlier". A question alone is "keep". Errors
 * name the line. */
kt_status kt__lesson_read(kt__lesson *lesson, kt_engine *engine, const char *path,
                          kt_error *err) KT_CHECKED;
/* The same of text in memory; path: for errors. */
kt_status kt__lesson_read_text(kt__lesson *lesson, kt_engine *engine, const char *path,
                               const char *text, kt_error *err) KT_CHECKED;

#endif
