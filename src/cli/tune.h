/* kentang tune, between its files: comparing settings by paired runs.
 *
 * Owns: a comparison (its candidates, their speeds round by round) and what may be concluded from
 * it. Every round runs every candidate once, forwards or backwards in turn, so that a machine that
 * changes its speed meanwhile changes it for all. One thread. */
#ifndef KT_CLI_TUNE_H
#define KT_CLI_TUNE_H

#include <kentang.h>

enum { KT__DUEL_MAX = 12, KT__DUEL_ROUNDS = 15 };

typedef struct kt__duel_entry {
    int value; /* of the setting */
    char name[40];
    double tok_s[KT__DUEL_ROUNDS];
    double median, ratio; /* ratio: median over rounds of this one's speed over the default's */
    int wins;             /* rounds in which it was faster than the default */
    double confidence;    /* that it is faster: one-sided sign test */
} kt__duel_entry;

typedef struct kt__duel {
    const char *what; /* "threads, decode" */
    kt__duel_entry entries[KT__DUEL_MAX];
    int n, n_rounds, standard; /* standard: index of the default */
    int chosen;
} kt__duel;

typedef kt_status kt__duel_fn(void *user, int value, double *tok_s, kt_error *err);

/* false: no more room, or the value is there already. */
bool kt__duel_add(kt__duel *duel, int value, const char *name);
/* One warm-up each, then the rounds; fills in the rest. A candidate is chosen in place of the
 * default only if it is 2% faster with a confidence of 90%. */
kt_status KT_CHECKED kt__duel_run(kt__duel *duel, kt__duel_fn *fn, void *user, kt_error *err);
void kt__duel_print(const kt__duel *duel); /* rows of the table */

/* Two contexts on disjoint cores against one on all, decoding two streams: entries 0 and 1 of
 * *duel; duel->n is 0 where there are not two cores. path NULL: the demo model. */
kt_status KT_CHECKED kt__tune_contexts(const char *path, const char *isa, int n_steps, int n_rounds,
                                       kt__duel *duel, kt_error *err);

#endif
