#include "setup/cache_opts.h"

#include <stdio.h>

#define AT(member) offsetof(kt__cache_opts, member)

static const kt__opt table[] = {
    {.name = "cache-dir",
     .kind = KT__OPT_TEXT,
     .at = AT(dir),
     .arg = "DIR",
     .help = "keep what prompts computed in DIR, and find it there again, in later runs too"},
    {.name = "cache-size",
     .kind = KT__OPT_SIZE,
     .at = AT(max_bytes),
     .arg = "SIZE",
     .help = "of the files in DIR at most; what was used longest ago goes first (default 8G)"},
};

kt__opt_group kt__cache_opts_group(kt__cache_opts *opts) {
    return (kt__opt_group){"Disk cache", table, KT__COUNT(table), opts};
}

kt_status kt__cache_opts_open(const kt__cache_opts *opts, kt_engine *engine, kt_cache **out,
                              kt_error *err) {
    const kt_cache_params params = {.dir = opts->dir, .max_bytes = opts->max_bytes};
    *out = NULL;
    return opts->dir ? kt_cache_open(engine, &params, out, err) : KT_OK;
}

void kt__cache_opts_warn(kt_cache *cache) {
    kt_cache_stats s;
    if (!cache) return;
    kt_cache_get_stats(cache, &s);
    if (s.n_damaged) {
        fprintf(stderr, "kentang: disk cache: %llu damaged files were not used\n",
                (unsigned long long)s.n_damaged);
    }
    if (s.n_dropped + s.n_failed) {
        fprintf(stderr, "kentang: disk cache: %llu blocks could not be kept (%s)\n",
                (unsigned long long)(s.n_dropped + s.n_failed),
                s.n_failed ? "writing failed" : "the disk was too slow");
    }
}
