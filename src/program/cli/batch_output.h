/* Lines of results of kentang batch.
 *
 * Owns: the file that they are appended to, its lock, and which ids it holds already. Knows nothing
 * of how a result comes to be. One thread. */
#ifndef KT_CLI_BATCH_OUTPUT_H
#define KT_CLI_BATCH_OUTPUT_H

#include <kentang.h>

#include "base/buf.h"
#include "cli/id_set.h"

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
