/* A sign of life while a long prompt is read: tokens so far, speed and what remains.
 *
 * Owns: one line on standard error, drawn over itself by a thread of its own and erased at the end;
 * nothing where standard error is no terminal, or the prompt is read within half a second. One at a
 * time for each engine, started and ended by the same thread. */
#ifndef KT_TERM_PROGRESS_H
#define KT_TERM_PROGRESS_H

#include <kentang.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

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

/* How far a long reading or writing of bytes is: part, rate, time left, in one line drawn over itself.
 *
 * Owns: that line on standard error. Its caller knows whether one is wanted. One thread at a time. */

/* Zeroed to begin with. */
typedef struct kt__byte_progress {
    int64_t begun_ns, shown_ns;
    uint64_t first; /* bytes that were there when this run began */
    bool shown;
} kt__byte_progress;

/* user: a kt__byte_progress. */
void kt__byte_progress_show(void *user, uint64_t done, uint64_t total);
/* Ends the line, where there is one. */
void kt__byte_progress_end(kt__byte_progress *progress);

#endif
