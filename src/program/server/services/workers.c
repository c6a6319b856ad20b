#include "services/workers.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

enum { MAX_THREADS = 16 };

struct kt__workers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    kt__work_item *first, *last;
    int n, queue_max, n_threads;
    bool quit;
    pthread_t threads[MAX_THREADS];
};

static void *worker_main(void *arg) {
    kt__workers *workers = arg;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->first && !workers->quit) pthread_cond_wait(&workers->work, &workers->lock);
        kt__work_item *item = workers->first;
        if (!item) break;
        workers->first = item->next;
        if (!workers->first) workers->last = NULL;
        workers->n--;
        pthread_mutex_unlock(&workers->lock);
        item->run(item);
        pthread_mutex_lock(&workers->lock);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

kt_status kt__workers_create(int n_threads, int queue_max, kt__workers **out, kt_error *err) {
    *out = NULL;
    kt__workers *workers = kt__calloc(1, sizeof *workers);
    if (!workers) return kt__fail_nomem(err, "worker threads", sizeof *workers);
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->work, NULL);
    workers->queue_max = queue_max;
    while (workers->n_threads < n_threads && workers->n_threads < MAX_THREADS) {
        int rc = kt__thread_start(&workers->threads[workers->n_threads], "kentang-workers", 0,
                                  worker_main, workers);
        if (rc != 0) {
            kt__workers_free(workers);
            return kt__fail(
                err, KT_E_LIMIT, "cannot start a thread: %s%s", strerror(rc),
                rc == EAGAIN ? ": raise the limit of threads (ulimit -u, TasksMax, pids.max)" : "");
        }
        workers->n_threads++;
    }
    *out = workers;
    return KT_OK;
}

bool kt__workers_add(kt__workers *workers, kt__work_item *item) {
    pthread_mutex_lock(&workers->lock);
    bool taken = !workers->quit && workers->n < workers->queue_max;
    if (taken) {
        item->next = NULL;
        if (workers->last) {
            workers->last->next = item;
        } else {
            workers->first = item;
        }
        workers->last = item;
        workers->n++;
        pthread_cond_signal(&workers->work);
    }
    pthread_mutex_unlock(&workers->lock);
    return taken;
}

void kt__workers_stop(kt__workers *workers) {
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    workers->quit = true;
    pthread_cond_broadcast(&workers->work);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->n_threads; i++) pthread_join(workers->threads[i], NULL);
    workers->n_threads = 0;
}

void kt__workers_free(kt__workers *workers) {
    if (!workers) return;
    kt__workers_stop(workers);
    pthread_cond_destroy(&workers->work);
    pthread_mutex_destroy(&workers->lock);
    kt__free(workers);
}

/* ---- sched latency ---- */

enum { SLICE_NS = 100000 }; /* the kernel's least */

/* struct sched_attr of the kernel's first version: libraries came to have it late. */
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;

/* slice_ns 0: the system's. A policy that was chosen for this process is left alone. */
static bool set_slice(uint64_t slice_ns) {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    attributes a = {.size = sizeof a};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0 || a.policy != SCHED_OTHER)
        return false;
    a.size = sizeof a;
    a.runtime = slice_ns;
    return syscall(SYS_sched_setattr, 0, &a, 0) == 0;
#else
    (void)slice_ns;
    return false;
#endif
}

bool kt__sched_latency_begin(void) {
    return set_slice(SLICE_NS);
}

void kt__sched_latency_end(bool changed) {
    if (changed) (void)set_slice(0);
}
