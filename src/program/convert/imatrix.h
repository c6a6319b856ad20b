/* An importance matrix: for each matrix of a model, the mean square of every input column.
 *
 * Owns: the GGUF form that llama.cpp reads and writes (NAME.in_sum2, NAME.counts), adding up of
 * several, and look-up by a matrix's name. Does not know how it is gathered. Any thread may read one
 * that nobody changes. */
#ifndef KT_CONVERT_IMATRIX_H
#define KT_CONVERT_IMATRIX_H

#include <kentang.h>

#include "gguf/gguf.h"

typedef struct kt__imatrix_entry {
    char name[KT__GGUF_MAX_NAME_BYTES + 1]; /* of the matrix: "blk.0.attn_q.weight" */
    int64_t n_cols;
    float *sum2;   /* [n_cols] sums of squares, finite, not negative */
    double n_rows; /* of how many tokens */
} kt__imatrix_entry;

typedef struct kt__imatrix {
    kt__imatrix_entry *entries;
    size_t n, cap;
    char **datasets; /* names of the texts */
    size_t n_datasets, cap_datasets;
    uint32_t n_chunks, chunk_size;
} kt__imatrix;

/* KT_E_FORMAT names the file and the entry that is wrong. Freed with kt__imatrix_free, also after
 * failure. */
kt_status kt__imatrix_read(const char *path, kt__imatrix *out, kt_error *err) KT_CHECKED;
/* Adds what the file holds to what is there. */
kt_status kt__imatrix_merge_file(kt__imatrix *into, const char *path, kt_error *err) KT_CHECKED;
/* Adds n_rows rows' sums to a matrix's entry, which is made if there is none. */
kt_status kt__imatrix_add(kt__imatrix *m, const char *name, int64_t n_cols, const float *sum2,
                          double n_rows, kt_error *err) KT_CHECKED;
kt_status kt__imatrix_add_dataset(kt__imatrix *m, const char *name, kt_error *err) KT_CHECKED;
kt_status kt__imatrix_write(const kt__imatrix *m, const char *path, kt_error *err) KT_CHECKED;
/* NULL: none, or one that no token has reached. */
const kt__imatrix_entry *kt__imatrix_find(const kt__imatrix *m, const char *name);
void kt__imatrix_free(kt__imatrix *m);

#endif
