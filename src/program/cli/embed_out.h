/* Vectors as a file: JSON lines, a NumPy array, or bare floats.
 *
 * Owns: the output file and its format. One thread. */
#ifndef KT_CLI_EMBED_OUT_H
#define KT_CLI_EMBED_OUT_H

#include <kentang.h>

typedef struct kt__embed_out kt__embed_out;

typedef enum kt__embed_format { KT__EMBED_JSON, KT__EMBED_NPY, KT__EMBED_F32 } kt__embed_format;

/* path NULL: standard output, which NPY refuses where it cannot go back to the number of rows at
 * its begin. */
kt_status KT_CHECKED kt__embed_out_open(const char *path, kt__embed_format format, size_t n_cols,
                                        kt__embed_out **out, kt_error *err);
kt_status KT_CHECKED kt__embed_out_row(kt__embed_out *out, const float *row, kt_error *err);
kt_status KT_CHECKED kt__embed_out_finish(kt__embed_out *out, kt_error *err);
void kt__embed_out_free(kt__embed_out *out); /* NULL is allowed */

#endif
