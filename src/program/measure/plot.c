#include "measure/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/html.h"

enum {
    WIDTH = 440,
    HEIGHT = 280,
    TOP = 30,
    BOTTOM = 232,
    RIGHT = 424,
    TEXT_PX = 7, /* of a cell, at the size that the style sheet gives texts */
    N_COLOURS = 6,
    MAX_MARKED = 30, /* points of a line that are marked each */
    MAX_SAID = 6,    /* points, and bars, that the description names each */
    MAX_BARS_SAID = 12,
    MAX_BOXES = 128,
    LABEL_CELLS = 16
};

typedef struct box {
    double left, top, right, bottom;
} box;

/* ---- the figure around a drawing ---- */

static void begin_figure(kt__buf *out, const char *title, int number, int height) {
    kt__buf_puts(out, "<figure class=\"plot\">\n");
    kt__html_element(out, "h3", title);
    kt__buf_printf(out,
                   "\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"p%dt p%dd\">\n",
                   WIDTH, height, number, number);
    kt__buf_printf(out, "<title id=\"p%dt\">", number);
    kt__html_text(out, title);
    kt__buf_printf(out, "</title>\n<desc id=\"p%dd\">", number);
}

static void add_text(kt__buf *out, const char *class, double x, double y, const char *text,
                     int cells) {
    kt__buf_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    kt__html_short(out, text, cells);
    kt__buf_puts(out, "</text>\n");
}

static void add_line(kt__buf *out, const char *class, double x1, double y1, double x2, double y2) {
    kt__buf_printf(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2);
}

/* A circle, a square, a triangle or a rhombus. */
static void add_mark(kt__buf *out, int colour, double x, double y) {
    const double r = 4.2;
    kt__buf_printf(out, "<path class=\"mark c%d\" d=\"", colour % N_COLOURS);
    switch (colour % 4) {
    case 0:
        kt__buf_printf(out, "M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 %.1f 0z", x - r, y,
                       r, r, 2 * r, r, r, -2 * r);
        break;
    case 1:
        kt__buf_printf(out, "M%.1f %.1fh%.1fv%.1fh%.1fz", x - r, y - r, 2 * r, 2 * r, -2 * r);
        break;
    case 2:
        kt__buf_printf(out, "M%.1f %.1fl%.1f %.1fh%.1fz", x, y - r - 1, r + 1, 2 * r, -2 * r - 2);
        break;
    default:
        kt__buf_printf(out, "M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz", x, y - r - 1, r + 1, r + 1,
                       -r - 1, r + 1, -r - 1, -r - 1);
    }
    kt__buf_puts(out, "\"/>\n");
}

/* A line of the list below a drawing. */
static void add_entry(kt__buf *out, const char *drawing, const char *text) {
    kt__buf_printf(out,
                   "<li><svg viewBox=\"0 0 24 12\" class=\"key\" aria-hidden=\"true\">%s</svg> ",
                   drawing);
    kt__html_text(out, text);
    kt__buf_puts(out, "</li>\n");
}

/* ---- lines and points: the axes ---- */

typedef struct canvas {
    const kt__plot *plot;
    kt__scale x, y;
    box boxes[MAX_BOXES]; /* where something is drawn that no label may cover */
    int n_boxes;
    bool empty;
} canvas;

static size_t n_drawn(const kt__plot *p) {
    return p->n_series < KT__PLOT_MAX_SERIES ? p->n_series : KT__PLOT_MAX_SERIES;
}

static bool has_place(const kt__plot *p, const kt__plot_point *at) {
    return kt__scale_takes(p->x.log, at->x) && kt__scale_takes(p->y.log, at->y);
}

static bool has_interval(const kt__plot *p, const kt__plot_point *at) {
    return at->low < at->high && kt__scale_takes(p->y.log, at->low) &&
           kt__scale_takes(p->y.log, at->high);
}

typedef struct range {
    double low, high;
} range;

static void find_ranges(const kt__plot *p, range *x, range *y) {
    *x = *y = (range){INFINITY, -INFINITY};
    for (size_t s = 0; s < n_drawn(p); s++)
        for (size_t i = 0; i < p->series[s].n; i++) {
            const kt__plot_point *at = &p->series[s].points[i];
            if (!has_place(p, at)) continue;
            kt__scale_widen(p->x.log, at->x, &x->low, &x->high);
            kt__scale_widen(p->y.log, at->y, &y->low, &y->high);
            if (!has_interval(p, at)) continue;
            kt__scale_widen(p->y.log, at->low, &y->low, &y->high);
            kt__scale_widen(p->y.log, at->high, &y->low, &y->high);
        }
    if (p->x.from_zero && x->low <= x->high) kt__scale_widen(false, 0, &x->low, &x->high);
    if (p->y.from_zero && y->low <= y->high) kt__scale_widen(false, 0, &y->low, &y->high);
}

/* Room around points for their names; none below 0 where no value is. */
static void pad_range(range *r) {
    double room = 0.08 * (r->high - r->low);
    if (!(room > 0) || !isfinite(room)) return;
    r->low = r->low >= 0 && r->low < room ? 0 : r->low - room;
    r->high += room;
}

/* The points' own values, ascending; 0: they are too many. */
static int values_of(const kt__plot *p, double out[KT__SCALE_MAX_VALUES]) {
    int n = 0;
    for (size_t s = 0; s < n_drawn(p); s++)
        for (size_t i = 0; i < p->series[s].n; i++) {
            double value = p->series[s].points[i].x;
            int k = 0;
            if (!has_place(p, &p->series[s].points[i])) continue;
            while (k < n && out[k] < value) k++;
            if (k < n && out[k] == value) continue;
            if (n == KT__SCALE_MAX_VALUES) return 0;
            memmove(out + k + 1, out + k, (size_t)(n - k) * sizeof *out);
            out[k] = value;
            n++;
        }
    return n;
}

static int widest_text(const kt__scale *scale) {
    char text[KT__NUMBER_BYTES];
    int most = 1;
    for (int i = 0; i < scale->n_ticks; i++) {
        int cells = (int)strlen(kt__scale_text(scale, i, text));
        if (cells > most) most = cells;
    }
    return most;
}

static void make_scales(canvas *c, const kt__plot *p) {
    double values[KT__SCALE_MAX_VALUES];
    range x, y;
    *c = (canvas){.plot = p};
    find_ranges(p, &x, &y);
    c->empty = !(x.low <= x.high);
    bool named = p->n_series && p->series[0].n && p->series[0].points[0].label;
    if (named && !p->x.from_zero && !p->x.log) pad_range(&x);
    if (named && !p->y.from_zero && !p->y.log) pad_range(&y);
    kt__scale_make(p->y.log, y.low, y.high, true, 5, &c->y);
    c->y.from = BOTTOM;
    c->y.to = TOP;
    kt__scale_make(p->x.log, x.low, x.high, named, 5, &c->x);
    int n = p->x.at_values ? values_of(p, values) : 0;
    if (n) kt__scale_set_ticks(&c->x, values, n);
    double edge = named ? 0 : 10; /* marks at the ends are apart from the axis */
    c->x.from = 14 + TEXT_PX * widest_text(&c->y) + edge;
    c->x.to = RIGHT - edge;
}

static void draw_y_axis(const canvas *c, kt__buf *out) {
    char text[KT__NUMBER_BYTES];
    double left = c->x.from - (c->x.to < RIGHT ? 10 : 0);
    add_text(out, "name", 6, 14, c->plot->y.name, 60);
    for (int i = 0; i < c->y.n_ticks; i++) {
        double y = kt__scale_at(&c->y, c->y.ticks[i]);
        add_line(out, "grid", left, y, RIGHT, y);
        add_text(out, "tick end", left - 6, y + 4, kt__scale_text(&c->y, i, text), 20);
    }
    add_line(out, "axis", left, BOTTOM, RIGHT, BOTTOM);
}

/* A tick whose text would run into the one before has none. */
static void draw_x_axis(const canvas *c, kt__buf *out) {
    char text[KT__NUMBER_BYTES];
    double free_from = 0;
    for (int i = 0; i < c->x.n_ticks; i++) {
        double x = kt__scale_at(&c->x, c->x.ticks[i]);
        double half = TEXT_PX * (double)strlen(kt__scale_text(&c->x, i, text)) / 2;
        double at = x + half > WIDTH - 2 ? WIDTH - 2 - half : x;
        add_line(out, "axis", x, BOTTOM, x, BOTTOM + 4);
        if (at - half < free_from) continue;
        add_text(out, "tick mid", at, BOTTOM + 18, text, 20);
        free_from = at + half + TEXT_PX;
    }
    add_text(out, "name end", RIGHT, BOTTOM + 38, c->plot->x.name, 60);
}

/* ---- lines and points: what is drawn ---- */

static void draw_line(const canvas *c, const kt__plot_series *s, kt__buf *out) {
    char step = 'M';
    size_t n_places = 0;
    for (size_t i = 0; i < s->n; i++) n_places += has_place(c->plot, &s->points[i]);
    if (n_places < 2) return;
    kt__buf_printf(out, "<path class=\"line c%d%s\" d=\"", s->colour % N_COLOURS,
                   s->dashed                ? " dashed"
                   : s->colour >= N_COLOURS ? " dotted"
                                            : "");
    for (size_t i = 0; i < s->n; i++) {
        const kt__plot_point *at = &s->points[i];
        if (has_place(c->plot, at))
            kt__buf_printf(out, "%c%.1f %.1f", step, kt__scale_at(&c->x, at->x),
                           kt__scale_at(&c->y, at->y));
        step = has_place(c->plot, at) ? 'L' : 'M';
    }
    kt__buf_puts(out, "\"/>\n");
}

static void draw_points(canvas *c, const kt__plot_series *s, kt__buf *out) {
    for (size_t i = 0; i < s->n; i++) {
        const kt__plot_point *at = &s->points[i];
        if (!has_place(c->plot, at)) continue;
        double x = kt__scale_at(&c->x, at->x), y = kt__scale_at(&c->y, at->y);
        char class[24];
        snprintf(class, sizeof class, "range c%d", s->colour % N_COLOURS);
        if (has_interval(c->plot, at))
            add_line(out, class, x, kt__scale_at(&c->y, at->low), x, kt__scale_at(&c->y, at->high));
        add_mark(out, s->colour, x, y);
        if (at->label && c->n_boxes < MAX_BOXES)
            c->boxes[c->n_boxes++] = (box){x - 5, y - 5, x + 5, y + 5};
    }
}

static bool is_free(const canvas *c, const box *b) {
    if (b->left < c->x.from || b->right > WIDTH || b->top < TOP - 14 || b->bottom > BOTTOM)
        return false;
    for (int i = 0; i < c->n_boxes; i++) {
        const box *other = &c->boxes[i];
        if (b->left < other->right && other->left < b->right && b->top < other->bottom &&
            other->top < b->bottom)
            return false;
    }
    return true;
}

/* To the right, to the left, above or below; where no place is free, the list and the table have the name. */
static void draw_label(canvas *c, const kt__plot_point *at, kt__buf *out) {
    double x = kt__scale_at(&c->x, at->x), y = kt__scale_at(&c->y, at->y);
    int cells = kt__html_cells(at->label) < LABEL_CELLS ? kt__html_cells(at->label) : LABEL_CELLS;
    double width = TEXT_PX * cells;
    const double lefts[] = {x + 8, x - 8 - width, x - width / 2, x - width / 2, x + 6, x + 6};
    const double bases[] = {y + 4, y + 4, y - 10, y + 19, y - 10, y + 19};
    for (size_t k = 0; k < sizeof lefts / sizeof *lefts && c->n_boxes < MAX_BOXES; k++) {
        box b = {lefts[k], bases[k] - 11, lefts[k] + width, bases[k] + 3};
        if (!is_free(c, &b)) continue;
        c->boxes[c->n_boxes++] = b;
        if (k == 1) /* its true width is not known */
            add_text(out, "label end", x - 8, bases[k], at->label, LABEL_CELLS);
        else
            add_text(out, "label", lefts[k], bases[k], at->label, LABEL_CELLS);
        return;
    }
}

static void draw_labels(canvas *c, kt__buf *out) {
    const kt__plot *p = c->plot;
    for (size_t s = 0; s < n_drawn(p); s++)
        for (size_t i = 0; i < p->series[s].n; i++) {
            const kt__plot_point *at = &p->series[s].points[i];
            if (at->label && has_place(p, at)) draw_label(c, at, out);
        }
}

static void draw_series(canvas *c, kt__buf *out) {
    const kt__plot *p = c->plot;
    for (size_t s = 0; s < n_drawn(p); s++) {
        const kt__plot_series *one = &p->series[s];
        if (one->line || one->dashed) draw_line(c, one, out);
        if (!one->dashed && (!one->line || one->n <= MAX_MARKED)) draw_points(c, one, out);
    }
    draw_labels(c, out);
    if (c->empty) add_text(out, "name mid", WIDTH / 2, HEIGHT / 2, "There are no figures.", 60);
}

/* ---- lines and points: in words ---- */

static void say_point(const kt__plot_point *at, kt__buf *out) {
    char x[KT__NUMBER_BYTES], y[KT__NUMBER_BYTES];
    if (at->label) {
        kt__html_text(out, at->label);
        kt__buf_puts(out, " ");
    }
    kt__buf_printf(out, "%s at %s", kt__html_number(at->y, 4, y), kt__html_number(at->x, 4, x));
}

/* Some points of a series, evenly: with the first and the last. */
static void say_series(const kt__plot_series *s, kt__buf *out) {
    kt__buf_puts(out, " ");
    kt__html_text(out, s->name);
    kt__buf_puts(out, s->dashed ? ", dashed: " : ": ");
    size_t n = s->n < MAX_SAID ? s->n : MAX_SAID;
    for (size_t k = 0; k < n; k++) {
        size_t i = n == s->n ? k : k * (s->n - 1) / (n - 1);
        kt__buf_puts(out, k ? ", " : "");
        say_point(&s->points[i], out);
    }
    kt__buf_puts(out, n ? "." : "nothing.");
}

static void say_plot(const canvas *c, kt__buf *out) {
    const kt__plot *p = c->plot;
    kt__html_text(out, p->y.name);
    kt__buf_puts(out, " by ");
    kt__html_text(out, p->x.name);
    kt__buf_puts(out, ".");
    for (size_t s = 0; s < n_drawn(p) && s < MAX_SAID; s++) say_series(&p->series[s], out);
    if (c->empty) kt__buf_puts(out, " There are no figures.");
    kt__buf_puts(out, " The tables below have all figures.</desc>\n");
}

/* ---- lines and points ---- */

static void list_series(const kt__plot *p, kt__buf *out) {
    kt__buf_puts(out, "<ul class=\"keys\">\n");
    for (size_t s = 0; s < n_drawn(p); s++) {
        const kt__plot_series *one = &p->series[s];
        kt__buf drawing;
        if (one->dashed) continue;
        kt__buf_init(&drawing, 4096);
        if (one->line)
            kt__buf_printf(&drawing, "<path class=\"line c%d%s\" d=\"M1 6H23\"/>",
                           one->colour % N_COLOURS, one->colour >= N_COLOURS ? " dotted" : "");
        add_mark(&drawing, one->colour, 12, 6);
        add_entry(out, drawing.data ? drawing.data : "", one->name);
        kt__buf_free(&drawing);
    }
    if (p->dashed) add_entry(out, "<path class=\"line dashed\" d=\"M1 6H23\"/>", p->dashed);
    kt__buf_puts(out, "</ul>\n");
}

void kt__plot_draw(kt__buf *out, const kt__plot *plot, int number) {
    canvas c;
    make_scales(&c, plot);
    begin_figure(out, plot->title, number, HEIGHT);
    say_plot(&c, out);
    draw_y_axis(&c, out);
    draw_x_axis(&c, out);
    draw_series(&c, out);
    kt__buf_puts(out, "</svg>\n");
    list_series(plot, out);
    if (plot->n_series > KT__PLOT_MAX_SERIES)
        kt__buf_printf(out,
                       "<p class=\"note\">%d of %zu series are drawn; the table has all.</p>\n",
                       KT__PLOT_MAX_SERIES, plot->n_series);
    kt__buf_puts(out, "</figure>\n");
}

/* ---- bars ---- */

enum { ROW = 38, BAR_LEFT = 6, NAME_CELLS = 54 };

static size_t n_bars_drawn(const kt__bar_plot *p) {
    return p->n < KT__PLOT_MAX_BARS ? p->n : KT__PLOT_MAX_BARS;
}

static void make_bar_scale(const kt__bar_plot *p, kt__scale *scale) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n_bars_drawn(p); i++) {
        const kt__plot_bar *b = &p->bars[i];
        kt__scale_widen(false, b->value, &low, &high);
        kt__scale_widen(false, b->mark, &low, &high);
        if (b->low < b->high) {
            kt__scale_widen(false, b->low, &low, &high);
            kt__scale_widen(false, b->high, &low, &high);
        }
    }
    kt__scale_widen(false, 0, &low, &high);
    if (p->most > 0) kt__scale_widen(false, p->most, &low, &high);
    kt__scale_make(false, low, high, true, 5, scale);
    scale->from = BAR_LEFT;
    scale->to = RIGHT;
}

static void draw_bar_axis(const kt__bar_plot *p, const kt__scale *scale, double bottom,
                          kt__buf *out) {
    char text[KT__NUMBER_BYTES];
    for (int i = 0; i < scale->n_ticks; i++) {
        double x = kt__scale_at(scale, scale->ticks[i]);
        double half = TEXT_PX * (double)strlen(kt__scale_text(scale, i, text)) / 2;
        double at = x - half < 2 ? half + 2 : x + half > WIDTH - 2 ? WIDTH - 2 - half : x;
        add_line(out, "grid", x, 4, x, bottom);
        add_text(out, "tick mid", at, bottom + 16, text, 20);
    }
    add_text(out, "name end", RIGHT, bottom + 34, p->axis, 60);
}

static void draw_bar(const kt__scale *scale, const kt__plot_bar *b, double top, kt__buf *out) {
    double zero = kt__scale_at(scale, 0), y = top + 20;
    int cells = b->text ? kt__html_cells(b->text) : 0;
    add_text(out, "label", BAR_LEFT, top + 14, b->name, NAME_CELLS - cells);
    if (b->text) add_text(out, "label end", RIGHT, top + 14, b->text, NAME_CELLS);
    if (kt__scale_takes(false, b->value)) {
        double end = kt__scale_at(scale, b->value), left = end < zero ? end : zero;
        kt__buf_printf(out, "<path class=\"bar %s\" d=\"M%.1f %.1fh%.1fv12h%.1fz\"/>\n",
                       b->first ? "c0" : "quiet", left, y, fabs(end - zero), -fabs(end - zero));
    }
    if (b->low < b->high && kt__scale_takes(false, b->low) && kt__scale_takes(false, b->high)) {
        double from = kt__scale_at(scale, b->low), to = kt__scale_at(scale, b->high);
        add_line(out, "halo", from, y + 6, to, y + 6); /* on a dark bar, too */
        add_line(out, "span", from, y + 6, to, y + 6);
    }
    if (kt__scale_takes(false, b->mark) && b->mark != 0)
        add_line(out, "limit", kt__scale_at(scale, b->mark), y - 3, kt__scale_at(scale, b->mark),
                 y + 15);
}

static void say_bars(const kt__bar_plot *p, kt__buf *out) {
    char text[KT__NUMBER_BYTES];
    size_t n = p->n < MAX_BARS_SAID ? p->n : MAX_BARS_SAID;
    kt__html_text(out, p->axis);
    kt__buf_puts(out, ".");
    for (size_t i = 0; i < n; i++) {
        const kt__plot_bar *b = &p->bars[i];
        kt__buf_puts(out, " ");
        kt__html_text(out, b->name);
        kt__buf_puts(out, ": ");
        kt__html_text(out, b->text ? b->text : kt__html_number(b->value, 4, text));
        kt__buf_puts(out, ".");
    }
    kt__buf_puts(out, n ? " The tables below have all figures.</desc>\n"
                        : " There are no figures.</desc>\n");
}

static void list_bars(const kt__bar_plot *p, kt__buf *out) {
    if (!p->first && !p->others && !p->marks && !p->spans) return;
    kt__buf_puts(out, "<ul class=\"keys\">\n");
    if (p->first) add_entry(out, "<path class=\"bar c0\" d=\"M1 1h22v10h-22z\"/>", p->first);
    if (p->others) add_entry(out, "<path class=\"bar quiet\" d=\"M1 1h22v10h-22z\"/>", p->others);
    if (p->marks) add_entry(out, "<path class=\"limit\" d=\"M12 0v12\"/>", p->marks);
    if (p->spans) add_entry(out, "<path class=\"span\" d=\"M1 6h22\"/>", p->spans);
    kt__buf_puts(out, "</ul>\n");
}

void kt__plot_draw_bars(kt__buf *out, const kt__bar_plot *plot, int number) {
    kt__scale scale;
    size_t n = n_bars_drawn(plot);
    int bottom = n ? 8 + ROW * (int)n : 60;
    make_bar_scale(plot, &scale);
    begin_figure(out, plot->title, number, bottom + 42);
    say_bars(plot, out);
    draw_bar_axis(plot, &scale, bottom, out);
    for (size_t i = 0; i < n; i++) draw_bar(&scale, &plot->bars[i], 4 + ROW * (double)i, out);
    if (!n) add_text(out, "name mid", WIDTH / 2, 36, "There are no figures.", 60);
    kt__buf_puts(out, "</svg>\n");
    list_bars(plot, out);
    if (plot->n > n)
        kt__buf_printf(out, "<p class=\"note\">%zu of %zu bars are drawn; the table has all.</p>\n",
                       n, plot->n);
    kt__buf_puts(out, "</figure>\n");
}

/* ---- plot scale ---- */

static const double largest = 1e30; /* beyond it, differences of doubles may be no numbers */

bool kt__scale_takes(bool log, double value) {
    return isfinite(value) && fabs(value) < largest && (!log || value > 1 / largest);
}

void kt__scale_widen(bool log, double value, double *low, double *high) {
    if (!kt__scale_takes(log, value)) return;
    if (value < *low) *low = value;
    if (value > *high) *high = value;
}

/* 1, 2 or 5 times a power of ten, so that about n of them make the span. */
static double round_step(double span, int n) {
    double raw = span / n, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void linear_ticks(kt__scale *s, bool round, int n_ticks) {
    double step = round_step(s->high - s->low, n_ticks > 0 ? n_ticks : 1);
    if (round) {
        s->low = step * floor(s->low / step + 1e-9);
        s->high = step * ceil(s->high / step - 1e-9);
    }
    double places = -floor(log10(step) + 1e-9);
    s->decimals = places <= 0 ? 0 : places > 12 ? 12 : (int)places;
    for (double k = ceil(s->low / step - 1e-9); s->n_ticks < KT__SCALE_MAX_TICKS; k++) {
        if (k * step > s->high + step * 1e-6) break;
        s->ticks[s->n_ticks++] = k == 0 ? 0 : k * step;
    }
}

/* Powers of ten, as many as there is room for. */
static void log_ticks(kt__scale *s, bool round, int n_ticks) {
    if (round || s->high - s->low < 1) {
        s->low = floor(s->low + 1e-9);
        s->high = ceil(s->high - 1e-9);
    }
    double step = ceil((s->high - s->low) / (n_ticks > 0 ? n_ticks : 1));
    for (double k = ceil(s->low - 1e-9); s->n_ticks < KT__SCALE_MAX_TICKS; k += step) {
        if (k > s->high + 1e-9) break;
        s->ticks[s->n_ticks++] = pow(10, k);
    }
}

void kt__scale_make(bool log, double low, double high, bool round, int n_ticks, kt__scale *out) {
    *out = (kt__scale){.log = log, .to = 1};
    if (!(low <= high)) low = log ? 1 : 0, high = log ? 10 : 1;
    out->low = log ? log10(low) : low;
    out->high = log ? log10(high) : high;
    if (out->high - out->low < 1e-9 * fabs(out->high) || out->high <= out->low) {
        double half = log ? 0.5 : out->high == 0 ? 0.5 : 0.1 * fabs(out->high);
        bool zero = !log && low == 0; /* an axis that begins at 0 still does */
        out->low -= zero ? 0 : half;
        out->high += half;
    }
    (log ? log_ticks : linear_ticks)(out, round, n_ticks);
}

void kt__scale_set_ticks(kt__scale *scale, const double *values, int n) {
    scale->n_ticks = 0;
    scale->decimals = -1;
    for (int i = 0; i < n && i < KT__SCALE_MAX_TICKS; i++)
        scale->ticks[scale->n_ticks++] = values[i];
}

double kt__scale_at(const kt__scale *s, double value) {
    double at = s->log ? log10(value) : value;
    return s->from + (at - s->low) / (s->high - s->low) * (s->to - s->from);
}

/* 2000000: 2M */
static const char *short_text(double value, int decimals, char out[KT__NUMBER_BYTES]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    double size = fabs(value);
    if (size >= 1e5)
        for (; size >= 1000 && unit + 1 < sizeof units / sizeof *units; size /= 1000) unit++;
    if (size >= 1e5) {
        snprintf(out, KT__NUMBER_BYTES, "%.1e", value);
    } else if (unit) {
        snprintf(out, KT__NUMBER_BYTES, "%s%.4g%s", value < 0 ? "-" : "", size, units[unit]);
    } else {
        snprintf(out, KT__NUMBER_BYTES, "%.*f", decimals, value);
    }
    return out;
}

const char *kt__scale_text(const kt__scale *s, int tick, char out[KT__NUMBER_BYTES]) {
    double value = s->ticks[tick], size = fabs(value);
    if (size > 0 && size < 1e-4) {
        snprintf(out, KT__NUMBER_BYTES, "%.0e", value);
        return out;
    }
    if (!s->log && s->decimals >= 0) return short_text(value, s->decimals, out);
    if (size >= 1e5) return short_text(value, 0, out);
    snprintf(out, KT__NUMBER_BYTES, "%.6g", value);
    return out;
}
