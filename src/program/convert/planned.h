/* A plan as a list of tensors, of which type and made from what, and the bytes after them.
 *
 * Owns: the plan's memory, and BitNet's matrices of three values; not which tensors it has (plan.h). */
#ifndef KT_CONVERT_PLANNED_H
#define KT_CONVERT_PLANNED_H

#include "base/hash.h"
#include "convert/config.h"
#include "convert/safetensors.h"
#include "quant/recipe.h"

typedef enum kt__change {
    KT__CHANGE_COPY,
    KT__CHANGE_PERM_Q,
    KT__CHANGE_PERM_K,
    KT__CHANGE_PLUS_1,
    KT__CHANGE_EACH,
    KT__CHANGE_FROM_2,
    KT__CHANGE_EVEN,
    KT__CHANGE_ODD,
    KT__CHANGE_MXFP4,
    KT__CHANGE_MXFP4_EVEN,
    KT__CHANGE_MXFP4_ODD,
    KT__CHANGE_TILED,
    KT__CHANGE_TILED_COLS,
    KT__CHANGE_DECAY,
    KT__CHANGE_WHOLE,
    KT__CHANGE_LOW,
    KT__CHANGE_HIGH,
    KT__CHANGE_TURNED_WHOLE,
    KT__CHANGE_TURNED_LOW,
    KT__CHANGE_TURNED_HIGH,
    KT__CHANGE_KEYS,
    KT__CHANGE_VALUES,
    KT__CHANGE_GROUPED_QKV,
    KT__CHANGE_GROUPED_GATE,
    KT__CHANGE_TOP,
    KT__CHANGE_BOTTOM,
    KT__CHANGE_FLAT,
    KT__CHANGE_FLAT_DECAY,
    KT__CHANGE_MINUS_EXP,
    KT__CHANGE_TERNARY,
    KT__CHANGE_PACKED
} kt__change;

/* Where a tensor's bytes lie: a shard, or a GGUF file. fd -1: it is made, not read. */
typedef struct kt__weight_source {
    const char *path, *name;
    int fd;
    uint64_t begin;
    kt__type type;
} kt__weight_source;

/* Bytes [at, at + n) of a tensor, which must lie inside it. Any thread. */
kt_status kt__weight_read(const kt__weight_source *source, uint64_t at, void *out, size_t n,
                          kt_error *err) KT_CHECKED;

/* Whether the first size bytes of two tensors are the same; they are read in pieces. */
kt_status kt__weight_same_bytes(const kt__weight_source *a, const kt__weight_source *b,
                                uint64_t size, bool *same, kt_error *err) KT_CHECKED;

/* Rows that become others before they are encoded: by the caller that merges something into
 * them. */
typedef struct kt__row_change {
    bool (*has)(void *user, const char *tensor);
    /* values: rows [begin, end) of n_cols; any thread */
    void (*apply)(void *user, const char *tensor, int64_t begin, int64_t end, int64_t n_cols,
                  float *values);
    void *user;
    kt__hash identity; /* of what is changed how */
} kt__row_change;

typedef struct kt__planned {
    char name[KT__GGUF_MAX_NAME_BYTES + 1];
    kt__type type;
    uint32_t n_dims;
    uint64_t ne[KT__GGUF_MAX_DIMS]; /* as the file lists them */
    int64_t n_rows, n_cols;         /* n_rows = 1 for a vector */
    kt__change change;
    int64_t n_heads, head_rows;  /* of a permutation */
    int64_t tiled_from, n_tiles; /* of TILED: the first row that moves; value heads of a key head */
    kt__weight_source source;
    kt__weight_source *
        parts; /* of several tensors, owned by the plan: one each part_rows rows; source is the first */
    kt__weight_source scales; /* of KT__CHANGE_MXFP4*, whose source has the blocks' levels */
    int64_t part_rows;
    kt__hf_scale scales_by[KT__HF_MAX_SCALES]; /* of rows, one stretch after the other */
    int n_scales_by;                           /* 0: none */
    const float *made;                         /* [n_cols]; NULL, and made: one number, factor */
    float factor;                              /* of TERNARY: what weights are divided by */
    const float *importance;                   /* [n_cols] of a column's squared errors, or NULL */
    const kt__row_change *row_change;          /* or NULL */
    size_t row_bytes;
} kt__planned;

typedef struct kt__weight_plan {
    kt__planned *tensors; /* in the order of the file */
    size_t n, cap;
    int64_t n_vocab;          /* rows of the embedding in the file */
    const kt__recipe *recipe; /* the caller's, or the one of the source's type */
    uint64_t n_params, data_bytes;
} kt__weight_plan;

/* Takes a tensor up; its type, shape and source are set. */
kt_status kt__weight_plan_add(kt__weight_plan *plan, const kt__planned *tensor,
                              kt_error *err) KT_CHECKED;
void kt__weight_plan_free(kt__weight_plan *plan);
void kt__weight_plan_declare(const kt__weight_plan *plan, kt__gguf_writer *w);

/* Roles of tensors: which type a recipe gives a tensor, by its name in GGUF.
 *
 * Owns: the look-up in model/weights.def and globals.def. Any thread; no state. */

/* The role and layer (0 outside the layers) of "blk.3.attn_q.weight"; a matrix of an encoder of
 * pictures is a KT__TENSOR_OTHER, any other tensor that the tables do not have a KT__TENSOR_VECTOR. */
kt__tensor_role kt__tensor_role_of(const char *name, int *layer);

/* BitNet's matrices: weights of -1, 0 and 1 times one factor, made from floats or unpacked.
 *
 * What becomes of a folder's numbers, and how they lie where a byte has four of them. Any thread; no state. */

/* The mean size of n weights, which a matrix of floats is divided by. */
kt_status kt__ternary_mean(const kt__weight_source *source, int64_t n, float *out,
                           kt_error *err) KT_CHECKED;
/* What a weight over that size is nearest to. */
void kt__ternary_round(float *values, int64_t n, float mean);
/* Rows [begin, end) of a packed matrix of t's shape as floats: byte r of a column has the weights of
 * rows r, r + n / 4, r + n / 2 and r + 3 n / 4, from its lowest bits on. */
kt_status kt__ternary_unpack(const kt__planned *t, int64_t begin, int64_t end, float *out,
                             kt_error *err) KT_CHECKED;

#endif
