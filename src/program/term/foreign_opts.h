/* Options of other engines' command lines that have nothing to do here.
 *
 * Owns: their table, and the one line that names those that were given. For commands whose command
 * lines people bring along. One thread. */
#ifndef KT_TERM_FOREIGN_OPTS_H
#define KT_TERM_FOREIGN_OPTS_H

#include "term/options.h"

typedef struct kt__foreign_opts {
    const char *gpu_layers;
    bool flash_attention, jinja, no_warmup, cont_batching;
} kt__foreign_opts;

kt__opt_group kt__foreign_opts_group(kt__foreign_opts *opts);
/* To standard error; nothing where none was given. */
void kt__foreign_opts_note(const kt__foreign_opts *opts);

#endif
