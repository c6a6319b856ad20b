/* A lock that is given in the order of asking.
 *
 * Owns: the queue of those who wait. A plain mutex lets a thread that asks again at once keep it
 * for ever; here each waiter gets its turn. Not recursive; the thread that locked must unlock. Any
 * thread. */
#ifndef KT_BASE_TICKET_H
#define KT_BASE_TICKET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kt__ticket {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t next, serving;
} kt__ticket;

bool kt__ticket_init(kt__ticket *ticket); /* false: no memory or no such resource */
void kt__ticket_destroy(kt__ticket *ticket);
void kt__ticket_lock(kt__ticket *ticket);
void kt__ticket_unlock(kt__ticket *ticket);
/* By the holder: all who wait now go first, then it holds the lock again. Costs next to nothing
 * while nobody waits. */
void kt__ticket_yield(kt__ticket *ticket);

#endif
