/* What kentang learn trained and what the gate measured, as a page.
 *
 * Owns: the losses of a training, step by step, and the page. One thread. */
#ifndef KT_MAKE_LEARNING_REPORT_H
#define KT_MAKE_LEARNING_REPORT_H

#include "learn/report.h"
#include "measure/report_file.h"

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
