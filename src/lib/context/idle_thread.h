/* What is computed in a context now, and a thread that works while nothing is.
 *
 * Owns: the count of what is computed, and such a thread's start, waiting and end. What it does is its
 * owner's business, and so is its priority. A thread is started and ended by one owner; the rest is for
 * any thread. */
#ifndef KT_CONTEXT_IDLE_THREAD_H
#define KT_CONTEXT_IDLE_THREAD_H

#include <kentang.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"

/* Whether something is computed, and until when something was. */
typedef struct kt__activity {
    atomic_int n_now;
    atomic_int_fast64_t ended_us;
} kt__activity;

void kt__activity_begin(kt__activity *activity);
void kt__activity_end(kt__activity *activity);
/* Microseconds until nothing was computed for idle_us, if nothing begins before; since_us counts as
 * an end. 0 or less: so it is. */
int64_t kt__activity_busy_us(const kt__activity *activity, int64_t idle_us, int64_t since_us);

enum { KT__IDLE_US = 250000 }; /* so long nothing was computed before such a thread continues */

typedef struct kt__idle_thread {
    const kt__activity *activity;
    pthread_t thread;
    atomic_bool quit;
    pthread_mutex_t lock; /* of the owner's results as well */
    pthread_cond_t wake;
    bool started;       /* under the lock */
    int64_t started_us; /* constant while the thread is there */
} kt__idle_thread;

/* activity outlives it. */
kt_status KT_CHECKED kt__idle_thread_init(kt__idle_thread *idle, const kt__activity *activity,
                                          kt_error *err);
/* Where it runs, it is made to end, and waited for. */
void kt__idle_thread_free(kt__idle_thread *idle);
/* Once, with the lock held; name, stack_bytes and what is returned as of kt__thread_start. */
int kt__idle_thread_start(kt__idle_thread *idle, const char *name, size_t stack_bytes,
                          kt__thread_fn *run, void *arg);
/* On the thread: waits until nothing was computed for a while. false: it has to end. */
bool kt__idle_thread_wait(kt__idle_thread *idle);
/* On the thread: something is computed, or it has to end. */
bool kt__idle_thread_must_rest(const kt__idle_thread *idle);

#endif
