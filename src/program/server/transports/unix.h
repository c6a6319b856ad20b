/* The Unix socket: newline-delimited JSON, many requests at once on a connection.
 *
 * Owns: the listening socket, its clients, and their bounded output. Everything runs on the loop's
 * thread; a client that does not read holds up its own answers only.
 * docs/PROTOCOL.md */
#ifndef KT_TRANSPORTS_UNIX_H
#define KT_TRANSPORTS_UNIX_H

#include "services/shared.h"

typedef struct kt__unix kt__unix;

/* fd: a socket that was passed in, or -1: one is made at path. */
kt_status KT_CHECKED kt__unix_open(kt__shared *shared, const char *path, unsigned mode, int fd,
                                   kt__unix **out, kt_error *err);
void kt__unix_stop_accepting(kt__unix *u);
void kt__unix_tick(kt__unix *u); /* loop: lets go of clients that read nothing */
/* Waits until there is no client; false: some are left, after ms. Not on the loop. */
bool kt__unix_wait(kt__unix *u, int64_t ms);
void kt__unix_close(kt__unix *u); /* after the loop has ended */

#endif
