#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "measure/bench_streams.h"
#include "measure/figures.h"
#include "measure/tune.h"
#include "term/terminal.h"

static const double least_gain = 1.02, least_confidence = 0.9;

bool kt__ab_test_add(kt__ab_test *test, int value, const char *name) {
    if (test->n == KT__DUEL_MAX) return false;
    for (int i = 0; i < test->n; i++)
        if (test->entries[i].value == value) return false;
    kt__ab_test_entry *entry = &test->entries[test->n++];
    memset(entry, 0, sizeof *entry);
    entry->value = value;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return true;
}

/* 1 minus the probability of at least `wins` heads in n throws of a fair coin. */
static double sign_test(int wins, int n) {
    double term = 1, below = 0; /* term: n over k, divided by 2^n at the end */
    for (int k = 0; k < wins; k++) {
        below += term;
        term = term * (n - k) / (k + 1);
    }
    for (int k = 0; k < n; k++) below *= 0.5;
    return below;
}

static void conclude_test(kt__ab_test *test) {
    const kt__ab_test_entry *standard = &test->entries[test->standard];
    double best = least_gain;
    test->chosen = test->standard;
    for (int i = 0; i < test->n; i++) {
        kt__ab_test_entry *e = &test->entries[i];
        double speeds[KT__DUEL_ROUNDS], ratios[KT__DUEL_ROUNDS];
        e->wins = 0;
        for (int r = 0; r < test->n_rounds; r++) {
            speeds[r] = e->tok_s[r];
            ratios[r] = e->tok_s[r] / standard->tok_s[r];
            e->wins += ratios[r] > 1;
        }
        e->median = kt__percentile_median(speeds, (size_t)test->n_rounds);
        e->ratio = kt__percentile_median(ratios, (size_t)test->n_rounds);
        e->confidence = sign_test(e->wins, test->n_rounds);
        if (i == test->standard || e->ratio < best || e->confidence < least_confidence) continue;
        best = e->ratio;
        test->chosen = i;
    }
}

/* On a terminal one line, drawn over itself. Round -1 warms up. */
static void show_run(const kt__ab_test *test, int round, int k) {
    if (!kt__terminal_can_draw(STDERR_FILENO)) return;
    int done = (round + 1) * test->n + k, all = (test->n_rounds + 1) * test->n;
    fprintf(stderr, "\rkentang tune: %s: %d of %d runs\033[K", test->what, done, all);
    if (done == all) fputc('\n', stderr);
    fflush(stderr);
}

kt_status kt__ab_test_run(kt__ab_test *test, kt__ab_test_fn *fn, void *user, kt_error *err) {
    for (int round = -1; round < test->n_rounds; round++) {
        for (int k = 0; k < test->n; k++) {
            int i = round % 2 ? test->n - 1 - k : k;
            double tok_s;
            show_run(test, round, k);
            kt_status status = fn(user, test->entries[i].value, &tok_s, err);
            if (status != KT_OK) return status;
            if (round >= 0) test->entries[i].tok_s[round] = tok_s;
        }
    }
    show_run(test, test->n_rounds - 1, test->n);
    conclude_test(test);
    return KT_OK;
}

void kt__ab_test_print(const kt__ab_test *test) {
    for (int i = 0; i < test->n; i++) {
        const kt__ab_test_entry *e = &test->entries[i];
        char against[64] = "default";
        if (i != test->standard)
            snprintf(against, sizeof against, "%+.1f%%, faster in %d of %d (%.0f%%)",
                     100 * (e->ratio - 1), e->wins, test->n_rounds, 100 * e->confidence);
        printf("| %-24s | %-32s | %10.2f | %-34s | %-6s |\n", i ? "" : test->what, e->name,
               e->median, against, i == test->chosen ? "chosen" : "");
    }
}
