/* How the columns of a matrix' input go together: the second moments X^T X of its rows, and what
 * error feedback needs of them.
 *
 * Owns: one matrix of moments, in stretches of columns that are taken as independent, its sum over
 * chunks of rows, and its triangular factor. Sums are the kernels' float products, whose order is
 * part of the contract: the same on every tier and with any number of threads. One thread. */
#ifndef KT_MAKE_HESSIAN_H
#define KT_MAKE_HESSIAN_H

#include "host/pool.h"
#include "kernels/kernels.h"
#include "quant/feedback.h"

enum { KT__HESSIAN_WIDTH = 2048 };

typedef struct kt__hessian {
    int n;         /* columns; 0: nothing yet */
    size_t ld;     /* floats from one row of a stretch to the next */
    float *h;      /* [n][ld]: row j of its stretch; upper triangles, later what feedback takes */
    float *factor; /* [KT__HESSIAN_WIDTH][ld] for one stretch */
    float *diagonal;
    void **scratch; /* [n_threads] */
    int n_threads;
    const kt__kernels *kernels;
    kt__pool *pool;
} kt__hessian;

/* For columns n; freed with kt__hessian_free, also after failure. The pool is held by the caller
 * while rows are added and while it is finished. */
kt_status kt__hessian_make(int n, const kt__kernels *kernels, kt__pool *pool, kt__hessian *out,
                           kt_error *err) KT_CHECKED;
void kt__hessian_add(kt__hessian *h, const float *rows, int n_row);
/* Afterwards no rows are added. false: the input was zero everywhere, feedback has nothing to go by.
 */
bool kt__hessian_finish(kt__hessian *h, kt__feedback *out);
void kt__hessian_free(kt__hessian *h); /* also of a zeroed one */

#endif
