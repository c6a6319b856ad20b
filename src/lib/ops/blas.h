/* A BLAS for products of many tokens: only on request (--blas).
 *
 * Owns: finding a library at run time (OpenBLAS, MKL, BLIS or Accelerate), so that nothing is needed
 * to build, and the products through it, a block of rows a call on the calling thread: the rows are
 * dequantised to f32 and split by our pool, and the library is held at one thread (which holds for
 * the whole process). Its order of summation is its own and differs among processors and shapes:
 * what it computes is outside docs/NUMERICS.md, and every interface that offers it says so. Its
 * packing buffers, some ten MB for each calling thread, are not part of any memory plan.
 * kt__blas_mm: any thread; we do not allocate there, the library does internally. */
#ifndef KT_OPS_BLAS_H
#define KT_OPS_BLAS_H

#include "kernels/kernels.h"
#include <kentang.h>

typedef struct kt__blas kt__blas;

enum {
    KT__BLAS_ROWS = 256,   /* of weights in one call: fewer pack the activations too often */
    KT__BLAS_MIN_TOK = 256 /* from here on it is used (docs/TUNING.md) */
};

/* library: "openblas", "mkl", "blis", or a file; NULL: the first that is found. KT_E_UNSUPPORTED says which package to install. */
kt_status kt__blas_open(const char *library, kt__blas **out, kt_error *err) KT_CHECKED;
void kt__blas_close(kt__blas *blas);             /* NULL allowed */
const char *kt__blas_name(const kt__blas *blas); /* "OpenBLAS" */

/* Whether so many tokens are worth its packing. */
bool kt__blas_takes(int n_tok);
/* The product with weights of any type, activations of kind F32. panel: [KT__BLAS_ROWS][n_col] floats. */
void kt__blas_mm(const kt__blas *blas, kt__type type, const kt__mm *mm, float *panel);

#endif
