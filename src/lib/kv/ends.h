/* Ends: what a sequence needs to continue after whole pages, besides what these hold for good.
 *
 * Owns: that as one piece of bytes: the f16 copies that a query there reads (kt__kv_end_page), as
 * kt__kv_f16_copy_read gives them, then the state of the recurrent layers. Stores that outlive the
 * process keep it next to the blocks. Threads as kv/kv.h, whose public functions it uses. n_pos is
 * a multiple of KT__PAGE_POS, and not 0. */
#ifndef KT_KV_ENDS_H
#define KT_KV_ENDS_H

#include "kv/kv.h"

/* Whether blocks alone are not enough to continue after them. */
static inline bool kt__kv_needs_ends(const kt__kv_shape *shape) {
    return kt__kv_reads_f16_ends(shape) || shape->state_bytes > 0;
}

size_t kt__kv_end_bytes(const kt__kv_shape *shape, int64_t n_pos);
size_t kt__kv_end_bytes_most(const kt__kv_shape *shape); /* of any n_pos */

/* Whether all of the end after the table's first n_pos positions is in memory. */
bool kt__kv_has_end(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);

/* Where it lies. */
typedef struct kt__kv_end {
    int64_t n_pos;
    const int32_t *pages; /* of these positions */
    int32_t state;        /* a piece, or KT__NO_STATE */
} kt__kv_end;
/* All of it is in memory. */
kt__kv_end kt__kv_end_of(kt__kv *kv, const kt__kv_table *table, int64_t n_pos);
void kt__kv_end_read(const kt__kv *kv, const kt__kv_end *end, void *out);

/* The table was grown from nothing to n_pos positions (KT__GROW_QUANTISED) and holds its end: where f16 copies and state are
 * to be written. Then it has them, and the last page keeps the state as its snapshot, too. */
kt__kv_end kt__kv_end_new(const kt__kv_table *table, int64_t n_pos);
void kt__kv_end_write(kt__kv *kv, const kt__kv_end *end, const void *bytes);
void kt__kv_end_take(kt__kv *kv, kt__kv_table *table, const kt__kv_end *end);

#endif
