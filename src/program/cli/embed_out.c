#include "cli/embed_out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct kt__embed_out {
    FILE *file;
    const char *path; /* NULL: standard output */
    kt__embed_format format;
    size_t n_cols, n_rows;
    long begin; /* of the file, for NPY */
};

static kt_status fail_write(const kt__embed_out *out, kt_error *err) {
    return kt__fail(err, KT_E_IO, "cannot write %s: %s", out->path ? out->path : "standard output",
                    strerror(errno));
}

/* NumPy's format 1.0: a text of fixed length, so that the number of rows can be written again. */
static bool write_npy_header(kt__embed_out *out) {
    enum { HEADER = 128, PREFIX = 10 };
    char header[HEADER + 1];
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", PREFIX); /* 118 bytes follow */
    int n = snprintf(header + PREFIX, HEADER - PREFIX,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", out->n_rows,
                     out->n_cols);
    header[PREFIX + n] = ' ';
    header[HEADER - 1] = '\n';
    return fwrite(header, 1, HEADER, out->file) == HEADER;
}

static kt_status begin_npy(kt__embed_out *out, kt_error *err) {
    out->begin = ftell(out->file);
    if (out->begin < 0 || fseek(out->file, out->begin, SEEK_SET) != 0)
        return kt__fail(err, KT_E_ARG,
                        "a NumPy array says at its begin how many rows it has, which is known at "
                        "the end: write it to a file (--output FILE)");
    return write_npy_header(out) ? KT_OK : fail_write(out, err);
}

kt_status kt__embed_out_open(const char *path, kt__embed_format format, size_t n_cols,
                             kt__embed_out **result, kt_error *err) {
    kt_status status = KT_OK;
    kt__embed_out *out = kt__calloc(1, sizeof *out);
    *result = out;
    if (!out) return kt__fail_nomem(err, "the output", sizeof *out);
    *out = (kt__embed_out){.path = path, .format = format, .n_cols = n_cols};
    out->file = path ? fopen(path, "wb") : stdout;
    if (!out->file) return kt__fail(err, KT_E_IO, "cannot open %s: %s", path, strerror(errno));
    if (format == KT__EMBED_NPY) status = begin_npy(out, err);
    return status;
}

/* As many digits as it takes to read the same float back. */
static bool write_json(kt__embed_out *out, const float *row) {
    fputc('[', out->file);
    for (size_t i = 0; i < out->n_cols; i++)
        fprintf(out->file, "%s%.9g", i ? "," : "", (double)row[i]);
    fputs("]\n", out->file);
    return !ferror(out->file);
}

kt_status kt__embed_out_row(kt__embed_out *out, const float *row, kt_error *err) {
    out->n_rows++;
    bool done = out->format == KT__EMBED_JSON
                    ? write_json(out, row)
                    : fwrite(row, sizeof *row, out->n_cols, out->file) == out->n_cols;
    return done ? KT_OK : fail_write(out, err);
}

kt_status kt__embed_out_finish(kt__embed_out *out, kt_error *err) {
    bool ok = true;
    if (out->format == KT__EMBED_NPY)
        ok = fseek(out->file, out->begin, SEEK_SET) == 0 && write_npy_header(out) &&
             fseek(out->file, 0, SEEK_END) == 0;
    return ok && fflush(out->file) == 0 ? KT_OK : fail_write(out, err);
}

void kt__embed_out_free(kt__embed_out *out) {
    if (!out) return;
    if (out->file && out->path) fclose(out->file);
    kt__free(out);
}
