/* Threads of the library.
 *
 * Owns: where locks and conditions come from: POSIX's, which mingw's winpthreads has on Windows; no other file includes
 * <pthread.h>. How threads start: with a name, and with the signals that are sent to a process blocked, which
 * belong to the host program's threads. Signals that a thread raises itself (by a fault) are not
 * blocked: a blocked SIGBUS would kill the process instead of reaching the fault guard. Any
 * thread. */
#ifndef KT_BASE_THREAD_H
#define KT_BASE_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *kt__thread_fn(void *arg);

/* name: what tools show, at most 15 bytes of it. stack_bytes: 0 is the system's usual size, which
 * is also taken where stack_bytes is too small. 0 or an errno value, as pthread_create. */
int kt__thread_start(pthread_t *thread, const char *name, size_t stack_bytes, kt__thread_fn *fn,
                     void *arg);

/* A lock that is granted in the order of requests.
 *
 * Owns: the queue of waiters. With a plain mutex, a thread that releases it and asks again at once
 * can keep it for ever; here each waiter gets its turn. Not recursive; the thread that locked must
 * unlock. Any thread. */

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
