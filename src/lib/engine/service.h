/* The one path of generation: whatever the engine computes is a task of its scheduler.
 *
 * Owns: the calls of kentang.h under "requests", the thread that drives, the figures.
 *
 * A request becomes tasks (submit.c), one a choice, which wait in the inbox (inbox.h); an
 * evaluation of sequences becomes one task a sequence (eval.c). the thread that drives takes them
 * from there and steps the scheduler (sched.h), whose operations compute on works (runner.h,
 * work.h): one decode step with a row for each task that has one position to compute, then a slice
 * of a prompts' batch. Both are calls of batch.h. Logits go to the work they belong to: an answer
 * draws tokens (choice.c) and hands out events (events.c), an evaluation keeps them in its
 * sequence.
 *
 * Block tables: a choice owns one, and gives its pages back at the end; a task on a sequence
 * borrows the sequence's (task.lent). The scheduler may take pages from the former and compute
 * them again later, never from the latter: a lent task without pages ends with KT_E_NOMEM. It
 * goes before requests, since its owner waits.
 *
 * Who drives: a thread of the engine's own (kt_engine_start), or else the thread that waits:
 * kt_engine_step, and each call that waits for a task (kt__service_help in its loop). Several
 * may; they take turns. The turn is held for a step, the inbox's and the requests' locks for
 * moments, so that submitting, reading and statistics never wait for a computation.
 *
 * Errors: one row that spoils a batch ends its own task; the others' rows are computed again
 * without it. An evaluation of several sequences fails as a whole: its caller puts all of them
 * back. A cancel (kt_request_cancel, kt_engine_cancel, a deadline) makes the batch at hand
 * pause between two parts of a layer; what has ended leaves it, and it continues for the rest. */
#ifndef KT_ENGINE_SERVICE_H
#define KT_ENGINE_SERVICE_H

#include "requests/request.h"

enum { KT__SERVICE_LOOK_MS = 20 }; /* how long a waiting caller waits before it looks again */

/* What the driver knows becomes everybody's. With the turn. */
void kt__service_publish(kt_engine *engine);
/* For callers that wait: one step where no thread drives. false: one does, or nothing could run. */
bool kt__service_help(kt_engine *engine);

#endif
