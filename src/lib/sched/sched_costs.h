/* What computing costs, as measured: decode steps by their lanes, prompts' batches by their rows.
 *
 * Owns: the measured members of kt__sched. One thread at a time. */
#ifndef KT_SCHED_SCHED_COSTS_H
#define KT_SCHED_SCHED_COSTS_H

#include "sched/sched_state.h"

/* A decode step of n lanes took so long. */
void kt__sched_measure_step(kt__sched *s, int n, int64_t us);
/* A decode step's time as a line over the number of lanes, and with n of them; 0: not measured. */
void kt__sched_step_line(const kt__sched *s, double *fixed, double *per_lane);
double kt__sched_step_us(const kt__sched *s, int n);

/* The prompts' batch at hand: all of it, where it was run to its end; the longest time that it
 * could not stop for, in any case. */
void kt__sched_measure_batch(kt__sched *s);
void kt__sched_measure_unit(kt__sched *s);

#endif
