/* What `kentang run` keeps between two runs: a session file, or the disk cache.
 *
 * Owns: --prompt-cache and --prompt-cache-ro, and answering a single prompt through the engine's
 * requests, which the disk cache needs. One thread. */
#ifndef KT_CLI_PROMPT_CACHE_H
#define KT_CLI_PROMPT_CACHE_H

#include <kentang.h>

#include "cli/options.h"

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
/* kt_generate on ids[n] where seq may hold a part of them: the common beginning is kept. */
kt_status KT_CHECKED kt__generate_after(kt_seq *seq, const int32_t *ids, size_t n,
                                        const kt_gen_params *params, kt_text_fn *on_text,
                                        void *user, kt_gen_result *result, kt_error *err);
/* kt_generate and kt_chat by way of kt_engine_submit: request has the prompt. */
kt_status KT_CHECKED kt__generate_submitted(kt_engine *engine, kt_request_params *request,
                                            const kt_gen_params *params, kt_text_fn *on_text,
                                            void *user, kt_gen_result *result, kt_error *err);

#endif
