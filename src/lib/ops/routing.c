/* The choice of experts: the largest logits of each token, their shares, and the tokens of each
 * expert. */
#include <math.h>
#include <string.h>

#include "base/math.h"
#include "ops/dev.h"

/* ---- memory ---- */

static size_t pieces_max(int n_tok, int n_expert, int n_used) {
    return (size_t)n_expert + (size_t)n_tok * (size_t)n_used / KT__EXPERT_TOKENS + 1;
}

size_t kt__routing_bytes(int n_tok, int n_expert, int n_used) {
    size_t slots = (size_t)n_tok * (size_t)n_used, pieces = pieces_max(n_tok, n_expert, n_used);
    return 4 * slots * sizeof(int32_t) + ((size_t)n_expert + 1) * sizeof(int32_t) +
           pieces * (sizeof(kt__expert_piece) + sizeof(int32_t));
}

void kt__routing_place(kt__routing *routing, int n_tok, int n_expert, int n_used, void *memory) {
    size_t slots = (size_t)n_tok * (size_t)n_used;
    *routing = (kt__routing){.n_expert = n_expert, .n_used = n_used, .chosen = memory};
    routing->slot_tok = routing->chosen + slots;
    routing->share = (float *)(void *)(routing->slot_tok + slots);
    routing->slot_share = routing->share + slots;
    routing->first = (int32_t *)(void *)(routing->slot_share + slots);
    routing->by_size = routing->first + n_expert + 1;
    routing->pieces = (kt__expert_piece *)(void *)(routing->by_size +
                                                   pieces_max(n_tok, n_expert, n_used));
}

/* ---- a token's experts ---- */

typedef struct route_job {
    kt__dev *dev;
    const kt__route *d;
    kt__routing *routing;
    atomic_bool bad;
} route_job;

/* The n_used largest, marked; the lowest number wins on ties. Returns the largest logit. */
static float mark_largest(const float *logits, int n_expert, int n_used, bool *taken) {
    float top = 0;
    for (int e = 0; e < n_expert; e++) taken[e] = false;
    for (int k = 0; k < n_used; k++) {
        int best = -1;
        for (int e = 0; e < n_expert; e++)
            if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
        taken[best] = true;
        if (k == 0) top = logits[best];
    }
    return top;
}

/* Shares as NUMERICS.md, section 10 has them. */
static bool choose_experts(const route_job *job, int64_t t) {
    const kt__routing *r = job->routing;
    const float *logits = job->d->logits + t * r->n_expert;
    int32_t *chosen = r->chosen + t * r->n_used;
    float *share = r->share + t * r->n_used, sum = 0;
    bool taken[KT__MAX_EXPERTS];
    float top = mark_largest(logits, r->n_expert, r->n_used, taken);
    int n = 0;
    bool of_all = job->d->shares == KT__SHARES_OF_ALL;
    for (int e = 0; e < r->n_expert; e++) {
        if (!taken[e] && !of_all) continue;
        float weight = kt__expf(logits[e] - top);
        sum += weight;
        if (!taken[e]) continue;
        chosen[n] = e;
        share[n++] = weight;
    }
    for (int k = 0; k < n; k++) share[k] = share[k] / sum * job->d->scale;
    return true;
}

/* Each expert's own score, before the choice. */
static void score_experts(const kt__route *d, const float *logits, int n_expert, float *scores) {
    float top = logits[0], sum = 0;
    for (int e = 1; e < n_expert; e++)
        if (logits[e] > top) top = logits[e];
    for (int e = 0; e < n_expert; e++) {
        bool sigmoid = d->shares == KT__SHARES_SIGMOID;
        scores[e] = sigmoid ? 1.0f / (1.0f + kt__expf(-logits[e])) : kt__expf(logits[e] - top);
        sum += scores[e];
    }
    for (int e = 0; d->shares != KT__SHARES_SIGMOID && e < n_expert; e++) scores[e] /= sum;
}

/* Experts outside of the best groups are out: -infinity. */
static void keep_groups(const kt__route *d, int n_expert, float *picks) {
    int in_group = n_expert / d->n_group;
    float sums[KT__MAX_EXPERTS];
    bool kept[KT__MAX_EXPERTS];
    for (int g = 0; g < d->n_group; g++) {
        const float *p = picks + g * in_group;
        float best = p[0] > p[1] ? p[0] : p[1], second = p[0] > p[1] ? p[1] : p[0];
        for (int e = 2; e < in_group; e++) {
            if (p[e] > best) {
                second = best;
                best = p[e];
            } else if (p[e] > second) {
                second = p[e];
            }
        }
        sums[g] = best + second;
    }
    (void)mark_largest(sums, d->n_group, d->n_group_used, kept);
    for (int e = 0; e < n_expert; e++)
        if (!kept[e / in_group]) picks[e] = -INFINITY;
}

/* What one choice goes by. Without a bias and groups the logits themselves: they do not tie where
 * scores round to 1. */
static void pick_by(const kt__route *d, const float *logits, const float *scores, int n,
                    float *picks) {
    bool plain = !d->pick_bias && d->n_group <= 1;
    for (int e = 0; e < n; e++)
        picks[e] = plain ? logits[e] : d->pick_bias ? scores[e] + d->pick_bias[e] : scores[e];
}

/* By scores with a bias; shares are of the scores alone. false: the bias is not finite. */
static bool choose_by_scores(const route_job *job, int64_t t) {
    const float LEAST_SUM = 0x1p-14f; /* of shares, as converters' models were made with f16 */
    const kt__routing *r = job->routing;
    const kt__route *d = job->d;
    float scores[KT__MAX_EXPERTS], picks[KT__MAX_EXPERTS], sum = 0;
    bool taken[KT__MAX_EXPERTS], finite = true;
    int32_t *chosen = r->chosen + t * r->n_used;
    float *share = r->share + t * r->n_used;
    int n = 0;
    score_experts(d, d->logits + t * r->n_expert, r->n_expert, scores);
    pick_by(d, d->logits + t * r->n_expert, scores, r->n_expert, picks);
    (void)job->dev->kernels->argmax(picks, r->n_expert, &finite);
    if (!finite) return false;
    if (d->n_group > 1) keep_groups(d, r->n_expert, picks);
    (void)mark_largest(picks, r->n_expert, r->n_used, taken);
    for (int e = 0; e < r->n_expert; e++) {
        if (!taken[e]) continue;
        chosen[n] = e;
        sum += share[n++] = scores[e];
    }
    if (!(sum > LEAST_SUM)) sum = LEAST_SUM;
    for (int k = 0; k < n; k++) share[k] = (d->normed ? share[k] / sum : share[k]) * d->scale;
    return true;
}

/* Whether the logits alone say which experts are the best. */
static bool is_by_logits(const kt__route *d) {
    return d->shares != KT__SHARES_SIGMOID && !d->normed && !d->pick_bias && d->n_group <= 1;
}

static void scale_shares(const route_job *job, int64_t t) {
    const kt__routing *r = job->routing;
    for (int64_t i = t * r->n_used; job->d->expert_scale && i < (t + 1) * r->n_used; i++)
        r->share[i] *= job->d->expert_scale[r->chosen[i]];
}

static void route_rows(void *arg, int64_t begin, int64_t end, int worker) {
    route_job *job = arg;
    int n_expert = job->routing->n_expert;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        bool finite = true;
        (void)job->dev->kernels->argmax(job->d->logits + t * n_expert, n_expert, &finite);
        if (finite) finite = (is_by_logits(job->d) ? choose_experts : choose_by_scores)(job, t);
        if (finite) scale_shares(job, t);
        if (!finite) atomic_store_explicit(&job->bad, true, memory_order_relaxed);
        float *gate = job->d->shared_gate;
        if (gate) gate[t] = 1.0f / (1.0f + kt__expf(-gate[t]));
    }
}

/* ---- an expert's tokens ---- */

/* The slots by expert: chosen experts are counted, then tokens put at their places in turn. */
static void group_slots(kt__routing *r) {
    int32_t *first = r->first;
    int n_chosen = r->n_tok * r->n_used;
    memset(first, 0, ((size_t)r->n_expert + 1) * sizeof *first);
    for (int i = 0; i < n_chosen; i++) first[r->chosen[i] + 1]++;
    for (int e = 0; e < r->n_expert; e++) first[e + 1] += first[e];
    for (int i = 0; i < n_chosen; i++) {
        int slot = first[r->chosen[i]]++;
        r->slot_tok[slot] = i / r->n_used;
        r->slot_share[slot] = r->share[i];
    }
    memmove(first + 1, first, (size_t)r->n_expert * sizeof *first);
    first[0] = 0;
    r->n_slot = n_chosen;
}

static void cut_pieces(kt__routing *r) {
    r->n_piece = 0;
    for (int e = 0; e < r->n_expert; e++) {
        int n = r->first[e + 1] - r->first[e];
        int parts = (n + KT__EXPERT_TOKENS - 1) / KT__EXPERT_TOKENS;
        for (int p = 0; p < parts; p++) {
            int from = (int)((int64_t)n * p / parts), to = (int)((int64_t)n * (p + 1) / parts);
            r->pieces[r->n_piece++] = (kt__expert_piece){e, r->first[e] + from, to - from};
        }
    }
}

/* The pool gives out large chunks first and single items last, so that the pieces with the most
 * tokens come last. */
static void sort_pieces(kt__routing *r) {
    int at[KT__EXPERT_TOKENS + 2] = {0};
    for (int p = 0; p < r->n_piece; p++) at[r->pieces[p].n_tok + 1]++;
    for (int n = 0; n <= KT__EXPERT_TOKENS; n++) at[n + 1] += at[n];
    for (int p = 0; p < r->n_piece; p++) r->by_size[at[r->pieces[p].n_tok]++] = p;
}

bool kt__cpu_route(kt__dev *dev, const kt__route *desc, kt__routing *routing) {
    enum { PARALLEL_FROM = 8 }; /* tokens */
    route_job job = {.dev = dev, .d = desc, .routing = routing};
    routing->n_tok = desc->n_tok;
    if (desc->n_tok < PARALLEL_FROM) {
        route_rows(&job, 0, desc->n_tok, 0);
    } else {
        kt__pool_run(dev->pool, desc->n_tok, 1, route_rows, &job);
    }
    if (job.bad) return false;
    group_slots(routing);
    cut_pieces(routing);
    sort_pieces(routing);
    return true;
}
