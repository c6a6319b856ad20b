/* Which tensor gets which type: llama.cpp's published mixtures, as found in published files. (A
 * fused attn_qkv of Q4_K_M is Q5_K, as in the published Phi-3 files.) */
#include "quant/recipe.h"
#include "base/text.h"

static const kt__recipe recipes[] = {
    {"q4_k_m", 15, KT__TYPE_Q4_K, 'M'},
    {"q8_0", 7, KT__TYPE_Q8_0, 0},
    {"q4_0", 2, KT__TYPE_Q4_0, 0},
    {"q4_1", 3, KT__TYPE_Q4_1, 0},
    {"q5_0", 8, KT__TYPE_Q5_0, 0},
    {"q5_1", 9, KT__TYPE_Q5_1, 0},
    {"q2_k", 10, KT__TYPE_Q2_K, 0},
    {"q3_k_s", 11, KT__TYPE_Q3_K, 'S'},
    {"q3_k_m", 12, KT__TYPE_Q3_K, 'M'},
    {"q3_k_l", 13, KT__TYPE_Q3_K, 'L'},
    {"q4_k_s", 14, KT__TYPE_Q4_K, 'S'},
    {"q5_k_s", 16, KT__TYPE_Q5_K, 'S'},
    {"q5_k_m", 17, KT__TYPE_Q5_K, 'M'},
    {"q6_k", 18, KT__TYPE_Q6_K, 0},
    {"iq4_nl", 25, KT__TYPE_IQ4_NL, 0},
    {"iq4_xs", 30, KT__TYPE_IQ4_XS, 0},
    {"f32", 0, KT__TYPE_F32, 0},
    {"f16", 1, KT__TYPE_F16, 0},
    {"bf16", 32, KT__TYPE_BF16, 0},
    {"mxfp4_moe", 38, KT__TYPE_Q8_0, 'E'},
    {"iq3_s", 26, KT__TYPE_IQ3_S, 0},
    {"iq3_xxs", 23, KT__TYPE_IQ3_XXS, 0},
    {"iq2_s", 28, KT__TYPE_IQ2_S, 0},
    {"iq2_xs", 20, KT__TYPE_IQ2_XS, 0},
    {"iq2_xxs", 19, KT__TYPE_IQ2_XXS, 0},
    {"iq1_m", 31, KT__TYPE_IQ1_M, 0},
    {"iq1_s", 24, KT__TYPE_IQ1_S, 0},
    {"tq2_0", 37, KT__TYPE_TQ2_0, 0},
    {"tq1_0", 36, KT__TYPE_TQ1_0, 0},
    {"nvfp4", 39, KT__TYPE_NVFP4, 0},
    {"q2_0", 41, KT__TYPE_Q2_0, 0},
    {"q1_0", 40, KT__TYPE_Q1_0, 0},
    {"ud_q2_k_xl", 10, KT__TYPE_Q2_K, 'U'},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

size_t kt__recipe_count(void) {
    return N_RECIPES;
}

const kt__recipe *kt__recipe_at(size_t index) {
    return &recipes[index];
}

const kt__recipe *kt__recipe_find(const char *name) {
    for (size_t i = 0; i < N_RECIPES; i++)
        if (kt__strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    return NULL;
}

/* Of two bits or fewer in a codebook. */
static bool is_tiny_grid(kt__type base) {
    return base == KT__TYPE_IQ2_S || base == KT__TYPE_IQ2_XS || base == KT__TYPE_IQ2_XXS ||
           base == KT__TYPE_IQ1_M || base == KT__TYPE_IQ1_S;
}

/* What a recipe of these takes where it needs a little more. */
static kt__type little_more(kt__type base) {
    if (base == KT__TYPE_IQ2_S || base == KT__TYPE_IQ3_XXS) return KT__TYPE_IQ3_S;
    return is_tiny_grid(base) ? KT__TYPE_Q2_K : base;
}

/* A mixture of many types, as unsloth publishes them under the name UD-Q2_K_XL. */
static kt__type ud_type(kt__tensor_role role, int layer, int n_layer, kt__type base) {
    bool border = layer < n_layer / 8 || layer >= 7 * n_layer / 8;
    switch (role) {
    case KT__TENSOR_EMBD: return KT__TYPE_Q4_K;
    case KT__TENSOR_V:
    case KT__TENSOR_QKV: return KT__TYPE_Q6_K;
    case KT__TENSOR_ATTN_OUT: return KT__TYPE_Q5_K;
    case KT__TENSOR_EXPERTS_DOWN:
    case KT__TENSOR_DOWN: return border ? KT__TYPE_IQ4_XS : KT__TYPE_IQ3_XXS;
    case KT__TENSOR_GATE:
    case KT__TENSOR_UP:
    case KT__TENSOR_EXPERTS_GATE:
    case KT__TENSOR_EXPERTS_UP: return border ? KT__TYPE_IQ3_S : KT__TYPE_IQ2_S;
    default: return base;
    }
}

/* The first and last eighth of the layers, and every third between. */
static bool use_more_bits(int i, int n) {
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static kt__type v_type(const kt__recipe *r, int layer, int n_layer, int n_group) {
    switch (r->base) {
    case KT__TYPE_Q4_K:
        if (r->mix == 'S') return layer < 4 ? KT__TYPE_Q5_K : r->base;
        return use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : r->base;
    case KT__TYPE_Q5_K:
        return r->mix == 'M' && use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : r->base;
    case KT__TYPE_Q2_K: return n_group >= 4 ? KT__TYPE_Q4_K : KT__TYPE_Q3_K;
    case KT__TYPE_Q3_K:
        if (r->mix == 'S') return r->base;
        return r->mix == 'L' || layer < 2 ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
    case KT__TYPE_IQ4_NL:
    case KT__TYPE_IQ4_XS: return n_group >= 4 ? KT__TYPE_Q5_K : r->base;
    default:
        if (little_more(r->base) == r->base && r->base != KT__TYPE_IQ3_S) return r->base;
        return n_group >= 4 ? KT__TYPE_Q4_K : little_more(r->base);
    }
}

static kt__type qkv_type(const kt__recipe *r) {
    if (r->mix == 'S') return r->base;
    switch (r->base) {
    case KT__TYPE_Q3_K: return r->mix == 'L' ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
    case KT__TYPE_Q4_K: return KT__TYPE_Q5_K;
    case KT__TYPE_Q5_K: return KT__TYPE_Q6_K;
    default: return r->base;
    }
}

static kt__type down_type(const kt__recipe *r, int layer, int n_layer) {
    switch (r->base) {
    case KT__TYPE_Q4_K:
        if (r->mix == 'S') return layer < n_layer / 8 ? KT__TYPE_Q5_K : r->base;
        return use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : r->base;
    case KT__TYPE_Q5_K:
        return r->mix == 'M' && use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : r->base;
    case KT__TYPE_Q2_K: return KT__TYPE_Q3_K;
    case KT__TYPE_Q3_K:
        if (r->mix == 'S') return r->base;
        return r->mix == 'L' || layer < n_layer / 16 ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
    case KT__TYPE_IQ4_NL:
    case KT__TYPE_IQ4_XS: return layer < n_layer / 8 ? KT__TYPE_Q5_K : r->base;
    default: return layer < n_layer / 8 ? little_more(r->base) : r->base;
    }
}

static kt__type attn_out_type(const kt__recipe *r) {
    if (r->base == KT__TYPE_Q2_K) return KT__TYPE_Q3_K;
    if (r->base != KT__TYPE_Q3_K || r->mix == 'S') return r->base;
    return r->mix == 'L' ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
}

static kt__type wanted_type(const kt__recipe *r, const kt__recipe_model *m, kt__tensor_role role,
                            int layer) {
    bool is_head = role == KT__TENSOR_OUTPUT || (role == KT__TENSOR_EMBD && m->tied);
    if (is_head) return r->base == KT__TYPE_Q8_0 ? r->base : KT__TYPE_Q6_K;
    if (r->mix == 'U') return ud_type(role, layer, m->n_layer, r->base);
    if (role == KT__TENSOR_EMBD) return little_more(r->base);
    bool of_experts = role >= KT__TENSOR_EXPERTS_GATE && role <= KT__TENSOR_EXPERTS_DOWN;
    if (of_experts && r->mix == 'E') return KT__TYPE_MXFP4;
    switch (role) {
    case KT__TENSOR_EXPERTS_DOWN:
    case KT__TENSOR_DOWN: return down_type(r, layer, m->n_layer);
    case KT__TENSOR_V: return v_type(r, layer, m->n_layer, m->n_head / m->n_head_kv);
    case KT__TENSOR_QKV: return qkv_type(r);
    case KT__TENSOR_ATTN_OUT: return attn_out_type(r);
    default: return r->base;
    }
}

/* What replaces a type whose blocks do not divide the row. */
static kt__type fallback_type(kt__type type) {
    switch (type) {
    case KT__TYPE_Q2_K:
    case KT__TYPE_Q3_K: return KT__TYPE_Q4_0;
    case KT__TYPE_Q4_K: return KT__TYPE_Q5_0;
    case KT__TYPE_Q5_K: return KT__TYPE_Q5_1;
    case KT__TYPE_Q6_K: return KT__TYPE_Q8_0;
    case KT__TYPE_IQ4_XS: return KT__TYPE_IQ4_NL;
    case KT__TYPE_MXFP4: return KT__TYPE_Q8_0;
    case KT__TYPE_F32:
    case KT__TYPE_F16:
    case KT__TYPE_BF16: return KT__TYPE_F16;
    default: return KT__TYPE_IQ4_NL; /* of codebooks, and with few levels */
    }
}

kt__type kt__recipe_type(const kt__recipe *recipe, const kt__recipe_model *model,
                         kt__tensor_role role, int layer, int64_t n_cols) {
    kt__type base = recipe->base;
    if (role == KT__TENSOR_VECTOR) return KT__TYPE_F32;
    if (base == KT__TYPE_F32 || base == KT__TYPE_F16 || base == KT__TYPE_BF16) return base;
    kt__type type = wanted_type(recipe, model, role, layer);
    if (n_cols % kt__type_get(type)->block_elems != 0) type = fallback_type(type);
    if (n_cols % kt__type_get(type)->block_elems != 0) type = KT__TYPE_F16;
    return type;
}
