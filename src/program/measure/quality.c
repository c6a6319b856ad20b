#include "measure/quality.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "measure/figures.h"

/* ---- one row ---- */

kt_status kt__log_row_make(const float *logits, size_t n_vocab, float *weights, kt__log_row *out,
                           kt_error *err) {
    size_t best = 0;
    double sum = 0.0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (!isfinite(logits[i]) && logits[i] != -INFINITY)
            return kt__fail(err, KT_E_NUMERIC, "the logit of id %zu is not finite", i);
        if (logits[i] > logits[best]) best = i;
    }
    kt__exp_weights(logits, logits[best], n_vocab, weights);
    for (size_t i = 0; i < n_vocab; i++) sum += (double)weights[i];
    *out = (kt__log_row){logits, (double)logits[best] + kt__log(sum), (int32_t)best};
    return KT_OK;
}

double kt__log_row_at(const kt__log_row *row, int32_t id) {
    return (double)row->logits[id] - row->log_sum;
}

static double log_row_prob(const void *row, int32_t id) {
    return kt__log_row_at(row, id);
}

/* e^-87 is where the contract's exp becomes 0. */
kt__base_row kt__log_row_as_base(const kt__log_row *row) {
    return (kt__base_row){log_row_prob, row, row->best, -87.0};
}

/* ---- many rows ---- */

void kt__quality_free(kt__quality *q) {
    kt__free(q->nll);
    kt__free(q->base_nll);
    kt__free(q->kl);
    kt__free(q->dp);
    *q = (kt__quality){0};
}

static bool quality_column_grow(double **column, size_t cap) {
    double *larger = kt__realloc_array(*column, cap, sizeof **column);
    if (larger) *column = larger;
    return larger != NULL;
}

static kt_status quality_reserve(kt__quality *q, kt_error *err) {
    size_t cap = q->cap ? 2 * q->cap : 1024;
    if (q->n < q->cap) return KT_OK;
    if (!quality_column_grow(&q->nll, cap) || !quality_column_grow(&q->base_nll, cap) ||
        !quality_column_grow(&q->kl, cap) || !quality_column_grow(&q->dp, cap))
        return kt__fail_nomem(err, "the scores of tokens", cap * sizeof(double));
    q->cap = cap;
    return KT_OK;
}

kt_status kt__quality_add(kt__quality *q, const kt__log_row *row, int32_t id, kt_error *err) {
    kt_status status = quality_reserve(q, err);
    if (status == KT_OK) q->nll[q->n++] = -kt__log_row_at(row, id);
    return status;
}

/* sum over ids of p_base (log p_base - log p), Kullback & Leibler 1951. e^x in f32 costs a fifth of
 * what it costs in f64; its error, relative to each term, is 2^-23. */
static double divergence_of(const kt__log_row *row, const kt__base_row *base, size_t n_vocab) {
    double kl = 0.0;
    for (size_t i = 0; i < n_vocab; i++) {
        double lp = base->log_prob(base->row, (int32_t)i);
        if (lp > base->floor)
            kl += (double)kt__expf((float)lp) * (lp - kt__log_row_at(row, (int32_t)i));
    }
    return kl;
}

kt_status kt__quality_add_beside(kt__quality *q, const kt__log_row *row, int32_t id,
                                 const kt__base_row *base, size_t n_vocab, kt_error *err) {
    kt_status status = quality_reserve(q, err);
    if (status != KT_OK) return status;
    double lp = kt__log_row_at(row, id), base_lp = base->log_prob(base->row, id);
    q->has_base = true;
    q->nll[q->n] = -lp;
    q->base_nll[q->n] = -base_lp;
    q->kl[q->n] = divergence_of(row, base, n_vocab);
    q->dp[q->n] = kt__exp(lp) - kt__exp(base_lp);
    q->n_same += row->best == base->best;
    q->n++;
    return KT_OK;
}

/* ---- figures ---- */

typedef struct moments {
    double mean, error; /* standard error of the mean */
} moments;

static moments moments_of(const double *x, size_t n) {
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (moments){mean, sqrt(squares / (double)n / (double)(n - 1))};
}

/* Mean of the products of the deviations from the means. */
static double covariance_of(const double *x, double x_mean, const double *y, double y_mean,
                            size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - x_mean) * (y[i] - y_mean);
    return sum / (double)n;
}

static void ratio_figures(const kt__quality *q, moments nll, kt__quality_figures *out) {
    size_t n = q->n;
    moments base = moments_of(q->base_nll, n);
    double both = covariance_of(q->nll, nll.mean, q->base_nll, base.mean, n) / (double)(n - 1);
    double variance = nll.error * nll.error + base.error * base.error - 2.0 * both;
    out->base_ppl = kt__exp(base.mean);
    out->base_ppl_error = base.error * out->base_ppl;
    out->ln_ratio = nll.mean - base.mean;
    out->ln_ratio_error = variance > 0.0 ? sqrt(variance) : 0.0;
    out->correlation = nll.error > 0.0 && base.error > 0.0 ? both / (nll.error * base.error) : 1.0;
}

static void probability_figures(const kt__quality *q, kt__quality_figures *out) {
    double squares = 0.0, fourths = 0.0, n = (double)q->n;
    for (size_t i = 0; i < q->n; i++) {
        double square = q->dp[i] * q->dp[i];
        squares += square;
        fourths += square * square;
    }
    double mean = squares / n, variance = (fourths / n - mean * mean) / (n - 1.0);
    out->dp = moments_of(q->dp, q->n).mean;
    out->dp_rms = sqrt(mean);
    out->dp_rms_error = mean > 0.0 && variance > 0.0 ? sqrt(variance / mean) / 2.0 : 0.0;
    out->same = (double)q->n_same / n;
    out->same_error = sqrt(out->same * (1.0 - out->same) / (n - 1.0));
}

static void divergence_figures(kt__quality *q, kt__quality_figures *out) {
    moments kl = moments_of(q->kl, q->n);
    kt__percentile_sort(q->kl, q->n);
    out->kl = kl.mean;
    out->kl_error = kl.error;
    out->kl_median = kt__percentile(q->kl, q->n, 0.5);
    out->kl_90 = kt__percentile(q->kl, q->n, 0.9);
    out->kl_99 = kt__percentile(q->kl, q->n, 0.99);
    out->kl_999 = kt__percentile(q->kl, q->n, 0.999);
    out->kl_max = q->kl[q->n - 1];
}

void kt__quality_figures_of(kt__quality *q, kt__quality_figures *out) {
    moments nll = moments_of(q->nll, q->n);
    *out = (kt__quality_figures){.n = q->n, .nll = nll.mean, .ppl = kt__exp(nll.mean)};
    out->ppl_error = nll.error * out->ppl;
    if (!q->has_base) return;
    ratio_figures(q, nll, out);
    probability_figures(q, out);
    divergence_figures(q, out);
}

void kt__wilson(size_t k, size_t n, double *low, double *high) {
    const double z = 1.959964;
    double share = (double)k / (double)n, zz = z * z / (double)n;
    double centre = (share + zz / 2.0) / (1.0 + zz);
    double half = z * sqrt(share * (1.0 - share) / (double)n + zz / (4.0 * (double)n)) / (1.0 + zz);
    *low = centre - half;
    *high = centre + half;
}
