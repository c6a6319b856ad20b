#include "sample/sample.h"

#include <math.h> /* INFINITY only */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "sample/chain.h"
#include "sample/rng.h"

static const char *const default_breakers[] = {"\n", ":", "\"", "*"};
enum { N_DEFAULT_BREAKERS = sizeof default_breakers / sizeof default_breakers[0] };

/* ---- making ---- */

static kt_status set_steps(kt__sampler *s, const char *chain, kt_error *err) {
    kt__step_kind kinds[KT__MAX_STEPS];
    int n;
    kt_status status = kt__chain_parse(chain, kinds, &n, err);
    if (status != KT_OK) return status;
    for (int i = 0; i < n; i++) {
        if (!kt__step_is_active(s, kinds[i])) continue;
        s->steps[s->n_steps++] = (kt__step){kinds[i], (uint32_t)(i + 1)};
    }
    return KT_OK;
}

static bool has_step(const kt__sampler *s, kt__step_kind kind) {
    for (int i = 0; i < s->n_steps; i++) {
        if (s->steps[i].kind == kind) return true;
    }
    return false;
}

static kt_status set_breakers(kt__sampler *s, const kt_sampling *params, kt_error *err) {
    const char *const *breakers = params->dry_breakers ? params->dry_breakers : default_breakers;
    size_t n = params->dry_breakers ? params->n_dry_breakers : N_DEFAULT_BREAKERS;
    if (!s->vocab.bytes || !n || !has_step(s, KT__STEP_DRY)) return KT_OK;
    return kt__match_create(breakers, n, &s->breakers, err);
}

static kt_status set_bias(kt__sampler *s, const kt_sampling *params, kt_error *err) {
    if (!params->n_logit_bias) return KT_OK;
    s->bias = kt__calloc(params->n_logit_bias, sizeof *s->bias);
    if (!s->bias)
        return kt__fail_nomem(err, "logit biases", params->n_logit_bias * sizeof *s->bias);
    memcpy(s->bias, params->logit_bias, params->n_logit_bias * sizeof *s->bias);
    s->n_bias = params->n_logit_bias;
    return KT_OK;
}

static kt_status set_scratch(kt__sampler *s, const kt__sampler_setup *setup, kt_error *err) {
    s->scratch = setup->scratch;
    if (!s->scratch) {
        kt_status status = kt__sampler_scratch_create(setup->n_vocab, &s->own_scratch, err);
        if (status != KT_OK) return status;
        s->scratch = s->own_scratch;
    }
    if (s->scratch->n_vocab == (size_t)setup->n_vocab) return KT_OK;
    return kt__fail(err, KT_E_ARG, "a sampler's scratch for %zu tokens used for %d",
                    s->scratch->n_vocab, (int)setup->n_vocab);
}

static kt_status set_generator(kt__sampler *s, kt_error *err) {
    if (!s->params.mt19937) return KT_OK;
    s->mt = kt__calloc(1, sizeof *s->mt);
    if (!s->mt) return kt__fail_nomem(err, "a random number generator", sizeof *s->mt);
    kt__mt19937_init(s->mt, (uint32_t)s->params.seed + s->choice);
    return KT_OK;
}

static kt_status fill_sampler(kt__sampler *s, const kt_sampling *params,
                              const kt__sampler_setup *setup, kt_error *err) {
    s->params = *params;
    s->params.logit_bias = NULL;
    s->params.dry_breakers = NULL;
    s->params.chain = NULL;
    s->n_vocab = setup->n_vocab;
    s->n_ctx = setup->n_ctx;
    s->choice = setup->choice;
    if (setup->vocab) s->vocab = *setup->vocab;
    kt__sampler_reset(s);
    if (s->params.seed == KT_SEED_RANDOM) KT__STEP(kt__rng_seed(&s->params.seed, err));
    KT__STEP(set_generator(s, err));
    KT__STEP(set_steps(s, params->chain, err));
    KT__STEP(set_breakers(s, params, err));
    KT__STEP(set_bias(s, params, err));
    KT__STEP(set_scratch(s, setup, err));
    return kt__history_create(s, err);
}

kt_status kt__sampler_create(const kt_sampling *params, const kt__sampler_setup *setup,
                             kt__sampler **out, kt_error *err) {
    *out = NULL;
    kt_status status = kt__sampling_check(params, setup->n_vocab, err);
    if (status != KT_OK) return status;
    if (setup->n_ctx < 1)
        return kt__fail(err, KT_E_ARG, "a context of %d tokens", (int)setup->n_ctx);
    kt__sampler *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a sampler", sizeof *s);
    status = fill_sampler(s, params, setup, err);
    if (status != KT_OK) {
        kt__sampler_free(s);
        return status;
    }
    *out = s;
    return KT_OK;
}

void kt__sampler_free(kt__sampler *s) {
    if (!s) return;
    kt__match_free(s->breakers);
    kt__free(s->bias);
    kt__free(s->mt);
    kt__sampler_scratch_free(s->own_scratch);
    kt__history_free(s);
    kt__free(s);
}

uint64_t kt__sampler_seed(const kt__sampler *s) {
    return s->params.seed;
}

static bool is_greedy(const kt__sampler *s) {
    return s->params.temperature <= 0.0f;
}

bool kt__sampler_is_argmax(const kt__sampler *s) {
    return is_greedy(s) && !s->n_bias && !s->n_steps;
}

/* ---- state ---- */

void kt__sampler_reset(kt__sampler *s) {
    s->history.n = 0;
    s->mu = 2.0 * (double)s->params.mirostat_tau;
    s->pending_id = -1;
    s->first_position = UINT64_MAX;
}

void kt__sampler_accept(kt__sampler *s, int32_t id) {
    kt__history_accept(s, id);
    if (s->pending_id >= 0 && s->pending_id == id) {
        double error = s->pending_surprise - (double)s->params.mirostat_tau;
        s->mu -= (double)s->params.mirostat_eta * error;
    }
    s->pending_id = -1;
}

/* ---- sampling ---- */

static kt_status apply_bias(kt__sampler *s, kt__cands *c, kt_error *err) {
    if (!s->n_bias) return KT_OK;
    float *logit = kt__cands_edit(c);
    for (size_t i = 0; i < s->n_bias; i++) logit[s->bias[i].id] += s->bias[i].bias;
    if (kt__cands_max(c) > -INFINITY) return KT_OK;
    return kt__fail(err, KT_E_NUMERIC, "every token is forbidden by the logit bias");
}

kt_status kt__chain_run(kt__sampler *s, const float *logits, uint64_t position, kt__cands *c,
                        kt_error *err) {
    kt_status status = kt__cands_init(c, s->scratch, logits, err);
    if (status == KT_OK) status = apply_bias(s, c, err);
    if (status != KT_OK) return status;
    c->position = position;
    for (int i = 0; i < s->n_steps; i++) kt__step_run(s, &s->steps[i], c);
    if (is_greedy(s)) return KT_OK;
    if (s->params.mirostat) kt__apply_mirostat(s, c);
    kt__cands_weigh(c);
    return KT_OK;
}

/* The random number that chooses the token of a position. */
static double number_of(kt__sampler *s, uint64_t position) {
    if (!s->mt) return kt__rng_uniform(s->params.seed, s->choice, position, 0);
    if (position < s->first_position) s->first_position = position;
    return kt__mt19937_uniform(s->mt, position - s->first_position);
}

kt_status kt__sampler_sample(kt__sampler *s, const float *logits, uint64_t position, int32_t *id,
                             kt_error *err) {
    kt__cands c;
    kt_status status = kt__chain_run(s, logits, position, &c, err);
    if (status != KT_OK) return status;
    size_t chosen = is_greedy(s) ? kt__cands_argmax(&c)
                                 : kt__cands_draw(&c, number_of(s, position));
    *id = kt__cands_id(&c, chosen);
    s->last = c;
    s->pending_id = -1;
    if (s->params.mirostat && !is_greedy(s)) {
        double p = (double)s->scratch->weight[chosen] / c.total;
        s->pending_surprise = -kt__log(p) / 0.6931471805599453;
        s->pending_id = *id;
    }
    return KT_OK;
}

/* Entry i of the candidates among the n most probable so far, equals in the order of entries. */
static void add_candidate(kt_logprob *top, int n, int *filled, kt_logprob one) {
    if (*filled == n && one.logprob <= top[n - 1].logprob) return;
    int at = *filled < n ? (*filled)++ : n - 1;
    for (; at > 0 && one.logprob > top[at - 1].logprob; at--) top[at] = top[at - 1];
    top[at] = one;
}

void kt__sampler_probs(const kt__sampler *s, int32_t id, kt_logprob *out, int n) {
    const kt__cands *c = &s->last;
    const float *weight = s->scratch->weight;
    int filled = 0;
    bool greedy = is_greedy(s);
    out[0] = (kt_logprob){id, greedy ? 0.0f : -INFINITY};
    if (greedy && n > 0) out[++filled] = out[0];
    for (size_t i = 0; !greedy && i < c->n; i++) {
        double share = (double)weight[i] / c->total;
        kt_logprob one = {kt__cands_id(c, i), share > 0 ? (float)kt__log(share) : -INFINITY};
        if (one.id == id) out[0] = one;
        if (n > 0 && share > 0) add_candidate(out + 1, n, &filled, one);
    }
    for (int i = filled; i < n; i++) out[1 + i] = (kt_logprob){-1, -INFINITY};
}
