#include "learn/shrink.h"

#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"

enum { TRIES = 5 };
/* Of what the gate allows: on other conversations, which is where it judges, the rise is another. */
static const double part_of_allowed = 0.5;

typedef struct search {
    kt__learner *learner;
    const kt__split *split;
    const kt__factors *candidate;
    kt__factors *scaled;
    kt__sample_score *scores;
    double base; /* nats a token */
    kt_error *err;
} search;

static kt_status mean_loss(const search *p, const kt__factors *factors, double *out) {
    double loss = 0.0, n_tok = 0.0;
    const size_t n = p->split->n_share;
    kt_status status = kt__learner_score(p->learner, factors, p->split->share, n, p->scores,
                                         p->err);
    for (size_t i = 0; status == KT_OK && i < n; i++) {
        loss += p->scores[i].loss;
        n_tok += p->scores[i].n_tok;
    }
    *out = n_tok > 0.0 ? loss / n_tok : 0.0;
    return status;
}

/* How much perplexity rises with a share of the adapter. */
static kt_status rise_of(const search *p, double share, double *rise) {
    double loss;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    kt_status status = mean_loss(p, p->scaled, &loss);
    *rise = kt__exp(loss - p->base) - 1.0;
    return status;
}

/* The rise grows with a power of the share between 1 and 2: the first try goes where the square would
 * put it, those behind where a line would, and half way up from what was small enough. */
static kt_status find_share(search *p, double most, double *share) {
    double rise = 0.0, low = 0.0, high = 1.0, high_rise = 0.0;
    kt_status status = mean_loss(p, NULL, &p->base);
    *share = 1.0;
    if (status == KT_OK) status = rise_of(p, 1.0, &high_rise);
    if (status != KT_OK || high_rise <= most) return status;
    for (int i = 0; status == KT_OK && i < TRIES; i++) {
        double part = most / high_rise;
        *share = low > 0.0 ? (low + high) / 2.0 : high * (i == 0 ? sqrt(part) : part);
        status = rise_of(p, *share, &rise);
        if (rise <= most)
            low = *share;
        else
            high = *share, high_rise = rise;
    }
    *share = low > 0.0 ? low : high;
    return status;
}

kt_status kt__shrink(kt__learner *learner, const kt__split *split,
                     const kt__learn_settings *settings, kt__factors *candidate,
                     kt__learn_report *report, kt_error *err) {
    search p = {.learner = learner, .split = split, .candidate = candidate, .err = err};
    kt_status status;
    report->share = 1.0;
    if (!settings->shrink || split->n_share == 0) return KT_OK;
    KT__TRY(kt__factors_copy(candidate, &p.scaled, err));
    p.scores = kt__calloc(split->n_share, sizeof *p.scores);
    if (!p.scores) {
        status = kt__fail_nomem(err, "scores", split->n_share * sizeof *p.scores);
        goto out;
    }
    KT__TRY(find_share(&p, part_of_allowed * settings->anchor_max, &report->share));
    kt__factors_take_share(p.scaled, candidate, (float)report->share);
    kt__factors_take_share(candidate, p.scaled, 1.0f);
out:
    kt__factors_free(p.scaled);
    kt__free(p.scores);
    return status;
}
