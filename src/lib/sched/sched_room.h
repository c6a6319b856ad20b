/* Whether the store of keys and values has room for another answer.
 *
 * Owns: what answers are expected to come to, and the decision. With the controller an answer
 * begins only where all that run can be expected to end within the share of memory that it may
 * use: suspended ones would be computed again. One thread at a time. */
#ifndef KT_SCHED_SCHED_ROOM_H
#define KT_SCHED_SCHED_ROOM_H

#include "sched/sched_state.h"

static inline int64_t kt__sched_pages_of(const kt__sched *s, int64_t n_pos) {
    return (n_pos + s->p.page_pos - 1) / s->p.page_pos;
}

/* Whether pages are there for the task, without suspending anybody. */
bool kt__room_for(const kt__sched *sched, const kt__task *task);
/* A task ended. */
void kt__room_note_end(kt__sched *sched, const kt__task *task);

#endif
