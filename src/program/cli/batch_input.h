/* Lines of requests for kentang batch.
 *
 * Owns: reading them one by one, under a cap, from a file or a pipe, and what a line asks for: its
 * id, its form, its request. Computes nothing. One thread. */
#ifndef KT_CLI_BATCH_INPUT_H
#define KT_CLI_BATCH_INPUT_H

#include <kentang.h>

#include "base/buf.h"
#include "wire/wire.h"

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
    uint64_t number;           /* of the line in the file, from 1 */
    bool openai;               /* answered in the shape of OpenAI's batch files */
    char *id;                  /* custom_id, id, or "line-N"; for kt__free; NULL: no memory */
    kt__wire_request *request; /* NULL: err says why not */
    kt_error err;
} kt__batch_line;

void kt__batch_line_parse(const char *line, size_t len, uint64_t number,
                          const kt_request_params *defaults, kt__batch_line *out);
void kt__batch_line_free(kt__batch_line *line);

#endif
