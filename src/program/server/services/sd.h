/* What systemd hands to a service: sockets and a place for notes. No library is needed.
 *
 * Owns: LISTEN_FDS and NOTIFY_SOCKET of the environment. One thread, at start and at the end. */
#ifndef KT_SERVICES_SD_H
#define KT_SERVICES_SD_H

#include <stdbool.h>

/* The listening descriptors that were passed: a Unix stream socket for lines, a TCP socket (or a
 * Unix socket named "http") for HTTP; -1 where there is none. Others are closed. */
void kt__sd_sockets(int *lines, int *http);
/* "READY=1", "STOPPING=1", "RELOADING=1\n..."; nothing where there is no listener. */
void kt__sd_notify(const char *state);

#endif
