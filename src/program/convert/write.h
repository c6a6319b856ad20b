/* The end of every conversion: a planned file is written, and appears whole.
 *
 * Owns: the identity that a later run must have to continue, the order of writing, and what is left
 * after a failure (nothing). Does not know where the plan came from. One call at a time for one
 * target (a lock sees to it); otherwise any thread. */
#ifndef KT_CONVERT_WRITE_H
#define KT_CONVERT_WRITE_H

#include "convert/weights.h"

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
