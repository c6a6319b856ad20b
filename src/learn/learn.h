/* Learning: samples in, a trained adapter and what was measured of it out.
 *
 * Owns: the division of samples into those that are trained and those that are only measured, the
 * training, and the gate that says whether its result may be published. Knows no files but the
 * adapter's, no texts, no users, no engine: it computes in f32 through the dequantised weights of a
 * bound network, beside which an engine may run.
 *
 * Threads: a call computes on the calling thread and the pool's; the pool is the caller's alone
 * while it lasts (a private one, of low priority, beside an engine; or the context's with its lock
 * held). Bytes that come out depend on samples, settings and network, not on threads, tiers or
 * speed; but where cpu_ms_max or cancel ends a training, which is reported. */
#ifndef KT_LEARN_LEARN_H
#define KT_LEARN_LEARN_H

#include "base/buf.h"
#include "learn/factors.h"

/* On what is computed; all outlive the call. */
typedef struct kt__learn_on {
    const kt__net *net;
    kt__pool *pool;
    const kt__kernels *kernels;
    int eot; /* the token that ends an answer, or -1: where the gate lets the model write */
} kt__learn_on;

/* What learning goes on from. */
typedef struct kt__learn_from {
    const kt__factors *prior;  /* the version so far, or NULL: the base */
    const kt__factors *centre; /* EWC: values that matter where they are (NULL: no penalty), */
    const float *fisher;       /* [centre->n_value], and how much */
} kt__learn_from;

/* Mean loss a token in nats; n: tokens. */
typedef struct kt__learn_loss {
    double before, after;
    int n;
} kt__learn_loss;

enum { KT__LEARN_WHY_BYTES = 160 };

typedef struct kt__learn_report {
    bool publish;                   /* every condition of the gate holds */
    char why[KT__LEARN_WHY_BYTES];  /* it does not; "" */
    int n_train, n_held, n_anchor;  /* samples: trained; measured: of feedback, of replay */
    int n_step, n_dropped, n_token; /* steps taken; updates dropped as not finite; trained tokens */
    double train_loss;              /* of the last tenth of the steps */
    kt__learn_loss held, anchor;
    double quality_delta;   /* held.before - held.after; up is better */
    double gain_low;        /* the lower bound of it, bootstrap over conversations, 95% */
    int n_recall, recalled; /* corrections trained, and those answered word for word now */
    int n_earlier, earlier_kept, earlier_before;
    int n_neighbour, leaks; /* measured neighbours, and those that a taught answer came into */
    int64_t cpu_ms, wall_ms;
    bool stopped; /* by cpu_ms_max, before all steps */
} kt__learn_report;

/* Trains and measures. *out is the trained adapter, whether it may be published or not, and NULL
 * after an error. KT_E_ARG: samples or settings; KT_E_CANCELLED; KT_E_NUMERIC: nothing but updates
 * that are not finite; KT_E_NOMEM, KT_E_UNSUPPORTED. */
kt_status kt__learn(const kt__learn_on *on, const kt__sample *samples, size_t n,
                    const kt__learn_settings *settings, const kt__learn_from *from,
                    kt__factors **out, kt__learn_report *report, kt_error *err) KT_CHECKED;
/* The report as a JSON object; quality_delta with three decimals. */
void kt__learn_report_json(const kt__learn_report *report, kt__buf *out);

/* fisher[factors->n_value]: the mean square of each value's gradient over the samples' tokens, for
 * kt__learn_from. */
kt_status kt__learn_fisher(const kt__learn_on *on, const kt__factors *factors,
                           const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                           float *fisher, kt_error *err) KT_CHECKED;

/* How several candidates become one. */
typedef enum kt__consolidation {
    KT__CONSOLIDATE_EWC_MERGE, /* trained on all samples together, held to the prior by EWC */
    KT__CONSOLIDATE_AVERAGE,   /* the mean of what they add, as matrices of the same rank again */
    KT__CONSOLIDATE_BEST_ONLY  /* that with the lowest held-out loss */
} kt__consolidation;

/* The mean of n adapters of the same matrices and rank: of B A, never of A and B, and the best
 * matrices of that rank for it. */
kt_status kt__factors_average(const kt__factors *const *of, size_t n, kt__factors **out,
                              kt_error *err) KT_CHECKED;
/* Mean loss of an adapter (NULL: the base) on the samples' masked tokens. */
kt_status kt__learn_evaluate(const kt__learn_on *on, const kt__factors *factors,
                             const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, double *loss,
                             kt_error *err) KT_CHECKED;

#endif
