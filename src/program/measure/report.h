/* Reports: --report FILE.html, the option, the file and the page.
 *
 * Owns: the option of all commands that write reports, the command line as it was typed, whether the file can be
 * written, its appearance as a whole; and a page's order and looks. One thread. */
#ifndef KT_MEASURE_REPORT_H
#define KT_MEASURE_REPORT_H

#include "base/buf.h"
#include "measure/plot.h"
#include "term/options.h"

#include <kentang.h>
#include <stddef.h>

/* --report FILE.html: the option, and the file.
 *
 * The option of all commands that write reports, the command line as it was typed, whether the file can be written,
 * which is asked before anything is measured, and its appearance as a whole. Knows no content (report.h). One
 * thread. */

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

/* A report: plots, tables, and how they came about, as one page of HTML without scripts.
 *
 * The page's order and looks (light, dark, print, narrow), its tables, and what it says of the command and the
 * machine. A command calls begin, then plots, then tables, then finish. Nothing fails in between: what went wrong
 * with the buffer shows at the end. One thread. */

enum { KT__REPORT_MAX_BYTES = 64 << 20 };

typedef struct kt__report {
    const kt__report_opts *opts;
    kt__buf out;
    int n_plots, n_tables;
    const char *const *columns; /* of the table that is written */
    int n_columns, column;
} kt__report;

/* Title: what was measured; the summary: its result in a sentence or two. */
void kt__report_begin(kt__report *r, const kt__report_opts *opts, const char *title,
                      const char *summary);
void kt__report_plot(kt__report *r, const kt__plot *plot);
void kt__report_bars(kt__report *r, const kt__bar_plot *plot);

/* Columns outlive the table; a name that begins with "<" is one of words, which begin at the left.
 * Each row takes as many cells as there are columns; its first one names it. */
void kt__report_table(kt__report *r, const char *caption, const char *const *columns,
                      int n_columns);
void kt__report_text(kt__report *r, const char *text);
void kt__report_cell(kt__report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kt__report_number(kt__report *r, double value, int digits); /* "-": not finite */
void kt__report_table_end(kt__report *r);
/* A paragraph after the plots or the tables. */
void kt__report_note(kt__report *r, const char *text);

/* Writes the file; isa: the tier of the kernels, or NULL. The report is gone afterwards. */
kt_status KT_CHECKED kt__report_finish(kt__report *r, const char *isa, kt_error *err);

/* What a report says of the machine besides what it measured.
 *
 * Owns: how transparent huge pages are set, the system's name, and which revision of the sources the
 * program is made of. Any thread. */

/* "always", "madvise" or "never"; "" where the system has no such pages. */
void kt__machine_thp(char *out, size_t size);
/* "Linux 6.1.0 x86_64" */
void kt__machine_system(char *out, size_t size);
/* "0b2d2740c1aa", "0b2d2740c1aa with changes", or "" where the sources were no checkout. */
const char *kt__machine_revision(void);

#endif
