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
                                           p->split->n_share, NULL, &kl, &n_tok, p->err);
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

/* Of the shares that are tried, the held-out wordings that they answer word for word. */
enum { SHARES = 6 };

typedef struct shares_tried {
    kt__sample_score *scores[SHARES], *part; /* [n_held] */
    size_t *list, *at;                       /* [n_held] of some wordings */
    bool *hard;                              /* [n_held] not answered with a share that was tried */
    size_t right[SHARES], most;
} shares_tried;

static kt_status take_tried(shares_tried *t, size_t n, kt_error *err) {
    bool all = true;
    for (size_t i = 0; i < SHARES; i++)
        all = (t->scores[i] = kt__calloc(n + 1, sizeof *t->scores[i])) && all;
    t->part = kt__calloc(n + 1, sizeof *t->part);
    t->list = kt__calloc(n + 1, sizeof *t->list);
    t->at = kt__calloc(n + 1, sizeof *t->at);
    t->hard = kt__calloc(n + 1, sizeof *t->hard);
    if (all && t->part && t->list && t->at && t->hard) return KT_OK;
    return kt__fail_nomem(err, "scores", n * sizeof *t->part);
}

static void free_tried(shares_tried *t) {
    for (size_t i = 0; i < SHARES; i++) kt__free(t->scores[i]);
    kt__free(t->part);
    kt__free(t->list);
    kt__free(t->at);
    kt__free(t->hard);
}

/* Scores the wordings that are hard, or those that are not; adds those that are right to right[i]. */
static kt_status score_wordings(const search *p, shares_tried *t, size_t i, bool hard) {
    size_t n = 0;
    for (size_t k = 0; k < p->split->n_held; k++) {
        if (t->hard[k] != hard) continue;
        t->at[n] = k;
        t->list[n++] = p->split->held[k];
    }
    KT__STEP(kt__learner_score(p->learner, p->scaled, t->list, n, t->part, p->err));
    for (size_t k = 0; k < n; k++) {
        t->scores[i][t->at[k]] = t->part[k];
        t->right[i] += t->part[k].recalled;
    }
    return KT_OK;
}

/* Hard wordings first: where the others cannot make up for them these are not asked, and right[i] stays below
 * `most`. */
static kt_status count_right(const search *p, shares_tried *t, size_t i, double share) {
    size_t n = p->split->n_held, n_hard = 0;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    for (size_t k = 0; k < n; k++) n_hard += t->hard[k];
    KT__STEP(score_wordings(p, t, i, true));
    if (t->right[i] + n - n_hard < t->most) return KT_OK;
    KT__STEP(score_wordings(p, t, i, false));
    for (size_t k = 0; k < n; k++) t->hard[k] |= !t->scores[i][k].recalled;
    if (t->right[i] > t->most) t->most = t->right[i];
    return KT_OK;
}

/* leaks: how many siblings leak where they are allowed, else -1. */
static kt_status siblings_allow(const search *p, double share, int *leaks) {
    double most = p->settings->sibling_part * (double)p->split->n_sibling;
    kt__factors_take_share(p->scaled, p->candidate, (float)share);
    KT__STEP(kt__gate_sibling_leaks(p->learner, p->samples, p->split, p->scaled, (int)most, leaks,
                                    p->err));
    if (*leaks > most) *leaks = -1;
    return KT_OK;
}

/* What is scoped changes nothing else, so that it may be more than was trained: of the shares at which most held-out
 * wordings are answered word for word the largest that other questions about the subjects allow, else the smallest. */
static kt_status find_best_share(const search *p, double *share, kt__gate_known *known) {
    static const double shares[SHARES] = {1.75, 1.5, 1.25, 1.0, 0.7, 0.5};
    static const size_t order[SHARES] = {2, 3, 1, 0, 4, 5}; /* the likeliest to be among the best */
    size_t best[SHARES], n_best = 0;
    shares_tried tried = {0};
    kt_status status;
    KT__TRY(take_tried(&tried, p->split->n_held, p->err));
    for (size_t i = 0; i < SHARES; i++) KT__TRY(count_right(p, &tried, order[i], shares[order[i]]));
    for (size_t i = 0; i < SHARES; i++)
        if (tried.right[i] == tried.most) best[n_best++] = i;
    /* the smaller the share, the less leaks: all from `first` on are taken for allowed */
    size_t begin = 0, first = n_best - 1;
    while (begin < first) {
        size_t middle = (begin + first) / 2;
        int leaks;
        KT__TRY(siblings_allow(p, shares[best[middle]], &leaks));
        if (leaks < 0) {
            begin = middle + 1;
            continue;
        }
        first = middle;
        known->sibling_leaks = leaks;
    }
    *share = shares[best[first]];
    known->held = tried.scores[best[first]];
    tried.scores[best[first]] = NULL;
out:
    free_tried(&tried);
    return status;
}

/* Scales the candidate by report->share. Of one that is used everywhere: 0 < share <= 1, measured on replay that is
 * neither trained nor looked at by the gate: half of what the gate allows. */
static kt_status shrink_adapter(kt__learner *learner, const kt__sample *samples,
                                const kt__split *split, const kt__learn_settings *settings,
                                kt__factors *candidate, kt__learn_report *report,
                                kt__gate_known *known, kt_error *err) {
    search p = {.learner = learner,
                .samples = samples,
                .split = split,
                .settings = settings,
                .candidate = candidate,
                .err = err};
    kt_status status;
    report->share = 1.0;
    *known = (kt__gate_known){.sibling_leaks = -1};
    if (!settings->shrink || (settings->scoped ? split->n_held : split->n_share) == 0) return KT_OK;
    KT__TRY(kt__factors_copy(candidate, &p.scaled, err));
    if (settings->scoped)
        KT__TRY(find_best_share(&p, &report->share, known));
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
    kt__gate_known known = {0};
    kt_status status;
    KT__TRY(kt__train(learner, training, factors, report, err));
    KT__TRY(shrink_adapter(learner, training->samples, split, training->settings, factors, report,
                           &known, err));
    KT__TRY(kt__gate(learner, training->samples, split, training->settings, before, factors, &known,
                     report, err));
    report->wall_ms = (kt__now_us() - begin_us) / 1000;
    report->cpu_ms = (kt__train_cpu_ns() - training->cpu_begin_ns) / 1000000;
out:
    kt__free(known.held);
    return status;
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
    kt__learn_settings used = *settings;
    if (used.rate == 0.0f) used.rate = kt__learn_rate(factors);
    kt__training training = {.samples = samples,
                             .list = split.train,
                             .n = split.n_train,
                             .settings = &used,
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
    kt__gate_known known = {.sibling_leaks = -1};
    kt_status status;
    *report = (kt__learn_report){.share = 1.0};
    KT__TRY(check_call(on, samples, n, settings, err));
    KT__TRY(kt__split_make(samples, n, settings, &split, err));
    KT__TRY(kt__learner_create(on, samples, n, settings, &learner, err));
    if (scaled)
        KT__TRY(shrink_adapter(learner, samples, &split, settings, scaled, report, &known, err));
    status = kt__gate(learner, samples, &split, settings, prior, candidate, &known, report, err);
out:
    kt__free(known.held);
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
