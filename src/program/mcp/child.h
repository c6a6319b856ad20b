/* A server's process.
 *
 * Owns: how it is started (no shell, a clean environment, a group of its own, limits, no new privileges,
 * Landlock) and how it is ended, with all that it started in its group. Knows no message. One user at a
 * time. */
#ifndef KT_MCP_CHILD_H
#define KT_MCP_CHILD_H

#include <sys/types.h>

#include "mcp/servers.h"

typedef struct kt__child {
    pid_t pid;         /* 0: none runs */
    int to, from, err; /* its standard input, output and error; do not block; -1: closed */
} kt__child;

/* KT_E_IO: it cannot be started, with the command in `where`. */
kt_status KT_CHECKED kt__child_start(const kt__mcp_server_config *config, kt__child *out,
                                     kt_error *err);
/* Closes its input, waits, asks the group to end, waits, kills it. At most some five seconds. */
void kt__child_stop(kt__child *child);
/* Whether it has ended by itself. */
bool kt__child_has_ended(kt__child *child);

#endif
