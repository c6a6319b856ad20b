/* The candidate set: maxima, weights, the draw, and cuts that keep the order of entries. The search
 * for the greatest few is in select.c. */
#include <float.h>
#include <math.h> /* INFINITY only */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "sample/chain.h"

/* ---- scratch ---- */

kt_status kt__sampler_scratch_create(int32_t n_vocab, kt__sampler_scratch **out, kt_error *err) {
    *out = NULL;
    if (n_vocab < 1) return kt__fail(err, KT_E_ARG, "a vocabulary of %d tokens", (int)n_vocab);
    size_t n = (size_t)n_vocab, n_blocks = (n + KT__BLOCK - 1) / KT__BLOCK;
    kt__sampler_scratch *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a sampler", sizeof *s);
    s->n_vocab = n;
    s->logit = kt__calloc(n, sizeof *s->logit);
    s->id = kt__calloc(n, sizeof *s->id);
    s->weight = kt__calloc(n, sizeof *s->weight);
    s->key = kt__calloc(n, sizeof *s->key);
    s->index = kt__calloc(n, sizeof *s->index);
    s->count = kt__calloc(n, sizeof *s->count);
    s->block_max = kt__calloc(n_blocks, sizeof *s->block_max);
    s->block_sum = kt__calloc(n_blocks, sizeof *s->block_sum);
    if (s->logit && s->id && s->weight && s->key && s->index && s->count && s->block_max &&
        s->block_sum) {
        *out = s;
        return KT_OK;
    }
    kt__sampler_scratch_free(s);
    return kt__fail_nomem(err, "a sampler's scratch", n * 24);
}

void kt__sampler_scratch_free(kt__sampler_scratch *s) {
    if (!s) return;
    kt__free(s->logit);
    kt__free(s->id);
    kt__free(s->weight);
    kt__free(s->key);
    kt__free(s->index);
    kt__free(s->count);
    kt__free(s->block_max);
    kt__free(s->block_sum);
    kt__free(s);
}

/* ---- the set ---- */

kt_status kt__cands_init(kt__cands *c, kt__sampler_scratch *scratch, const float *logits,
                         kt_error *err) {
    *c = (kt__cands){.scratch = scratch, .logit = logits, .n = scratch->n_vocab};
    bool usable = kt__select_maxima(logits, c->n, scratch->block_max, &c->max);
    if (!usable) {
        for (size_t i = 0; i < c->n; i++) {
            if (logits[i] <= FLT_MAX) continue;
            return kt__fail(err, KT_E_NUMERIC, "the logit of token %zu is %s", i,
                            logits[i] > FLT_MAX ? "infinite" : "not a number");
        }
    }
    if (c->max == -INFINITY) {
        return kt__fail(err, KT_E_NUMERIC, "every token is forbidden: all logits are -infinity");
    }
    c->have_max = true;
    return KT_OK;
}

float *kt__cands_edit(kt__cands *c) {
    float *own = c->scratch->logit;
    if (c->logit != own) memcpy(own, c->logit, c->n * sizeof *own);
    c->logit = own;
    c->have_max = c->have_weights = false;
    return own;
}

/* Entry i becomes entry j <= i. */
static inline void keep_entry(kt__cands *c, size_t j, size_t i) {
    c->scratch->logit[j] = c->logit[i];
    c->scratch->id[j] = kt__cands_id(c, i);
}

static void keep_done(kt__cands *c, size_t n) {
    c->logit = c->scratch->logit;
    c->id = c->scratch->id;
    c->n = n;
    c->have_max = c->have_weights = false;
}

/* The entries chosen[n], in that order. */
static void keep_chosen(kt__cands *c, const kt__entry *chosen, size_t n) {
    int32_t ids[KT__TOP_MAX];
    for (size_t j = 0; j < n; j++) ids[j] = kt__cands_id(c, chosen[j].index);
    for (size_t j = 0; j < n; j++) {
        c->scratch->logit[j] = chosen[j].key;
        c->scratch->id[j] = ids[j];
    }
    keep_done(c, n);
    c->sorted = true;
}

void kt__cands_resort(kt__cands *c) {
    if (!c->sorted) return;
    kt__entry chosen[KT__TOP_MAX];
    keep_chosen(c, chosen, kt__select_top(c->logit, c->n, c->n, NULL, chosen));
}

float kt__cands_max(kt__cands *c) {
    if (!c->have_max) (void)kt__select_maxima(c->logit, c->n, c->scratch->block_max, &c->max);
    c->have_max = true;
    return c->max;
}

size_t kt__cands_live(const kt__cands *c) {
    size_t live = 0;
    for (size_t i = 0; i < c->n; i++) live += c->logit[i] > -INFINITY;
    return live;
}

size_t kt__cands_argmax(kt__cands *c) {
    float max = kt__cands_max(c);
    size_t block = 0, best = SIZE_MAX;
    while (c->scratch->block_max[block] != max) block++;
    for (size_t i = block * KT__BLOCK; i < c->n; i++) {
        if (c->logit[i] != max) continue;
        if (!c->sorted) return i;
        if (best == SIZE_MAX || kt__cands_id(c, i) < kt__cands_id(c, best)) best = i;
    }
    return best;
}

/* ---- weights ---- */

/* In eight lanes, so that additions overlap. */
static double sum_of(const float *x, size_t n) {
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) lane[j] += (double)x[i + j];
    }
    for (size_t j = 0; i < n; i++, j++) lane[j] += (double)x[i];
    for (size_t step = 4; step; step /= 2) {
        for (size_t j = 0; j < step; j++) lane[j] += lane[j + step];
    }
    return lane[0];
}

void kt__cands_weigh(kt__cands *c) {
    if (c->have_weights) return;
    kt__sampler_scratch *s = c->scratch;
    kt__exp_weights(c->logit, kt__cands_max(c), c->n, s->weight);
    c->total = 0.0;
    for (size_t i = 0, b = 0; i < c->n; i += KT__BLOCK, b++) {
        size_t len = c->n - i < KT__BLOCK ? c->n - i : KT__BLOCK;
        s->block_sum[b] = sum_of(s->weight + i, len);
        c->total += s->block_sum[b];
    }
    c->have_weights = true;
}

double kt__cands_entropy(kt__cands *c) {
    kt__cands_weigh(c);
    /* H = log Z - sum(w d) / Z with d = logit - max */
    double sum = 0.0, max = (double)c->max;
    for (size_t i = 0; i < c->n; i++) {
        double w = (double)c->scratch->weight[i];
        if (w > 0.0) sum += w * ((double)c->logit[i] - max);
    }
    double entropy = kt__log(c->total) - sum / c->total;
    return entropy > 0.0 ? entropy : 0.0;
}

size_t kt__cands_draw(kt__cands *c, double u) {
    kt__cands_weigh(c);
    const float *w = c->scratch->weight;
    double target = u * c->total, sum = 0.0;
    size_t block = 0, n_blocks = (c->n + KT__BLOCK - 1) / KT__BLOCK;
    while (block + 1 < n_blocks && sum + c->scratch->block_sum[block] <= target) {
        sum += c->scratch->block_sum[block++];
    }
    for (size_t i = block * KT__BLOCK; i < c->n; i++) {
        sum += (double)w[i];
        if (sum > target && w[i] > 0.0f) return i;
    }
    /* rounding left the target just beyond the sum: the last that has a weight */
    size_t last = c->n - 1;
    while (last && !(w[last] > 0.0f)) last--;
    return last;
}

/* ---- cuts ---- */

void kt__cands_keep_top(kt__cands *c, size_t k) {
    if (k == 0) k = 1;
    if (k >= c->n) return;
    if (c->sorted) {
        c->n = k;
        c->have_max = c->have_weights = false;
        return;
    }
    if (k > KT__TOP_MAX) {
        kt__cut cut = kt__select_cut(c->logit, NULL, c->n, (double)k, true, c->scratch->index);
        size_t n = 0;
        for (size_t i = 0; i < c->n; i++) {
            if (kt__cut_keeps(&cut, c->logit[i])) keep_entry(c, n++, i);
        }
        keep_done(c, n);
        return;
    }
    kt__entry chosen[KT__TOP_MAX];
    (void)kt__cands_max(c);
    keep_chosen(c, chosen, kt__select_top(c->logit, c->n, k, c->scratch->block_max, chosen));
}

void kt__cands_keep_above(kt__cands *c, double logit, size_t min_keep) {
    (void)kt__cands_max(c);
    size_t above = 0;
    for (size_t i = 0; i < c->n; i++) above += (double)c->logit[i] >= logit;
    if (above < min_keep || above == 0) {
        kt__cands_keep_top(c, min_keep);
        return;
    }
    if (above == c->n) return;
    size_t n = 0;
    for (size_t first = 0, b = 0; first < c->n; first += KT__BLOCK, b++) {
        if ((double)c->scratch->block_max[b] < logit) continue;
        size_t end = first + KT__BLOCK < c->n ? first + KT__BLOCK : c->n;
        for (size_t i = first; i < end; i++) {
            if ((double)c->logit[i] >= logit) keep_entry(c, n++, i);
        }
    }
    keep_done(c, n);
}

/* How many of the sorted entries' weights are needed; 0: more than there are. */
static size_t mass_prefix(const float *weight, size_t n, double target, size_t min_keep) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)weight[i];
        if (sum >= target && i + 1 >= min_keep) return i + 1;
    }
    return 0;
}

/* What key's cut at this weight keeps, or, if that is fewer, the greatest min_keep. */
static void keep_cut(kt__cands *c, const float *key, double target, bool inclusive,
                     size_t min_keep) {
    uint32_t *index = c->scratch->index;
    kt__cut cut = kt__select_cut(key, c->scratch->weight, c->n, target, inclusive, index);
    size_t n = min_keep;
    if (min_keep > 1) {
        kt__cut counting = cut;
        n = 0;
        for (size_t i = 0; i < c->n; i++) n += kt__cut_keeps(&counting, key[i]);
    }
    if (n < min_keep) cut = kt__select_cut(key, NULL, c->n, (double)min_keep, true, index);
    n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (kt__cut_keeps(&cut, key[i])) keep_entry(c, n++, i);
    }
    keep_done(c, n);
}

void kt__cands_keep_mass(kt__cands *c, double share, size_t min_keep) {
    kt__cands_weigh(c);
    double target = share * c->total;
    const float *weight = c->scratch->weight;
    if (c->sorted) {
        size_t n = mass_prefix(weight, c->n, target, min_keep);
        if (n && n < c->n) kt__cands_keep_top(c, n);
        return;
    }
    /* The greatest few are usually enough; a flat distribution is cut without sorting it. */
    kt__entry chosen[KT__TOP_MAX];
    float chosen_weight[KT__TOP_MAX];
    size_t n = kt__select_top(c->logit, c->n, KT__TOP_MAX, c->scratch->block_max, chosen);
    for (size_t i = 0; i < n; i++) chosen_weight[i] = weight[chosen[i].index];
    size_t enough = mass_prefix(chosen_weight, n, target, min_keep);
    if (enough) {
        keep_chosen(c, chosen, enough);
        return;
    }
    keep_cut(c, c->logit, target, true, min_keep);
}

void kt__cands_keep_mass_by_key(kt__cands *c, double share, size_t min_keep) {
    kt__cands_weigh(c);
    keep_cut(c, c->scratch->key, share * c->total, false, min_keep);
}

void kt__cands_drop_top(kt__cands *c, double weight, size_t min_keep) {
    kt__cands_weigh(c);
    const float *w = c->scratch->weight;
    size_t n_top = 0, least = 0;
    for (size_t i = 0; i < c->n; i++) {
        if ((double)w[i] < weight || !(w[i] > 0.0f)) continue;
        if (!n_top++ || c->logit[i] < c->logit[least] ||
            (c->logit[i] == c->logit[least] && kt__cands_id(c, i) > kt__cands_id(c, least))) {
            least = i;
        }
    }
    if (n_top < 2 || kt__cands_live(c) - (n_top - 1) < min_keep) return;
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (i == least || (double)w[i] < weight) keep_entry(c, n++, i);
    }
    keep_done(c, n);
}
