/* The end of tasks: out of the batch and the step at hand, last event, release.
 *
 * One thread at a time. */
#ifndef KT_SCHED_SCHED_END_H
#define KT_SCHED_SCHED_END_H

#include "sched/sched_state.h"

/* Ends those that run and have a finish. */
void kt__sched_end_finished(kt__sched *s);
/* Ends what was cancelled or came too late. */
void kt__sched_reap(kt__sched *s);
/* Off the list, and given back to its owner. */
void kt__sched_release_task(kt__sched *s, kt__task_list *list, kt__task *task);

#endif
