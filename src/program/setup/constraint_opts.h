/* Options of what an answer is held to.
 *
 * Owns: their table, the files that they name, and the kt_constraint made from them. One thread. */
#ifndef KT_SETUP_CONSTRAINT_OPTS_H
#define KT_SETUP_CONSTRAINT_OPTS_H

#include <kentang.h>

#include "term/options.h"

typedef struct kt__constraint_opts {
    const char *schema, *grammar, *regex;
    kt__opt_texts choices;
    bool compact;
    kt_form form;
    char *text; /* heap: a file's */
} kt__constraint_opts;

kt__opt_group kt__constraint_opts_group(kt__constraint_opts *opts);
/* Reads the file. *out points into opts; all zeros where nothing was asked for. */
kt_status KT_CHECKED kt__constraint_opts_finish(kt__constraint_opts *opts, kt_constraint *out,
                                                kt_error *err);
/* An error of the form names the option that gave it. */
void kt__constraint_opts_name_error(const kt__constraint_opts *opts, kt_error *err);
void kt__constraint_opts_free(kt__constraint_opts *opts);

#endif
