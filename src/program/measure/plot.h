/* Plots as SVG for a page of HTML.
 *
 * Owns: axes with round ticks, lines, points with names, and bars; where names go; what a plot says
 * to who cannot see it. Colours are classes (c0 to c5), which the page's style sheet has
 * (report.c); what a colour says, the form of a mark or a dash says as well. Figures that are
 * no finite numbers are left out, and a plot without any says so. Knows no commands. Any thread;
 * one buffer, one thread. */
#ifndef KT_MEASURE_PLOT_H
#define KT_MEASURE_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "measure/html.h"

enum { KT__PLOT_MAX_SERIES = 12, KT__PLOT_MAX_BARS = 60 };

typedef struct kt__plot_point {
    double x, y;
    double low, high;  /* an interval of y; equal: none */
    const char *label; /* next to it, or NULL */
} kt__plot_point;

typedef struct kt__plot_series {
    const char *name;
    const kt__plot_point *points; /* [n]; of a line by ascending x */
    size_t n;
    bool line;   /* its points are joined */
    bool dashed; /* and are no measurement but what could be: no marks, no entry of its own below */
    int colour;  /* 0, 1, ...: a dashed one has that of the series that it belongs to */
} kt__plot_series;

typedef struct kt__plot_axis {
    const char *name;
    bool from_zero, log;
    bool at_values; /* ticks at the points' own values where they are few */
} kt__plot_axis;

typedef struct kt__plot {
    const char *title;
    kt__plot_axis x, y;
    const kt__plot_series *series; /* [n_series], of which KT__PLOT_MAX_SERIES are drawn */
    size_t n_series;
    const char *dashed; /* what dashed lines are, or NULL */
} kt__plot;

typedef struct kt__plot_bar {
    const char *name, *text; /* text: the figure, at the end of the name's line; or NULL */
    double value, low, high; /* low, high: an interval; equal: none */
    double mark;             /* a line across the bar; 0: none */
    bool first;              /* drawn in the first colour; the others in a quiet one */
} kt__plot_bar;

typedef struct kt__bar_plot {
    const char *title, *axis;
    const kt__plot_bar *bars; /* [n], of which KT__PLOT_MAX_BARS are drawn */
    size_t n;
    const char *first, *others, *marks,
        *spans;  /* what they are, for the lines below; NULL: not said */
    double most; /* of the axis; 0: by the figures */
} kt__bar_plot;

/* A <figure> with its title, drawing and entries. number: of the plots of a page, no two alike. */
void kt__plot_draw(kt__buf *out, const kt__plot *plot, int number);
void kt__plot_draw_bars(kt__buf *out, const kt__bar_plot *plot, int number);

/* From figures to places: the scale of a plot's axis.
 *
 * Owns: round ticks, their texts, and logarithms. Any thread. */

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
