/* The gate: may a trained adapter be published?
 *
 * Owns: which samples are only measured, and every condition. Knows no training. Threads: as
 * learn.h says. */
#ifndef KT_LEARN_GATE_H
#define KT_LEARN_GATE_H

#include "learn/learner.h"

/* Indices of samples by their use. A conversation is in one of them as a whole. */
typedef struct kt__split {
    size_t *train, *held, *anchor, *neighbour, *earlier;
    size_t *sibling; /* neighbours that ask something else about what was taught: none is trained */
    size_t *share;   /* replay that is neither trained nor the gate's (shrink.h) */
    size_t n_train, n_held, n_anchor, n_neighbour, n_earlier, n_sibling, n_share;
} kt__split;

kt_status kt__split_make(const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                         kt__split *out, kt_error *err) KT_CHECKED;
/* Before anything is trained: whether enough questions of samples[n] would be held out for a gain to be
 * measured. If not, the report says how many are missing. */
kt_status kt__gate_may_pass(const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                            bool *may, kt__learn_report *report, kt_error *err) KT_CHECKED;
void kt__split_free(kt__split *split); /* also of a zeroed one */
/* Measures prior (NULL: the base) and candidate; fills the report. */
kt_status kt__gate(kt__learner *learner, const kt__sample *samples, const kt__split *split,
                   const kt__learn_settings *settings, const kt__factors *prior,
                   const kt__factors *candidate, kt__learn_report *report,
                   kt_error *err) KT_CHECKED;
/* Siblings of the split whose answer under the candidate has something taught in it, and the base's does not. */
kt_status kt__gate_sibling_leaks(kt__learner *learner, const kt__sample *samples,
                                 const kt__split *split, const kt__factors *candidate, int *leaks,
                                 kt_error *err) KT_CHECKED;
/* What a correction taught: the longest run of its answer's tokens that are not in its question; the token that ends the
 * answer is no part of it. 0: there is none. */
int kt__gate_taught_run(const kt__sample *sample, const int32_t **run);
bool kt__gate_has_run(const int32_t *ids, size_t n, const int32_t *run, size_t n_run);
/* The 2.5% quantile of sum(gain) / sum(n_tok) over n conversations drawn with replacement. */
double kt__bootstrap_low(const double *gain, const double *n_tok, size_t n, uint64_t seed);

#endif
