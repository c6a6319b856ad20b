/* The end of every conversion: a planned file is written, and appears whole.
 *
 * Owns: the identity that a later run must have to continue, the order of writing, and what is left after a failure
 * (write.c); the weights, read, changed and encoded by threads (weights.c); a file that survives a kill
 * (part_file.c). Does not know where the plan came from. One call at a time for one target (a lock sees to it);
 * otherwise any thread. */
#ifndef KT_CONVERT_WRITE_H
#define KT_CONVERT_WRITE_H

#include "base/hash.h"
#include "convert/plan.h"
#include "quant/feedback.h"

#include <kentang.h>
#include <stdint.h>

/* The output of a long conversion: a file that appears whole, and work that survives a kill.
 *
 * OUT.part next to the target, its lock, and the record of how far it is good. Bytes may be written in any order up
 * to a checkpoint; a checkpoint makes everything before a place durable first and records it then, so that after a
 * kill or a power cut the next run with the same identity continues there. The record lies after the last byte and is
 * cut off at the end. The target's name is touched once, by rename. kt__part_write from any thread, the rest from
 * one. */

typedef struct kt__part {
    char *path, *target;
    int fd;
    uint64_t bytes; /* of the finished file */
    uint64_t good;  /* what an earlier run has completed; 0: nothing */
    kt__digest identity;
    unsigned turn; /* of the two places for the record */
} kt__part;

/* identity: what the bytes will be, so that only the same conversion continues. Space for all bytes
 * is reserved at once, where the file system can: a full disk shows now. Freed with kt__part_close,
 * also after failure. */
kt_status kt__part_open(const char *target, uint64_t bytes, kt__digest identity, kt__part *out,
                        kt_error *err) KT_CHECKED;
kt_status kt__part_write(const kt__part *part, const void *data, size_t n, uint64_t at,
                         kt_error *err) KT_CHECKED;
/* All bytes before `good` are written. */
kt_status kt__part_checkpoint(kt__part *part, uint64_t good, kt_error *err) KT_CHECKED;
/* All bytes are written: the file gets its name. */
kt_status kt__part_finish(kt__part *part, kt_error *err) KT_CHECKED;
void kt__part_close(kt__part *part);  /* leaves OUT.part for the next run; also of a zeroed one */
void kt__part_remove(kt__part *part); /* and this removes it */

/* The weights of a conversion: read, changed, encoded and written, in pieces.
 *
 * The threads' work. A piece is some rows of one tensor (about a megabyte); a thread reads it, makes f32 of it,
 * applies the change, encodes it and writes it to its place, so that memory is a few megabytes a thread whatever the
 * model. The bytes depend on no thread count. One caller. */

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

typedef struct kt__convert_output {
    const char *target;
    int n_threads;                       /* 1 to KT__POOL_MAX_THREADS */
    kt__effort effort;                   /* of the encoders */
    const kt__feedback_source *feedback; /* or NULL */
    uint64_t checkpoint_bytes;           /* 0: the usual distance */
    kt__convert_notes notes;
    kt__convert_progress_fn *progress; /* may be NULL */
    void *progress_user;
} kt__convert_output;

typedef struct kt__convert_report {
    char arch[64];      /* "llama" */
    const char *recipe; /* "bf16" */
    char tokenizer[64]; /* "gpt2/qwen2" */
    uint64_t n_tensors, n_params, bytes, resumed_bytes;
    kt__weights_counts counts;
} kt__convert_report;

/* Takes w over: its header is complete but for the tensors of the plan. sources: the facts of the
 * files read (name, size, time), added up by the caller. */
kt_status kt__convert_write(const kt__convert_output *output, const kt__weight_plan *plan,
                            kt__gguf_writer *w, kt__hash *sources, kt__convert_report *report,
                            kt_error *err) KT_CHECKED;

#endif
