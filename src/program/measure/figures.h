/* Ranks of measured values.
 *
 * Owns: sorting them, and what lies below a share of them. No state; any thread. */
#ifndef KT_MEASURE_FIGURES_H
#define KT_MEASURE_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

void kt__percentile_sort(double *values, size_t n);
/* Of sorted values, at share in [0, 1] of the way from the first to the last; between two neighbours
 * linearly. 0 where n is 0. */
double kt__percentile(const double *sorted, size_t n, double share);
/* The middle of n values (of the two middle ones, their mean); sorts them. */
double kt__percentile_median(double *values, size_t n);

/* Measured figures as JSON.
 *
 * Owns: how a figure that could not be had is written: null; and how a report is printed. Inline; any
 * thread. */

/* Null where it is negative, which says unknown. */
static inline json_t *kt__json_known(double value) {
    return value < 0 ? json_null() : json_real(value);
}
/* Null where it is 0, which says not measured. */
static inline json_t *kt__json_positive(double value) {
    return value > 0 ? json_real(value) : json_null();
}
/* A report on stdout, which is released; false: it is NULL, or there is no memory to write it. */
static inline bool kt__json_print(json_t *report) {
    int rc = report ? json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : -1;
    json_decref(report);
    if (rc == 0) puts("");
    return rc == 0;
}

#endif
