/* The terminal that a person talks through.
 *
 * Owns: its character set, width and whether it shows styles; the keyboard's mode while an answer comes, and putting
 * that back when the process is stopped or ended; a sign of life while a long prompt is read (progress.c). State is
 * the process's, as a terminal is: signal handlers put it back. One thread. */
#ifndef KT_TERM_TERMINAL_H
#define KT_TERM_TERMINAL_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"

/* Characters are UTF-8 from now on, also where the locale says otherwise or nothing; numbers and
 * messages stay as in the C locale. */
void kt__terminal_use_utf8(void);
/* Cells in a row; 80 where fd does not say. */
int kt__terminal_width(int fd);
/* Whether fd is a terminal that shows more than plain lines: TERM is not dumb. */
bool kt__terminal_can_draw(int fd);
/* Whether bold and colours are welcome there, too: NO_COLOR is not set. */
bool kt__terminal_can_style(int fd);

/* Watches changes of size, and stops (Ctrl-Z): before one the keyboard is as kt__terminal_watch
 * found it, and pasted text comes without marks. */
void kt__terminal_watch(void);
void kt__terminal_unwatch(void);
/* Whether the size has changed, or the process has been continued, since the last call. */
bool kt__terminal_resized(void);
bool kt__terminal_continued(void);
bool kt__terminal_changed(void); /* one of the two; the next call says it again */

/* What is typed is not shown but kept, for who reads next; Ctrl-C loses none of it. Between watch
 * and unwatch. */
void kt__terminal_hush(void);
void kt__terminal_unhush(void);

/* Marks around pasted text (bracketed paste). */
void kt__terminal_mark_pastes(bool on);

/* Ctrl-C while an engine computes, or at a prompt.
 *
 * Owns: the process's handler of SIGINT while one engine is watched. One engine at a time; the calls
 * are for the main thread. */

/* From now on Ctrl-C cancels what the engine computes, or, at a prompt, only raises a flag. */
/* A file over the process's limit is a failed write, which is reported and cleaned up, and no signal that ends it. */
void kt__limits_fail_writes(void);
void kt__interrupt_watch(kt_engine *engine);
void kt__interrupt_unwatch(void);
bool kt__interrupt_is_pending(void); /* whether kt__interrupted would say so */
bool kt__interrupted(void);          /* whether Ctrl-C came since the last call */

/* A sign of life while a long prompt is read: tokens so far, speed and what remains.
 *
 * One line on standard error, drawn over itself by a thread of its own and erased at the end; nothing where standard
 * error is no terminal, or the prompt is read within half a second. One at a time for each engine, started and ended
 * by the same thread. */

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
