/* A sign of life while a long prompt is read: tokens so far, speed and what remains.
 *
 * Owns: one line on standard error, drawn over itself by a thread of its own and erased at the end;
 * nothing where standard error is no terminal, or the prompt is read within half a second. One at a
 * time for each engine, started and ended by the same thread. */
#ifndef KT_TERM_PROGRESS_H
#define KT_TERM_PROGRESS_H

#include <kentang.h>
#include <pthread.h>

typedef struct kt__progress {
    const kt_engine *engine;
    kt_engine_stats before; /* counts continue from here */
    int64_t begin_ns;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    bool running, over, shown;
} kt__progress;

/* Before the request is made. */
void kt__progress_begin(kt__progress *progress, const kt_engine *engine);
/* When its first text has come, or it has ended; further calls do nothing. */
void kt__progress_end(kt__progress *progress);

#endif
