/* Error feedback: a weight's rounding error is made good by those to its right.
 *
 * Owns: the choice of levels in the unchanged formats, given how the columns of a matrix' input go
 * together (Frantar et al. 2022, GPTQ; Chee et al. 2023, LDLQ). With the input's second moments H =
 * V V^T, V upper triangular, the error of a row's product is |e V|^2 for the row's errors e, and
 * column k alone decides the part (e_k + sum_{j<k} e_j V_jk / V_kk) V_kk. So column k is rounded to
 * what makes that sum small. Does not know where H comes from. Any thread; no state. */
#ifndef KT_QUANT_FEEDBACK_H
#define KT_QUANT_FEEDBACK_H

#include "quant/quant.h"

enum { KT__FEEDBACK_ROWS = 32 }; /* rows that are worked on together */

/* y[i * ld_y + t] takes, for each i < n_row and t < n, the fma chain from what is there over
 * ascending k < n_k of e[i * ld_e + k] * follow[k * ld + t]. */
typedef struct kt__feedback_spread {
    const float *e, *follow;
    size_t ld_e, ld, ld_y;
    int n_row, n_k, n;
    float *y;
} kt__feedback_spread;

/* Of a matrix with n_col columns, in stretches of `width` columns (the last may be shorter) that are
 * taken as independent. follow[j * ld + k - first column of the stretch]: V_jk / V_kk for j < k. */
typedef struct kt__feedback {
    int64_t n_col;
    int width; /* a multiple of 256 */
    size_t ld;
    const float *follow;     /* [n_col][ld] */
    const float *importance; /* [n_col]: the diagonal of H */
    /* The product above, made fast; NULL: plainly. scratch: of the thread. */
    void (*spread)(const void *user, const kt__feedback_spread *spread, void *scratch);
    const void *spread_user;
} kt__feedback;

/* w[n_row][n_col], n_row <= KT__FEEDBACK_ROWS, into rows of blocks at dst. how->importance is not
 * used. room: kt__feedback_room floats. scratch: what fb->spread asks for. The bytes do not depend
 * on how rows are grouped. */
void kt__quantize_rows_feedback(kt__type type, const kt__encoding *how, const kt__feedback *fb,
                                const float *w, int n_row, void *dst, float *room, void *scratch);
size_t kt__feedback_room(int64_t n_col);

#endif
