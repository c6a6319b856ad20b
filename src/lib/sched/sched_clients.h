/* Clients and their shares: who was served how much.
 *
 * Owns: the list of clients, as many as are remembered. One thread at a time. */
#ifndef KT_SCHED_SCHED_CLIENTS_H
#define KT_SCHED_SCHED_CLIENTS_H

#include "sched/sched_state.h"

/* For tasks without a client; false: no memory. */
bool kt__sched_add_nameless_client(kt__sched *s);
/* task->client becomes the scheduler's: the one that it knows by that name, or this one. A client
 * that comes back begins beside the one that was served least: time away earns nothing. */
void kt__sched_join_client(kt__sched *s, kt__task *task);
void kt__sched_free_clients(kt__sched *s);

#endif
