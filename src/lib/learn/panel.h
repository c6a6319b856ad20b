/* Products in f32 with the matrices of a network as they are with an adapter: W + s B A.
 *
 * Owns: dequantising rows and adding the adapter into them, 16 MiB at a time, and the products
 * that a training needs: forward, back to the input, and the gradients of A and B. No matrix is
 * ever held whole, and no gradient of one is formed. Activations are rows of whole 64 bytes
 * (kt__pad), zero after their columns, 64-byte aligned. Threads: as learn.h says; bytes depend on
 * the operands alone. */
#ifndef KT_LEARN_PANEL_H
#define KT_LEARN_PANEL_H

#include "host/pool.h"
#include "ops/ops.h"

/* Floats from one row of n columns to the next. */
static inline size_t kt__pad(int n) {
    return ((size_t)n + 15) / 16 * 16;
}

/* A matrix, and what is added to it; rank 0: nothing. */
typedef struct kt__merged {
    kt__weight w;
    const float *a, *b; /* [rank][w.n_col], [w.n_row][rank] */
    int rank;
    float scale;
} kt__merged;

typedef struct kt__panels kt__panels;

/* For matrices of at most n_row_max rows and n_col_max columns, n_tok_max tokens, rank_max.
 * KT_E_NOMEM. */
typedef struct kt__panels_limits {
    int n_row_max, n_col_max, n_tok_max, rank_max;
} kt__panels_limits;
kt_status kt__panels_create(kt__pool *pool, const kt__kernels *kernels,
                            const kt__panels_limits *limits, kt__panels **out,
                            kt_error *err) KT_CHECKED;
void kt__panels_destroy(kt__panels *p); /* NULL allowed */
uint64_t kt__panels_bytes(const kt__kernels *kernels, int n_worker,
                          const kt__panels_limits *limits);

/* y[t][r] = sum_c m[r][c] x[t][c] + bias[r] (NULL: none); rows of x and y lie kt__pad apart. */
void kt__panels_forward(kt__panels *p, const kt__merged *m, const float *x, int n_tok,
                        const float *bias, float *y);
/* dx[t][c] = sum_r m[r][c] dy[t][r]; add: to what is there. */
void kt__panels_backward(kt__panels *p, const kt__merged *m, const float *dy, int n_tok, bool add,
                         float *dx);
/* Adds the gradients of A and B to ga and gb (as m->a and m->b lie), of y = (W + s B A) x. */
void kt__panels_gradient(kt__panels *p, const kt__merged *m, const float *x, const float *dy,
                         int n_tok, float *ga, float *gb);
/* One product on the calling worker. */
void kt__panels_outer(kt__panels *p, const kt__outer_mm *mm, int worker);
kt__pool *kt__panels_pool(const kt__panels *p);
const kt__kernels *kt__panels_kernels(const kt__panels *p);

#endif
