/* Learning: samples in, a trained adapter and what was measured of it out.
 *
 * Owns: the division of samples into those that are trained and those that are only measured, the
 * training, and the gate that says whether its result may be published. Knows no files but the
 * adapter's, no texts, no users, no engine: it computes in f32 through the dequantised weights of a
 * bound network, next to which an engine may run.
 *
 * Threads: a call computes on the calling thread and the pool's; the pool is the caller's alone
 * while it lasts (a private one, of low priority, next to an engine; or the context's with its lock
 * held). Bytes that come out depend on samples, settings and network, not on threads, tiers or
 * speed; but where cpu_ms_max or go_on ends a training, which is reported. */
#ifndef KT_LEARN_LEARN_H
#define KT_LEARN_LEARN_H

#include "learn/report.h"

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
