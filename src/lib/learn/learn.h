/* Learning: samples in, a trained adapter and what was measured of it out.
 *
 * Owns: the division of samples into those that are trained and those that are only measured, the training (train.c),
 * and the gate (gate.c) that says whether its result may be published. Knows no files but the adapter's, no texts, no
 * users, no engine: it computes in f32 through the dequantised weights of a bound network, next to which an engine
 * may run.
 *
 * Threads: a call computes on the calling thread and the pool's; the pool is the caller's alone while it lasts (a
 * private one, of low priority, next to an engine; or the context's with its lock held). Bytes that come out depend
 * on samples, settings and network, not on threads, tiers or speed; but where cpu_ms_max or go_on ends a training,
 * which is reported. */
#ifndef KT_LEARN_LEARN_H
#define KT_LEARN_LEARN_H

#include "learn/learner.h"
#include "learn/report.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

/* The gate: may a trained adapter be published?
 *
 * Which samples are only measured, and every condition. Knows no training. Threads: as learn.h says. */

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
/* What was measured of the candidate already, when its share was chosen. */
typedef struct kt__gate_known {
    kt__sample_score *held; /* [n_held], or NULL */
    int sibling_leaks;      /* or -1 */
} kt__gate_known;
/* Measures prior (NULL: the base) and candidate; fills the report. known: or NULL. */
kt_status kt__gate(kt__learner *learner, const kt__sample *samples, const kt__split *split,
                   const kt__learn_settings *settings, const kt__factors *prior,
                   const kt__factors *candidate, const kt__gate_known *known,
                   kt__learn_report *report, kt_error *err) KT_CHECKED;
/* Siblings of the split whose answer under the candidate has something taught in it, and the base's does not; where
 * they are more than `most`, any number above it. */
kt_status kt__gate_sibling_leaks(kt__learner *learner, const kt__sample *samples,
                                 const kt__split *split, const kt__factors *candidate, int most,
                                 int *leaks, kt_error *err) KT_CHECKED;
/* What a correction taught: the longest run of its answer's tokens that are not in its question; the token that ends
 * the answer is no part of it. 0: there is none. */
int kt__gate_taught_run(const kt__sample *sample, const int32_t **run);
bool kt__gate_has_run(const int32_t *ids, size_t n, const int32_t *run, size_t n_run);
/* The 2.5% quantile of sum(gain) / sum(n_tok) over n conversations drawn with replacement. */
double kt__bootstrap_low(const double *gain, const double *n_tok, size_t n, uint64_t seed);

/* A training: steps over samples that are given, without any judgement of the result.
 *
 * The order of samples, their weights in a step, the rate's course, the penalty of EWC, and the limits of time.
 * Threads: as learn.h says. */

typedef struct kt__training {
    const kt__sample *samples;
    const size_t *list; /* [n] those that are trained */
    size_t n;
    const kt__learn_settings *settings;
    const kt__learn_from *from; /* or NULL */
    int64_t cpu_begin_ns;       /* of kt__train_cpu_ns */
} kt__training;

/* Trains factors from their values on; fills the report's steps, tokens, loss, stopped. */
kt_status kt__train(kt__learner *learner, const kt__training *training, kt__factors *factors,
                    kt__learn_report *report, kt_error *err) KT_CHECKED;
/* Adam's rate where the settings give none: less where matrices are wide. */
float kt__learn_rate(const kt__factors *factors);
/* Processor time of the process: next to an engine that answers, its time, too. */
int64_t kt__train_cpu_ns(void);

/* Adam (Kingma & Ba 2015), with the gradient's norm held to 1.
 *
 * Owns: the moments of an adapter's values. An update that is not finite is dropped, whole, and
 * counted. One user at a time. */

typedef struct kt__adam {
    size_t n;
    float *m, *v;
    int n_step, n_dropped;
} kt__adam;

kt_status kt__adam_init(kt__adam *adam, size_t n, kt_error *err) KT_CHECKED;
void kt__adam_free(kt__adam *adam); /* also of a zeroed one */
/* values[n] take a step of the given rate against grads[n], which is scaled. false: dropped. */
bool kt__adam_step(kt__adam *adam, float *values, float *grads, float rate);

/* The longest sample that is taken, in tokens. */
int kt__learn_len_max(const kt__net *net);
/* Trains and measures. *out is the trained adapter, whether it may be published or not, and NULL
 * after an error. KT_E_ARG: samples or settings; KT_E_CANCELLED; KT_E_NUMERIC: nothing but updates
 * that are not finite; KT_E_NOMEM, KT_E_UNSUPPORTED. */
kt_status kt__learn(const kt__learn_on *on, const kt__sample *samples, size_t n,
                    const kt__learn_settings *settings, const kt__learn_from *from,
                    kt__factors **out, kt__learn_report *report, kt_error *err) KT_CHECKED;
/* fisher[factors->n_value]: the mean square of each value's gradient a token, for kt__learn_from;
 * the tokens of one sample are taken for independent: the square of their sum, by their number. */
kt_status kt__learn_fisher(const kt__learn_on *on, const kt__factors *factors,
                           const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                           float *fisher, kt_error *err) KT_CHECKED;

/* The gate alone, on the samples that kt__learn would only measure. Fills the report but for the
 * training's part. */
kt_status kt__learn_judge(const kt__learn_on *on, const kt__sample *samples, size_t n,
                          const kt__learn_settings *settings, const kt__factors *prior,
                          const kt__factors *candidate, kt__learn_report *report,
                          kt_error *err) KT_CHECKED;
/* The same of a candidate that is scaled down first, as a training's result is (report->share). */
kt_status kt__learn_scale_and_judge(const kt__learn_on *on, const kt__sample *samples, size_t n,
                                    const kt__learn_settings *settings, kt__factors *candidate,
                                    kt__learn_report *report, kt_error *err) KT_CHECKED;
/* Mean loss of an adapter (NULL: the base) on the samples' masked tokens. */
kt_status kt__learn_evaluate(const kt__learn_on *on, const kt__factors *factors,
                             const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, double *loss,
                             kt_error *err) KT_CHECKED;

/* ---- several adapters become one ---- */

typedef enum kt__consolidation {
    KT__CONSOLIDATE_EWC_MERGE, /* the prior trained on with all samples together, held by EWC to what
                                  its earlier corrections need */
    KT__CONSOLIDATE_AVERAGE,   /* the mean of what the candidates add, as matrices of their rank */
    KT__CONSOLIDATE_BEST_ONLY  /* the candidate with the lowest loss on the held-out samples */
} kt__consolidation;

typedef struct kt__consolidate {
    kt__consolidation how;
    const kt__factors *prior;             /* the version so far, or NULL; EWC_MERGE needs one */
    const kt__factors *const *candidates; /* [n_candidate]; EWC_MERGE takes none */
    size_t n_candidate;
} kt__consolidate;

/* The result, and the gate's judgement of it. KT_E_ARG: too few adapters, or unlike ones. */
kt_status kt__learn_consolidate(const kt__learn_on *on, const kt__consolidate *what,
                                const kt__sample *samples, size_t n,
                                const kt__learn_settings *settings, kt__factors **out,
                                kt__learn_report *report, kt_error *err) KT_CHECKED;
/* The mean of n adapters of the same matrices and rank: of B A, never of A and B, and the best
 * matrices of that rank for it. */
kt_status kt__factors_average(const kt__factors *const *of, size_t n, kt__factors **out,
                              kt_error *err) KT_CHECKED;

#endif
