/* A connection of the Unix socket.
 *
 * Owns: what unix.c (sockets, bytes in and out, the list of clients) and unix_ops.c (what the lines
 * ask for) share. The loop's thread. */
#ifndef KT_TRANSPORTS_UNIX_CLIENT_H
#define KT_TRANSPORTS_UNIX_CLIENT_H

#include "base/buf.h"
#include "jobs/job.h"
#include "transports/listener.h"

typedef struct kt__unix kt__unix;
typedef struct kt__unix_client kt__unix_client;
struct kt__unix_client {
    kt__watch watch; /* first member */
    kt__unix *home;
    kt__unix_client *next, **link;
    uint64_t serial; /* from 1 */
    unsigned uid;
    int pid;
    char name[32]; /* "uid:1000" */
    kt__framer framer;
    size_t n_held; /* bytes of the line that is coming, counted by kt__shared_hold */
    kt__buf out;
    size_t out_at;
    int64_t moved_us; /* when it last read, or had nothing to read */
    kt__job **jobs;
    size_t n_jobs, cap_jobs;
    uint32_t events; /* that are watched */
    bool eof, doomed;
};

struct kt__unix {
    kt__watch watch; /* first member */
    kt__shared *shared;
    kt__listener listener;
    bool own; /* the socket was made here, not passed in */
    bool open_to_others;
    int64_t rest_until_us; /* no descriptor was left to accept with; 0: it listens */
    kt__slog_gate short_of_fds, crowd;
    uint64_t n_accepted;
    kt__unix_client *clients;
    pthread_mutex_t lock; /* a leaf: of n_clients, which the loop changes and others wait for */
    pthread_cond_t empty; /* n_clients has become 0 */
    int n_clients;
    void (*on_output)(kt__job *job); /* of the clients' jobs; a client may be freed by it */
};

/* unix_ops.c: does what a line asks for; a final object with an error, id or NULL. */
void kt__unix_take_line(kt__unix_client *client, const char *line, size_t len);
/* The error of a line for which there is no room; err. */
const kt_error *kt__unix_crowded(kt_error *err);
void kt__unix_say_error(kt__unix_client *client, const char *id, const kt_error *err);

#endif
