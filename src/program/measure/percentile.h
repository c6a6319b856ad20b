/* Ranks of measured values.
 *
 * Owns: sorting them, and what lies below a share of them. No state; any thread. */
#ifndef KT_MEASURE_PERCENTILE_H
#define KT_MEASURE_PERCENTILE_H

#include <stddef.h>

void kt__percentile_sort(double *values, size_t n);
/* Of sorted values, at share in [0, 1] of the way from the first to the last; between two neighbours
 * linearly. 0 where n is 0. */
double kt__percentile(const double *sorted, size_t n, double share);
/* The middle of n values (of the two middle ones, their mean); sorts them. */
double kt__percentile_median(double *values, size_t n);

#endif
