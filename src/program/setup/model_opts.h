/* Options that every command with a model takes: which file, how it is opened, RoPE scaling.
 *
 * Owns: their tables and the opening of context and model from them; the priority of the program's
 * own thread, which is part of the work. One thread. */
#ifndef KT_SETUP_MODEL_OPTS_H
#define KT_SETUP_MODEL_OPTS_H

#include <kentang.h>

#include "term/options.h"

typedef struct kt__model_opts {
    const char *model;   /* a file or name; NULL: the default, which may be the demo model */
    const char *load_in; /* "4bit", "8bit", a recipe, "as-is"; NULL: as the configuration says */
    const char *isa;     /* NULL: chosen */
    int32_t n_threads;   /* 0: chosen */
    int32_t n_threads_max;
    const char *cpu_mask, *cpu_range;
    int32_t priority;
    uint64_t mem_bytes; /* 0: chosen */
    int rope_scaling;   /* index of kt_rope_scaling */
    kt_model_params params;
} kt__model_opts;

kt__model_opts kt__model_opts_default(void);
/* -m, --no-mmap, --mlock, --mem, --exact, --blas, --isa, --rope-*, --yarn-* */
kt__opt_group kt__model_opts_group(kt__model_opts *opts);
/* --cpu-mask, --cpu-range, --prio */
kt__opt_group kt__model_opts_place_group(kt__model_opts *opts);
/* -m alone, for commands that need the vocabulary only */
kt__opt_group kt__model_opts_file_group(kt__model_opts *opts);

/* The context these options ask for: tier, threads, processors, priority. */
kt_status KT_CHECKED kt__model_opts_open_ctx(const kt__model_opts *opts, kt_ctx **ctx,
                                             kt_error *err);
/* Opens a context with opts->n_threads threads and the model in it; word, when not NULL, is a file
 * named without -m. On failure both are NULL and err is filled. Close with kt_model_close,
 * kt_ctx_close. */
kt_status KT_CHECKED kt__model_opts_open(const kt__model_opts *opts, const char *word,
                                         bool vocab_only, kt_ctx **ctx, kt_model **model,
                                         kt_error *err);

#endif
