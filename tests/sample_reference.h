/* A plain second opinion on the sampler chain for the tests: full sorts, double arithmetic, libm.
 * Shares no code with src/lib/sample. A trial whose outcome hangs on rounding is marked unsure. */
#ifndef SAMPLE_REFERENCE_H
#define SAMPLE_REFERENCE_H

#include <kentang.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REF_MAX = 8192 };

typedef struct ref_item {
    int32_t id;
    double logit, p, score;
} ref_item;

typedef struct ref_set {
    ref_item item[REF_MAX];
    int n;
    bool unsure;
} ref_set;

static inline int ref_by_logit(const void *a, const void *b) {
    const ref_item *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static inline int ref_by_score(const void *a, const void *b) {
    const ref_item *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static inline void ref_sort(ref_set *s) {
    qsort(s->item, (size_t)s->n, sizeof *s->item, ref_by_logit);
}

static inline void ref_softmax(ref_set *s) {
    double max = -INFINITY, total = 0.0;
    for (int i = 0; i < s->n; i++) max = fmax(max, s->item[i].logit);
    for (int i = 0; i < s->n; i++) {
        s->item[i].p = exp(s->item[i].logit - max);
        total += s->item[i].p;
    }
    for (int i = 0; i < s->n; i++) s->item[i].p /= total;
}

static inline void ref_init(ref_set *s, const float *logits, int n) {
    s->n = 0;
    s->unsure = false;
    for (int i = 0; i < n; i++) {
        if (logits[i] > -INFINITY) s->item[s->n++] = (ref_item){i, (double)logits[i], 0, 0};
    }
    ref_sort(s);
}

static inline void ref_doubt(ref_set *s, double a, double b) {
    if (fabs(a - b) < 3e-6 * (1.0 + fabs(b))) s->unsure = true;
}

static inline void ref_top_n_sigma(ref_set *s, const kt_sampling *p) {
    if (p->top_n_sigma <= 0) return;
    double mean = 0, var = 0;
    for (int i = 0; i < s->n; i++) mean += s->item[i].logit / s->n;
    for (int i = 0; i < s->n; i++) var += pow(s->item[i].logit - mean, 2) / s->n;
    double floor = s->item[0].logit - (double)p->top_n_sigma * sqrt(var);
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        ref_doubt(s, s->item[i].logit, floor);
        n += s->item[i].logit >= floor || i < p->min_keep;
    }
    s->n = n;
}

static inline void ref_top_k(ref_set *s, const kt_sampling *p) {
    int k = p->top_k > p->min_keep ? p->top_k : p->min_keep;
    if (p->top_k > 0 && k < s->n) s->n = k;
}

static inline void ref_typical(ref_set *s, const kt_sampling *p) {
    if (p->typical_p >= 1.0f) return;
    ref_softmax(s);
    double entropy = 0, sum = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->item[i].p > 0) entropy -= s->item[i].p * log(s->item[i].p);
    }
    for (int i = 0; i < s->n; i++) s->item[i].score = fabs(-log(s->item[i].p) - entropy);
    qsort(s->item, (size_t)s->n, sizeof *s->item, ref_by_score);
    int n = s->n;
    for (int i = 0; i < s->n; i++) {
        sum += s->item[i].p;
        ref_doubt(s, sum, (double)p->typical_p);
        if (sum > (double)p->typical_p && i + 1 >= p->min_keep) {
            n = i + 1;
            break;
        }
    }
    if (n < s->n) ref_doubt(s, s->item[n - 1].score, s->item[n].score);
    s->n = n;
    ref_sort(s);
}

static inline void ref_top_p(ref_set *s, const kt_sampling *p) {
    if (p->top_p >= 1.0f) return;
    ref_softmax(s);
    double sum = 0;
    for (int i = 0; i < s->n; i++) {
        sum += s->item[i].p;
        ref_doubt(s, sum, (double)p->top_p);
        if (sum >= (double)p->top_p && i + 1 >= p->min_keep) {
            s->n = i + 1;
            break;
        }
    }
}

static inline void ref_min_p(ref_set *s, const kt_sampling *p) {
    if (p->min_p <= 0.0f) return;
    ref_softmax(s);
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        double floor = (double)p->min_p * s->item[0].p;
        if (i) ref_doubt(s, log(s->item[i].p), log(floor));
        if (s->item[i].p >= floor * (1 - 1e-12) || i < p->min_keep) n++;
    }
    s->n = n;
}

static inline void ref_xtc(ref_set *s, const kt_sampling *p, bool happens) {
    if (!happens || p->xtc_threshold > 0.5f) return;
    ref_softmax(s);
    int last = 0;
    for (int i = 0; i < s->n; i++) {
        ref_doubt(s, s->item[i].p, (double)p->xtc_threshold);
        if (s->item[i].p >= (double)p->xtc_threshold) last = i;
    }
    if (last == 0 || s->n - last < p->min_keep) return;
    memmove(s->item, s->item + last, (size_t)(s->n - last) * sizeof *s->item);
    s->n -= last;
}

static inline void ref_temperature(ref_set *s, const kt_sampling *p) {
    double t = (double)p->temperature, range = (double)p->dynatemp_range;
    if (range > 0 && s->n > 1) {
        ref_softmax(s);
        double entropy = 0;
        for (int i = 0; i < s->n; i++) {
            if (s->item[i].p > 0) entropy -= s->item[i].p * log(s->item[i].p);
        }
        double low = fmax(0, t - range), high = t + range;
        t = low + (high - low) * pow(entropy / log(s->n), (double)p->dynatemp_exponent);
    }
    for (int i = 0; i < s->n; i++) s->item[i].logit /= t;
}

/* order: letters, k top_k, t temperature, p top_p, m min_p, y typical, s top_n_sigma, x xtc */
static inline void ref_chain(ref_set *s, const char *order, const kt_sampling *p,
                             bool xtc_happens) {
    for (; *order; order++) {
        switch (*order) {
        case 'k': ref_top_k(s, p); break;
        case 't': ref_temperature(s, p); break;
        case 'p': ref_top_p(s, p); break;
        case 'm': ref_min_p(s, p); break;
        case 'y': ref_typical(s, p); break;
        case 's': ref_top_n_sigma(s, p); break;
        case 'x': ref_xtc(s, p, xtc_happens); break;
        default: abort();
        }
    }
    ref_softmax(s);
}

/* The chain string of the same order. */
static inline void ref_chain_string(const char *order, char *out, size_t size) {
    static const char letters[] = "ktpmysx";
    static const char *const names[] = {"top_k", "temperature", "top_p", "min_p",
                                        "typ_p", "top_n_sigma", "xtc"};
    out[0] = '\0';
    for (; *order; order++) {
        strncat(out, names[strchr(letters, *order) - letters], size - strlen(out) - 1);
        strncat(out, ";", size - strlen(out) - 1);
    }
}

/* ---- small things the sampler tests share ---- */

/* xorshift64*: any numbers do */
static inline uint64_t ref_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

static inline double ref_uniform(uint64_t *state) {
    return (double)(ref_random(state) >> 11) * 0x1p-53;
}

static inline double ref_normal(uint64_t *state) {
    double u = 1.0 - ref_uniform(state), v = ref_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* All steps off: a chain is switched on member by member. */
static inline kt_sampling ref_off(void) {
    kt_sampling p = kt_sampling_default();
    p.seed = 1;
    p.temperature = 1.0f;
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.0f;
    return p;
}

/* Greatest plausible chi-square with df degrees of freedom: its 1 - 1e-6 quantile by Wilson and
 * Hilferty 1931. */
static inline double ref_chi_limit(int df) {
    double a = 2.0 / (9.0 * df);
    return df * pow(1 - a + 4.7534 * sqrt(a), 3);
}

#endif
