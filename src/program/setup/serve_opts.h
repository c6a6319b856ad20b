/* The options that make a server's configuration.
 *
 * Owns: their tables, and the order in which file, .env, environment and options are read. For
 * `kentang serve` and `kentang mcp`. One thread. */
#ifndef KT_SETUP_SERVE_OPTS_H
#define KT_SETUP_SERVE_OPTS_H

#include "base/buf.h"
#include "setup/command_model.h"
#include "setup/config.h"
#include "setup/request_opts.h"
#include "term/options.h"

typedef struct kt__serve_opts {
    kt__config *given; /* by options that are settings: setting_opts.h; the command's */
    bool check, no_config, no_env;
    const char *config, *env_file;
    const char *host; /* with port: http.listen in two parts; NULL, 0: not given */
    int32_t port;
    int32_t ctx_size;      /* of all answers together, llama-server's; 0: not given */
    bool kv_unified;       /* it is that of each answer */
    const char *log_level; /* no option: before those of the file; NULL: the usual one */
    kt__opt_texts set;
    kt__lora_opts lora;
    kt__opt_texts lora_scaled; /* llama-server's: FILE:SCALE, ... */
    bool lora_off;             /* adapters of --lora have the scale 0 at first */
    float rope_scale;          /* how far the context is stretched; 0: not given */
    const char *hf_file;       /* of the repository that `model` names */
    kt__request_opts requests;
} kt__serve_opts;

void kt__serve_opts_free(kt__serve_opts *opts);
/* --config, --no-config, --env-file, --no-env, --set; and --check of a server that listens. The rest is
 * in the groups of setting_opts.h over `given`, and in kt__lora_opts_group. */
kt__opt_group kt__serve_opts_file_group(kt__serve_opts *opts);
kt__opt_group kt__serve_opts_check_group(kt__serve_opts *opts);
/* llama-server's --ctx-size and --kv-unified; before the groups of settings, which have -c too */
kt__opt_group kt__serve_opts_slots_group(kt__serve_opts *opts);
/* argv with the options that llama-server's and Ollama's variables of the environment mean before those
 * that were given, which win; freed with free, as are the texts that it adds (*own, for
 * kt__arena_free). NULL: no memory, argv is to be used as it is. */
char **kt__serve_opts_from_environment(int *argc, char **argv, kt__arena *own);
/* llama-server's --lora-scaled, --lora-init-without-apply, --rope-scale and --hf-file */
kt__opt_group kt__serve_opts_llama_group(kt__serve_opts *opts);
/* --host and --port of a server that listens */
kt__opt_group kt__serve_opts_address_group(kt__serve_opts *opts);

/* strange: what the environment has that is no setting; may be NULL. */
kt_status KT_CHECKED kt__serve_opts_configure(const kt__serve_opts *opts, kt__config **out,
                                              kt__buf *strange, kt_error *err);

/* What a server's settings may ask for where several processes compute its model.
 *
 * Owns: the list of what they cannot do together, and what is known of their launcher. Any thread. */

/* KT_E_UNSUPPORTED names the first setting that does not go with several processes, and what to do. */
kt_status KT_CHECKED kt__several_check(const kt__config *config, kt_error *err);
/* How long what is unfinished may continue after the launcher's SIGTERM, before its SIGKILL. */
int64_t kt__several_end_ms(void);

#endif
