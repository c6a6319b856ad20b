/* Lines of results of kentang batch.
 *
 * Owns: the file that they are appended to, its lock, and which ids it holds already. Knows nothing
 * of how a result comes to be. One thread. */
#ifndef KT_CLI_BATCH_OUTPUT_H
#define KT_CLI_BATCH_OUTPUT_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Results of kentang batch in the order of their requests.
 *
 * Owns: which requests are out, by the numbers of their lines, and results that wait for an earlier one. One
 * thread. */

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

/* Ids that were seen, by their hash.
 *
 * Owns: a set of names that only grows; two names are taken for one with the probability of a
 * collision of 128 bits. Knows nothing of what they name. One thread. */

typedef struct kt__id_set {
    uint64_t (*slots)[2]; /* [cap], zeros: free */
    size_t n, cap;
} kt__id_set;

bool kt__id_set_has(const kt__id_set *set, const char *id);
/* false: no memory. *was_there may be NULL. */
bool kt__id_set_add(kt__id_set *set, const char *id, bool *was_there);
void kt__id_set_free(kt__id_set *set);

typedef struct kt__batch_output {
    int fd;
    const char *path;        /* NULL: standard output */
    bool retry_failed;       /* results that are errors do not count as finished */
    kt__id_set finished;     /* ids of results that were there */
    uint64_t n_found, n_cut; /* such results; bytes of a torn last line */
} kt__batch_output;

/* path NULL: standard output. A file that exists is gone on with: its results are read, a last line
 * without an end is cut off. One batch at a time writes to a file. */
kt_status KT_CHECKED kt__batch_output_open(const char *path, bool retry_failed,
                                           kt__batch_output *out, kt_error *err);
kt_status KT_CHECKED kt__batch_output_write(kt__batch_output *out, kt__buf *line, kt_error *err);
kt_status KT_CHECKED kt__batch_output_close(kt__batch_output *out, kt_error *err);

#endif
