/* BitNet's matrices: weights of -1, 0 and 1 times one factor, made from floats or unpacked.
 *
 * Owns: what becomes of a folder's numbers, and how they lie where a byte has four of them. Any
 * thread; no state. */
#ifndef KT_CONVERT_TERNARY_H
#define KT_CONVERT_TERNARY_H

#include "convert/planned.h"

/* The mean size of n weights, which a matrix of floats is divided by. */
kt_status kt__ternary_mean(const kt__weight_source *source, int64_t n, float *out,
                           kt_error *err) KT_CHECKED;
/* What a weight over that size is nearest to. */
void kt__ternary_round(float *values, int64_t n, float mean);
/* Rows [begin, end) of a packed matrix of t's shape as floats: byte r of a column has the weights of
 * rows r, r + n / 4, r + n / 2 and r + 3 n / 4, from its lowest bits on. */
kt_status kt__ternary_unpack(const kt__planned *t, int64_t begin, int64_t end, float *out,
                             kt_error *err) KT_CHECKED;

#endif
