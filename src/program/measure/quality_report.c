#include "measure/quality_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "measure/html.h"
#include "measure/report.h"

enum { MAX_POINTS = 100, TITLE_BYTES = 300, MAX_FILES = KT__PLOT_MAX_SERIES };

static const double z95 = 1.96; /* standard errors to each side of 95% */

/* ---- quality against size and speed ---- */

typedef enum quality_axis { OF_PERPLEXITY, OF_BITS, OF_DIVERGENCE } quality_axis;
typedef enum cost_axis { OF_SIZE, OF_PROMPTS, OF_DECODE } cost_axis;

static const char *const quality_names[] = {"perplexity (lower is better)",
                                            "bits a byte (lower is better)",
                                            "mean KL divergence, nats (lower is better)"};
static const char *const cost_names[] = {"MB", "tokens a second, reading",
                                         "tokens a second, writing"};
static const char *const quality_titles[] = {"Perplexity", "Bits a byte", "Divergence"};
static const char *const cost_titles[] = {"against size", "against the speed of reading",
                                          "against the speed of writing"};

static double cost_of(const kt__judged_file *f, cost_axis of) {
    double value = of == OF_SIZE      ? (double)f->file_bytes * 1e-6
                   : of == OF_PROMPTS ? f->prompt_tok_s
                                      : f->decode_tok_s;
    return value > 0 ? value : NAN;
}

/* A base does not diverge from itself. */
static kt__plot_point place_file(const kt__judged_files *files, size_t i, quality_axis y,
                                 cost_axis x) {
    const kt__judged_file *f = &files->items[i];
    double value = f->bits_per_byte, error = 0;
    if (y == OF_PERPLEXITY) value = f->figures->ppl, error = f->figures->ppl_error;
    if (y == OF_DIVERGENCE) value = f->has_divergence ? f->figures->kl : f->is_base ? 0 : NAN;
    if (y == OF_DIVERGENCE && f->has_divergence) error = f->figures->kl_error;
    return (kt__plot_point){.x = cost_of(f, x),
                            .y = value,
                            .low = value - z95 * error,
                            .high = value + z95 * error,
                            .label = f->type};
}

static void plot_files(kt__report *r, const kt__judged_files *files, quality_axis y, cost_axis x) {
    kt__plot_point points[MAX_FILES];
    kt__plot_series series[MAX_FILES];
    char title[TITLE_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < files->n && n < MAX_FILES; i++) {
        points[n] = place_file(files, i, y, x);
        if (!isfinite(points[n].x) || !isfinite(points[n].y)) continue;
        series[n] = (kt__plot_series){.name = kt__files_name(files->items[i].path),
                                      .points = &points[n],
                                      .n = 1,
                                      .colour = (int)i};
        n++;
    }
    if (n < 2) return; /* one file says nothing about what size or speed costs */
    snprintf(title, sizeof title, "%s %s", quality_titles[y], cost_titles[x]);
    const kt__plot plot = {.title = title,
                           .x = {.name = cost_names[x], .from_zero = true},
                           .y = {.name = quality_names[y], .from_zero = y == OF_DIVERGENCE},
                           .series = series,
                           .n_series = n};
    kt__report_plot(r, &plot);
}

static void plot_all_files(kt__report *r, const kt__judged_files *files) {
    bool divergence = false, decode = false;
    for (size_t i = 0; i < files->n; i++) {
        divergence |= files->items[i].has_divergence;
        decode |= files->items[i].decode_tok_s > 0;
    }
    const quality_axis y = files->alike ? OF_PERPLEXITY : OF_BITS;
    const cost_axis speed = decode ? OF_DECODE : OF_PROMPTS;
    plot_files(r, files, y, OF_SIZE);
    plot_files(r, files, y, speed);
    if (!divergence) return;
    plot_files(r, files, OF_DIVERGENCE, OF_SIZE);
    plot_files(r, files, OF_DIVERGENCE, speed);
}

/* ---- token by token ---- */

static size_t points_of(size_t n) {
    return n < MAX_POINTS ? n : MAX_POINTS;
}

/* The perplexity of the text up to each of some tokens. */
static void read_along(const double *nll, size_t n, kt__plot_point *points) {
    double sum = 0;
    size_t at = 0;
    for (size_t k = 0; k < points_of(n); k++) {
        size_t end = (k + 1) * n / points_of(n);
        for (; at < end; at++) sum += nll[at];
        points[k] = (kt__plot_point){.x = (double)end, .y = exp(sum / (double)end)};
    }
}

static void plot_along(kt__report *r, const kt__quality *q, const char *name) {
    kt__plot_point points[2][MAX_POINTS];
    read_along(q->nll, q->n, points[0]);
    if (q->has_base) read_along(q->base_nll, q->n, points[1]);
    const kt__plot_series series[] = {
        {.name = name, .points = points[0], .n = points_of(q->n), .line = true},
        {.name = "the base", .points = points[1], .n = points_of(q->n), .line = true, .colour = 1},
    };
    const kt__plot plot = {.title = "Perplexity of the text so far",
                           .x = {.name = "tokens scored", .from_zero = true},
                           .y = {.name = "perplexity"},
                           .series = series,
                           .n_series = q->has_base ? 2 : 1};
    kt__report_plot(r, &plot);
}

/* Of the divergences, which are sorted: how many percent are at most so large. */
static void plot_spread(kt__report *r, const kt__quality *q, const char *name) {
    kt__plot_point points[MAX_POINTS];
    const size_t n = points_of(q->n);
    for (size_t k = 0; k < n; k++) {
        size_t rank = (k + 1) * q->n / n;
        points[k] = (kt__plot_point){.x = q->kl[rank - 1], .y = 100 * (double)rank / (double)q->n};
        if (points[k].x < 1e-9) points[k].x = NAN; /* as good as none: off a scale of powers */
    }
    const kt__plot_series series = {.name = name, .points = points, .n = n, .line = true};
    const kt__plot plot = {.title = "Tokens that diverge at most so much",
                           .x = {.name = "KL divergence of a token, nats", .log = true},
                           .y = {.name = "percent of the tokens", .from_zero = true},
                           .series = &series,
                           .n_series = 1};
    kt__report_plot(r, &plot);
}

/* ---- tables ---- */

static void add_file(kt__report *r, const kt__judged_file *f) {
    kt__report_text(r, f->path);
    kt__report_text(r, f->type);
    kt__report_number(r, f->file_bytes ? (double)f->file_bytes * 1e-6 : NAN, 4);
    kt__report_number(r, f->figures->ppl, 6);
    kt__report_number(r, z95 * f->figures->ppl_error, 3);
    kt__report_number(r, f->bits_per_byte > 0 ? f->bits_per_byte : NAN, 5);
    kt__report_number(r, f->prompt_tok_s > 0 ? f->prompt_tok_s : NAN, 4);
    kt__report_number(r, f->decode_tok_s > 0 ? f->decode_tok_s : NAN, 4);
}

static void add_files(kt__report *r, const kt__judged_files *files) {
    static const char *const columns[] = {"<model", "<type",       "MB",        "perplexity",
                                          "±",      "bits a byte", "reading/s", "writing/s"};
    kt__report_table(r, "Quality and speed: tokens a second; ± is 95%, 1.96 standard errors",
                     columns, (int)KT__COUNT(columns));
    for (size_t i = 0; i < files->n; i++) add_file(r, &files->items[i]);
    kt__report_table_end(r);
    if (!files->alike)
        kt__report_note(r,
                        "Their tokens differ: perplexities cannot be compared, bits a byte can.");
}

static void add_divergence(kt__report *r, const kt__judged_file *f) {
    const kt__quality_figures *q = f->figures;
    kt__report_text(r, f->path);
    kt__report_number(r, q->kl, 4);
    kt__report_number(r, z95 * q->kl_error, 3);
    kt__report_number(r, q->kl_median, 4);
    kt__report_number(r, q->kl_90, 4);
    kt__report_number(r, q->kl_99, 4);
    kt__report_number(r, q->kl_max, 4);
    kt__report_cell(r, "%.2f%%", 100 * q->same);
    kt__report_number(r, q->ppl / q->base_ppl, 5);
}

static void add_divergences(kt__report *r, const kt__judged_files *files) {
    static const char *const columns[] = {"<model",  "mean KL",    "±",
                                          "median",  "90%",        "99%",
                                          "largest", "same token", "perplexity times"};
    bool any = false;
    for (size_t i = 0; i < files->n; i++) any |= files->items[i].has_divergence;
    if (!any) return;
    kt__report_table(r, "How far from the first model, or from the base: nats a token", columns,
                     (int)KT__COUNT(columns));
    for (size_t i = 0; i < files->n; i++)
        if (files->items[i].has_divergence) add_divergence(r, &files->items[i]);
    kt__report_table_end(r);
}

/* ---- the pages ---- */

static void begin_page(kt__report *r, const kt__report_opts *opts, const kt__judged_files *files) {
    char title[TITLE_BYTES], summary[TITLE_BYTES], ppl[KT__NUMBER_BYTES], error[KT__NUMBER_BYTES];
    const kt__judged_file *first = &files->items[0];
    if (files->by_token || files->n == 1)
        snprintf(title, sizeof title, "How well %.120s predicts %.120s",
                 kt__files_name(first->path), files->text);
    else
        snprintf(title, sizeof title, "%zu models on %.200s", files->n, files->text);
    snprintf(summary, sizeof summary,
             "%zu tokens scored. %s%.120s: perplexity %s ± %s (95%%), %.4f bits a byte.",
             first->figures->n, files->n > 1 && !files->by_token ? "The first, " : "",
             kt__files_name(first->path), kt__html_number(first->figures->ppl, 5, ppl),
             kt__html_number(z95 * first->figures->ppl_error, 3, error), first->bits_per_byte);
    kt__report_begin(r, opts, title, summary);
}

kt_status kt__quality_write_report(const kt__report_opts *opts, const kt__judged_files *files,
                                   kt_error *err) {
    kt__report r;
    if (!opts->path) return KT_OK;
    const char *name = kt__files_name(files->items[0].path);
    begin_page(&r, opts, files);
    plot_all_files(&r, files);
    if (files->by_token) plot_along(&r, files->by_token, name);
    if (files->by_token && files->by_token->has_base) plot_spread(&r, files->by_token, name);
    add_files(&r, files);
    add_divergences(&r, files);
    return kt__report_finish(&r, files->isa, err);
}

kt_status kt__choices_write_report(const kt__report_opts *opts, const char *model,
                                   const char *tasks, size_t n_right, size_t n, const char *isa,
                                   kt_error *err) {
    static const char *const columns[] = {"<model", "tasks", "right", "accuracy", "95% from", "to"};
    kt__report r;
    double low = 0, high = 0;
    char title[TITLE_BYTES], summary[TITLE_BYTES];
    if (!opts->path) return KT_OK;
    kt__wilson(n_right, n, &low, &high);
    const double share = (double)n_right / (double)n;
    snprintf(title, sizeof title, "Choices of %.120s in %.120s", kt__files_name(model), tasks);
    snprintf(summary, sizeof summary,
             "%zu of %zu right: %.1f%%, with 95%% confidence between %.1f%% and %.1f%%.", n_right,
             n, 100 * share, 100 * low, 100 * high);
    kt__report_begin(&r, opts, title, summary);
    const kt__plot_bar bar = {.name = kt__files_name(model),
                              .value = 100 * share,
                              .low = 100 * low,
                              .high = 100 * high,
                              .first = true};
    const kt__bar_plot plot = {.title = "Right choices",
                               .axis = "percent of the tasks",
                               .bars = &bar,
                               .n = 1,
                               .spans = "95% confidence (Wilson)",
                               .most = 100};
    kt__report_bars(&r, &plot);
    kt__report_table(&r, "Tasks and choices", columns, (int)KT__COUNT(columns));
    kt__report_text(&r, model);
    kt__report_cell(&r, "%zu", n);
    kt__report_cell(&r, "%zu", n_right);
    kt__report_cell(&r, "%.2f%%", 100 * share);
    kt__report_cell(&r, "%.2f%%", 100 * low);
    kt__report_cell(&r, "%.2f%%", 100 * high);
    kt__report_table_end(&r);
    return kt__report_finish(&r, isa, err);
}
