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

/* Landlock: a process that gives up all but some folders, and the network.
 *
 * Owns: the rules made from a sandbox's lists, before a fork, and their enforcement after it. Where
 * the kernel has none, asking for it is an error: nothing runs that was meant to be held. */

/* A descriptor of the rules for kt__landlock_enter; close it. What programs need to start (/usr,
 * /lib, /bin, /etc, /proc, some of /dev) may be read, cwd, too (NULL: none). KT_E_UNSUPPORTED: the
 * kernel has no Landlock, or none that can hold the network; KT_E_IO: a folder of the lists is not
 * there. */
kt_status KT_CHECKED kt__landlock_rules(const kt__mcp_sandbox *sandbox, const char *cwd, int *fd,
                                        kt_error *err);
/* Async-signal-safe; false with errno. For the calling thread, and all that it starts, for ever. */
bool kt__landlock_enter(int fd);

#endif
