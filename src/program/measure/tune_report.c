/* What kentang tune tried and found, as a page. */
#include <stdio.h>
#include <string.h>

#include "measure/html.h"
#include "measure/report.h"
#include "measure/tune.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 96, TITLE_BYTES = 300 };

static void describe_entry(const kt__ab_test *test, int i, char text[TEXT_BYTES]) {
    const kt__ab_test_entry *e = &test->entries[i];
    char speed[KT__NUMBER_BYTES];
    kt__html_number(e->median, 4, speed);
    if (i == test->standard)
        snprintf(text, TEXT_BYTES, "%s tokens/s", speed);
    else
        snprintf(text, TEXT_BYTES, "%s tokens/s, %+.1f%%", speed, 100 * (e->ratio - 1));
}

static void plot_test(kt__report *r, const kt__ab_test *test) {
    kt__plot_bar bars[KT__DUEL_MAX];
    char names[KT__DUEL_MAX][NAME_BYTES], texts[KT__DUEL_MAX][TEXT_BYTES];
    for (int i = 0; i < test->n; i++) {
        const kt__ab_test_entry *e = &test->entries[i];
        bars[i] = (kt__plot_bar){.name = names[i],
                                 .text = texts[i],
                                 .value = e->median,
                                 .low = e->tok_s[0],
                                 .high = e->tok_s[0],
                                 .first = i == test->chosen};
        for (int k = 1; k < test->n_rounds; k++) {
            if (e->tok_s[k] < bars[i].low) bars[i].low = e->tok_s[k];
            if (e->tok_s[k] > bars[i].high) bars[i].high = e->tok_s[k];
        }
        snprintf(names[i], NAME_BYTES, "%s%s", e->name, i == test->standard ? " (default)" : "");
        describe_entry(test, i, texts[i]);
    }
    const kt__bar_plot plot = {.title = test->what,
                               .axis = "tokens a second",
                               .bars = bars,
                               .n = (size_t)test->n,
                               .first = "chosen",
                               .others = "tried",
                               .spans = "from the slowest round to the fastest"};
    kt__report_bars(r, &plot);
}

static void add_test_rows(kt__report *r, const kt__ab_test *test) {
    for (int i = 0; i < test->n; i++) {
        const kt__ab_test_entry *e = &test->entries[i];
        kt__report_text(r, e->name);
        kt__report_text(r, test->what);
        kt__report_number(r, e->median, 4);
        if (i == test->standard) {
            for (int k = 0; k < 3; k++) kt__report_text(r, "-");
        } else {
            kt__report_cell(r, "%+.1f%%", 100 * (e->ratio - 1));
            kt__report_cell(r, "%d of %d", e->wins, test->n_rounds);
            kt__report_cell(r, "%.0f%%", 100 * e->confidence);
        }
        kt__report_text(r, i == test->chosen ? i == test->standard ? "default, chosen" : "chosen"
                           : i == test->standard ? "default"
                                                 : "");
    }
}

static void add_table(kt__report *r, const kt__tune_result *result) {
    static const char *const columns[] = {"<value",         "<setting",      "tokens/s",
                                          "to the default", "rounds faster", "confidence",
                                          "<outcome"};
    kt__report_table(r, "All that was tried, in paired rounds", columns, (int)KT__COUNT(columns));
    for (int i = 0; i < KT__TUNE_TESTS; i++) add_test_rows(r, result->tests[i]);
    kt__report_table_end(r);
    kt__report_note(r, "A value replaces the default only if it is 2% faster with a confidence of "
                       "90% (a one-sided sign test over the rounds).");
    if (result->noisy)
        kt__report_note(r,
                        "The machine was busy with other work meanwhile: run it again when it is "
                        "quiet.");
}

/* "threads, decode: 2; ..." */
static void list_chosen(const kt__tune_result *result, char *out, size_t size) {
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < KT__TUNE_TESTS && len < size; i++) {
        const kt__ab_test *test = result->tests[i];
        if (!test->n) continue;
        int n = snprintf(out + len, size - len, "%s%s: %s%s",
                         len ? "; " : "Best here: ", test->what, test->entries[test->chosen].name,
                         test->chosen == test->standard ? " (the default)" : "");
        len += n > 0 ? (size_t)n : 0;
    }
    if (len < size)
        snprintf(out + len, size - len,
                 ". Measured with a prompt of %d tokens and %d steps of decode.", result->n_prompt,
                 result->n_steps);
}

kt_status kt__tune_write_report(const kt__report_opts *opts, const kt__tune_result *result,
                                kt_error *err) {
    kt__report r;
    char title[TITLE_BYTES], summary[2 * TITLE_BYTES];
    if (!opts->path) return KT_OK;
    snprintf(title, sizeof title, "Fastest settings for %.200s", result->model);
    list_chosen(result, summary, sizeof summary);
    kt__report_begin(&r, opts, title, summary);
    for (int i = 0; i < KT__TUNE_TESTS; i++)
        if (result->tests[i]->n) plot_test(&r, result->tests[i]);
    add_table(&r, result);
    return kt__report_finish(&r, result->isa, err);
}
