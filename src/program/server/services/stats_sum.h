/* Figures of several engines as those of one.
 *
 * Owns: which of them are sums, and which the worst. Any thread. */
#ifndef KT_SERVICES_STATS_SUM_H
#define KT_SERVICES_STATS_SUM_H

#include <kentang.h>

/* What was counted, of engines that run or have run. */
void kt__stats_add_counts(kt_engine_stats *to, const kt_engine_stats *from);
/* How they are now. */
void kt__stats_add_state(kt_engine_stats *to, const kt_engine_stats *from);

#endif
