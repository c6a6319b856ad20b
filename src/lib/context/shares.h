/* How much of a model each process of a job should have, by what each can do.
 *
 * Owns: the measurement. Every process calls it at the same time, and all get the same answer. */
#ifndef KT_CONTEXT_SHARES_H
#define KT_CONTEXT_SHARES_H

#include "context/types.h"

/* shares[n] of n processes, from 1 to 100. Processes that differ by less than a tenth get the same. */
void kt__shares_of_speeds(const double *speeds, int n, int *shares);
kt_status kt__shares_measure(kt_ctx *ctx, int *shares, kt_error *err) KT_CHECKED;

#endif
