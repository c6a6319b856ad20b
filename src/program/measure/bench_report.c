/* The rows of kentang bench as a page: speed by each dimension of the grid that has more than one value,
 * and against the machine's limits. */
#include "measure/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "measure/html.h"
#include "measure/report.h"

enum { NAME_BYTES = 256, MAX_SERIES = 64, TEXT_BYTES = 96 };

/* A row and what it is of. */
typedef struct entry {
    const kt__bench_report *of;
    const kt__bench_row *row;
} entry;

typedef struct entries {
    entry *items; /* heap */
    size_t n;
    unsigned varies; /* bits of dimensions, and the two below, that have more than one value */
} entries;

/* ---- the dimensions of a grid ---- */

static int depth_of(const kt__bench_row *row) {
    return row->test.n_depth;
}
static int threads_of(const kt__bench_row *row) {
    return row->test.n_threads;
}
static int streams_of(const kt__bench_row *row) {
    return row->test.n_streams;
}
static int prompt_of(const kt__bench_row *row) {
    return row->test.n_prompt;
}
static int gen_of(const kt__bench_row *row) {
    return row->test.n_gen;
}
static int ubatch_of(const kt__bench_row *row) {
    return row->n_ubatch;
}

static const struct dimension {
    int (*value)(const kt__bench_row *row);
    const char *title, *axis;
} dimensions[] = {
    {depth_of, "by depth", "tokens that the context holds"},
    {threads_of, "by threads", "threads"},
    {streams_of, "by streams", "sequences decoded together"},
    {prompt_of, "by the prompt's length", "tokens of the prompt"},
    {gen_of, "by the answer's length", "tokens of the answer"},
    {ubatch_of, "by size of slices", "prompt tokens computed together"},
};
enum { N_DIMENSIONS = sizeof dimensions / sizeof *dimensions };
enum {
    VARIES_MODEL = 1 << N_DIMENSIONS,
    VARIES_TIER = 2 << N_DIMENSIONS,
    VARIES_KV = 4 << N_DIMENSIONS
};

static bool same_model(const kt__bench_report *a, const kt__bench_report *b) {
    return !strcmp(a->model, b->model) && !strcmp(a->quant, b->quant);
}

static bool same_kv(const kt__bench_row *a, const kt__bench_row *b) {
    return a->kv_keys == b->kv_keys && a->kv_values == b->kv_values && a->kv_tail == b->kv_tail;
}

/* In what two entries differ. */
static unsigned entry_differences(const entry *a, const entry *b) {
    unsigned bits = 0;
    for (int d = 0; d < N_DIMENSIONS; d++)
        if (dimensions[d].value(a->row) != dimensions[d].value(b->row)) bits |= 1u << d;
    if (!same_model(a->of, b->of)) bits |= VARIES_MODEL;
    if (strcmp(a->of->isa, b->of->isa) != 0) bits |= VARIES_TIER;
    if (!same_kv(a->row, b->row)) bits |= VARIES_KV;
    return bits;
}

static void append_phrase(char name[NAME_BYTES], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void append_phrase(char name[NAME_BYTES], const char *fmt, ...) {
    size_t len = strlen(name);
    va_list args;
    if (len) len += (size_t)snprintf(name + len, NAME_BYTES - len, ", ");
    va_start(args, fmt);
    if (len < NAME_BYTES) vsnprintf(name + len, NAME_BYTES - len, fmt, args);
    va_end(args);
}

/* What of an entry differs from others, in words; bits: of what is said. */
static void name_entry(const entry *e, unsigned bits, char name[NAME_BYTES]) {
    for (int d = 0; d < N_DIMENSIONS; d++) {
        int value = dimensions[d].value(e->row);
        if (!(bits >> d & 1)) continue;
        switch (d) { /* a literal format each */
        case 0: append_phrase(name, "depth %d", value); break;
        case 1: append_phrase(name, "%d thread%s", value, value == 1 ? "" : "s"); break;
        case 2: append_phrase(name, "%d stream%s", value, value == 1 ? "" : "s"); break;
        case 3: append_phrase(name, "prompt of %d", value); break;
        case 4: append_phrase(name, "answer of %d", value); break;
        default: append_phrase(name, "slices of %d", value); break;
        }
    }
    if (bits & VARIES_KV)
        append_phrase(name, "K/V %s/%s", kt_kv_type_name(e->row->kv_keys),
                      kt_kv_type_name(e->row->kv_values));
    if (bits & VARIES_TIER) append_phrase(name, "%s", e->of->isa);
    if (bits & VARIES_MODEL) append_phrase(name, "%s %s", e->of->model, e->of->quant);
}

/* ---- speed by a dimension ---- */

/* The entries of prompts, or of answers. */
static void entries_of(const entries *all, bool prompts, entry *items, entries *out) {
    *out = (entries){.items = items};
    for (size_t i = 0; i < all->n; i++)
        if ((all->items[i].row->test.n_prompt > 0) == prompts) items[out->n++] = all->items[i];
    for (size_t i = 1; i < out->n; i++) out->varies |= entry_differences(&items[0], &items[i]);
}

typedef struct lines {
    kt__plot_point *points, *limits; /* [n] of all entries, series after series */
    kt__plot_series measured[MAX_SERIES], drawn[KT__PLOT_MAX_SERIES];
    char names[MAX_SERIES][NAME_BYTES];
    size_t n, n_drawn;
    bool has_limits;
} lines;

static int compare_x(const void *a, const void *b) {
    double x = ((const kt__plot_point *)a)->x, y = ((const kt__plot_point *)b)->x;
    return (x > y) - (x < y);
}

/* Whether limits would leave the measured lines room in one plot. */
static bool limits_fit(const lines *l, size_t n) {
    double most = 0, limit = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(l->limits[i].y > 0)) return false;
        if (l->points[i].y > most) most = l->points[i].y;
        if (l->limits[i].y > limit) limit = l->limits[i].y;
    }
    return limit < 4 * most;
}

/* All entries that differ from the first one of `left` in the dimension alone; the others stay in `left`. */
static void take_series(const entries *of, entries *left, int dimension, lines *l, size_t *used) {
    const entry first = left->items[0];
    size_t n = 0, kept = 0, s = l->n++;
    for (size_t i = 0; i < left->n; i++) {
        const entry *e = &left->items[i];
        if (entry_differences(&first, e) & ~(1u << dimension)) {
            left->items[kept++] = *e;
            continue;
        }
        const kt__bench_row *row = e->row;
        double x = dimensions[dimension].value(row);
        l->points[*used + n] = (kt__plot_point){
            .x = x, .y = row->median, .low = row->tok_s[0], .high = row->tok_s[row->n_runs - 1]};
        l->limits[*used + n++] = (kt__plot_point){.x = x, .y = row->limit_tok_s};
    }
    left->n = kept;
    qsort(l->points + *used, n, sizeof *l->points, compare_x);
    qsort(l->limits + *used, n, sizeof *l->limits, compare_x);
    name_entry(&first, of->varies & ~(1u << dimension), l->names[s]);
    if (!l->names[s][0])
        append_phrase(l->names[s], "%s", first.row->test.n_prompt ? "prompt" : "answer");
    l->measured[s] = (kt__plot_series){
        .name = l->names[s], .points = l->points + *used, .n = n, .line = true, .colour = (int)s};
    *used += n;
}

/* The measured lines and, as long as there is room, their limits. */
static void choose_drawn(lines *l, size_t n) {
    size_t used = 0;
    l->has_limits = 2 * l->n <= KT__PLOT_MAX_SERIES && limits_fit(l, n);
    for (size_t s = 0; s < l->n && s < KT__PLOT_MAX_SERIES; s++)
        l->drawn[l->n_drawn++] = l->measured[s];
    for (size_t s = 0; s < l->n && l->has_limits; s++) {
        kt__plot_series limit = l->measured[s];
        limit.points = l->limits + used;
        limit.dashed = true;
        used += limit.n;
        l->drawn[l->n_drawn++] = limit;
    }
}

static void plot_dimension(kt__report *r, const entries *of, int dimension, entry *scratch,
                           lines *l) {
    char title[TEXT_BYTES];
    entries left = {.items = scratch, .n = of->n};
    bool prompts = of->items[0].row->test.n_prompt > 0;
    memcpy(scratch, of->items, of->n * sizeof *scratch);
    size_t used = 0;
    l->n = l->n_drawn = 0;
    memset(l->names, 0, sizeof l->names);
    while (left.n && l->n < MAX_SERIES) take_series(of, &left, dimension, l, &used);
    choose_drawn(l, used);
    snprintf(title, sizeof title, "%s %s", prompts ? "Reading prompts" : "Writing answers",
             dimensions[dimension].title);
    const kt__plot plot = {.title = title,
                           .x = {.name = dimensions[dimension].axis, .at_values = true},
                           .y = {.name = "tokens a second", .from_zero = true},
                           .series = l->drawn,
                           .n_series = l->has_limits ? l->n_drawn : l->n,
                           .dashed = l->has_limits ? "the most that this machine allows" : NULL};
    kt__report_plot(r, &plot);
}

/* What each series keeps: all points of an entry's list, twice; items and scratch of the same size. */
static kt_status plot_dimensions(kt__report *r, const entries *all, kt_error *err) {
    kt_status status = KT_OK;
    entries of;
    lines *l = kt__calloc(1, sizeof *l);
    entry *items = kt__calloc(2 * all->n, sizeof *items);
    kt__plot_point *points = kt__calloc(2 * all->n, sizeof *points);
    if (!l || !items || !points) KT__TRY(kt__fail_nomem(err, "the plots", sizeof *l));
    l->points = points;
    l->limits = points + all->n;
    for (int prompts = 0; prompts < 2; prompts++) {
        entries_of(all, prompts, items, &of);
        for (int d = 0; d < N_DIMENSIONS && of.n; d++)
            if (of.varies >> d & 1) plot_dimension(r, &of, d, items + all->n, l);
    }
out:
    kt__free(points);
    kt__free(items);
    kt__free(l);
    return status;
}

/* ---- bars ---- */

typedef struct bars {
    kt__plot_bar items[KT__PLOT_MAX_BARS];
    char names[KT__PLOT_MAX_BARS][NAME_BYTES], texts[KT__PLOT_MAX_BARS][TEXT_BYTES];
    size_t n;
} bars;

/* The test and what else varies. */
static kt__plot_bar *add_bar(bars *b, const entries *all, const entry *e) {
    const unsigned in_test = 1u << 0 | 1u << 2 | 1u << 3 | 1u << 4; /* what its name says */
    char test[64];
    char *name = b->names[b->n];
    kt__bench_test_name(&e->row->test, test, sizeof test);
    append_phrase(name, "%s", test);
    name_entry(e, all->varies & ~in_test, name);
    kt__plot_bar *bar = &b->items[b->n];
    *bar = (kt__plot_bar){.name = name, .text = b->texts[b->n], .first = !e->row->test.n_prompt};
    b->n++;
    return bar;
}

static void plot_speeds(kt__report *r, const entries *all, bars *b) {
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < all->n && i < KT__PLOT_MAX_BARS; i++) {
        const kt__bench_row *row = all->items[i].row;
        kt__plot_bar *bar = add_bar(b, all, &all->items[i]);
        char speed[KT__NUMBER_BYTES];
        bar->value = row->median;
        bar->low = row->tok_s[0];
        bar->high = row->tok_s[row->n_runs - 1];
        snprintf(b->texts[i], TEXT_BYTES, "%s tokens/s", kt__html_number(row->median, 4, speed));
    }
    const kt__bar_plot plot = {.title = "Speed of each test",
                               .axis = "tokens a second",
                               .bars = b->items,
                               .n = all->n,
                               .first = "answers (tg)",
                               .others = "prompts (pp)",
                               .spans = "from the slowest run to the fastest"};
    kt__report_bars(r, &plot);
}

static void plot_shares(kt__report *r, const entries *all, bars *b) {
    size_t n = 0;
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < all->n; i++) {
        const kt__bench_row *row = all->items[i].row;
        char limit[KT__NUMBER_BYTES];
        if (!row->bound || n++ >= KT__PLOT_MAX_BARS) continue;
        char *text = b->texts[b->n];
        kt__plot_bar *bar = add_bar(b, all, &all->items[i]);
        bar->value = 100 * row->median / row->limit_tok_s;
        snprintf(text, TEXT_BYTES, "%.0f%% of %s (%s)", bar->value,
                 kt__html_number(row->limit_tok_s, 3, limit), row->bound);
    }
    const kt__bar_plot plot = {.title = "Against the machine's limit",
                               .axis = "percent of the tokens a second that the limit allows",
                               .bars = b->items,
                               .n = n,
                               .first = "answers (tg)",
                               .others = "prompts (pp)",
                               .most = 100};
    if (n) kt__report_bars(r, &plot);
}

/* ---- tables ---- */

static void add_row(kt__report *r, const entry *e, bool named) {
    const kt__bench_row *row = e->row;
    char test[64];
    kt__bench_test_name(&row->test, test, sizeof test);
    if (named) {
        kt__report_cell(r, "%s %s", e->of->model, e->of->quant);
        kt__report_cell(r, "%.1f", (double)e->of->weight_bytes * 1e-6);
    }
    kt__report_text(r, test);
    kt__report_number(r, row->median, 5);
    kt__report_number(r, row->tok_s[0], 5);
    kt__report_number(r, row->tok_s[row->n_runs - 1], 5);
    if (row->bound)
        kt__report_cell(r, "%.0f%%", 100 * row->median / row->limit_tok_s);
    else
        kt__report_text(r, "-");
    kt__report_number(r, row->bound ? row->limit_tok_s : NAN, 5);
    kt__report_text(r, row->bound ? row->bound : "-");
    kt__report_cell(r, "%d", row->test.n_threads);
    kt__report_cell(r, "%d", (int)row->n_ubatch);
    kt__report_cell(r, "%s/%s", kt_kv_type_name(row->kv_keys), kt_kv_type_name(row->kv_values));
    kt__report_cell(r, "%s%s", e->of->isa, e->of->blas ? "+blas" : "");
}

/* The model is a column only where there are several. */
static void add_tests(kt__report *r, const entries *all) {
    static const char *const columns[] = {"<model",  "MB",       "<test",   "tokens/s", "slowest",
                                          "fastest", "of limit", "limit",   "<bound",   "threads",
                                          "slice",   "<K/V",     "<kernels"};
    const int hidden = all->varies & VARIES_MODEL ? 0 : 2;
    kt__report_table(r,
                     "Tests: ppN reads a prompt of N tokens, tgN writes N; @dM: after M tokens; "
                     "xS: S sequences together",
                     columns + hidden, (int)KT__COUNT(columns) - hidden);
    for (size_t i = 0; i < all->n; i++) add_row(r, &all->items[i], !hidden);
    kt__report_table_end(r);
}

/* Once for each number of threads of a tier. */
static void add_limits(kt__report *r, const entries *all) {
    static const char *const columns[] = {"<threads", "<kernels", "GB/s read",
                                          "8-bit multiply-adds, G/s"};
    bool begun = false;
    for (size_t i = 0; i < all->n; i++) {
        const entry *e = &all->items[i], *before = i ? e - 1 : NULL;
        const kt__bench_limits *l = &e->row->limits;
        if (l->read_bytes_per_s <= 0) continue;
        if (before && before->row->test.n_threads == e->row->test.n_threads &&
            !strcmp(before->of->isa, e->of->isa))
            continue;
        if (!begun)
            kt__report_table(r, "Limits of this machine, measured between the runs", columns,
                             (int)KT__COUNT(columns));
        begun = true;
        kt__report_cell(r, "%d", e->row->test.n_threads);
        kt__report_text(r, e->of->isa);
        kt__report_number(r, l->read_bytes_per_s * 1e-9, 4);
        kt__report_number(r, l->i8_mac_per_s * 1e-9, 4);
    }
    if (begun) kt__report_table_end(r);
}

static void add_warnings(kt__report *r, const entries *all) {
    bool noisy = false, paged = false;
    for (size_t i = 0; i < all->n; i++) {
        noisy |= all->items[i].row->noise.noisy;
        paged |= all->items[i].row->major_faults > 0;
    }
    if (noisy)
        kt__report_note(r, "The machine was busy with other work: these figures are too low.");
    if (paged)
        kt__report_note(r, "Pages came from disk while measuring: the model does not fit in the "
                           "memory that is free.");
}

/* ---- the page ---- */

static const entry *fastest_of(const entries *all, bool prompts) {
    const entry *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const entry *e = &all->items[i];
        if ((e->row->test.n_prompt > 0) != prompts) continue;
        if (!best || e->row->median > best->row->median) best = e;
    }
    return best;
}

static void summarise_entries(const entries *all, char *out, size_t size) {
    char numbers[2][KT__NUMBER_BYTES], test[64];
    const kt__bench_report *of = all->items[0].of;
    size_t len = 0, begin;
    out[0] = '\0';
    if (!(all->varies & VARIES_MODEL))
        snprintf(out, size, "%.1f million parameters in %.1f MB. ", (double)of->n_params * 1e-6,
                 (double)of->weight_bytes * 1e-6);
    begin = len = strlen(out);
    for (int prompts = 1; prompts >= 0; prompts--) {
        const entry *e = fastest_of(all, prompts);
        if (!e || len >= size) continue;
        kt__bench_test_name(&e->row->test, test, sizeof test);
        int n = snprintf(out + len, size - len, "%s%s at %s tokens a second (%s)",
                         len > begin ? ", " : "",
                         prompts ? "Prompts are read"
                         : len   ? "answers written"
                                 : "Answers are written",
                         kt__html_number(e->row->median, 4, numbers[prompts]), test);
        len += n > 0 ? (size_t)n : 0;
    }
    if (len < size)
        snprintf(out + len, size - len, "%s. Medians of %d run%s.", all->n > 2 ? " at best" : "",
                 all->items[0].row->n_runs, all->items[0].row->n_runs == 1 ? "" : "s");
}

static kt_status collect_entries(const kt__bench_report *reports, int n, entries *all,
                                 kt_error *err) {
    size_t count = 0;
    for (int i = 0; i < n; i++) count += (size_t)reports[i].n_rows;
    all->items = kt__calloc(count, sizeof *all->items);
    if (!all->items) return kt__fail_nomem(err, "the rows of the report", count * sizeof(entry));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < reports[i].n_rows; k++)
            all->items[all->n++] = (entry){.of = &reports[i], .row = &reports[i].rows[k]};
    for (size_t i = 1; i < all->n; i++)
        all->varies |= entry_differences(&all->items[0], &all->items[i]);
    return KT_OK;
}

static kt_status write_page(const kt__report_opts *opts, const entries *all, bars *b,
                            kt_error *err) {
    kt__report r;
    char title[NAME_BYTES], summary[NAME_BYTES];
    const kt__bench_report *first = all->items[0].of;
    snprintf(title, sizeof title, "Speed of %s %s%s", first->model, first->quant,
             all->varies & VARIES_MODEL ? " and others" : "");
    summarise_entries(all, summary, sizeof summary);
    kt__report_begin(&r, opts, title, summary);
    kt_status status = plot_dimensions(&r, all, err);
    if (status != KT_OK) {
        kt__buf_free(&r.out);
        return status;
    }
    plot_shares(&r, all, b);
    plot_speeds(&r, all, b);
    add_tests(&r, all);
    add_limits(&r, all);
    add_warnings(&r, all);
    return kt__report_finish(&r, all->varies & VARIES_TIER ? NULL : first->isa, err);
}

kt_status kt__bench_write_report(const kt__report_opts *opts, const kt__bench_report *reports,
                                 int n, kt_error *err) {
    entries all = {0};
    kt_status status;
    if (!opts->path) return KT_OK;
    bars *b = kt__calloc(1, sizeof *b);
    if (!b) return kt__fail_nomem(err, "the plots", sizeof *b);
    KT__TRY(collect_entries(reports, n, &all, err));
    KT__TRY(write_page(opts, &all, b, err));
out:
    kt__free(all.items);
    kt__free(b);
    return status;
}
