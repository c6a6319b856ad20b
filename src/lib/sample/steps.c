/* The steps of the chain that look at the candidates alone. */
#include <math.h> /* sqrt, fabs and INFINITY only: IEEE operations */

#include "base/math.h"
#include "sample/chain.h"
#include "sample/rng.h"

static size_t min_keep_of(const kt__sampler *s) {
    return (size_t)s->params.min_keep;
}

/* Top-n-sigma (Tang et al. 2024): logits >= max - n standard deviations. */
void kt__step_top_n_sigma(kt__sampler *s, kt__cands *c) {
    double sum = 0.0, squares = 0.0, max = (double)kt__cands_max(c);
    size_t live = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!(c->logit[i] > -INFINITY)) continue;
        sum += (double)c->logit[i] - max;
        live++;
    }
    double mean = sum / (double)live;
    for (size_t i = 0; i < c->n; i++) {
        if (!(c->logit[i] > -INFINITY)) continue;
        double d = (double)c->logit[i] - max - mean;
        squares += d * d;
    }
    double sigma = sqrt(squares / (double)live);
    kt__cands_keep_above(c, max - (double)s->params.top_n_sigma * sigma, min_keep_of(s));
}

void kt__step_top_k(kt__sampler *s, kt__cands *c) {
    size_t k = (size_t)s->params.top_k;
    kt__cands_keep_top(c, k < min_keep_of(s) ? min_keep_of(s) : k);
}

/* Locally typical (Meister et al. 2022): the candidates whose surprise is nearest to the entropy,
 * up to a share of the mass. */
void kt__step_typ_p(kt__sampler *s, kt__cands *c) {
    double entropy = kt__cands_entropy(c), log_total = kt__log(c->total), max = (double)c->max;
    float *key = c->scratch->key;
    for (size_t i = 0; i < c->n; i++) {
        double surprise = max - (double)c->logit[i] + log_total;
        key[i] = (float)-fabs(surprise - entropy);
    }
    kt__cands_keep_mass_by_key(c, (double)s->params.typical_p, min_keep_of(s));
}

void kt__step_top_p(kt__sampler *s, kt__cands *c) {
    kt__cands_keep_mass(c, (double)s->params.top_p, min_keep_of(s));
}

/* p >= min_p * p_max, as logits */
void kt__step_min_p(kt__sampler *s, kt__cands *c) {
    double logit = (double)kt__cands_max(c) + kt__log((double)s->params.min_p);
    kt__cands_keep_above(c, logit, min_keep_of(s));
}

/* Exclude top choices (p-e-w 2024): with a given probability, drops all candidates over the
 * threshold except the least of them. */
void kt__step_xtc(kt__sampler *s, kt__cands *c) {
    double u = kt__rng_uniform(s->params.seed, s->choice, c->position, c->draw);
    if (u >= (double)s->params.xtc_probability) return;
    kt__cands_weigh(c);
    kt__cands_drop_top(c, (double)s->params.xtc_threshold * c->total, min_keep_of(s));
}

/* Dynamic temperature: from temperature - range to temperature + range by the entropy's share of
 * the greatest possible. */
static double temperature_of(kt__sampler *s, kt__cands *c) {
    const kt_sampling *p = &s->params;
    double temperature = (double)p->temperature, range = (double)p->dynatemp_range;
    size_t live = range > 0.0 ? kt__cands_live(c) : 0;
    if (live < 2) return temperature;
    double low = temperature > range ? temperature - range : 0.0, high = temperature + range;
    double share = kt__cands_entropy(c) / kt__log((double)live);
    if (share > 1.0) share = 1.0;
    double exponent = (double)p->dynatemp_exponent;
    double power = share > 0.0 ? kt__pow(share, exponent) : exponent > 0.0 ? 0.0 : 1.0;
    return low + (high - low) * power;
}

void kt__step_temperature(kt__sampler *s, kt__cands *c) {
    float t = (float)temperature_of(s, c), max = kt__cands_max(c);
    if (!(t > 0.0f)) {
        kt__cands_keep_top(c, 1);
        return;
    }
    if (t == 1.0f) return;
    float *logit = kt__cands_edit(c);
    for (size_t i = 0; i < c->n; i++) logit[i] = (logit[i] - max) / t;
}

/* ---- mirostat (Basu et al. 2021) ---- */

enum { MIROSTAT_M = 100 }; /* candidates that the estimate looks at */
#define LN2 0.6931471805599453

/* Algorithm 1: the exponent of a Zipf distribution fitted to the top, then the k whose surprise is
 * mu. */
static size_t mirostat_k(kt__sampler *s, kt__cands *c) {
    kt__entry top[MIROSTAT_M];
    (void)kt__cands_max(c);
    size_t n = kt__select_top(c->logit, c->n, MIROSTAT_M, c->scratch->block_max, top);
    double sum_tb = 0.0, sum_tt = 0.0;
    for (size_t i = 0; i + 1 < n; i++) {
        double t = kt__log((double)(i + 2) / (double)(i + 1));
        double b = (double)top[i].key - (double)top[i + 1].key;
        sum_tb += t * b;
        sum_tt += t * t;
    }
    if (!(sum_tt > 0.0)) return 1;
    double exponent = sum_tb / sum_tt, epsilon = exponent - 1.0, n_vocab = (double)s->n_vocab;
    double scale = fabs(epsilon) < 1e-9 ? 1.0 / kt__log(n_vocab)
                                        : epsilon / (1.0 - kt__pow(n_vocab, -epsilon));
    double log_base = s->mu * LN2 + kt__log(scale);
    if (!(log_base > 0.0)) return 1;
    if (log_base >= exponent * kt__log((double)c->n)) return c->n;
    return (size_t)kt__exp(log_base / exponent);
}

void kt__apply_mirostat(kt__sampler *s, kt__cands *c) {
    if (s->params.mirostat == 1) {
        kt__cands_keep_top(c, mirostat_k(s, c));
        return;
    }
    /* Algorithm 2: surprise -log2 p <= mu, with log p = logit - max - log Z */
    kt__cands_weigh(c);
    kt__cands_keep_above(c, (double)c->max + kt__log(c->total) - s->mu * LN2, 1);
}

/* ---- the table ---- */

#define STEP(KIND, name, when, is_on)                \
    static bool name##_is_on(const kt_sampling *p) { \
        return is_on;                                \
    }
#include "sample/steps.def"

static const struct step_row {
    enum { ALWAYS, CUT } when;
    bool (*is_on)(const kt_sampling *p);
    kt__step_fn *run;
} steps[] = {
#define STEP(KIND, name, when, is_on) {when, name##_is_on, kt__step_##name},
#include "sample/steps.def"
};

bool kt__step_is_active(const kt__sampler *s, kt__step_kind kind) {
    const kt_sampling *p = &s->params;
    bool cuts = !(p->temperature <= 0.0f) && !p->mirostat;
    return (cuts || steps[kind].when == ALWAYS) && steps[kind].is_on(p);
}

void kt__step_run(kt__sampler *s, const kt__step *step, kt__cands *c) {
    c->draw = step->draw;
    steps[step->kind].run(s, c);
}
