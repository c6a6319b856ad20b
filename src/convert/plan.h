/* The plan of a conversion: which tensors the GGUF file gets, of which type, made from what.
 *
 * Owns: the mapping of tensor names (tensors.def), shape checks, what is dropped, and the question
 * of tied heads. Reads no weights but to compare two heads. Immutable once made; any thread. */
#ifndef KT_CONVERT_PLAN_H
#define KT_CONVERT_PLAN_H

#include "convert/config.h"
#include "convert/folder.h"
#include "quant/recipe.h"

typedef enum kt__change {
    KT__CHANGE_COPY,
    KT__CHANGE_PERM_Q,
    KT__CHANGE_PERM_K,
    KT__CHANGE_PLUS_1
} kt__change;

typedef struct kt__planned {
    char name[64];
    kt__type type;
    uint32_t n_dims;
    int64_t n_rows, n_cols; /* n_rows = 1 for a vector */
    kt__change change;
    int64_t n_heads, head_rows;  /* of a permutation */
    const kt__st_tensor *source; /* NULL: made */
    const kt__shard *shard;
    const float *made; /* [n_cols] */
    size_t row_bytes;
} kt__planned;

typedef struct kt__weight_plan {
    kt__planned *tensors; /* in the order of the file */
    size_t n, cap;
    int64_t n_vocab;          /* rows of the embedding in the file */
    const kt__recipe *recipe; /* the caller's, or the one of the source's type */
    uint64_t n_params, data_bytes;
} kt__weight_plan;

/* recipe NULL: as the source. n_tokens: of the tokenizer; the embedding may have more rows. */
kt_status kt__weight_plan_make(const kt__folder *folder, const kt__hf_config *config,
                               int64_t n_tokens, const kt__recipe *recipe,
                               const kt__convert_notes *notes, kt__weight_plan *out,
                               kt_error *err) KT_CHECKED;
void kt__weight_plan_free(kt__weight_plan *plan);
void kt__weight_plan_declare(const kt__weight_plan *plan, kt__gguf_writer *w);

#endif
