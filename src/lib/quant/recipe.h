/* Recipes: which tensor of a model gets which type.
 *
 * Owns: llama.cpp's published mixtures ("q4_k_m"), with the type that replaces one whose blocks do
 * not divide a row. Knows a tensor by its role, not by its name. Any thread; no state. */
#ifndef KT_QUANT_RECIPE_H
#define KT_QUANT_RECIPE_H

#include "quant/quant.h"

typedef struct kt__recipe {
    const char *name;   /* "q4_k_m" */
    uint32_t file_type; /* general.file_type */
    kt__type base;      /* what most matrices get */
    char
        mix; /* 'S', 'M', 'L': how many matrices get more bits; 'E': experts get MXFP4; 0: the type's
                 * only mix */
} kt__recipe;

typedef enum kt__tensor_role {
    KT__TENSOR_EMBD,
    KT__TENSOR_OUTPUT,
    KT__TENSOR_Q,
    KT__TENSOR_K,
    KT__TENSOR_V,
    KT__TENSOR_QKV,
    KT__TENSOR_ATTN_OUT,
    KT__TENSOR_GATE,
    KT__TENSOR_UP,
    KT__TENSOR_DOWN,
    KT__TENSOR_EXPERTS_GATE, /* of all experts in one tensor */
    KT__TENSOR_EXPERTS_UP,
    KT__TENSOR_EXPERTS_DOWN,
    KT__TENSOR_MIX_GATE, /* of a mixer: of the same input as queries */
    KT__TENSOR_OTHER,    /* of what another matrix made */
    KT__TENSOR_VECTOR    /* norms, biases, factors: always f32 */
} kt__tensor_role;

/* What a recipe looks at besides the tensor itself. */
typedef struct kt__recipe_model {
    int n_layer, n_head, n_head_kv;
    bool tied; /* the embedding is the output matrix, too */
} kt__recipe_model;

size_t kt__recipe_count(void);
const kt__recipe *kt__recipe_at(size_t index);
const kt__recipe *kt__recipe_find(const char *name); /* case ignored; NULL: none */
/* The type of a matrix with rows of n_cols elements in this layer. */
kt__type kt__recipe_type(const kt__recipe *recipe, const kt__recipe_model *model,
                         kt__tensor_role role, int layer, int64_t n_cols);

#endif
