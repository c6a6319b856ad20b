/* Results of kentang batch in the order of their requests.
 *
 * Owns: which requests are out, by the numbers of their lines, and results that wait for an earlier one. One
 * thread. */
#ifndef KT_CLI_BATCH_ORDER_H
#define KT_CLI_BATCH_ORDER_H

#include <stdint.h>

#include "base/buf.h"

typedef struct kt__batch_place_held {
    uint64_t number;
    bool done;
    kt__buf line; /* of its result */
} kt__batch_place_held;

typedef struct kt__batch_order {
    kt__batch_place_held *items; /* by number */
    size_t first, end, cap;      /* items[first..end) are not written */
    size_t n_bytes;              /* of results that wait */
} kt__batch_order;

void kt__batch_order_free(kt__batch_order *order);
/* A request whose line comes after all that were expected. false: no memory. */
bool kt__batch_order_expect(kt__batch_order *order, uint64_t number);
/* Its result; takes the line's bytes over. */
void kt__batch_order_put(kt__batch_order *order, uint64_t number, kt__buf *line);
/* The next result to be written, for kt__buf_free, if it is there. */
bool kt__batch_order_next(kt__batch_order *order, kt__buf *line);
/* Results that wait. */
size_t kt__batch_order_waiting(const kt__batch_order *order);
/* So many wait for a slow one that no more requests are to be taken. */
bool kt__batch_order_is_full(const kt__batch_order *order);

#endif
