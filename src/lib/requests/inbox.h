/* What those who submit, those who read and the thread that drives the engine share.
 *
 * Owns: the lock, and under it the queue of what was submitted and not taken yet, who is let in,
 * the number of requests that wait and that are alive, whether a thread drives and is to continue,
 * and the figures that everybody may see. Knows tasks, and neither tokens nor events (request.h).
 *
 * Any thread, unless a call says otherwise. The lock is held for moments only, never while
 * something is computed, and no other lock is taken under it; so submitting, reading events and
 * statistics never wait for a computation. */
#ifndef KT_REQUESTS_INBOX_H
#define KT_REQUESTS_INBOX_H

#include "sched/sched_forecast.h"
#include "sched/task.h"

typedef struct kt__inbox kt__inbox;

kt_status kt__inbox_create(int n_queue_max, kt__inbox **out, kt_error *err) KT_CHECKED;
void kt__inbox_destroy(kt__inbox *inbox);

/* ---- submitting ---- */

/* A request: its tasks, linked by `next`, and what it will ask for. */
typedef struct kt__submission {
    kt__task *first, *last;
    kt__sched_request ask;
    int64_t deadline_ms; /* from now; 0: none */
} kt__submission;

/* Into the queue. KT_E_STATE: closed; KT_E_BUSY: full; KT_E_DEADLINE: it would come too late. The
 * latter two with err->retry_ms. One whose tasks are lent is neither too many nor too late for a
 * stopped engine: sequences are bounded, and their owners wait. */
kt_status kt__inbox_submit(kt__inbox *inbox, const kt__submission *submission,
                           kt_error *err) KT_CHECKED;
/* n tasks of one call, linked by `next`, which is no request: never refused, not counted. */
void kt__inbox_call(kt__inbox *inbox, kt__task *first, kt__task *last, int n);
/* Waits at most ms until *n_left, which kt__inbox_note_done counts down, is 0. Returns whether it
 * is. */
bool kt__inbox_wait_for_call(kt__inbox *inbox, const int *n_left, int64_t ms);
/* A request was refused before it came here. */
void kt__inbox_note_refused(kt__inbox *inbox);

/* ---- by the driver ---- */

/* Everything that was submitted, linked by `next`; NULL: nothing. */
kt__task *kt__inbox_take(kt__inbox *inbox);
bool kt__inbox_is_empty(kt__inbox *inbox);
void kt__inbox_note_started(kt__inbox *inbox);                    /* a request */
void kt__inbox_note_finished(kt__inbox *inbox, kt_finish finish); /* a choice */
void kt__inbox_note_over(kt__inbox *inbox, bool started); /* a request; nothing of it runs */
void kt__inbox_note_done(kt__inbox *inbox, int *n_left);  /* a task of a call */
/* What the driver knows becomes everybody's: of stats, what is not counted here. */
void kt__inbox_publish(kt__inbox *inbox, const kt__sched_load *load, const kt_engine_stats *stats);

/* With the engine's turn: pages have changed hands outside of a step. */
void kt__inbox_publish_pages(kt__inbox *inbox, int64_t n_used, int64_t n_kept);

/* ---- the driver's thread ---- */

/* A thread will drive, and requests are taken again. false: one does already. */
bool kt__inbox_begin_driving(kt__inbox *inbox);
/* Takes no more requests. Where a thread drives: waits until no request is left, at most drain_ms
 * (-1: as long as it takes), and tells it to quit. Returns whether one does. */
bool kt__inbox_close(kt__inbox *inbox, int64_t drain_ms);
void kt__inbox_end_driving(kt__inbox *inbox); /* the thread is gone */
bool kt__inbox_is_driven(kt__inbox *inbox);
/* Until there is something to do, or it is time to look for cancels and deadlines. */
void kt__inbox_wait_for_work(kt__inbox *inbox);
bool kt__inbox_is_told_to_quit(kt__inbox *inbox);
/* Something has changed: the driver is to look. */
void kt__inbox_wake(kt__inbox *inbox);

/* ---- figures ---- */

/* Until the queue takes another request, or ms have passed. */
void kt__inbox_wait_for_room(kt__inbox *inbox, int64_t ms);
int32_t kt__inbox_n_live(kt__inbox *inbox); /* requests that are not over */
void kt__inbox_get_stats(kt__inbox *inbox, kt_engine_stats *out);
/* As measured when the driver published last; 0: not measured. */
double kt__inbox_prefill_us_tok(kt__inbox *inbox);

#endif
