/* Listening Unix sockets: made without a moment in which others may connect, taken over when stale,
 * removed at the end.
 *
 * Owns: the descriptor, the path and the lock next to it (PATH.lock, held as long as the socket is
 * served, and removed with it). One thread. */
#ifndef KT_TRANSPORTS_LISTENER_H
#define KT_TRANSPORTS_LISTENER_H

#include <kentang.h>
#include <stdint.h>

typedef struct kt__listener {
    int fd, lock_fd; /* -1: none */
    char path[112];
    uint64_t dev, ino; /* of the socket that was made: at the end only this one is removed */
} kt__listener;

/* Binds a temporary name with mode already set and renames it to path, which replaces a socket that
 * is not served. KT_E_STATE: another process serves it. KT_E_IO: it is no socket, or the directory
 * does not allow it. */
kt_status KT_CHECKED kt__listener_open(const char *path, unsigned mode, kt__listener *out,
                                       kt_error *err);
void kt__listener_close(kt__listener *listener);

#endif
