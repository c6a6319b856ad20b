/* HTTP: the OpenAI-shaped interface and its relatives, over libmicrohttpd.
 *
 * Owns: the listening socket and the daemon, its connections' limits and clocks, and who may ask
 * (access.h). Requests become jobs (job.h), paths come from the table in http_routes.c. The daemon's
 * one thread never computes, loads or waits: a connection whose answer is not there is suspended
 * and woken by the loop. A client that goes away is noticed by the loop even while suspended. */
#ifndef KT_TRANSPORTS_HTTP_H
#define KT_TRANSPORTS_HTTP_H

#include "services/shared.h"

typedef struct kt__http kt__http;

/* Binds, so that the addresses are taken. listen: "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:PATH", or several with commas
 * between them; fd: a socket that was passed in, or -1. */
kt_status KT_CHECKED kt__http_open(kt__shared *shared, const char *listen, int fd, kt__http **out,
                                   kt_error *err);
/* Listens, and answers from then on. */
kt_status KT_CHECKED kt__http_start(kt__http *http, kt_error *err);
int kt__http_port(const kt__http *http); /* that it listens on first; 0: a Unix socket */
void kt__http_stop_accepting(kt__http *http);
void kt__http_tick(kt__http *http);  /* loop: closes connections whose time is up */
void kt__http_close(kt__http *http); /* ends connections and daemon; the loop still runs */
void kt__http_free(kt__http *http);  /* after the loop has ended */

#endif
