/* What models were worth on a text, as a page.
 *
 * Owns: the plots of perplexity and divergence against size and speed, of a text as it is read, and
 * of how divergences are spread. Used by perplexity and compare. One thread. */
#ifndef KT_MEASURE_QUALITY_REPORT_H
#define KT_MEASURE_QUALITY_REPORT_H

#include "measure/quality.h"
#include "measure/report.h"

/* A model that was judged. */
typedef struct kt__judged_file {
    const char *path, *type;
    uint64_t file_bytes; /* 0: not known */
    const kt__quality_figures *figures;
    bool is_base;                                     /* that others are compared with */
    bool has_divergence;                              /* figures->kl is from it */
    double bits_per_byte, prompt_tok_s, decode_tok_s; /* 0: not measured */
} kt__judged_file;

typedef struct kt__judged_files {
    const char *text, *isa;       /* the file of the text, the kernels */
    const kt__judged_file *items; /* [n] */
    size_t n;
    bool alike;                  /* their tokens are the same: perplexities can be compared */
    const kt__quality *by_token; /* of items[0], with figures made; NULL: not shown */
} kt__judged_files;

/* Nothing without a path. */
kt_status KT_CHECKED kt__quality_write_report(const kt__report_opts *opts,
                                              const kt__judged_files *files, kt_error *err);
/* The same of tasks with choices, n_right of n. */
kt_status KT_CHECKED kt__choices_write_report(const kt__report_opts *opts, const char *model,
                                              const char *tasks, size_t n_right, size_t n,
                                              const char *isa, kt_error *err);

#endif
