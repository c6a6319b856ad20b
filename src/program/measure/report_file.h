/* --report FILE.html: the option, and the file.
 *
 * Owns: the option of all commands that write reports, the command line as it was typed, whether the
 * file can be written, which is asked before anything is measured, and its appearance as a whole.
 * Knows no content (report_page.h). One thread. */
#ifndef KT_MEASURE_REPORT_FILE_H
#define KT_MEASURE_REPORT_FILE_H

#include <kentang.h>

#include "base/buf.h"
#include "term/options.h"

typedef struct kt__report_opts {
    int argc;
    char **argv;      /* of the command: argv[0] is its name */
    const char *path; /* NULL: no report */
} kt__report_opts;

/* Of a command that was called so; without a path yet. */
kt__report_opts kt__report_opts_of(int argc, char **argv);
kt__opt_group kt__report_opts_group(kt__report_opts *opts);
/* The line to type for the same, in a shell's quotes; keys are left out. */
void kt__report_command(const kt__report_opts *opts, kt__buf *out);

/* KT_OK without a path. KT_E_ARG: no name of a file; KT_E_IO: it cannot be written. */
kt_status KT_CHECKED kt__report_check(const kt__report_opts *opts, kt_error *err);
/* The file is as it was, or has all the bytes. */
kt_status KT_CHECKED kt__report_write(const kt__report_opts *opts, const kt__buf *bytes,
                                      kt_error *err);

#endif
