/* The options of an agent, and an agent made from them: for `kentang agent` and `kentang run --mcp`.
 *
 * Owns: their table, and what a user sees of an agent on a terminal: its notes, and the questions
 * whether a call is allowed. One thread. */
#ifndef KT_CLI_AGENT_OPTS_H
#define KT_CLI_AGENT_OPTS_H

#include "setup/session.h"
#include "term/options.h"

typedef struct kt__agent_opts {
    bool quiet;
    const char *servers;             /* the file of --mcp, or NULL */
    const char *builtins, *folder;   /* or NULL */
    const char *transcript, *replay; /* or NULL */
    const char *pins;                /* NULL: the usual file */
    bool repin, one_call;
    kt__opt_texts allow, deny;
    int32_t rounds, calls, time_s;
    uint64_t result_bytes;
} kt__agent_opts;

kt__agent_opts kt__agent_opts_default(void);
void kt__agent_opts_free(kt__agent_opts *opts);
kt__opt_group kt__agent_opts_group(kt__agent_opts *opts);

/* Does the task, or, where it is NULL, one after the other as they are typed. Answers go to standard
 * output; the exit code. command: for errors. system: or NULL. */
int kt__agent_work(const char *command, kt__session *session, const kt__agent_opts *opts,
                   const kt_gen_params *gen, const char *system, const char *task);

#endif
