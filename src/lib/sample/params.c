/* The defaults of kt_sampling and the check of what a caller filled in. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "sample/chain.h"

kt_sampling kt_sampling_default(void) {
    return (kt_sampling){
        .seed = KT_SEED_RANDOM,
#define NUMBER(type, member, value, ...) .member = value,
#include "sample/steps.def"
    };
}

static kt_status check_numbers(const kt_sampling *p, kt_error *err) {
#define NUMBER(type, member, value, low, high, option, also, help)                   \
    if (!((double)p->member >= (low) && (double)p->member <= (high))) {              \
        return kt__fail_at(err, KT_E_ARG, #member, UINT64_MAX,                       \
                           #member " must be from %.10g to %.10g, not %.10g: " help, \
                           (double)(low), (double)(high), (double)p->member);        \
    }
#include "sample/steps.def"
    return KT_OK;
}

static kt_status check_bias(const kt_sampling *p, int32_t n_vocab, kt_error *err) {
    if (p->n_logit_bias && !p->logit_bias) {
        return kt__fail_at(err, KT_E_ARG, "logit_bias", UINT64_MAX,
                           "logit_bias is NULL but n_logit_bias is %zu", p->n_logit_bias);
    }
    if (p->n_logit_bias > KT__MAX_BIAS) {
        return kt__fail_at(err, KT_E_LIMIT, "logit_bias", UINT64_MAX,
                           "%zu logit biases; at most %d are allowed", p->n_logit_bias,
                           KT__MAX_BIAS);
    }
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        kt_logit_bias bias = p->logit_bias[i];
        if (bias.id < 0 || bias.id >= n_vocab) {
            return kt__fail_at(err, KT_E_ARG, "logit_bias", UINT64_MAX,
                               "logit_bias[%zu]: token %d is not in the vocabulary of %d", i,
                               (int)bias.id, (int)n_vocab);
        }
        if (!(bias.bias <= 1e30f) || (bias.bias < -1e30f && bias.bias != -INFINITY)) {
            return kt__fail_at(
                err, KT_E_ARG, "logit_bias", UINT64_MAX,
                "logit_bias[%zu]: the bias must be a number up to 1e30 or -infinity, not %g", i,
                (double)bias.bias);
        }
    }
    return KT_OK;
}

static kt_status check_breakers(const kt_sampling *p, kt_error *err) {
    if (!p->dry_breakers) return KT_OK;
    if (p->n_dry_breakers > KT__MAX_BREAKERS) {
        return kt__fail_at(err, KT_E_LIMIT, "dry_breakers", UINT64_MAX,
                           "%zu DRY sequence breakers; at most %d are allowed", p->n_dry_breakers,
                           KT__MAX_BREAKERS);
    }
    for (size_t i = 0; i < p->n_dry_breakers; i++) {
        if (!p->dry_breakers[i] || !p->dry_breakers[i][0]) {
            return kt__fail_at(err, KT_E_ARG, "dry_breakers", UINT64_MAX,
                               "dry_breakers[%zu] is empty; leave it out", i);
        }
    }
    return KT_OK;
}

/* ---- the chain's order ---- */

static const struct {
    const char *name;
    kt__step_kind kind;
} step_names[] = {
#define STEP(KIND, name, ...) {#name, KT__STEP_##KIND},
#include "sample/steps.def"
#define SPELLING(KIND, name) {#name, KT__STEP_##KIND},
#include "sample/steps.def"
};
static const char default_names[] =
#define STEP(KIND, name, ...) " " #name
#include "sample/steps.def"
    ;
enum { N_STEP_NAMES = sizeof step_names / sizeof step_names[0] };

/* name[len]: '-' and '_' are the same */
static bool same_name(const char *name, size_t len, const char *known) {
    if (strlen(known) != len) return false;
    for (size_t i = 0; i < len; i++) {
        if ((name[i] == '-' ? '_' : name[i]) != known[i]) return false;
    }
    return true;
}

static kt_status parse_step(const char *name, size_t len, kt__step_kind *kind, kt_error *err) {
    const char *names[N_STEP_NAMES];
    for (int i = 0; i < N_STEP_NAMES; i++) {
        names[i] = step_names[i].name;
        if (!same_name(name, len, names[i])) continue;
        *kind = step_names[i].kind;
        return KT_OK;
    }
    const char *near = kt__nearest_name(name, len, names, N_STEP_NAMES);
    int shown = len < 40 ? (int)len : 40;
    if (near) {
        return kt__fail_at(err, KT_E_ARG, "chain", UINT64_MAX,
                           "unknown sampler \"%.*s\" in the chain; did you mean \"%s\"?", shown,
                           name, near);
    }
    return kt__fail_at(err, KT_E_ARG, "chain", UINT64_MAX,
                       "unknown sampler \"%.*s\" in the chain; known are%s", shown, name,
                       default_names);
}

kt_status kt__chain_parse(const char *chain, kt__step_kind *kinds, int *n, kt_error *err) {
    *n = 0;
    while (!chain && *n < KT__STEP_COUNT) {
        kinds[*n] = (kt__step_kind)*n;
        ++*n;
    }
    while (chain && *chain) {
        size_t len = strcspn(chain, ";"), skip = len;
        while (len && *chain == ' ') chain++, len--, skip--;
        while (len && chain[len - 1] == ' ') len--;
        if (len) {
            if (*n == KT__MAX_STEPS) {
                return kt__fail_at(err, KT_E_LIMIT, "chain", UINT64_MAX,
                                   "more than %d samplers in the chain", KT__MAX_STEPS);
            }
            kt_status status = parse_step(chain, len, &kinds[*n], err);
            if (status != KT_OK) return status;
            ++*n;
        }
        chain += skip;
        if (*chain == ';') chain++;
    }
    return KT_OK;
}

kt_status kt__sampling_check(const kt_sampling *params, int32_t n_vocab, kt_error *err) {
    kt__step_kind kinds[KT__MAX_STEPS];
    int n;
    if (n_vocab < 1) return kt__fail(err, KT_E_ARG, "a vocabulary of %d tokens", (int)n_vocab);
    KT__STEP(check_numbers(params, err));
    KT__STEP(check_bias(params, n_vocab, err));
    KT__STEP(check_breakers(params, err));
    return kt__chain_parse(params->chain, kinds, &n, err);
}
