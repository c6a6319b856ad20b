/* Options of the sampler chain and of what ends an answer, for every command that generates.
 *
 * Owns: their table and the kt_gen_params made from them. One thread. */
#ifndef KT_SETUP_ANSWER_OPTS_H
#define KT_SETUP_ANSWER_OPTS_H

#include <kentang.h>

#include "term/options.h"

typedef struct kt__sampling_opts {
    kt_gen_params params; /* what can be read directly; complete after kt__sampling_opts_finish */
    bool greedy;
    kt__opt_texts stop, breakers, bias;
    kt_logit_bias *bias_items; /* heap */
} kt__sampling_opts;

kt__sampling_opts kt__sampling_opts_default(void);
void kt__sampling_opts_free(kt__sampling_opts *opts);
kt__opt_group kt__sampling_opts_group(kt__sampling_opts *opts);
/* -n */
kt__opt_group kt__sampling_opts_length_group(kt__sampling_opts *opts);
/* Completes opts->params, which then points into opts. */
kt_status KT_CHECKED kt__sampling_opts_finish(kt__sampling_opts *opts, kt_error *err);

/* Options of what an answer is held to.
 *
 * Owns: their table, the files that they name, and the kt_constraint made from them. One thread. */

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
