/* kentang learn, between its files: lines of feedback as lessons, and the report as a page. One thread. */
#ifndef KT_MAKE_LEARN_H
#define KT_MAKE_LEARN_H

#include "learn/report.h"
#include "measure/report.h"
#include "tutor/lesson.h"

/* Files of feedback as lessons.
 *
 * The form of their lines. One thread. */

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

/* What kentang learn trained and what the gate measured, as a page.
 *
 * The losses of a training, step by step, and the page. One thread. */

/* The losses of the steps, as they are taken. */
typedef struct kt__learning_course {
    double *losses; /* [cap], heap; NULL: they are not kept */
    int n, cap;
} kt__learning_course;

typedef struct kt__learning_result {
    const char *model, *lesson, *isa;
    const kt__learn_report *report;
    const kt__learning_course *course;
    const char *measured; /* a file that was measured besides, or NULL */
    double before, after; /* its loss */
    const char *written;  /* the adapter's file; NULL: it was not written */
} kt__learning_result;

/* Nothing without a path. */
kt_status KT_CHECKED kt__learning_write_report(const kt__report_opts *opts,
                                               const kt__learning_result *result, kt_error *err);

#endif
