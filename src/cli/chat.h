/* The conversation in a terminal.
 *
 * Owns: reading lines (with editing on a terminal), the messages so far, and the /commands. One
 * thread. */
#ifndef KT_CLI_CHAT_H
#define KT_CLI_CHAT_H

#include "cli/session.h"

typedef struct kt__chat_setup {
    const char *system;   /* or NULL */
    const char *first;    /* a first message, or NULL */
    kt_gen_params params; /* for every answer */
} kt__chat_setup;

/* Talks until /quit or the end of input. Returns the exit code; figures has the sums. */
int kt__chat_run(kt__session *session, const kt__chat_setup *setup, kt__figures *figures);

#endif
