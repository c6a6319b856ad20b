/* What learning is given besides samples and settings, and what was measured of it.
 *
 * Owns: these types, and the report as JSON. Any thread. */
#ifndef KT_LEARN_REPORT_H
#define KT_LEARN_REPORT_H

#include "base/buf.h"
#include "learn/factors.h"

/* On what is computed; all outlive the call. */
typedef struct kt__learn_on {
    const kt__net *net;
    kt__pool *pool;
    const kt__kernels *kernels;
    int eot; /* the token that ends an answer, or -1: where the gate lets the model write */
} kt__learn_on;

/* What learning continues from. */
typedef struct kt__learn_from {
    const kt__factors *prior;  /* the version so far, or NULL: the base */
    const kt__factors *before; /* that the result shall be better than; NULL: prior */
    const kt__factors
        *start; /* without prior: values to begin with, that no version has; or NULL */
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
    bool publish;                  /* every condition of the gate holds */
    char why[KT__LEARN_WHY_BYTES]; /* it does not; "" */
    int n_train, n_held, n_anchor; /* samples: trained; measured: of feedback, of replay */
    int n_step, n_dropped;         /* steps taken; updates dropped as not finite */
    int64_t n_token;               /* that were trained, each as often as it was */
    double train_loss;             /* of the last tenth of the steps */
    double share; /* of what was trained: less than 1, where the anchor asked for it (shrink.h) */
    kt__learn_loss held, anchor;
    double anchor_kl;     /* KL(base, adapted) on the anchor, nats a token */
    double quality_delta; /* held.before - held.after; up is better */
    double gain_low;      /* the lower bound of it, bootstrap over conversations, 95% */
    /* Held-out answers compared with those of other questions: by how much their own is likelier, nats a
     * token, at least (bootstrap as above); pairs. */
    double pair_low;
    int n_pair;
    int n_recall, recalled; /* corrections trained, and those answered word for word now */
    int n_earlier, earlier_kept, earlier_before;
    int n_neighbour, leaks; /* measured neighbours, and those that a taught answer came into */
    int n_sibling, sibling_leaks; /* the same of other questions about what was taught */
    /* Corrections of the namespace, and those that what was served answers word for word, recall and adapter
     * together; and with the candidate in the adapter's place. 0: nothing was served. */
    int n_taught, taught_before, taught_after;
    int64_t cpu_ms, wall_ms;
    bool scoped; /* as the settings had it: nothing below the anchor and the neighbours bound it */
    int n_held_right; /* held-out answers that are right word for word, the likeliest tokens */
    bool stopped;     /* by cpu_ms_max, before all steps */
    int n_resumed;    /* of n_step, steps that a process took that was ended */
} kt__learn_report;

/* The training's part of another report, whose result this one judges. */
void kt__learn_report_add_training(kt__learn_report *to, const kt__learn_report *from);
/* The report as a JSON object; quality_delta with three decimals. */
void kt__learn_report_json(const kt__learn_report *report, kt__buf *out);

#endif
