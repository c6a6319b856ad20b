/* From a Hugging Face folder, PEFT's adapter or another GGUF file to a GGUF file.
 *
 * Owns: the order of the steps and the general.* keys (convert.c); a file made with other types of weights
 * (quantize.c) by an importance matrix (imatrix.c); adapters (peft.c). Reads its sources only, holds some megabytes a
 * thread besides the tokenizer, and needs no network. One call at a time for one target (a lock sees to it);
 * otherwise any thread. */
#ifndef KT_CONVERT_CONVERT_H
#define KT_CONVERT_CONVERT_H

#include "convert/write.h"
#include "gguf/gguf.h"
#include "quant/recipe.h"

#include <kentang.h>
#include <stdbool.h>

/* An importance matrix: for each matrix of a model, the mean square of every input column.
 *
 * The GGUF form that llama.cpp reads and writes (NAME.in_sum2, NAME.counts), adding up of several, and look-up by a
 * matrix's name. Does not know how it is gathered. Any thread may read one that nobody changes. */

typedef struct kt__imatrix_entry {
    char name[KT__GGUF_MAX_NAME_BYTES + 1]; /* of the matrix: "blk.0.attn_q.weight" */
    int64_t n_cols;
    float *sum2;   /* [n_cols] sums of squares, finite, not negative */
    double n_rows; /* of how many tokens */
} kt__imatrix_entry;

typedef struct kt__imatrix {
    kt__imatrix_entry *entries;
    size_t n, cap;
    char **datasets; /* names of the texts */
    size_t n_datasets, cap_datasets;
    uint32_t n_chunks, chunk_size;
} kt__imatrix;

/* KT_E_FORMAT names the file and the entry that is wrong. Freed with kt__imatrix_free, also after
 * failure. */
kt_status kt__imatrix_read(const char *path, kt__imatrix *out, kt_error *err) KT_CHECKED;
/* Adds what the file holds to what is there. */
kt_status kt__imatrix_merge_file(kt__imatrix *into, const char *path, kt_error *err) KT_CHECKED;
/* Adds n_rows rows' sums to a matrix's entry, which is made if there is none. */
kt_status kt__imatrix_add(kt__imatrix *m, const char *name, int64_t n_cols, const float *sum2,
                          double n_rows, kt_error *err) KT_CHECKED;
kt_status kt__imatrix_add_dataset(kt__imatrix *m, const char *name, kt_error *err) KT_CHECKED;
kt_status kt__imatrix_write(const kt__imatrix *m, const char *path, kt_error *err) KT_CHECKED;
/* NULL: none, or one that no token has reached. */
const kt__imatrix_entry *kt__imatrix_find(const kt__imatrix *m, const char *name);
void kt__imatrix_free(kt__imatrix *m);

/* From a folder. */

enum { KT__CONVERT_SEED = 0x636f6e76 }; /* of the hash over the sources */

/* recipe NULL: the type of the source. */
kt_status kt__convert_folder(const char *folder, const kt__recipe *recipe,
                             const kt__convert_output *output, kt__convert_report *report,
                             kt_error *err) KT_CHECKED;

/* From one GGUF file to another with other types of weights.
 *
 * Which tensor gets which type (a recipe, rules for names, or the best recipe that fits a size) and the metadata's
 * way into the new file. A file made so is, byte for byte, what converting the folder to the same recipe gives. Reads
 * the source only; any thread. */

typedef struct kt__type_rule {
    const char *pattern; /* of a tensor's name, as fnmatch takes it */
    kt__type type;
} kt__type_rule;

typedef struct kt__quantize_params {
    const char *source;
    const kt__recipe *recipe;   /* NULL: the best that fits target_bytes */
    uint64_t target_bytes;      /* of the finished file; 0: no limit */
    const kt__type_rule *rules; /* [n_rules]: the last that matches counts, before the recipe */
    size_t n_rules;
    const kt__imatrix *importance; /* or NULL */
    const kt__row_change *change;  /* of weights before they are encoded; NULL: none */
} kt__quantize_params;

/* What the file would have, within a few bytes; reads the source's header only. */
kt_status kt__quantize_bytes(const char *source, const kt__recipe *recipe, uint64_t *bytes,
                             kt_error *err) KT_CHECKED;
kt_status kt__quantize_file(const kt__quantize_params *params, const kt__convert_output *output,
                            kt__convert_report *report, kt_error *err) KT_CHECKED;

/* Adapters as PEFT saves them (a folder with adapter_config.json and adapter_model.safetensors) as the GGUF file that
 * llama.cpp's adapters are.
 *
 * The configuration's keys (ranks and alphas by pattern, rank-stabilised scaling), the mapping of names, and the
 * change of rows where a model's rotary pairs lie otherwise in GGUF. What GGUF has one number for and a folder
 * several is folded into B. What cannot be expressed is refused by name. The folder's bytes are hostile; it is never
 * written. Any thread. */

/* What the adapter is for; from the open model. */
typedef struct kt__peft_model {
    const char *arch; /* general.architecture */
    int head_dim;
} kt__peft_model;

typedef struct kt__peft_file {
    void *data; /* of a GGUF file */
    size_t size;
} kt__peft_file;

kt_status kt__peft_read(const char *folder, const kt__peft_model *model, kt__peft_file *out,
                        kt_error *err) KT_CHECKED;
void kt__peft_free(kt__peft_file *file); /* also of a zeroed one */

#endif
