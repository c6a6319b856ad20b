/* A client of the server's Unix socket, for the commands that look at a running server.
 *
 * Owns: finding the socket, connecting, one line out and one line back. One thread. */
#ifndef KT_CLI_SOCKET_CLIENT_H
#define KT_CLI_SOCKET_CLIENT_H

#include <kentang.h>

#include "term/options.h"

struct json_t;

/* --socket PATH of the commands that speak with a running server. */
typedef struct kt__client_opts {
    const char *socket; /* NULL: the usual one */
} kt__client_opts;
kt__opt_group kt__client_opts_group(kt__client_opts *opts);

/* path NULL: KENTANG_SOCKET_PATH, else $XDG_RUNTIME_DIR/kentang.sock, else
 * /run/kentang/kentang.sock. *fd for close(). */
kt_status KT_CHECKED kt__client_connect(const char *path, int *fd, kt_error *err);
/* Sends a line (without newline) and reads one object; for json_decref. An error that the server
 * answers with becomes err. */
kt_status KT_CHECKED kt__client_ask(int fd, const char *line, struct json_t **out, kt_error *err);

#endif
