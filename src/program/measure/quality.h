/* How well a model predicts a text, and how far two models are apart on it.
 *
 * Owns: log-probabilities from rows of logits, Kullback-Leibler divergence, and the figures made of
 * many rows: perplexity with its error, means, percentiles, agreement. Sums are taken in the order
 * of ids and tokens with the contract's own exp and log, so that a figure is the same on every tier
 * and with every number of threads. Knows no files and no models. One thread an accumulator. */
#ifndef KT_MEASURE_QUALITY_H
#define KT_MEASURE_QUALITY_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of logits, normalised: log p(i) = logits[i] - log_sum. */
typedef struct kt__log_row {
    const float *logits; /* [n_vocab] */
    double log_sum;      /* of e^logits */
    int32_t best;        /* the most probable id, the lowest of equals */
} kt__log_row;

/* weights: [n_vocab] scratch. KT_E_NUMERIC if a logit is not finite. */
kt_status kt__log_row_make(const float *logits, size_t n_vocab, float *weights, kt__log_row *out,
                           kt_error *err) KT_CHECKED;
double kt__log_row_at(const kt__log_row *row, int32_t id); /* log p(id) */

/* A base's row that another is compared with, in whatever form it is kept. */
typedef struct kt__base_row {
    double (*log_prob)(const void *row, int32_t id);
    const void *row;
    int32_t best; /* the most probable id, the lowest of equals */
    double floor; /* ids of log_prob at most this are left out of the divergence */
} kt__base_row;
/* As a base. row stays the caller's. */
kt__base_row kt__log_row_as_base(const kt__log_row *row);

/* What is summed over the scored tokens of a text. */
typedef struct kt__quality {
    double *nll;      /* -log p of each scored token */
    double *base_nll; /* of the base, where there is one */
    double *kl;       /* sum over ids of p_base (log p_base - log p) */
    double *dp;       /* p - p_base of the scored token */
    size_t n, cap;
    size_t n_same; /* rows whose most probable id is the base's */
    bool has_base;
} kt__quality;

void kt__quality_free(kt__quality *q);
/* Adds the token that came after the row. */
kt_status kt__quality_add(kt__quality *q, const kt__log_row *row, int32_t id,
                          kt_error *err) KT_CHECKED;
/* The same, compared with a base. */
kt_status kt__quality_add_beside(kt__quality *q, const kt__log_row *row, int32_t id,
                                 const kt__base_row *base, size_t n_vocab,
                                 kt_error *err) KT_CHECKED;

/* The figures. An error is one standard error. */
typedef struct kt__quality_figures {
    size_t n;
    double ppl, ppl_error;
    double nll; /* mean, nats a token */
    /* with a base */
    double base_ppl, base_ppl_error;
    double ln_ratio, ln_ratio_error; /* of the perplexities */
    double correlation;              /* of the two models' nll */
    double kl, kl_error, kl_median, kl_90, kl_99, kl_999, kl_max;
    double dp, dp_rms, dp_rms_error; /* of probabilities, 0 to 1 */
    double same, same_error;         /* share of rows with the same most probable id */
} kt__quality_figures;

/* Sorts q->kl. q->n >= 2. */
void kt__quality_figures_of(kt__quality *q, kt__quality_figures *out);

/* The bounds of a share k of n at 95% (Wilson 1927). */
void kt__wilson(size_t k, size_t n, double *low, double *high);

#endif
