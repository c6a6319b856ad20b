/* A transport without other processes: what is to be sent is not, and what would come does not, so that a job can be planned
 * by the code that would run in it. Immutable; any thread. */
#ifndef KT_PEERS_NOWHERE_H
#define KT_PEERS_NOWHERE_H

#include "peers/transport.h"

const kt__transport *kt__transport_nowhere(void);
/* The state of process `rank` of `size`; NULL: no memory is left. */
void *kt__nowhere_create(int rank, int size);

#endif
