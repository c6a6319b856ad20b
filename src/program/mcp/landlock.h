/* Landlock: a process that gives up all but some folders, and the network.
 *
 * Owns: the rules made from a sandbox's lists, before a fork, and their enforcement after it. Where
 * the kernel has none, asking for it is an error: nothing runs that was meant to be held. */
#ifndef KT_MCP_LANDLOCK_H
#define KT_MCP_LANDLOCK_H

#include "mcp/servers.h"

/* A descriptor of the rules for kt__landlock_enter; close it. What programs need to start (/usr,
 * /lib, /bin, /etc, /proc, some of /dev) may be read, cwd, too (NULL: none). KT_E_UNSUPPORTED: the
 * kernel has no Landlock, or none that can hold the network; KT_E_IO: a folder of the lists is not
 * there. */
kt_status KT_CHECKED kt__landlock_rules(const kt__mcp_sandbox *sandbox, const char *cwd, int *fd,
                                        kt_error *err);
/* Async-signal-safe; false with errno. For the calling thread, and all that it starts, for ever. */
bool kt__landlock_enter(int fd);

#endif
