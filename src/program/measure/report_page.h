/* A report: plots, tables, and how they came about, as one page of HTML without scripts.
 *
 * Owns: the page's order and looks (light, dark, print, narrow), its tables, and what it says of the
 * command and the machine. A command calls begin, then plots, then tables, then finish. Nothing
 * fails in between: what went wrong with the buffer shows at the end. One thread. */
#ifndef KT_MEASURE_REPORT_PAGE_H
#define KT_MEASURE_REPORT_PAGE_H

#include <stddef.h>

#include "measure/plot.h"
#include "measure/report_file.h"

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
