/* llama-server's options that say what requests have which do not say it themselves.
 *
 * Owns: their table, and their values as members of a request: the setting `request_defaults`. For
 * `kentang serve`. One thread. */
#ifndef KT_SETUP_REQUEST_OPTS_H
#define KT_SETUP_REQUEST_OPTS_H

#include "setup/config.h"
#include "term/options.h"

typedef struct kt__request_opts {
    struct json_t *members; /* NULL: none was given */
    const char *samplers;   /* --sampler-seq as the setting `samplers` has it; or NULL */
    char words[128];        /* its text */
} kt__request_opts;

kt__opt_group kt__request_opts_group(kt__request_opts *opts);
void kt__request_opts_free(kt__request_opts *opts);
/* Into the settings, over what the file says of the same members. */
kt_status KT_CHECKED kt__request_opts_apply(const kt__request_opts *opts, kt__config *config,
                                            kt_error *err);

#endif
