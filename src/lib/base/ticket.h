/* A lock that is granted in the order of requests.
 *
 * Owns: the queue of waiters. With a plain mutex, a thread that releases it and asks again at once
 * can keep it for ever; here each waiter gets its turn. Not recursive; the thread that locked must
 * unlock. Any thread. */
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
/* By the holder: every thread that waits now goes first, then the caller holds the lock again.
 * Costs next to nothing when there is no waiter. */
void kt__ticket_yield(kt__ticket *ticket);

#endif
