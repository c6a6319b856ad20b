/* The processes of a job, on one machine or several, that compute one model together.
 *
 * Owns: whether a launcher (mpirun) started this process as one of several, the transport, which is loaded then
 * and not before, and the first failure: from that on nothing more is sent. Process 0 holds all requests; see
 * engine/follow.c for the others. Knows neither models nor what is sent. One thread at a time, but for
 * kt__peers_check and kt__peers_hurry. */
#ifndef KT_PEERS_PEERS_H
#define KT_PEERS_PEERS_H

#include <kentang.h>
#include <stddef.h>

#include "peers/transport.h"

typedef struct kt__peers kt__peers;

enum { KT__PEERS_MAX = 32 };

/* This process' number in a launcher's job of several; -1: it is no such job. Loads nothing. */
int kt__peers_launched(void);
/* Joins them. *out NULL: there are no others. KT_E_UNSUPPORTED: no transport is installed. */
kt_status kt__peers_open(kt__peers **out, kt_error *err) KT_CHECKED;
/* Waits for the others to close, or, after a failure, ends the job. NULL is allowed. */
void kt__peers_close(kt__peers *peers);

/* As process `rank` of `size`, without any others: what it would send and get is counted, and nothing is sent. */
kt_status kt__peers_plan(int rank, int size, kt__peers **out, kt_error *err) KT_CHECKED;

/* What this process has sent the others and got of them since it joined. */
typedef struct kt__traffic {
    uint64_t exchanges; /* in which it had to wait for others */
    uint64_t messages, sent_bytes, received_bytes;
} kt__traffic;
kt__traffic kt__peers_traffic(const kt__peers *peers);

int kt__peers_rank(const kt__peers *peers);
int kt__peers_size(const kt__peers *peers);
const char *kt__peers_host(const kt__peers *peers, int rank);

/* As the transport's. After a failure the bytes are undefined, and further calls return at once. */
void kt__peers_gather(kt__peers *peers, void *buf, const size_t *at);
/* The same by a thread that is there for it, while the caller does something else; nothing else may be called between the
 * two. at[] is read at once. */
void kt__peers_gather_begin(kt__peers *peers, void *buf, const size_t *at);
void kt__peers_gather_end(kt__peers *peers);
void kt__peers_broadcast(kt__peers *peers, void *buf, size_t n);
/* Letters between two processes, in their order; no batch may be divided meanwhile. post: a copy, which is under way
 * when this returns. look: whose letter has come, and its size; -1: none. take: that one. */
void kt__peers_post(kt__peers *peers, int rank, const void *buf, size_t n);
int kt__peers_look(kt__peers *peers, size_t *n);
void kt__peers_take(kt__peers *peers, int rank, void *buf, size_t n);
/* How long another process may be silent. */
int kt__peers_deadline_s(const kt__peers *peers);
/* KT_E_STATE with the first failure, if there was one, and when a server may be there again. */
kt_status kt__peers_check(kt__peers *peers, kt_error *err) KT_CHECKED;
/* Whether that was asked for with an error, which somebody reads. */
bool kt__peers_was_reported(const kt__peers *peers);
/* A failure that was found here: the others must not continue. */
void kt__peers_fail(kt__peers *peers, const char *why);
/* From now on no other process may keep this one waiting for longer. */
void kt__peers_hurry(kt__peers *peers, int ms);

/* A transport without other processes: what is to be sent is not, and what would come does not, so that a job can be planned
 * by the code that would run in it. Immutable; any thread. */

const kt__transport *kt__transport_nowhere(void);
/* The state of process `rank` of `size`; NULL: no memory is left. */
void *kt__nowhere_create(int rank, int size);

#endif
