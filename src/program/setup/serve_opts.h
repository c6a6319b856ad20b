/* The options that make a server's configuration.
 *
 * Owns: their tables, and the order in which file, .env, environment and options are read. For
 * `kentang serve` and `kentang mcp`. One thread. */
#ifndef KT_SETUP_SERVE_OPTS_H
#define KT_SETUP_SERVE_OPTS_H

#include "base/buf.h"
#include "term/options.h"
#include "setup/config.h"

typedef struct kt__serve_opts {
    bool check, no_config, no_env, learn;
    const char *config, *env_file;
    const char *model, *alias, *draft_model, *listen, *socket, *keys;
    const char *threads, *ctx, *mem, *parallel;
    const char *threads_batch, *batch, *ubatch, *preset, *contexts, *cpu_mask, *cpu_range,
        *priority;
    const char *cache, *cache_max;
    const char *rope[8]; /* --rope-scaling to --yarn-beta-slow */
    bool no_mmap, mlock, blas;
    const char *kv, *kv_keys, *kv_values, *kv_tail;
    const char *log_level; /* no option: before those of the file; NULL: the usual one */
    kt__opt_texts set, lora;
} kt__serve_opts;

/* The groups; where it listens is only asked of a server that does. */
kt__opt_group kt__serve_opts_model_group(kt__serve_opts *opts);
kt__opt_group kt__serve_opts_compute_group(kt__serve_opts *opts);
kt__opt_group kt__serve_opts_listen_group(kt__serve_opts *opts);
kt__opt_group kt__serve_opts_file_group(kt__serve_opts *opts);

/* strange: what the environment has that is no setting; may be NULL. */
kt_status KT_CHECKED kt__serve_opts_configure(const kt__serve_opts *opts, kt__config **out,
                                              kt__buf *strange, kt_error *err);

#endif
