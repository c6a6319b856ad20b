#include "make/learn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/html.h"
#include "measure/quality.h"
#include "measure/report.h"

enum { MAX_BARS = 8, TEXT_BYTES = 96, TITLE_BYTES = 300, MAX_POINTS = 100 };

typedef struct bar_list {
    kt__plot_bar items[MAX_BARS];
    char names[MAX_BARS][TITLE_BYTES], texts[MAX_BARS][TEXT_BYTES];
    size_t n;
} bar_list;

/* ---- losses ---- */

static void add_loss(bar_list *b, const char *what, const kt__learn_loss *loss, double most) {
    for (int after = 0; after < 2; after++) {
        kt__plot_bar *bar = &b->items[b->n];
        *bar = (kt__plot_bar){.name = b->names[b->n],
                              .text = b->texts[b->n],
                              .value = after ? loss->after : loss->before,
                              .first = after};
        if (after && most > loss->after) bar->low = loss->after, bar->high = most;
        snprintf(b->names[b->n], TITLE_BYTES, "%.200s, %s", what, after ? "after" : "before");
        snprintf(b->texts[b->n], TEXT_BYTES, "%.3f", bar->value);
        b->n++;
    }
}

static void plot_losses(kt__report *r, const kt__learning_result *result) {
    const kt__learn_report *of = result->report;
    bar_list b = {0};
    const kt__learn_loss measured = {result->before, result->after, 1};
    if (of->held.n) add_loss(&b, "held-out answers", &of->held, of->held.before - of->gain_low);
    if (of->anchor.n) add_loss(&b, "anchor: what shall stay", &of->anchor, 0);
    if (result->measured) add_loss(&b, result->measured, &measured, 0);
    const kt__bar_plot plot = {.title = "Learned and forgotten",
                               .axis = "loss, nats a token (lower is better)",
                               .bars = b.items,
                               .n = b.n,
                               .first = "after",
                               .others = "before",
                               .spans = of->held.n ? "as high as it may be, 95%" : NULL};
    if (b.n) kt__report_bars(r, &plot);
}

/* ---- shares ---- */

static void add_share(bar_list *b, const char *what, int k, int n, bool first) {
    double low = 0, high = 0;
    if (n <= 0) return;
    kt__wilson((size_t)k, (size_t)n, &low, &high);
    b->items[b->n] = (kt__plot_bar){.name = b->names[b->n],
                                    .text = b->texts[b->n],
                                    .value = 100.0 * k / n,
                                    .low = 100 * low,
                                    .high = 100 * high,
                                    .first = first};
    snprintf(b->names[b->n], TITLE_BYTES, "%s", what);
    snprintf(b->texts[b->n], TEXT_BYTES, "%d of %d", k, n);
    b->n++;
}

static void plot_shares(kt__report *r, const kt__learn_report *of) {
    bar_list b = {0};
    add_share(&b, "corrections recalled word for word", of->recalled, of->n_recall, true);
    add_share(&b, "earlier corrections, before", of->earlier_before, of->n_earlier, false);
    add_share(&b, "earlier corrections kept", of->earlier_kept, of->n_earlier, true);
    add_share(&b, "leaks into neighbouring questions", of->leaks, of->n_neighbour, true);
    const kt__bar_plot plot = {.title = "Recalled, kept and leaked",
                               .axis = "percent",
                               .bars = b.items,
                               .n = b.n,
                               .spans = "95% confidence (Wilson)",
                               .most = 100};
    if (b.n) kt__report_bars(r, &plot);
}

/* ---- the training ---- */

/* Means over some steps each. */
static void plot_course(kt__report *r, const kt__learning_course *course) {
    kt__plot_point points[MAX_POINTS];
    size_t all = course->losses ? (size_t)course->n : 0, n = all < MAX_POINTS ? all : MAX_POINTS;
    size_t at = 0;
    for (size_t k = 0; k < n; k++) {
        size_t begin = at, end = (k + 1) * all / n;
        double sum = 0;
        for (; at < end; at++) sum += course->losses[at];
        points[k] = (kt__plot_point){.x = (double)end, .y = sum / (double)(end - begin)};
    }
    const kt__plot_series series = {.name = "what is trained, and replay with its weight",
                                    .points = points,
                                    .n = n,
                                    .line = true};
    const kt__plot plot = {.title = "While it was trained",
                           .x = {.name = "steps", .from_zero = true},
                           .y = {.name = "loss, nats a token", .from_zero = true},
                           .series = &series,
                           .n_series = 1};
    if (n) kt__report_plot(r, &plot);
}

/* ---- tables ---- */

static void add_loss_row(kt__report *r, const char *what, const kt__learn_loss *loss) {
    if (!loss->n) return;
    kt__report_text(r, what);
    kt__report_number(r, loss->before, 5);
    kt__report_number(r, loss->after, 5);
    kt__report_cell(r, "%+.4f", loss->after - loss->before);
    kt__report_cell(r, "%d", loss->n);
}

static void add_losses(kt__report *r, const kt__learning_result *result) {
    static const char *const columns[] = {"<samples", "before", "after", "change", "tokens"};
    const kt__learn_report *of = result->report;
    if (!of->held.n && !of->anchor.n && !result->measured) return;
    kt__report_table(r, "Losses, nats a token", columns, (int)KT__COUNT(columns));
    add_loss_row(r, "held-out answers", &of->held);
    add_loss_row(r, "anchor", &of->anchor);
    if (result->measured) {
        kt__report_text(r, result->measured);
        kt__report_number(r, result->before, 5);
        kt__report_number(r, result->after, 5);
        kt__report_cell(r, "%+.4f", result->after - result->before);
        kt__report_text(r, "-");
    }
    kt__report_table_end(r);
}

static void add_count(kt__report *r, const char *what, int k, int n) {
    double low = 0, high = 0;
    if (n > 0) kt__wilson((size_t)k, (size_t)n, &low, &high);
    kt__report_text(r, what);
    if (n > 0)
        kt__report_cell(r, "%d", k);
    else
        kt__report_text(r, "-");
    kt__report_cell(r, "%d", n);
    kt__report_number(r, n > 0 ? 100 * low : NAN, 3);
    kt__report_number(r, n > 0 ? 100 * high : NAN, 3);
}

static void add_counts(kt__report *r, const kt__learn_report *of) {
    static const char *const columns[] = {"<what", "number", "of", "95% from, percent", "to"};
    kt__report_table(r, "Answers that the model wrote", columns, (int)KT__COUNT(columns));
    add_count(r, "corrections recalled word for word", of->recalled, of->n_recall);
    add_count(r, "earlier corrections, before", of->earlier_before, of->n_earlier);
    add_count(r, "earlier corrections kept", of->earlier_kept, of->n_earlier);
    add_count(r, "neighbouring questions with a taught answer (leaks)", of->leaks, of->n_neighbour);
    kt__report_table_end(r);
}

static void add_training(kt__report *r, const kt__learn_report *of) {
    static const char *const columns[] = {"<training", "value"};
    kt__report_table(r, "The training", columns, (int)KT__COUNT(columns));
    kt__report_text(r, "samples trained");
    kt__report_cell(r, "%d", of->n_train);
    kt__report_text(r, "steps");
    kt__report_cell(r, "%d%s", of->n_step, of->stopped ? " (stopped by its limit)" : "");
    kt__report_text(r, "tokens, each as often as it was trained");
    kt__report_cell(r, "%lld", (long long)of->n_token);
    kt__report_text(r, "loss of the last tenth of the steps");
    kt__report_number(r, of->n_step ? of->train_loss : NAN, 4);
    kt__report_text(r, "share of it that is used, for the anchor's sake");
    kt__report_number(r, of->n_step ? of->share : NAN, 3);
    kt__report_text(r, "gain on held-out answers, nats a token");
    kt__report_number(r, of->held.n ? of->quality_delta : NAN, 4);
    kt__report_text(r, "at least, with 95% confidence");
    kt__report_number(r, of->held.n ? of->gain_low : NAN, 4);
    kt__report_text(r, "by how much a question's own answer is likelier than others', at least");
    kt__report_number(r, of->n_pair ? of->pair_low : NAN, 4);
    kt__report_text(r, "seconds of processor time");
    kt__report_number(r, (double)of->cpu_ms * 1e-3, 4);
    kt__report_table_end(r);
}

/* ---- the page ---- */

static void summarise_learning(const kt__learning_result *result, char *out, size_t size) {
    const kt__learn_report *of = result->report;
    char gain[TEXT_BYTES] = "";
    if (of->held.n)
        snprintf(gain, sizeof gain, " Held-out answers: %.3f nats a token before, %.3f after.",
                 of->held.before, of->held.after);
    snprintf(out, size, "%s%s. %s%.120s.%s",
             of->publish ? "The gate lets it pass" : "Not published: ", of->publish ? "" : of->why,
             result->written ? "Written to " : "Not written",
             result->written ? result->written : "", gain);
}

kt_status kt__learning_write_report(const kt__report_opts *opts, const kt__learning_result *result,
                                    kt_error *err) {
    kt__report r;
    char title[TITLE_BYTES], summary[2 * TITLE_BYTES];
    if (!opts->path) return KT_OK;
    snprintf(title, sizeof title, "What %.120s learned from %.120s", result->model, result->lesson);
    summarise_learning(result, summary, sizeof summary);
    kt__report_begin(&r, opts, title, summary);
    plot_losses(&r, result);
    plot_shares(&r, result->report);
    plot_course(&r, result->course);
    add_losses(&r, result);
    add_counts(&r, result->report);
    add_training(&r, result->report);
    return kt__report_finish(&r, result->isa, err);
}
