/* kentang batch, between its files: lines of requests in, lines of results out.
 *
 * Owns: reading requests (batch_input.c), answering them (batch_job.c), the file of results (batch_output.c), and
 * sharing requests among processes (batch_share.c); batch_main.c has the command. One thread. */
#ifndef KT_CLI_BATCH_H
#define KT_CLI_BATCH_H

#include "base/buf.h"
#include "peers/message.h"
#include "setup/command_model.h"
#include "setup/session.h"
#include "wire/wire.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lines of requests for kentang batch.
 *
 * Reading them one by one, under a cap, from a file or a pipe, and what a line asks for: its id, its form, its
 * request. Computes nothing. One thread. */

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

/* Answers of kentang batch on their way.
 *
 * A request from its submission to the engine until its result is one line. Knows no files. Called, and calls back,
 * on the thread that steps the engine. */

typedef struct kt__batch_job kt__batch_job;

/* Called once, when an answer is complete; number: its request's line's; *line is one line without its newline, and is
 * the job's. failed: it is an error. The job is gone afterwards. */
typedef void kt__batch_done_fn(void *user, uint64_t number, kt__buf *line, bool failed,
                               const kt_request_report *report);

typedef struct kt__batch_sink {
    kt__batch_done_fn *done;
    void *user;
    kt_model *model;
    const char *model_name;
    const kt__lora_set *lora; /* that lines may name, by their info's name */
} kt__batch_sink;

/* Submits the line's request and takes the line over, unless the queue is full (KT_E_BUSY). Every
 * other refusal is the line's result. */
kt_status KT_CHECKED kt__batch_job_submit(kt_engine *engine, kt__batch_line *line,
                                          const kt__batch_sink *sink, kt_error *err);
/* The result line of an error. */
void kt__batch_write_error(kt__buf *out, const kt__batch_line *line, const kt_error *err);

/* Lines of results of kentang batch.
 *
 * The file that they are appended to, its lock, and which ids it holds already. Knows nothing of how a result comes
 * to be. One thread. */

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

/* Requests of kentang batch shared among processes, each with a whole model.
 *
 * Letters between process 0, which reads requests and writes results, and the others, which answer; how many each
 * process has and takes; and that one that is silent for too long ends the batch. Knows no files and no engine. */

typedef struct kt__batch_share {
    kt__peers *peers; /* NULL: there are no others */
    int n, rank;      /* processes; this one's number */
    kt__message letter;
    struct {
        int32_t n_parallel, n_live, n_live_max; /* n_live_max 0: it is not ready */
        int64_t heard_us;
    } places[KT__PEERS_MAX]; /* process 0's: of all */
    int64_t said_us;         /* the others': their last letter */
} kt__batch_share;

/* A result as it travels; bytes: valid until the next letter. */
typedef struct kt__batch_result {
    uint64_t number; /* of its request's line */
    bool failed;
    kt_request_report report; /* its counts of tokens alone */
    const char *bytes;
    size_t len;
} kt__batch_result;

kt_status KT_CHECKED kt__batch_share_open(kt__batch_share *share, kt_error *err);
/* failed: the batch ends in all processes. One that was not opened is allowed. */
void kt__batch_share_close(kt__batch_share *share, bool failed);
/* This process is ready: it computes n_parallel together. Process 0 waits until all are. */
kt_status KT_CHECKED kt__batch_share_ready(kt__batch_share *share, int32_t n_parallel,
                                           int32_t n_queue_max, kt_error *err);

/* ---- process 0 ---- */

/* Who has the fewest in relation to what it computes together, this process n_here; -1: nobody has
 * room. */
int kt__batch_share_choose(const kt__batch_share *share, int32_t n_here);
kt_status KT_CHECKED kt__batch_share_send(kt__batch_share *share, int rank, uint64_t number,
                                          const char *line, size_t len, kt_error *err);
/* A result that has come, if one has. */
kt_status KT_CHECKED kt__batch_share_look(kt__batch_share *share, kt__batch_result *out, bool *any,
                                          kt_error *err);
/* There are no more requests. */
kt_status KT_CHECKED kt__batch_share_end(kt__batch_share *share, kt_error *err);

/* ---- the others ---- */

typedef enum kt__batch_heard {
    KT__BATCH_HEARD_NOTHING,
    KT__BATCH_HEARD_LINE, /* *line: valid until the next letter */
    KT__BATCH_HEARD_END
} kt__batch_heard;
kt_status KT_CHECKED kt__batch_share_hear(kt__batch_share *share, kt__batch_heard *heard,
                                          uint64_t *number, const char **line, size_t *len,
                                          kt_error *err);
kt_status KT_CHECKED kt__batch_share_answer(kt__batch_share *share, const kt__batch_result *result,
                                            kt_error *err);
/* It is alive, and has no result yet. */
kt_status KT_CHECKED kt__batch_share_nod(kt__batch_share *share, kt_error *err);

/* A process of kentang batch that answers requests which another one reads and whose results that one writes.
 *
 * Owns: its requests in its engine. One thread. */

/* Until process 0 says that there are no more. */
kt_status KT_CHECKED kt__batch_replica_run(kt__batch_share *share, kt__session *session,
                                           const kt_request_params *defaults, kt_error *err);

#endif
