/* kentang batch: what its files share.
 *
 * Owns: lines in (batch_input.c), the answers being collected (batch_job.c), lines out, and which
 * ids they hold already (batch_output.c). The command itself is batch.c. One thread. */
#ifndef KT_CLI_BATCH_H
#define KT_CLI_BATCH_H

#include <kentang.h>
#include <stdio.h>

#include "base/buf.h"
#include "serve/wire.h"

/* ---- ids that were seen, by their hash ---- */

typedef struct kt__id_set {
    uint64_t (*slots)[2]; /* [cap], zeros: free */
    size_t n, cap;
} kt__id_set;

bool kt__id_set_has(const kt__id_set *set, const char *id);
/* false: no memory. *was_there may be NULL. */
bool kt__id_set_add(kt__id_set *set, const char *id, bool *was_there);
void kt__id_set_free(kt__id_set *set);

/* ---- lines in ---- */

typedef struct kt__batch_input {
    int fd;
    kt__buf buf;
    size_t at;                       /* what of buf is read */
    uint64_t n_lines, n_bytes, size; /* size: of a regular file, else 0 */
    bool eof, skipping;              /* skipping: the rest of a line that is too long */
} kt__batch_input;

typedef enum kt__batch_read {
    KT__BATCH_LINE,
    KT__BATCH_TOO_LONG, /* a line over KT__WIRE_MAX_BYTES; it is skipped */
    KT__BATCH_WAIT,     /* nothing to read now */
    KT__BATCH_EOF,
    KT__BATCH_FAILED /* err is filled */
} kt__batch_read;

void kt__batch_input_open(kt__batch_input *in, int fd);
void kt__batch_input_close(kt__batch_input *in);
/* The next line that is not blank, without its newline; valid until the next call. wait: block
 * until there is one. in->n_lines is its number, from 1. */
kt__batch_read kt__batch_input_next(kt__batch_input *in, bool wait, const char **line, size_t *len,
                                    kt_error *err);

/* A line understood, or refused. */
typedef struct kt__batch_line {
    bool openai;               /* answered in the shape of OpenAI's batch files */
    char *id;                  /* custom_id, id, or "line-N"; for kt__free; NULL: no memory */
    kt__wire_request *request; /* NULL: err says why not */
    kt_error err;
} kt__batch_line;

void kt__batch_line_parse(const char *line, size_t len, uint64_t number,
                          const kt_request_params *defaults, kt__batch_line *out);
void kt__batch_line_free(kt__batch_line *line);

/* ---- lines out ---- */

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

/* ---- answers on their way ---- */

typedef struct kt__batch_job kt__batch_job;

/* Told once, when an answer is complete; *line is one line without its newline, and is the job's.
 * failed: it is an error. The job is gone afterwards. */
typedef void kt__batch_done_fn(void *user, kt__buf *line, bool failed,
                               const kt_request_report *report);

typedef struct kt__batch_sink {
    kt__batch_done_fn *done;
    void *user;
    kt_model *model;
    const char *model_name;
} kt__batch_sink;

/* Submits the line's request and takes the line over, unless the queue is full (KT_E_BUSY). Every
 * other refusal is the line's result. */
kt_status KT_CHECKED kt__batch_job_submit(kt_engine *engine, kt__batch_line *line,
                                          const kt__batch_sink *sink, kt_error *err);
/* The result line of an error. */
void kt__batch_write_error(kt__buf *out, const kt__batch_line *line, const kt_error *err);

#endif
