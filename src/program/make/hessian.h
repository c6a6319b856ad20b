/* What error feedback needs of a model's matrices: how the columns of their inputs go together.
 *
 * Owns: the second moments X^T X of a matrix' input rows and what follows from them, and gathering them from a model
 * and a text. One thread. */
#ifndef KT_MAKE_HESSIAN_H
#define KT_MAKE_HESSIAN_H

#include "convert/write.h"
#include "host/pool.h"
#include "kernels/kernels.h"
#include "quant/feedback.h"

/* How the columns of a matrix' input go together: the second moments X^T X of its rows, and what error feedback needs
 * of them.
 *
 * One matrix of moments, in stretches of columns that are taken as independent, its sum over chunks of rows, and its
 * triangular factor. Sums are the kernels' float products, whose order is part of the contract: the same on every
 * tier and with any number of threads. One thread. */

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

/* What error feedback needs of a model's matrices, gathered from the model and a text, a layer at a time.
 *
 * The model, its calibration and the second moments of one layer's inputs. Matrices are asked for in the order of
 * their layers; another order costs the text anew. One thread. */

typedef struct kt__feedback_opts {
    const char *model; /* GGUF, as good as there is */
    const char *text;  /* NULL: the program's own */
    bool parse_special;
    int32_t n_tok; /* of the text, at most; 0: the usual number */
    int32_t n_threads;
} kt__feedback_opts;

typedef struct kt__feedback_maker kt__feedback_maker;

kt_status kt__feedback_maker_open(const kt__feedback_opts *opts, kt__feedback_maker **out,
                                  kt_error *err) KT_CHECKED;
void kt__feedback_maker_close(kt__feedback_maker *maker); /* NULL allowed */
/* Lives as long as the maker. */
const kt__feedback_source *kt__feedback_maker_source(const kt__feedback_maker *maker);

#endif
