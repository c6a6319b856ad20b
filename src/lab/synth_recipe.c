/* Which tensor gets which type: llama.cpp's published mixtures, from kernels.md's facts and the
 * files that exist. (A fused attn_qkv of Q4_K_M is Q5_K, as in the published Phi-3 files.) */
#include <string.h>
#include <strings.h>

#include "cli/options.h"
#include "lab/synth.h"

static const kt__synth_recipe recipes[] = {
    {"q4_k_m", 15, KT__TYPE_Q4_K}, {"q8_0", 7, KT__TYPE_Q8_0},      {"q4_0", 2, KT__TYPE_Q4_0},
    {"q4_1", 3, KT__TYPE_Q4_1},    {"q5_0", 8, KT__TYPE_Q5_0},      {"q5_1", 9, KT__TYPE_Q5_1},
    {"q2_k", 10, KT__TYPE_Q2_K},   {"q3_k_m", 12, KT__TYPE_Q3_K},   {"q5_k_m", 17, KT__TYPE_Q5_K},
    {"q6_k", 18, KT__TYPE_Q6_K},   {"iq4_nl", 25, KT__TYPE_IQ4_NL}, {"iq4_xs", 30, KT__TYPE_IQ4_XS},
    {"f32", 0, KT__TYPE_F32},      {"f16", 1, KT__TYPE_F16},        {"bf16", 32, KT__TYPE_BF16},
};

size_t kt__synth_n_recipes(void) {
    return KT__COUNT(recipes);
}

const kt__synth_recipe *kt__synth_recipe_at(size_t index) {
    return &recipes[index];
}

const kt__synth_recipe *kt__synth_recipe_find(const char *name) {
    for (size_t i = 0; i < KT__COUNT(recipes); i++)
        if (strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    return NULL;
}

/* The first and last eighth of the layers, and every third between. */
static bool use_more_bits(int i, int n) {
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static kt__type v_type(kt__type base, int layer, int n_layer, int n_group) {
    switch (base) {
    case KT__TYPE_Q4_K:
    case KT__TYPE_Q5_K: return use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : base;
    case KT__TYPE_Q2_K: return n_group >= 4 ? KT__TYPE_Q4_K : KT__TYPE_Q3_K;
    case KT__TYPE_Q3_K: return layer < 2 ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
    case KT__TYPE_IQ4_NL:
    case KT__TYPE_IQ4_XS: return n_group >= 4 ? KT__TYPE_Q5_K : base;
    default: return base;
    }
}

static kt__type qkv_type(kt__type base) {
    switch (base) {
    case KT__TYPE_Q3_K: return KT__TYPE_Q4_K;
    case KT__TYPE_Q4_K: return KT__TYPE_Q5_K;
    case KT__TYPE_Q5_K: return KT__TYPE_Q6_K;
    default: return base;
    }
}

static kt__type down_type(kt__type base, int layer, int n_layer) {
    switch (base) {
    case KT__TYPE_Q4_K:
    case KT__TYPE_Q5_K: return use_more_bits(layer, n_layer) ? KT__TYPE_Q6_K : base;
    case KT__TYPE_Q2_K: return KT__TYPE_Q3_K;
    case KT__TYPE_Q3_K: return layer < n_layer / 16 ? KT__TYPE_Q5_K : KT__TYPE_Q4_K;
    case KT__TYPE_IQ4_NL:
    case KT__TYPE_IQ4_XS: return layer < n_layer / 8 ? KT__TYPE_Q5_K : base;
    default: return base;
    }
}

static kt__type attn_out_type(kt__type base) {
    if (base == KT__TYPE_Q2_K) return KT__TYPE_Q3_K;
    return base == KT__TYPE_Q3_K ? KT__TYPE_Q4_K : base;
}

static kt__type wanted_type(kt__type base, const kt__synth_preset *p, kt__synth_role role,
                            int layer) {
    bool is_head = role == KT__ROLE_OUTPUT || (role == KT__ROLE_EMBD && p->tied);
    if (is_head) return base == KT__TYPE_Q8_0 ? base : KT__TYPE_Q6_K;
    switch (role) {
    case KT__ROLE_V: return v_type(base, layer, p->n_layer, p->n_head / p->n_head_kv);
    case KT__ROLE_QKV: return qkv_type(base);
    case KT__ROLE_DOWN: return down_type(base, layer, p->n_layer);
    case KT__ROLE_ATTN_OUT: return attn_out_type(base);
    default: return base;
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
    default: return KT__TYPE_F16;
    }
}

kt__type kt__synth_type(const kt__synth_recipe *recipe, const kt__synth_preset *preset,
                        kt__synth_role role, int layer, int64_t n_cols) {
    kt__type base = recipe->base;
    if (role == KT__ROLE_VECTOR) return KT__TYPE_F32;
    if (base == KT__TYPE_F32 || base == KT__TYPE_F16 || base == KT__TYPE_BF16) return base;
    kt__type type = wanted_type(base, preset, role, layer);
    if (n_cols % kt__type_get(type)->block_elems != 0) type = fallback_type(type);
    if (n_cols % kt__type_get(type)->block_elems != 0) type = KT__TYPE_F16;
    return type;
}
