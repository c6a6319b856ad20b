/* Answers of kentang batch on their way.
 *
 * Owns: a request from its submission to the engine until its result is one line. Knows no files.
 * Called, and calls back, on the thread that steps the engine. */
#ifndef KT_CLI_BATCH_JOB_H
#define KT_CLI_BATCH_JOB_H

#include "cli/batch_input.h"
#include "setup/command_model.h"

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

#endif
