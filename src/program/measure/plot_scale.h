/* From figures to places: the scale of a plot's axis.
 *
 * Owns: round ticks, their texts, and logarithms. Any thread. */
#ifndef KT_MEASURE_PLOT_SCALE_H
#define KT_MEASURE_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include "measure/html.h"

enum { KT__SCALE_MAX_TICKS = 16, KT__SCALE_MAX_VALUES = 8 };

typedef struct kt__scale {
    double low, high; /* of the values, or of their logarithms to base 10 */
    double from, to;  /* places */
    bool log;
    double ticks[KT__SCALE_MAX_TICKS]; /* values */
    int n_ticks, decimals;
} kt__scale;

/* Whether a value has a place at all: finite, of a sane size, and above 0 for logarithms. */
bool kt__scale_takes(bool log, double value);

/* From values: those that count widen `low` and `high`, which begin as (INFINITY, -INFINITY). */
void kt__scale_widen(bool log, double value, double *low, double *high);
/* low > high: there are no values. About n_ticks ticks; the ends are ticks if `round`. */
void kt__scale_make(bool log, double low, double high, bool round, int n_ticks, kt__scale *out);
/* Ticks at values instead. */
void kt__scale_set_ticks(kt__scale *scale, const double *values, int n);
double kt__scale_at(const kt__scale *scale, double value);
const char *kt__scale_text(const kt__scale *scale, int tick, char out[KT__NUMBER_BYTES]);

#endif
