/* Who runs, who waits, who is suspended: the order of tasks, pages taken from others, admission.
 *
 * One thread at a time. */
#ifndef KT_SCHED_SCHED_LANES_H
#define KT_SCHED_SCHED_LANES_H

#include "sched/sched_state.h"

bool kt__task_goes_before(const kt__task *a, const kt__task *b); /* a goes before b */
/* Lanes to those whose turn it is. */
void kt__sched_admit(kt__sched *s);
/* Pages up to n_pos, from others if need be. false: the task cannot go on now; it is suspended
 * unless only a batch in flight is in the way, and ended where nothing will ever change. A task on
 * a sequence cannot give its own pages back: instead of being suspended it ends at once. */
bool kt__sched_make_room(kt__sched *s, kt__task *task, int32_t n_pos);
/* Suspends those that are worth least while more run than the controller allows; they keep their
 * pages, and go on in their turn. */
void kt__sched_keep_to_lanes(kt__sched *s);

#endif
