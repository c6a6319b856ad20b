/* EwcMerge, Average, BestOnly. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "learn/learn.h"
#include "sample/rng.h"

typedef struct consolidation {
    const kt__learn_on *on;
    const kt__consolidate *what;
    const kt__sample *samples;
    size_t n;
    const kt__learn_settings *settings;
    kt__factors **out;
    kt__learn_report *report;
    kt_error *err;
} consolidation;

/* Samples by index, as an array of their own. */
static kt_status gather_samples(const consolidation *c, const size_t *list, size_t n,
                                kt__sample **out) {
    *out = kt__calloc(n + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(c->err, "samples", n * sizeof **out);
    for (size_t i = 0; i < n; i++) (*out)[i] = c->samples[list[i]];
    return KT_OK;
}

static kt_status ewc_merge(const consolidation *c, const kt__split *split) {
    const kt__factors *prior = c->what->prior;
    kt__sample *earlier = NULL;
    float *fisher = NULL;
    kt_status status;
    if (!prior) return kt__fail(c->err, KT_E_ARG, "EwcMerge has no version to be held to");
    fisher = kt__calloc(prior->n_value, sizeof *fisher);
    if (!fisher) return kt__fail_nomem(c->err, "Fisher's information", prior->n_value);
    KT__TRY(gather_samples(c, split->earlier, split->n_earlier, &earlier));
    KT__TRY(kt__learn_fisher(c->on, prior, earlier, split->n_earlier, c->settings, fisher, c->err));
    const kt__learn_from from = {.prior = prior, .centre = prior, .fisher = fisher};
    status = kt__learn(c->on, c->samples, c->n, c->settings, &from, c->out, c->report, c->err);
out:
    kt__free(earlier);
    kt__free(fisher);
    return status;
}

static kt_status best_only(const consolidation *c, const kt__split *split) {
    kt__sample *held = NULL;
    double least = 0.0;
    size_t best = 0;
    kt_status status = gather_samples(c, split->held, split->n_held, &held);
    for (size_t i = 0; status == KT_OK && i < c->what->n_candidate; i++) {
        double loss = 0.0;
        status = kt__learn_evaluate(c->on, c->what->candidates[i], held, split->n_held, c->settings,
                                    &loss, c->err);
        if (i > 0 && !(loss < least)) continue;
        least = loss;
        best = i;
    }
    if (status == KT_OK) status = kt__factors_copy(c->what->candidates[best], c->out, c->err);
    kt__free(held);
    return status;
}

static kt_status make_one(const consolidation *c, const kt__split *split) {
    const kt__consolidate *what = c->what;
    if (what->how == KT__CONSOLIDATE_EWC_MERGE) return ewc_merge(c, split);
    if (what->n_candidate == 0)
        return kt__fail(c->err, KT_E_ARG, "there is no candidate to consolidate");
    if (what->how == KT__CONSOLIDATE_AVERAGE)
        return kt__factors_average(what->candidates, what->n_candidate, c->out, c->err);
    return best_only(c, split);
}

kt_status kt__learn_consolidate(const kt__learn_on *on, const kt__consolidate *what,
                                const kt__sample *samples, size_t n,
                                const kt__learn_settings *settings, kt__factors **out,
                                kt__learn_report *report, kt_error *err) {
    const consolidation c = {on, what, samples, n, settings, out, report, err};
    kt__split split = {0};
    kt_status status;
    *out = NULL;
    *report = (kt__learn_report){.share = 1.0};
    KT__TRY(kt__learn_check(settings, err));
    KT__TRY(kt__split_make(samples, n, settings, &split, err));
    KT__TRY(make_one(&c, &split));
    if (what->how != KT__CONSOLIDATE_EWC_MERGE)
        status = kt__learn_judge(on, samples, n, settings, what->prior, *out, report, err);
out:
    if (status != KT_OK) {
        kt__factors_free(*out);
        *out = NULL;
    }
    kt__split_free(&split);
    return status;
}

/* The mean of several adapters' products B A, as matrices of their rank again: the best ones, by
 * subspace iteration on the matrices that lie side by side (Halko et al. 2011, section 4.5),
 * in double. */

enum { ROUNDS = 60 };

/* M [n_row][n_col] = sum over k of b[k][.] a[k][.]^T, k of all adapters' ranks; u[rank][n_row] and
 * v[rank][n_col] are the subspaces. */
typedef struct product {
    size_t n_row, n_col, n_k, rank;
    double *b, *a;
    double *u, *v;
} product;

static double dot_product(const double *x, const double *y, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* to[j][.] = sum over k of (from[j] . x[k]) y[k][.] */
static void project_rows(const product *p, const double *from, size_t n_from, const double *x,
                         const double *y, size_t n_to, double *to) {
    for (size_t j = 0; j < p->rank; j++) {
        double *out = to + j * n_to;
        memset(out, 0, n_to * sizeof *out);
        for (size_t k = 0; k < p->n_k; k++) {
            double f = dot_product(from + j * n_from, x + k * n_from, n_from);
            for (size_t i = 0; i < n_to; i++) out[i] += f * y[k * n_to + i];
        }
    }
}

/* Rows of q orthonormal by modified Gram and Schmidt, twice; a row without a direction of its own
 * becomes 0. */
static void orthonormalise_columns(double *q, size_t rank, size_t n) {
    for (size_t j = 0; j < rank; j++) {
        double *row = q + j * n, before = sqrt(dot_product(row, row, n));
        for (int twice = 0; twice < 2; twice++) {
            for (size_t i = 0; i < j; i++) {
                double f = dot_product(row, q + i * n, n);
                for (size_t k = 0; k < n; k++) row[k] -= f * q[i * n + k];
            }
        }
        double size = sqrt(dot_product(row, row, n));
        double f = size > 1e-10 * before && size > 0.0 ? 1.0 / size : 0.0;
        for (size_t k = 0; k < n; k++) row[k] *= f;
    }
}

/* u: the left directions of the largest singular values. Then v[j] = M^T u[j]. */
static void find_subspace(product *p, uint64_t stream) {
    for (size_t i = 0; i < p->rank * p->n_col; i++)
        p->v[i] = kt__rng_uniform(stream, 0, i, 0) - 0.5;
    for (int r = 0; r < ROUNDS; r++) {
        project_rows(p, p->v, p->n_col, p->a, p->b, p->n_row, p->u);
        orthonormalise_columns(p->u, p->rank, p->n_row);
        project_rows(p, p->u, p->n_row, p->b, p->a, p->n_col, p->v);
        if (r + 1 < ROUNDS) orthonormalise_columns(p->v, p->rank, p->n_col);
    }
}

static void load_product(product *p, const kt__factors *const *of, size_t n, int index) {
    for (size_t i = 0; i < n; i++) {
        const kt__factor *f = &of[i]->of[index];
        const float *a = of[i]->values + f->a, *b = of[i]->values + f->b;
        for (size_t j = 0; j < p->rank; j++) {
            size_t k = i * p->rank + j;
            for (size_t c = 0; c < p->n_col; c++)
                p->a[k * p->n_col + c] = (double)a[j * p->n_col + c] / (double)n;
            for (size_t r = 0; r < p->n_row; r++)
                p->b[k * p->n_row + r] = (double)b[r * p->rank + j];
        }
    }
}

/* Size is divided evenly between the two sides. */
static void store_product(const product *p, kt__factors *out, int index) {
    const kt__factor *f = &out->of[index];
    float *a = out->values + f->a, *b = out->values + f->b;
    for (size_t j = 0; j < p->rank; j++) {
        const double *u = p->u + j * p->n_row, *v = p->v + j * p->n_col;
        double root = sqrt(sqrt(dot_product(v, v, p->n_col)));
        for (size_t c = 0; c < p->n_col; c++)
            a[j * p->n_col + c] = root > 0.0 ? (float)(v[c] / root) : 0.0f;
        for (size_t r = 0; r < p->n_row; r++) b[r * p->rank + j] = (float)(u[r] * root);
    }
}

static kt_status average_matrix(const kt__factors *const *of, size_t n, int index, kt__factors *out,
                                kt_error *err) {
    const kt__factor *f = &out->of[index];
    product p = {.n_row = (size_t)f->n_row,
                 .n_col = (size_t)f->n_col,
                 .n_k = n * (size_t)out->rank,
                 .rank = (size_t)out->rank};
    kt_status status = KT_OK;
    p.a = kt__calloc(p.n_k * p.n_col, sizeof *p.a);
    p.b = kt__calloc(p.n_k * p.n_row, sizeof *p.b);
    p.u = kt__calloc(p.rank * p.n_row, sizeof *p.u);
    p.v = kt__calloc(p.rank * p.n_col, sizeof *p.v);
    if (p.a && p.b && p.u && p.v) {
        load_product(&p, of, n, index);
        find_subspace(&p, (uint64_t)index + 1);
        store_product(&p, out, index);
    } else {
        status = kt__fail_nomem(err, "an adapters' mean", p.n_k * p.n_col * sizeof *p.a);
    }
    kt__free(p.a);
    kt__free(p.b);
    kt__free(p.u);
    kt__free(p.v);
    return status;
}

kt_status kt__factors_average(const kt__factors *const *of, size_t n, kt__factors **out,
                              kt_error *err) {
    *out = NULL;
    if (n == 0) return kt__fail(err, KT_E_ARG, "a mean of no adapters");
    for (size_t i = 1; i < n; i++)
        if (!kt__factors_alike(of[0], of[i]))
            return kt__fail(err, KT_E_ARG,
                            "adapter %zu has other matrices, rank or scale than the first", i);
    kt__factors *f = NULL;
    kt_status status = kt__factors_copy(of[0], &f, err);
    for (int i = 0; status == KT_OK && i < f->n; i++) status = average_matrix(of, n, i, f, err);
    if (status == KT_OK)
        *out = f;
    else
        kt__factors_free(f);
    return status;
}
