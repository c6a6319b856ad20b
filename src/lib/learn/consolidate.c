/* EwcMerge, Average, BestOnly. */
#include "base/alloc.h"
#include "base/error.h"
#include "learn/gate.h"
#include "learn/learn.h"

typedef struct consolidation {
    const kt__learn_on *on;
    const kt__consolidate *what;
    const kt__sample *samples;
    size_t n;
    const kt__learn_settings *settings;
    kt__factors **out;
    kt__learn_report *report;
    kt_error *err;
} consolidation;

/* Samples by index, as an array of their own. */
static kt_status gather_samples(const consolidation *c, const size_t *list, size_t n,
                                kt__sample **out) {
    *out = kt__calloc(n + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(c->err, "samples", n * sizeof **out);
    for (size_t i = 0; i < n; i++) (*out)[i] = c->samples[list[i]];
    return KT_OK;
}

static kt_status ewc_merge(const consolidation *c, const kt__split *split) {
    const kt__factors *prior = c->what->prior;
    kt__sample *earlier = NULL;
    float *fisher = NULL;
    kt_status status;
    if (!prior) return kt__fail(c->err, KT_E_ARG, "EwcMerge has no version to be held to");
    fisher = kt__calloc(prior->n_value, sizeof *fisher);
    if (!fisher) return kt__fail_nomem(c->err, "Fisher's information", prior->n_value);
    KT__TRY(gather_samples(c, split->earlier, split->n_earlier, &earlier));
    KT__TRY(kt__learn_fisher(c->on, prior, earlier, split->n_earlier, c->settings, fisher, c->err));
    const kt__learn_from from = {.prior = prior, .centre = prior, .fisher = fisher};
    status = kt__learn(c->on, c->samples, c->n, c->settings, &from, c->out, c->report, c->err);
out:
    kt__free(earlier);
    kt__free(fisher);
    return status;
}

static kt_status best_only(const consolidation *c, const kt__split *split) {
    kt__sample *held = NULL;
    double least = 0.0;
    size_t best = 0;
    kt_status status = gather_samples(c, split->held, split->n_held, &held);
    for (size_t i = 0; status == KT_OK && i < c->what->n_candidate; i++) {
        double loss = 0.0;
        status = kt__learn_evaluate(c->on, c->what->candidates[i], held, split->n_held, c->settings,
                                    &loss, c->err);
        if (i > 0 && !(loss < least)) continue;
        least = loss;
        best = i;
    }
    if (status == KT_OK) status = kt__factors_copy(c->what->candidates[best], c->out, c->err);
    kt__free(held);
    return status;
}

static kt_status make_one(const consolidation *c, const kt__split *split) {
    const kt__consolidate *what = c->what;
    if (what->how == KT__CONSOLIDATE_EWC_MERGE) return ewc_merge(c, split);
    if (what->n_candidate == 0)
        return kt__fail(c->err, KT_E_ARG, "there is no candidate to consolidate");
    if (what->how == KT__CONSOLIDATE_AVERAGE)
        return kt__factors_average(what->candidates, what->n_candidate, c->out, c->err);
    return best_only(c, split);
}

kt_status kt__learn_consolidate(const kt__learn_on *on, const kt__consolidate *what,
                                const kt__sample *samples, size_t n,
                                const kt__learn_settings *settings, kt__factors **out,
                                kt__learn_report *report, kt_error *err) {
    const consolidation c = {on, what, samples, n, settings, out, report, err};
    kt__split split = {0};
    kt_status status;
    *out = NULL;
    *report = (kt__learn_report){.share = 1.0};
    KT__TRY(kt__learn_check(settings, err));
    KT__TRY(kt__split_make(samples, n, settings, &split, err));
    KT__TRY(make_one(&c, &split));
    if (what->how != KT__CONSOLIDATE_EWC_MERGE)
        status = kt__learn_judge(on, samples, n, settings, what->prior, *out, report, err);
out:
    if (status != KT_OK) {
        kt__factors_free(*out);
        *out = NULL;
    }
    kt__split_free(&split);
    return status;
}
