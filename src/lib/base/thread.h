/* Threads of the library.
 *
 * Owns: how they start: with a name, and with the signals that are sent to a process blocked, which
 * belong to the host program's threads. Signals that a thread raises itself (by a fault) are not
 * blocked: a blocked SIGBUS would kill the process instead of reaching the fault guard. Any
 * thread. */
#ifndef KT_BASE_THREAD_H
#define KT_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

typedef void *kt__thread_fn(void *arg);

/* name: what tools show, at most 15 bytes of it. stack_bytes: 0 is the system's usual size, which
 * is also taken where stack_bytes is too small. 0 or an errno value, as pthread_create. */
int kt__thread_start(pthread_t *thread, const char *name, size_t stack_bytes, kt__thread_fn *fn,
                     void *arg);

#endif
