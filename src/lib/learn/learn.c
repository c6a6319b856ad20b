#include "learn/learn.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"

/* ---- an adapter scaled down until what it costs is within bounds ----
 *
 * Between the base (share 0) and the adapter (share 1) the divergence from the base grows with about the square of
 * the share, what it learned holds longer (Wortsman et al. 2022, weight-space interpolation). */

enum { TRIES = 5 };
/* Of what the gate allows: on other conversations, which is where it judges, it is another. */
static const double part_of_allowed = 0.5;

typedef struct search {
    kt__learner *learner;
    const kt__sample *samples;
    const kt__split *split;
    const kt__learn_settings *settings;
    const kt__factors *candidate;
    kt__factors *scaled;
    kt_error *err;
} search;

/* KL(base, adapted) with a share of the adapter, nats a token. */
static kt_status divergence_at(const search *p, double share, double *out) {
    double kl;
    int n_tok;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    kt_status status = kt__learner_diverge(p->learner, p->scaled, p->split->share,
                                           p->split->n_share, &kl, &n_tok, p->err);
    *out = n_tok ? kl / n_tok : 0.0;
    return status;
}

/* The first try goes where the square would put it, the next ones where a line would, and half way up from what was
 * small enough. */
static kt_status find_share(search *p, double most, double *share) {
    double kl = 0.0, low = 0.0, high = 1.0, high_kl = 0.0;
    *share = 1.0;
    kt_status status = divergence_at(p, 1.0, &high_kl);
    if (status != KT_OK || high_kl <= most) return status;
    for (int i = 0; status == KT_OK && i < TRIES; i++) {
        double part = most / high_kl;
        *share = low > 0.0 ? (low + high) / 2.0 : high * (i == 0 ? sqrt(part) : part);
        status = divergence_at(p, *share, &kl);
        if (kl <= most)
            low = *share;
        else
            high = *share, high_kl = kl;
    }
    *share = low > 0.0 ? low : high;
    return status;
}

/* Held-out wordings that a share of the adapter answers word for word. */
static kt_status count_right(const search *p, double share, kt__sample_score *scores,
                             size_t *right) {
    const kt__split *s = p->split;
    *right = 0;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    KT__STEP(kt__learner_score(p->learner, p->scaled, s->held, s->n_held, scores, p->err));
    for (size_t i = 0; i < s->n_held; i++) *right += scores[i].recalled;
    return KT_OK;
}

static kt_status siblings_allow(const search *p, double share, bool *allowed) {
    const kt__learn_settings *s = p->settings;
    int leaks;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    KT__STEP(kt__gate_sibling_leaks(p->learner, p->samples, p->split, p->scaled, &leaks, p->err));
    *allowed = leaks <= s->sibling_part * (double)p->split->n_sibling;
    return KT_OK;
}

/* What is scoped changes nothing else, so that it may be more than was trained: of the shares at which most held-out
 * wordings are answered word for word the largest that other questions about the subjects allow, else the smallest. */
static kt_status find_best_share(const search *p, double *share) {
    static const double shares[] = {1.75, 1.5, 1.25, 1.0, 0.7, 0.5};
    enum { N = sizeof shares / sizeof *shares };
    size_t n = p->split->n_held, right[N], best[N], n_best = 0, most = 0;
    kt_status status = KT_OK;
    kt__sample_score *scores = kt__calloc(n + 1, sizeof *scores);
    if (!scores) return kt__fail_nomem(p->err, "scores", n * sizeof *scores);
    for (size_t i = 0; i < N; i++) {
        KT__TRY(count_right(p, shares[i], scores, &right[i]));
        if (right[i] > most) most = right[i];
    }
    for (size_t i = 0; i < N; i++)
        if (right[i] == most) best[n_best++] = i;
    /* the smaller the share, the less leaks: all from `first` on are taken for allowed */
    size_t begin = 0, first = n_best - 1;
    while (begin < first) {
        size_t middle = (begin + first) / 2;
        bool allowed;
        KT__TRY(siblings_allow(p, shares[best[middle]], &allowed));
        if (allowed)
            first = middle;
        else
            begin = middle + 1;
    }
    *share = shares[best[first]];
out:
    kt__free(scores);
    return status;
}

/* Scales the candidate by report->share. Of one that is used everywhere: 0 < share <= 1, measured on replay that is neither trained nor looked
 * at by the gate: half of what the gate allows. */
static kt_status shrink_adapter(kt__learner *learner, const kt__sample *samples,
                                const kt__split *split, const kt__learn_settings *settings,
                                kt__factors *candidate, kt__learn_report *report, kt_error *err) {
    search p = {.learner = learner,
                .samples = samples,
                .split = split,
                .settings = settings,
                .candidate = candidate,
                .err = err};
    kt_status status;
    report->share = 1.0;
    if (!settings->shrink || (settings->scoped ? split->n_held : split->n_share) == 0) return KT_OK;
    KT__TRY(kt__factors_copy(candidate, &p.scaled, err));
    if (settings->scoped)
        KT__TRY(find_best_share(&p, &report->share));
    else
        KT__TRY(find_share(&p, part_of_allowed * settings->anchor_max, &report->share));
    kt__factors_take_share(p.scaled, candidate, (float)report->share);
    kt__factors_take_share(candidate, p.scaled, 1.0f);
out:
    kt__factors_free(p.scaled);
    return status;
}

enum { SAMPLE_TOK_MAX = 4096 };

int kt__learn_len_max(const kt__net *net) {
    int64_t n_ctx = net->hp.n_ctx_train;
    return n_ctx > 0 && n_ctx < SAMPLE_TOK_MAX ? (int)n_ctx : SAMPLE_TOK_MAX;
}

static kt_status check_call(const kt__learn_on *on, const kt__sample *samples, size_t n,
                            const kt__learn_settings *settings, kt_error *err) {
    int n_max = kt__learn_len_max(on->net);
    KT__STEP(kt__factors_supported(on->net, err));
    KT__STEP(kt__learn_check(settings, err));
    return kt__samples_check(samples, n, on->net->hp.n_vocab, n_max, err);
}

/* Where the training begins: at the version so far, or with an adapter that adds nothing. */
static kt_status first_factors(const kt__learn_on *on, const kt__learn_settings *s,
                               const kt__learn_from *from, kt__factors **out, kt_error *err) {
    kt_status status = kt__factors_make(on->net, s->where, s->rank, s->alpha, s->seed, out, err);
    const kt__factors *begun = !from ? NULL : from->prior ? from->prior : from->start;
    const kt__factors *given[] = {begun, from ? from->centre : NULL};
    for (int i = 0; i < 2 && status == KT_OK; i++)
        if (given[i] && !kt__factors_alike(given[i], *out))
            status = kt__fail(err, KT_E_ARG,
                              "learning continues from an adapter of other matrices, "
                              "rank or scale than the settings name");
    if (status == KT_OK && given[0]) {
        kt__factors_free(*out);
        return kt__factors_copy(given[0], out, err);
    }
    if (status == KT_OK) return KT_OK;
    kt__factors_free(*out);
    *out = NULL;
    return status;
}

static kt_status train_and_gate(kt__learner *learner, const kt__training *training,
                                const kt__split *split, kt__factors *factors,
                                kt__learn_report *report, kt_error *err) {
    const kt__learn_from *from = training->from;
    const kt__factors *before = !from ? NULL : from->before ? from->before : from->prior;
    int64_t begin_us = kt__now_us();
    KT__STEP(kt__train(learner, training, factors, report, err));
    KT__STEP(shrink_adapter(learner, training->samples, split, training->settings, factors, report,
                            err));
    KT__STEP(kt__gate(learner, training->samples, split, training->settings, before, factors,
                      report, err));
    report->wall_ms = (kt__now_us() - begin_us) / 1000;
    report->cpu_ms = (kt__train_cpu_ns() - training->cpu_begin_ns) / 1000000;
    return KT_OK;
}

kt_status kt__learn(const kt__learn_on *on, const kt__sample *samples, size_t n,
                    const kt__learn_settings *settings, const kt__learn_from *from,
                    kt__factors **out, kt__learn_report *report, kt_error *err) {
    kt__learner *learner = NULL;
    kt__factors *factors = NULL;
    kt__split split = {0};
    kt_status status;
    *out = NULL;
    *report = (kt__learn_report){.share = 1.0};
    KT__TRY(check_call(on, samples, n, settings, err));
    KT__TRY(kt__split_make(samples, n, settings, &split, err));
    KT__TRY(first_factors(on, settings, from, &factors, err));
    KT__TRY(kt__learner_create(on, samples, n, settings, &learner, err));
    kt__training training = {.samples = samples,
                             .list = split.train,
                             .n = split.n_train,
                             .settings = settings,
                             .from = from,
                             .cpu_begin_ns = kt__train_cpu_ns()};
    KT__TRY(train_and_gate(learner, &training, &split, factors, report, err));
    *out = factors;
    factors = NULL;
out:
    kt__factors_free(factors);
    kt__learner_destroy(learner);
    kt__split_free(&split);
    return status;
}

/* ---- parts of it alone ---- */

/* scaled: NULL, or the candidate, which is made as small first as the gate asks for. */
static kt_status judge_alone(const kt__learn_on *on, const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, const kt__factors *prior,
                             const kt__factors *candidate, kt__factors *scaled,
                             kt__learn_report *report, kt_error *err) {
    kt__learner *learner = NULL;
    kt__split split = {0};
    kt_status status;
    *report = (kt__learn_report){.share = 1.0};
    KT__TRY(check_call(on, samples, n, settings, err));
    KT__TRY(kt__split_make(samples, n, settings, &split, err));
    KT__TRY(kt__learner_create(on, samples, n, settings, &learner, err));
    if (scaled) KT__TRY(shrink_adapter(learner, samples, &split, settings, scaled, report, err));
    status = kt__gate(learner, samples, &split, settings, prior, candidate, report, err);
out:
    kt__learner_destroy(learner);
    kt__split_free(&split);
    return status;
}

kt_status kt__learn_judge(const kt__learn_on *on, const kt__sample *samples, size_t n,
                          const kt__learn_settings *settings, const kt__factors *prior,
                          const kt__factors *candidate, kt__learn_report *report, kt_error *err) {
    return judge_alone(on, samples, n, settings, prior, candidate, NULL, report, err);
}

kt_status kt__learn_scale_and_judge(const kt__learn_on *on, const kt__sample *samples, size_t n,
                                    const kt__learn_settings *settings, kt__factors *candidate,
                                    kt__learn_report *report, kt_error *err) {
    return judge_alone(on, samples, n, settings, NULL, candidate, candidate, report, err);
}

static kt_status list_all(size_t n, size_t **out, kt_error *err) {
    *out = kt__calloc(n + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a list of samples", n * sizeof **out);
    for (size_t i = 0; i < n; i++) (*out)[i] = i;
    return KT_OK;
}

kt_status kt__learn_evaluate(const kt__learn_on *on, const kt__factors *factors,
                             const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, double *loss, kt_error *err) {
    kt__learner *learner = NULL;
    kt__sample_score *scores = kt__calloc(n + 1, sizeof *scores);
    size_t *list = NULL;
    double n_tok = 0.0;
    kt_status status;
    *loss = 0.0;
    if (!scores) return kt__fail_nomem(err, "scores", n * sizeof *scores);
    KT__TRY(check_call(on, samples, n, settings, err));
    KT__TRY(list_all(n, &list, err));
    KT__TRY(kt__learner_create(on, samples, n, settings, &learner, err));
    KT__TRY(kt__learner_score(learner, factors, list, n, scores, err));
    for (size_t i = 0; i < n; i++) {
        *loss += scores[i].loss;
        n_tok += scores[i].n_tok;
    }
    if (n_tok > 0.0) *loss /= n_tok;
out:
    kt__learner_destroy(learner);
    kt__free(scores);
    kt__free(list);
    return status;
}

/* Adds the square of one sample's gradient, a token of it. */
static kt_status add_square(kt__learner *learner, const kt__factors *factors, size_t i, int n_tok,
                            float *grads, float *fisher, kt_error *err) {
    const float one = 1.0f;
    double loss;
    for (size_t k = 0; k < factors->n_value; k++) grads[k] = 0.0f;
    kt_status status = kt__learner_step(learner, factors, &i, &one, 1, grads, &loss, err);
    if (status != KT_OK) return status;
    for (size_t k = 0; k < factors->n_value; k++) fisher[k] += grads[k] * grads[k] / (float)n_tok;
    return KT_OK;
}

kt_status kt__learn_fisher(const kt__learn_on *on, const kt__factors *factors,
                           const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                           float *fisher, kt_error *err) {
    kt__learner *learner = NULL;
    float *grads = kt__calloc(factors->n_value, sizeof *grads);
    size_t n_used = 0;
    kt_status status;
    if (!grads) return kt__fail_nomem(err, "gradients", factors->n_value * sizeof *grads);
    for (size_t k = 0; k < factors->n_value; k++) fisher[k] = 0.0f;
    KT__TRY(check_call(on, samples, n, settings, err));
    KT__TRY(kt__learner_create(on, samples, n, settings, &learner, err));
    for (size_t i = 0; i < n; i++) {
        if (kt__sample_is_kept(&samples[i])) continue; /* the base's own words teach nothing */
        KT__TRY(
            add_square(learner, factors, i, kt__sample_n_masked(&samples[i]), grads, fisher, err));
        n_used++;
    }
    for (size_t k = 0; n_used && k < factors->n_value; k++) fisher[k] /= (float)n_used;
out:
    kt__learner_destroy(learner);
    kt__free(grads);
    return status;
}
