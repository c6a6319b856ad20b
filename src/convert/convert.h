/* From a Hugging Face folder to a GGUF file.
 *
 * Owns: the order of the steps, the general.* keys and the finished file. Reads the folder's files
 * only, holds some megabytes a thread beside the tokenizer, and needs no network. One call at a
 * time for one target (a lock sees to it); otherwise any thread. */
#ifndef KT_CONVERT_CONVERT_H
#define KT_CONVERT_CONVERT_H

#include "convert/config.h"
#include "convert/weights.h"
#include "quant/recipe.h"

typedef struct kt__convert_params {
    const char *folder, *target;
    const kt__recipe *recipe;  /* NULL: the type of the source */
    int n_threads;             /* 1 to KT__POOL_MAX_THREADS */
    uint64_t checkpoint_bytes; /* 0: the usual distance */
    kt__convert_notes notes;
    kt__convert_progress_fn *progress; /* may be NULL */
    void *progress_user;
} kt__convert_params;

typedef struct kt__convert_report {
    const char *arch;   /* "llama" */
    const char *recipe; /* "bf16" */
    char tokenizer[64]; /* "gpt2/qwen2" */
    uint64_t n_tensors, n_params, bytes, resumed_bytes;
    kt__weights_counts counts;
} kt__convert_report;

kt_status kt__convert_folder(const kt__convert_params *params, kt__convert_report *out,
                             kt_error *err) KT_CHECKED;

#endif
