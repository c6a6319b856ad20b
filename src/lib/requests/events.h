/* Events: from the driver to a callback, or to those who read them.
 *
 * Owns: a request's ring of unread events, and the callback in progress. */
#ifndef KT_REQUESTS_EVENTS_H
#define KT_REQUESTS_EVENTS_H

#include "requests/submitted.h"

enum { KT__HELD_EVENTS = 64 }; /* unread events at which an answer pauses */

/* Where there is no callback: room for what may wait. */
kt_status kt__events_init(kt__submitted *sub, kt_error *err) KT_CHECKED;

/* ---- by the driver ---- */

/* Hands out an event; kind and what belongs to it are set, the rest is filled in here. */
void kt__events_emit(kt__choice *choice, kt_event *event);
/* TOKEN: what the answer released. */
void kt__events_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
                          int n_logprobs);

/* ---- by other threads ---- */

/* The event that was read last makes room. */
void kt__events_drop_read(kt__submitted *sub);
/* The oldest event, waited for at most timeout_ms (-1: as long as it takes). */
bool kt__events_read(kt__submitted *sub, kt_event *out, int64_t timeout_ms);
/* Waits until its sequence is given back; false: it is not, after timeout_ms. */
bool kt__events_wait_for_seq(kt__submitted *sub, int64_t timeout_ms);
bool kt__events_are_over(kt__submitted *sub); /* none waits, and none will come */
/* No event comes any more. Waits for a callback that runs on another thread. Returns whether
 * nothing of the request runs, so that it is the caller's to free. */
bool kt__events_detach(kt__submitted *sub);

#endif
