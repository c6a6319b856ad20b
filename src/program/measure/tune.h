/* kentang tune, between its files: comparing settings by paired runs.
 *
 * Owns: a comparison (its candidates, their speeds round by round) and what may be concluded from
 * it. Every round runs every candidate once, forwards or backwards in turn, so that a machine that
 * changes its speed meanwhile changes it for all. One thread. */
#ifndef KT_MEASURE_TUNE_H
#define KT_MEASURE_TUNE_H

#include <kentang.h>

#include "measure/report.h"

enum { KT__DUEL_MAX = 12, KT__DUEL_ROUNDS = 15 };

typedef struct kt__ab_test_entry {
    int value; /* of the setting */
    char name[40];
    double tok_s[KT__DUEL_ROUNDS];
    double median, ratio; /* ratio: median over rounds of this one's speed over the default's */
    int wins;             /* rounds in which it was faster than the default */
    double confidence;    /* that it is faster: one-sided sign test */
} kt__ab_test_entry;

typedef struct kt__ab_test {
    const char *what; /* "threads, decode" */
    kt__ab_test_entry entries[KT__DUEL_MAX];
    int n, n_rounds, standard; /* standard: index of the default */
    int chosen;
} kt__ab_test;

typedef kt_status kt__ab_test_fn(void *user, int value, double *tok_s, kt_error *err);

/* false: no more room, or the value is there already. */
bool kt__ab_test_add(kt__ab_test *test, int value, const char *name);
/* One warm-up each, then the rounds; fills in the rest. A candidate is chosen in place of the
 * default only if it is 2% faster with a confidence of 90%. */
kt_status KT_CHECKED kt__ab_test_run(kt__ab_test *test, kt__ab_test_fn *fn, void *user,
                                     kt_error *err);
void kt__ab_test_print(const kt__ab_test *test); /* rows of the table */

/* Two contexts on disjoint cores against one on all, decoding two streams: entries 0 and 1 of
 * *test; test->n is 0 where there are not two cores. path NULL: the demo model. */
kt_status KT_CHECKED kt__tune_contexts(const char *path, const char *isa, int n_steps, int n_rounds,
                                       kt__ab_test *test, kt_error *err);

/* What tune found, for its page. */
enum { KT__TUNE_TESTS = 4 };
typedef struct kt__tune_result {
    const char *model, *isa;
    const kt__ab_test *tests[KT__TUNE_TESTS]; /* without candidates: not run */
    int n_prompt, n_steps;
    bool noisy; /* others used the machine */
} kt__tune_result;
/* Nothing without a path. */
kt_status KT_CHECKED kt__tune_write_report(const kt__report_opts *opts,
                                           const kt__tune_result *result, kt_error *err);

#endif
