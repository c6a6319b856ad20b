/* The weights of a conversion: read, changed, encoded and written, in pieces.
 *
 * Owns: the threads' work. A piece is some rows of one tensor (about a megabyte); a thread reads
 * it, makes f32 of it, applies the change, encodes it and writes it to its place, so that memory is
 * a few megabytes a thread whatever the model. The bytes depend on no thread count. One caller. */
#ifndef KT_CONVERT_WEIGHTS_H
#define KT_CONVERT_WEIGHTS_H

#include "convert/part_file.h"
#include "convert/plan.h"
#include "quant/feedback.h"

/* done of total bytes of weights are written. Called from the caller's thread and from workers, one
 * at a time; often: the callee drops what it does not want. */
typedef void kt__convert_progress_fn(void *user, uint64_t done, uint64_t total);

/* Where error feedback comes from (quant/feedback.h). */
typedef struct kt__feedback_source {
    /* For a matrix by its name, before its rows are encoded; *out lives until the next call and may
     * be NULL: none. From the caller's thread. */
    kt_status (*find)(void *user, const char *name, int64_t n_cols, const kt__feedback **out,
                      kt_error *err);
    void *user;
    kt__digest identity;  /* of what it is made from */
    size_t scratch_bytes; /* that a thread needs for what is found */
} kt__feedback_source;

typedef struct kt__weights_job {
    const kt__weight_plan *plan;
    kt__part *part;
    uint64_t data_at; /* of the first tensor in the file */
    int n_threads;
    kt__encoding encoding;               /* its importance is each tensor's own */
    const kt__feedback_source *feedback; /* or NULL */
    uint64_t checkpoint_bytes;           /* between records of progress; 0: the usual 128 MiB */
    kt__convert_progress_fn *progress;   /* may be NULL */
    void *user;
} kt__weights_job;

typedef struct kt__weights_counts {
    uint64_t overflows;  /* |w| > 65504 in a tensor of F16: written as the largest value */
    uint64_t underflows; /* w != 0 that F16 holds as 0 */
} kt__weights_counts;

/* Continues where part->good says. Counts are of this run. */
kt_status kt__weights_write(const kt__weights_job *job, kt__weights_counts *counts,
                            kt_error *err) KT_CHECKED;

#endif
