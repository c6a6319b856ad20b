#include "measure/figures.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void kt__percentile_sort(double *values, size_t n) {
    if (n) qsort(values, n, sizeof *values, compare_doubles);
}

double kt__percentile(const double *sorted, size_t n, double share) {
    if (!n) return 0;
    double at = share * (double)(n - 1);
    size_t low = (size_t)at;
    double rest = at - (double)low;
    return low + 1 < n ? sorted[low] + rest * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
}

double kt__percentile_median(double *values, size_t n) {
    kt__percentile_sort(values, n);
    return kt__percentile(values, n, 0.5);
}
