/* Which tensor gets which type: llama.cpp's published mixtures, as found in published files. (A
 * fused attn_qkv of Q4_K_M is Q5_K, as in the published Phi-3 files.) */
#include "quant/recipe.h"

#include <strings.h>

static const kt__recipe recipes[] = {
    {"q4_k_m", 15, KT__TYPE_Q4_K, 'M'}, {"q8_0", 7, KT__TYPE_Q8_0, 0},
    {"q4_0", 2, KT__TYPE_Q4_0, 0},      {"q4_1", 3, KT__TYPE_Q4_1, 0},
    {"q5_0", 8, KT__TYPE_Q5_0, 0},      {"q5_1", 9, KT__TYPE_Q5_1, 0},
    {"q2_k", 10, KT__TYPE_Q2_K, 0},     {"q3_k_s", 11, KT__TYPE_Q3_K, 'S'},
    {"q3_k_m", 12, KT__TYPE_Q3_K, 'M'}, {"q3_k_l", 13, KT__TYPE_Q3_K, 'L'},
    {"q4_k_s", 14, KT__TYPE_Q4_K, 'S'}, {"q5_k_s", 16, KT__TYPE_Q5_K, 'S'},
    {"q5_k_m", 17, KT__TYPE_Q5_K, 'M'}, {"q6_k", 18, KT__TYPE_Q6_K, 0},
    {"iq4_nl", 25, KT__TYPE_IQ4_NL, 0}, {"iq4_xs", 30, KT__TYPE_IQ4_XS, 0},
    {"f32", 0, KT__TYPE_F32, 0},        {"f16", 1, KT__TYPE_F16, 0},
    {"bf16", 32, KT__TYPE_BF16, 0},     {"mxfp4_moe", 38, KT__TYPE_Q8_0, 'E'},
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
        if (strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    return NULL;
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
    default: return r->base;
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
    default: return r->base;
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
    default: return KT__TYPE_F16;
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
