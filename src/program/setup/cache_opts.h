/* The options of the disk cache below an engine, shared by the commands that answer.
 *
 * Owns: --cache-dir, --cache-size, and what a cache did in one phrase. One thread. */
#ifndef KT_SETUP_CACHE_OPTS_H
#define KT_SETUP_CACHE_OPTS_H

#include <kentang.h>

#include "term/options.h"

typedef struct kt__cache_opts {
    const char *dir; /* NULL: no cache */
    uint64_t max_bytes;
} kt__cache_opts;

kt__opt_group kt__cache_opts_group(kt__cache_opts *opts);
/* *out stays NULL without --cache-dir. For kt_cache_close, before the engine. */
kt_status KT_CHECKED kt__cache_opts_open(const kt__cache_opts *opts, kt_engine *engine,
                                         kt_cache **out, kt_error *err);
/* "kentang: disk cache: ..." on stderr, where something went wrong. cache may be NULL. */
void kt__cache_opts_warn(kt_cache *cache);

#endif
