/* The history of tokens, and the steps that look at it: penalties and DRY. */
#include <float.h>
#include <math.h> /* INFINITY only */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "sample/chain.h"

/* ---- the tokens ---- */

enum { MOVED_AT_ONCE = 64 }; /* at least so many tokens leave together: each move copies a window */

static size_t window_of(int32_t last_n, int32_t n_ctx) {
    return (size_t)(last_n < 0 || last_n > n_ctx ? n_ctx : last_n);
}

kt_status kt__history_create(kt__sampler *s, kt_error *err) {
    kt__history *h = &s->history;
    bool dry = false;
    size_t dry_window = window_of(s->params.dry_penalty_last_n, s->n_ctx);
    for (int i = 0; i < s->n_steps; i++) {
        kt__step_kind kind = s->steps[i].kind;
        dry |= kind == KT__STEP_DRY;
        if (kind != KT__STEP_PENALTIES) continue;
        h->window = window_of(s->params.repeat_last_n, s->n_ctx);
    }
    if (dry && dry_window > h->window) h->window = dry_window;
    if (!h->window) return KT_OK;
    h->cap = h->window + (h->window < MOVED_AT_ONCE ? MOVED_AT_ONCE : h->window);
    h->token = kt__calloc(h->cap, sizeof *h->token);
    h->state = kt__calloc(h->cap, sizeof *h->state);
    h->run = kt__calloc(h->cap, sizeof *h->run);
    if (dry) s->z = kt__calloc(dry_window, sizeof *s->z);
    if (h->token && h->state && h->run && (!dry || s->z)) return KT_OK;
    return kt__fail_nomem(err, "a sampler's history", h->cap * 12);
}

void kt__history_free(kt__sampler *s) {
    kt__free(s->history.token);
    kt__free(s->history.state);
    kt__free(s->history.run);
    kt__free(s->z);
}

static void move_out(kt__history *h) {
    size_t keep = h->window, drop = h->n - keep;
    memmove(h->token, h->token + drop, keep * sizeof *h->token);
    memmove(h->state, h->state + drop, keep * sizeof *h->state);
    memmove(h->run, h->run + drop, keep * sizeof *h->run);
    h->n = keep;
}

/* Reads the token's bytes; true if some breaker is completed in it. */
static bool completes_breaker(kt__sampler *s, int32_t id, uint32_t *state) {
    size_t len = 0;
    const char *bytes = s->breakers ? s->vocab.bytes(s->vocab.ctx, id, &len) : NULL;
    bool found = false;
    for (size_t i = 0; bytes && i < len; i++) {
        *state = kt__match_step(s->breakers, *state, (uint8_t)bytes[i]);
        found |= kt__match_found(s->breakers, *state) >= 0;
    }
    return found;
}

void kt__history_accept(kt__sampler *s, int32_t id) {
    kt__history *h = &s->history;
    if (!h->window) return;
    if (h->n == h->cap) move_out(h);
    bool known = id >= 0 && id < s->n_vocab;
    uint32_t state = h->n ? h->state[h->n - 1] : 0, run = h->n ? h->run[h->n - 1] : 0;
    bool breaks = known && completes_breaker(s, id, &state);
    h->token[h->n] = known ? id : -1;
    h->state[h->n] = state;
    h->run[h->n] = breaks ? 0 : run + (run < UINT32_MAX);
    h->n++;
}

/* ---- changing the logits of counted tokens ---- */

typedef float change_fn(kt__sampler *s, float logit, int32_t id, int32_t count);

static float clamp_finite(double logit) {
    return (float)(logit > (double)FLT_MAX    ? (double)FLT_MAX
                   : logit < -(double)FLT_MAX ? -(double)FLT_MAX
                                              : logit);
}

/* Applies change to every candidate whose count is not zero, and clears the counts, which are those
 * of tokens[n] (-1: none). */
static void change_counted(kt__sampler *s, kt__cands *c, const int32_t *tokens, size_t n,
                           change_fn *change) {
    int32_t *count = c->scratch->count;
    float *logit = kt__cands_edit(c);
    for (size_t i = 0; c->id && i < c->n; i++) {
        int32_t id = c->id[i];
        if (count[id] && logit[i] > -INFINITY) logit[i] = change(s, logit[i], id, count[id]);
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (id < 0 || !count[id]) continue;
        if (!c->id && logit[id] > -INFINITY) logit[id] = change(s, logit[id], id, count[id]);
        count[id] = 0;
    }
    kt__cands_resort(c);
}

/* ---- penalties ---- */

static float repeat_penalised(kt__sampler *s, float logit, int32_t id, int32_t count) {
    (void)id;
    const kt_sampling *p = &s->params;
    double x = (double)logit, repeat = (double)p->repeat_penalty;
    /* Keskar et al. 2019 divide; a negative logit has to be multiplied to become less likely */
    x = x <= 0.0 ? x * repeat : x / repeat;
    return clamp_finite(
        x - ((double)count * (double)p->frequency_penalty + (double)p->presence_penalty));
}

void kt__step_penalties(kt__sampler *s, kt__cands *c) {
    size_t window = window_of(s->params.repeat_last_n, s->n_ctx);
    size_t n = s->history.n < window ? s->history.n : window;
    const int32_t *tokens = s->history.token + (s->history.n - n);
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] >= 0) c->scratch->count[tokens[i]]++;
    }
    change_counted(s, c, tokens, n, repeat_penalised);
}

/* ---- DRY ---- */

/* z[k], k >= 1: how many tokens that end k before the last equal the last ones: the Z function
 * (Gusfield 1997, section 1.3) of the tokens read backwards. Linear: each comparison moves `end` or
 * ends an item. */
static void match_backwards(const int32_t *last, size_t n, int32_t *z) {
    size_t begin = 0, end = 0; /* [begin, end) equals the start, as far as seen */
    for (size_t k = 1; k < n; k++) {
        size_t len = 0;
        if (k < end) {
            len = (size_t)z[k - begin];
            if (len > end - k) len = end - k;
        }
        while (k + len < n && *(last - len) == *(last - k - len)) len++;
        if (k + len > end) begin = k, end = k + len;
        z[k] = (int32_t)len;
    }
}

static float dry_penalised(kt__sampler *s, float logit, int32_t id, int32_t length) {
    uint32_t state = 0;
    if (completes_breaker(s, id, &state)) return logit;
    const kt_sampling *p = &s->params;
    double exponent = (double)(length - p->dry_allowed_length);
    double log_base = kt__log((double)p->dry_base);
    if (exponent * log_base > 88.0) exponent = 88.0 / log_base; /* about the greatest f32 */
    double penalty = (double)p->dry_multiplier * kt__exp(exponent * log_base);
    return clamp_finite((double)logit - penalty);
}

void kt__step_dry(kt__sampler *s, kt__cands *c) {
    const kt__history *h = &s->history;
    size_t window = window_of(s->params.dry_penalty_last_n, s->n_ctx);
    size_t n = h->n < window ? h->n : window, allowed = (size_t)s->params.dry_allowed_length;
    if (n <= allowed || h->run[h->n - 1] < allowed) return;
    int32_t limit = (int32_t)(h->run[h->n - 1] < n ? h->run[h->n - 1] : n);
    const int32_t *last = h->token + h->n - 1;
    int32_t *count = c->scratch->count; /* the longest repetition that the token would continue */
    match_backwards(last, n, s->z);
    for (size_t k = 1; k < n; k++) {
        int32_t length = s->z[k] < limit ? s->z[k] : limit, next = *(last - (k - 1));
        if (length >= s->params.dry_allowed_length && next >= 0 && count[next] < length) {
            count[next] = length;
        }
    }
    change_counted(s, c, last - (n - 1), n, dry_penalised);
}
