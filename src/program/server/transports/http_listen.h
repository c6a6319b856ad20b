/* Where HTTP listens: addresses, sockets and certificates.
 *
 * Owns: the reading of one "ADDRESS:PORT", "[ADDRESS]:PORT" and "unix:PATH", the listening socket until
 * its descriptor is taken, and whether an address needs keys. One thread. */
#ifndef KT_TRANSPORTS_HTTP_LISTEN_H
#define KT_TRANSPORTS_HTTP_LISTEN_H

#include "setup/config.h"
#include "transports/listener.h"

enum { KT__HTTP_MAX_PEM = 1 << 20 };

typedef struct kt__http_socket {
    int fd;                  /* -1: none, or closed elsewhere */
    int port;                /* 0: a Unix socket */
    char address[64];        /* that is listened on, as numbers; of a Unix socket "" */
    bool unix_socket, bound; /* bound: here, not yet listening */
    kt__listener listener;   /* the file of a Unix socket, without its descriptor */
} kt__http_socket;

#define KT__HTTP_NO_SOCKET ((kt__http_socket){.fd = -1, .listener = {.fd = -1, .lock_fd = -1}})

/* fd: a socket that was passed in, or -1: binds listen_at. Also on failure *out is to be
 * closed: fd, then kt__listener_close. */
kt_status KT_CHECKED kt__http_socket_open(const kt__config *config, const char *listen_at, int fd,
                                          kt__http_socket *out, kt_error *err);
/* Lets clients connect to what was bound here. */
kt_status KT_CHECKED kt__http_socket_listen(const kt__http_socket *at, const char *listen_at,
                                            kt_error *err);
/* The file's text in *out, KT__HTTP_MAX_PEM bytes with zeros at the end, for kt__free. */
kt_status KT_CHECKED kt__http_read_pem(const char *path, char **out, kt_error *err);

/* What can be said of a configuration's HTTP before anything is opened: address, keys,
 * certificate. */
kt_status KT_CHECKED kt__http_check(const kt__config *config, kt_error *err);

#endif
