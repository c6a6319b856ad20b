/* What is computed in a context now, and a thread that works while nothing is.
 *
 * Owns: the count of what is computed, and such a thread's start, waiting and end. What it does is its
 * owner's business, and so is its priority. A thread is started and ended by one owner; the rest is for
 * any thread. */
#ifndef KT_CONTEXT_IDLE_THREAD_H
#define KT_CONTEXT_IDLE_THREAD_H

#include <kentang.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"
#include "gguf/gguf.h"

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

/* A hash of every byte of a model's files, made in the background.
 *
 * Owns: what is read, by a thread of the lowest priority that works while nothing is computed
 * (idle_thread.h), and what it found. Reads files next to their mapping (host/direct_read.h): neither resident memory
 * nor the page cache grows. What the hash is used for is others' business. Any thread. */

typedef struct kt__full_hash kt__full_hash;

/* Nothing is read yet. gguf and activity outlive it. */
kt_status kt__full_hash_create(const kt__gguf *gguf, const kt__activity *activity,
                               kt__full_hash **out, kt_error *err) KT_CHECKED;
/* Within a piece of a file: a thread that reads is told to stop, and waited for. */
void kt__full_hash_destroy(kt__full_hash *hash);
kt_status kt__full_hash_start(kt__full_hash *hash, kt_error *err) KT_CHECKED;
void kt__full_hash_get(kt__full_hash *hash, kt_hash_info *out);

/* Brings a model's mapped files into large pages in the background.
 *
 * Owns: what a thread does that works while nothing is computed in the context (idle_thread.h), and
 * what it came to. How a file is brought there is host/pages.h's business. Any thread. */

typedef struct kt__page_job kt__page_job;

/* Nothing is done yet. gguf and activity outlive it. */
kt_status kt__page_job_create(const kt__gguf *gguf, const kt__activity *activity,
                              kt__page_job **out, kt_error *err) KT_CHECKED;
void kt__page_job_destroy(kt__page_job *job); /* waits for a slice at most */
kt_status kt__page_job_start(kt__page_job *job, kt_error *err) KT_CHECKED;
void kt__page_job_get(kt__page_job *job, kt_pages_info *out);

#endif
