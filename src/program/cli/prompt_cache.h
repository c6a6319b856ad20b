/* What `kentang run` keeps between two runs: a session file.
 *
 * Owns: --prompt-cache and --prompt-cache-ro. One thread. */
#ifndef KT_CLI_PROMPT_CACHE_H
#define KT_CLI_PROMPT_CACHE_H

#include <kentang.h>

#include "term/options.h"

typedef struct kt__prompt_cache {
    const char *file; /* NULL: none */
    bool read_only;
} kt__prompt_cache;

kt__opt_group kt__prompt_cache_group(kt__prompt_cache *cache);
/* Into seq what the file holds; a file that is not there is an empty one. */
kt_status KT_CHECKED kt__prompt_cache_load(const kt__prompt_cache *cache, kt_seq *seq,
                                           kt_error *err);
/* What seq holds into the file, unless it is read only. */
kt_status KT_CHECKED kt__prompt_cache_keep(const kt__prompt_cache *cache, kt_seq *seq,
                                           kt_error *err);

#endif
