/* Presets, the list of tensors with their statistics, and the metadata. Names and keys are those
 * that the converters of llama.cpp write for each architecture. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "base/nearest.h"
#include "cli/options.h"
#include "lab/synth.h"

static const kt__synth_preset presets[] = {
#define X(...) {__VA_ARGS__},
#include "lab/synth_presets.def"
#undef X
};

size_t kt__synth_n_presets(void) {
    return KT__COUNT(presets);
}

const kt__synth_preset *kt__synth_preset_at(size_t index) {
    return &presets[index];
}

static const kt__synth_preset *find_preset(const char *name) {
    for (size_t i = 0; i < KT__COUNT(presets); i++)
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}

static kt_status fail_unknown(const char *what, const char *name, const char *const *names,
                              size_t n, kt_error *err) {
    const char *near = kt__nearest_name(name, strlen(name), names, n);
    return kt__fail(err, KT_E_ARG, "no %s \"%.60s\"%s%s%s; `kentang synth --help` lists them", what,
                    name, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

kt_status kt__synth_find(const char *preset, const char *quant, const kt__synth_preset **out,
                         const kt__recipe **recipe, kt_error *err) {
    enum { MAX_NAMES = 256 };
    const char *names[MAX_NAMES];
    size_t n = 0;
    *out = find_preset(preset);
    *recipe = kt__recipe_find(quant);
    if (!*out) {
        for (; n < KT__COUNT(presets) && n < MAX_NAMES; n++) names[n] = presets[n].name;
        return fail_unknown("preset", preset, names, n, err);
    }
    for (; n < kt__recipe_count() && n < MAX_NAMES; n++) names[n] = kt__recipe_at(n)->name;
    return *recipe ? KT_OK : fail_unknown("quantisation recipe", quant, names, n, err);
}

/* ---- tensors ---- */

/* Statistics that keep activations sane: normed inputs have RMS 1, and a matrix of standard
 * deviation 1/sqrt(columns) keeps it. Queries and keys are larger, so that attention is not flat.
 * Embeddings are small beside what the layers add, or a tied head would only repeat the input; the
 * final norm makes up for it. */
#define LOGIT_STD 3.0f
#define QK_GAIN 1.4f

typedef struct planner {
    kt__synth_plan *plan;
    size_t cap;
    bool failed; /* no memory */
} planner;

static void add_tensor(planner *p, kt__synth_tensor t) {
    kt__synth_plan *plan = p->plan;
    if (plan->n_tensors == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        kt__synth_tensor *grown = kt__realloc_array(plan->tensors, p->cap, sizeof *grown);
        if (!grown) {
            p->failed = true;
            p->cap = plan->n_tensors;
            return;
        }
        plan->tensors = grown;
    }
    plan->n_params += (uint64_t)(t.n_cols * t.n_rows);
    plan->bytes += kt__type_row_bytes(t.type, t.n_cols) * (uint64_t)t.n_rows;
    plan->tensors[plan->n_tensors++] = t;
}

/* "blk.3.attn_q.weight"; layer -1: no prefix */
static void set_name(kt__synth_tensor *t, int layer, const char *name) {
    if (layer >= 0) {
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    } else {
        snprintf(t->name, sizeof t->name, "%s", name);
    }
}

static void add_vector(planner *p, int layer, const char *name, int64_t n, float mean, float std) {
    kt__synth_tensor t = {
        .type = KT__TYPE_F32, .n_dims = 1, .n_cols = n, .n_rows = 1, .mean = mean, .std = std};
    set_name(&t, layer, name);
    add_tensor(p, t);
}

static void add_norm(planner *p, int layer, const char *name, int64_t n, float mean) {
    add_vector(p, layer, name, n, mean, 0.1f * mean);
}

static void add_factors(planner *p, const char *name, kt__synth_content content) {
    const kt__synth_preset *ps = p->plan->preset;
    int n_rot = ps->n_rot ? ps->n_rot : ps->head_dim;
    kt__synth_tensor t = {
        .type = KT__TYPE_F32, .n_dims = 1, .n_cols = n_rot / 2, .n_rows = 1, .content = content};
    set_name(&t, -1, name);
    add_tensor(p, t);
}

static kt__type recipe_type(const kt__synth_plan *plan, kt__tensor_role role, int layer,
                            int64_t n_cols) {
    const kt__synth_preset *ps = plan->preset;
    const kt__recipe_model model = {ps->n_layer, ps->n_head, ps->n_head_kv, ps->tied};
    return kt__recipe_type(plan->recipe, &model, role, layer, n_cols);
}

/* gain: the RMS of the product's result for inputs of RMS 1 */
static void add_matrix(planner *p, kt__tensor_role role, int layer, const char *name,
                       int64_t n_cols, int64_t n_rows, float gain) {
    const kt__synth_plan *plan = p->plan;
    kt__synth_tensor t = {.type = recipe_type(plan, role, layer, n_cols),
                          .n_dims = 2,
                          .n_cols = n_cols,
                          .n_rows = n_rows,
                          .std = gain / sqrtf((float)n_cols)};
    set_name(&t, layer, name);
    add_tensor(p, t);
}

static bool is_ff_alone(const kt__synth_preset *ps, int i) {
    return ps->ff_layers >> i & 1;
}

static bool is_recurrent(const kt__synth_preset *ps, int i) {
    if (is_ff_alone(ps, i)) return false;
    if (ps->attention_layers) return !(ps->attention_layers >> i & 1);
    return ps->attention_every && (i + 1) % ps->attention_every != 0;
}

/* Channels' taps: the token's own counts as much as those before it. */
static void add_taps(planner *p, int i, const char *name, int64_t n_channels) {
    int width = p->plan->preset->conv_width;
    kt__synth_tensor t = {.type = KT__TYPE_F32,
                          .n_dims = 2,
                          .n_cols = width,
                          .n_rows = n_channels,
                          .std = 1.0f / sqrtf((float)width)};
    set_name(&t, i, name);
    add_tensor(p, t);
}

static void add_short_conv(planner *p, int i) {
    int64_t d = p->plan->preset->d_model;
    add_matrix(p, KT__TENSOR_QKV, i, "shortconv.in_proj.weight", d, 3 * d, 1.0f);
    add_taps(p, i, "shortconv.conv.weight", d);
    add_matrix(p, KT__TENSOR_ATTN_OUT, i, "shortconv.out_proj.weight", d, d, 1.0f);
}

/* Decays between a half and one, as trained ones are. */
static void add_delta_net(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, dim = ps->state_dim, inner = ps->n_state_value * dim;
    int64_t channels = 2 * ps->n_state_key * dim + inner;
    add_matrix(p, KT__TENSOR_QKV, i, "attn_qkv.weight", d, channels, 1.0f);
    add_matrix(p, KT__TENSOR_GATE, i, "attn_gate.weight", d, inner, 1.0f);
    if (ps->delta_grouped) {
        add_matrix(p, KT__TENSOR_VECTOR, i, "ssm_ba.weight", d, 2 * ps->n_state_value, 1.0f);
    } else {
        add_matrix(p, KT__TENSOR_VECTOR, i, "ssm_alpha.weight", d, ps->n_state_value, 1.0f);
        add_matrix(p, KT__TENSOR_VECTOR, i, "ssm_beta.weight", d, ps->n_state_value, 1.0f);
    }
    add_taps(p, i, "ssm_conv1d.weight", channels);
    add_vector(p, i, "ssm_a", ps->n_state_value, -0.5f, 0.1f);
    add_vector(p, i, "ssm_dt.bias", ps->n_state_value, -1.0f, 0.5f);
    add_norm(p, i, "ssm_norm.weight", dim, 1.0f);
    add_matrix(p, KT__TENSOR_ATTN_OUT, i, "ssm_out.weight", inner, d, 1.0f);
}

/* A table of f32 numbers. */
static void add_numbers(planner *p, int i, const char *name, int64_t n_cols, int64_t n_rows,
                        float mean, float std) {
    kt__synth_tensor t = {.type = KT__TYPE_F32,
                          .n_dims = 2,
                          .n_cols = n_cols,
                          .n_rows = n_rows,
                          .mean = mean,
                          .std = std};
    set_name(&t, i, name);
    add_tensor(p, t);
}

static void add_mamba(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, heads = ps->n_state_value, inner = heads * ps->state_rows;
    int64_t groups = ps->n_state_key, channels = inner + 2 * groups * ps->state_dim;
    add_matrix(p, KT__TENSOR_QKV, i, "ssm_in.weight", d, inner + channels + heads, 1.0f);
    add_taps(p, i, "ssm_conv1d.weight", channels);
    add_vector(p, i, "ssm_conv1d.bias", channels, 0.0f, 0.1f);
    add_vector(p, i, "ssm_dt.bias", heads, -1.0f, 0.5f);
    add_numbers(p, i, "ssm_a", 1, heads, -0.5f, 0.1f);
    add_numbers(p, i, "ssm_d", 1, heads, 1.0f, 0.2f);
    if (!ps->both) add_numbers(p, i, "ssm_norm.weight", inner / groups, groups, 1.0f, 0.1f);
    add_matrix(p, KT__TENSOR_ATTN_OUT, i, "ssm_out.weight", inner, d, ps->both ? 0.3f : 1.0f);
}

static void add_recurrent(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    if (ps->state_rows)
        add_mamba(p, i);
    else if (ps->attention_every)
        add_delta_net(p, i);
    else
        add_short_conv(p, i);
}

/* A matrix of each head. */
static void add_heads(planner *p, int i, const char *name, int64_t n_cols, int64_t n_rows) {
    int n_head = p->plan->preset->n_head;
    kt__synth_tensor t = {.type = recipe_type(p->plan, KT__TENSOR_K, i, n_cols),
                          .n_dims = 3,
                          .n_cols = n_cols,
                          .n_rows = n_rows * n_head,
                          .n_expert = n_head,
                          .std = 1.0f / sqrtf((float)n_cols)};
    set_name(&t, i, name);
    add_tensor(p, t);
}

static void add_latent(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, heads = ps->n_head, plain = ps->head_dim - ps->n_rot;
    if (ps->q_rank) {
        add_matrix(p, KT__TENSOR_Q, i, "attn_q_a.weight", d, ps->q_rank, 1.0f);
        add_norm(p, i, "attn_q_a_norm.weight", ps->q_rank, 1.0f);
        add_matrix(p, KT__TENSOR_Q, i, "attn_q_b.weight", ps->q_rank, heads * ps->head_dim,
                   QK_GAIN);
    } else {
        add_matrix(p, KT__TENSOR_Q, i, "attn_q.weight", d, heads * ps->head_dim, QK_GAIN);
    }
    add_matrix(p, KT__TENSOR_K, i, "attn_kv_a_mqa.weight", d, ps->kv_rank + ps->n_rot, 1.0f);
    add_norm(p, i, "attn_kv_a_norm.weight", ps->kv_rank, 1.0f);
    add_heads(p, i, "attn_k_b.weight", plain, ps->kv_rank);
    add_heads(p, i, "attn_v_b.weight", ps->kv_rank, ps->head_dim_v);
    add_matrix(p, KT__TENSOR_ATTN_OUT, i, "attn_output.weight", heads * ps->head_dim_v, d, 1.0f);
}

static void add_attention(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, q = (int64_t)ps->n_head * ps->head_dim,
            kv = (int64_t)ps->n_head_kv * ps->head_dim;
    float qk_gain = ps->qk_norm || ps->qk_norm_rows ? 1.0f : QK_GAIN;
    if (!ps->no_pre_norm) add_norm(p, i, "attn_norm.weight", d, 1.0f);
    if (ps->kv_rank) add_latent(p, i);
    if (is_ff_alone(ps, i) || ps->kv_rank) return;
    if (ps->both || is_recurrent(ps, i)) add_recurrent(p, i);
    if (is_recurrent(ps, i)) return;
    if (ps->attention_every) q *= 2; /* with gates */
    if (ps->fused) {
        add_matrix(p, KT__TENSOR_QKV, i, "attn_qkv.weight", d, q + 2 * kv, 1.2f);
    } else {
        add_matrix(p, KT__TENSOR_Q, i, "attn_q.weight", d, q, qk_gain);
        add_matrix(p, KT__TENSOR_K, i, "attn_k.weight", d, kv, qk_gain);
        add_matrix(p, KT__TENSOR_V, i, "attn_v.weight", d, kv, 1.0f);
    }
    if (ps->attention_every) q /= 2;
    if (ps->qkv_bias) {
        add_vector(p, i, "attn_q.bias", q, 0.0f, 0.5f);
        add_vector(p, i, "attn_k.bias", kv, 0.0f, 0.5f);
        add_vector(p, i, "attn_v.bias", kv, 0.0f, 0.1f);
    }
    if (ps->qk_norm) {
        add_norm(p, i, "attn_q_norm.weight", ps->head_dim, QK_GAIN);
        add_norm(p, i, "attn_k_norm.weight", ps->head_dim, QK_GAIN);
    }
    if (ps->qk_norm_rows) {
        add_norm(p, i, "attn_q_norm.weight", q, QK_GAIN);
        add_norm(p, i, "attn_k_norm.weight", kv, QK_GAIN);
    }
    add_matrix(p, KT__TENSOR_ATTN_OUT, i, "attn_output.weight", q, d, 1.0f);
    if (ps->out_bias) add_vector(p, i, "attn_output.bias", d, 0.0f, 0.2f);
    if (ps->oai) add_vector(p, i, "attn_sinks.weight", ps->n_head, 1.0f, 1.0f);
    if (ps->post_norm) add_norm(p, i, "post_attention_norm.weight", d, 1.0f);
}

/* One matrix for each expert. */
static void add_matrices(planner *p, kt__tensor_role role, int layer, const char *name,
                         int64_t n_cols, int64_t n_rows, float gain) {
    int n_expert = p->plan->preset->n_expert;
    kt__synth_tensor t = {.type = recipe_type(p->plan, role, layer, n_cols),
                          .n_dims = 3,
                          .n_cols = n_cols,
                          .n_rows = n_rows * n_expert,
                          .n_expert = n_expert,
                          .std = gain / sqrtf((float)n_cols)};
    set_name(&t, layer, name);
    add_tensor(p, t);
}

/* One vector for each expert. */
static void add_biases(planner *p, int layer, const char *name, int64_t n) {
    kt__synth_tensor t = {.type = KT__TYPE_F32,
                          .n_dims = 2,
                          .n_cols = n,
                          .n_rows = p->plan->preset->n_expert,
                          .std = 0.2f};
    set_name(&t, layer, name);
    add_tensor(p, t);
}

/* Choices that tell experts apart: the softmax of logits as wide as this is far from flat. */
#define ROUTER_GAIN 2.0f

/* A name of NULL: there is none. */
static const char *ff_norm(const kt__synth_preset *ps) {
    if (ps->ff_layers) return NULL;
    if (ps->both) return "ffn_norm";
    return ps->oai || ps->attention_every ? "post_attention_norm.weight" : "ffn_norm.weight";
}

static void add_experts(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, ff = ps->ff_expert, shared = ps->ff_shared;
    if (ff_norm(ps)) add_norm(p, i, ff_norm(ps), d, 1.0f);
    add_matrix(p, KT__TENSOR_VECTOR, i, "ffn_gate_inp.weight", d, ps->n_expert, ROUTER_GAIN);
    if (ps->pick_bias) add_vector(p, i, "exp_probs_b.bias", ps->n_expert, 0.0f, 0.1f);
    if (!ps->relu2)
        add_matrices(p, KT__TENSOR_EXPERTS_GATE, i, "ffn_gate_exps.weight", d, ff, 1.0f);
    add_matrices(p, KT__TENSOR_EXPERTS_UP, i, "ffn_up_exps.weight", d, ff, 1.0f);
    add_matrices(p, KT__TENSOR_EXPERTS_DOWN, i, "ffn_down_exps.weight", ff, d, 1.0f);
    if (ps->oai) {
        add_vector(p, i, "ffn_gate_inp.bias", ps->n_expert, 0.0f, 0.5f);
        add_biases(p, i, "ffn_gate_exps.bias", ff);
        add_biases(p, i, "ffn_up_exps.bias", ff);
        add_biases(p, i, "ffn_down_exps.bias", d);
    }
    if (!shared) return;
    if (!ps->shared_whole)
        add_vector(p, i, "ffn_gate_inp_shexp.weight", d, 0.0f, 1.0f / sqrtf((float)d));
    if (!ps->relu2) add_matrix(p, KT__TENSOR_GATE, i, "ffn_gate_shexp.weight", d, shared, 1.0f);
    add_matrix(p, KT__TENSOR_UP, i, "ffn_up_shexp.weight", d, shared, 1.0f);
    add_matrix(p, KT__TENSOR_DOWN, i, "ffn_down_shexp.weight", shared, d, 1.0f);
}

static void add_feed_forward(planner *p, int i) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model, ff = ps->d_ff;
    bool fused = (ps->fused && !ps->layer_norms) || ps->fused_glu;
    if (!ps->no_pre_norm && !ps->parallel && ff_norm(ps)) add_norm(p, i, ff_norm(ps), d, 1.0f);
    if (!fused && !ps->plain_ff && !ps->relu2)
        add_matrix(p, KT__TENSOR_GATE, i, "ffn_gate.weight", d, ff, 1.0f);
    add_matrix(p, KT__TENSOR_UP, i, "ffn_up.weight", d, fused ? 2 * ff : ff, 1.0f);
    add_matrix(p, KT__TENSOR_DOWN, i, "ffn_down.weight", ff, d, 1.0f);
    if (ps->out_bias) {
        if (!ps->plain_ff) add_vector(p, i, "ffn_gate.bias", ff, 0.0f, 0.3f);
        add_vector(p, i, "ffn_up.bias", ff, 0.0f, 0.3f);
        add_vector(p, i, "ffn_down.bias", d, 0.0f, 0.2f);
    }
    if (ps->post_norm) add_norm(p, i, "post_ffw_norm.weight", d, 1.0f);
}

static void add_layer_norm(planner *p, int layer, const char *name) {
    char full[40];
    int64_t d = p->plan->preset->d_model;
    snprintf(full, sizeof full, "%s.weight", name);
    add_norm(p, layer, full, d, 1.0f);
    snprintf(full, sizeof full, "%s.bias", name);
    add_vector(p, layer, full, d, 0.0f, 0.1f);
}

/* A table that no recipe quantises. */
static void add_table(planner *p, const char *name, int64_t n_rows) {
    const kt__synth_preset *ps = p->plan->preset;
    kt__synth_tensor t = {.type = KT__TYPE_F32,
                          .n_dims = 2,
                          .n_cols = ps->d_model,
                          .n_rows = n_rows,
                          .std = 0.5f / sqrtf((float)ps->d_model)};
    set_name(&t, -1, name);
    add_tensor(p, t);
}

static void add_input_tables(planner *p) {
    const kt__synth_preset *ps = p->plan->preset;
    if (ps->positions) add_table(p, "position_embd.weight", ps->n_ctx);
    if (ps->layer_norms) add_table(p, "token_types.weight", 2);
    if (ps->layer_norms) add_layer_norm(p, -1, "token_embd_norm");
}

/* What stands behind the pooled state. */
static void add_pool_head(planner *p) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model;
    if (ps->dense) {
        add_matrix(p, KT__TENSOR_UP, -1, "dense_2.weight", d, 4 * d, 1.0f);
        add_matrix(p, KT__TENSOR_UP, -1, "dense_3.weight", 4 * d, d, 1.0f);
    }
    if (!ps->n_labels) return;
    if (ps->layer_norms) {
        add_matrix(p, KT__TENSOR_UP, -1, "cls.weight", d, d, 1.0f);
        add_vector(p, -1, "cls.bias", d, 0.0f, 0.1f);
    }
    add_matrix(p, KT__TENSOR_UP, -1, "cls.output.weight", d, ps->n_labels, LOGIT_STD);
    if (ps->layer_norms) add_vector(p, -1, "cls.output.bias", ps->n_labels, 0.0f, 0.1f);
}

static void add_all(planner *p) {
    const kt__synth_preset *ps = p->plan->preset;
    float embed_gain = ps->embed_scale ? 0.25f : 1.0f;
    add_matrix(p, KT__TENSOR_EMBD, -1, "token_embd.weight", ps->d_model, p->plan->n_vocab,
               embed_gain);
    if (ps->llama3_factor) add_factors(p, "rope_freqs.weight", KT__CONTENT_LLAMA3_FREQS);
    if (ps->longrope) {
        add_factors(p, "rope_factors_long.weight", KT__CONTENT_LONG_FACTORS);
        add_factors(p, "rope_factors_short.weight", KT__CONTENT_SHORT_FACTORS);
    }
    add_input_tables(p);
    for (int i = 0; i < ps->n_layer; i++) {
        add_attention(p, i);
        if (ps->layer_norms) add_layer_norm(p, i, "attn_output_norm");
        if (ps->ff_layers && !is_ff_alone(ps, i)) continue;
        if (ps->n_expert && i >= ps->dense_lead)
            add_experts(p, i);
        else
            add_feed_forward(p, i);
        if (ps->layer_norms) add_layer_norm(p, i, "layer_output_norm");
    }
    add_pool_head(p);
    if (ps->layer_norms) return; /* and no head */
    bool lfm2 = ps->attention_layers && !ps->state_rows;
    add_norm(p, -1, lfm2 ? "token_embd_norm.weight" : "output_norm.weight", ps->d_model,
             ps->tied ? LOGIT_STD / embed_gain : 1.0f);
    if (!ps->tied)
        add_matrix(p, KT__TENSOR_OUTPUT, -1, "output.weight", ps->d_model, p->plan->n_vocab,
                   LOGIT_STD);
    if (ps->head_bias) add_vector(p, -1, "output.bias", p->plan->n_vocab, 0.0f, 0.5f);
}

kt_status kt__synth_plan_make(const kt__synth_preset *preset, const kt__recipe *recipe,
                              uint64_t seed, int n_vocab, kt__synth_plan *out, kt_error *err) {
    *out = (kt__synth_plan){.preset = preset,
                            .recipe = recipe,
                            .seed = seed,
                            .n_vocab = n_vocab ? n_vocab : preset->n_vocab};
    planner p = {.plan = out};
    add_all(&p);
    return p.failed ? kt__fail_nomem(err, "a model's plan", p.cap * sizeof *out->tensors) : KT_OK;
}

void kt__synth_plan_free(kt__synth_plan *plan) {
    kt__free(plan->tensors);
    *plan = (kt__synth_plan){0};
}

/* ---- metadata ---- */

typedef struct keys {
    kt__gguf_writer *w;
    const char *arch;
    char key[96];
} keys;

static const char *key(keys *k, const char *suffix) {
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, suffix);
    return k->key;
}

static void put_u32(keys *k, const char *suffix, int value) {
    kt__gguf_put_u32(k->w, key(k, suffix), (uint32_t)value);
}

static void put_f32(keys *k, const char *suffix, float value) {
    kt__gguf_put_f32(k->w, key(k, suffix), value);
}

static void put_general(const kt__synth_plan *plan, kt__gguf_writer *w) {
    char name[96];
    snprintf(name, sizeof name, "%s (synthetic, seed %llu)", plan->preset->name,
             (unsigned long long)plan->seed);
    kt__gguf_put_str(w, "general.architecture", plan->preset->arch);
    kt__gguf_put_str(w, "general.type", "model");
    kt__gguf_put_str(w, "general.name", name);
    kt__gguf_put_str(w, "general.description",
                     "random weights in a real model's geometry, for tests and benchmarks");
    kt__gguf_put_u32(w, "general.file_type", plan->recipe->file_type);
    kt__gguf_put_u32(w, "general.quantization_version", 2);
}

static void put_rope(keys *k, const kt__synth_preset *ps) {
    bool is_llama = strcmp(ps->arch, "llama") == 0;
    if (ps->rope_base > 0) put_f32(k, "rope.freq_base", ps->rope_base);
    if (ps->nope) kt__gguf_put_bool(k->w, key(k, "rope.scaling.finetuned"), false);
    if (ps->rope_alpha > 0) put_f32(k, "rope.scaling.alpha", ps->rope_alpha);
    if (is_llama || ps->fused || ps->n_rot)
        put_u32(k, "rope.dimension_count", ps->n_rot ? ps->n_rot : ps->head_dim);
    if (ps->linear_factor) {
        kt__gguf_put_str(k->w, key(k, "rope.scaling.type"), "linear");
        put_f32(k, "rope.scaling.factor", (float)ps->linear_factor);
    }
    if (ps->yarn_factor) {
        kt__gguf_put_str(k->w, key(k, "rope.scaling.type"), "yarn");
        put_f32(k, "rope.scaling.factor", (float)ps->yarn_factor);
        put_u32(k, "rope.scaling.original_context_length", ps->orig_ctx);
    }
    if (ps->temperature > 0) {
        put_f32(k, "rope.scaling.yarn_log_multiplier", 1.0f);
        put_f32(k, "attention.temperature_scale", ps->temperature);
    }
    if (ps->longrope) { /* LongRoPE (Ding et al. 2024) scales attention by sqrt(1 + ln s / ln L) */
        double log_scale = kt__log((double)ps->n_ctx / ps->orig_ctx);
        put_u32(k, "rope.scaling.original_context_length", ps->orig_ctx);
        put_f32(k, "rope.scaling.attn_factor",
                (float)sqrt(1.0 + log_scale / kt__log(ps->orig_ctx)));
    }
}

static void put_scales(keys *k, const kt__synth_preset *ps) {
    if (ps->embedding_scale > 0) put_f32(k, "embedding_scale", ps->embedding_scale);
    if (ps->residual_scale > 0) put_f32(k, "residual_scale", ps->residual_scale);
    if (ps->attention_scale > 0) put_f32(k, "attention.scale", ps->attention_scale);
    if (ps->logit_scale > 0) put_f32(k, "logit_scale", ps->logit_scale);
}

static void put_experts(keys *k, const kt__synth_preset *ps) {
    if (!ps->n_expert) return;
    put_u32(k, "expert_count", ps->n_expert);
    put_u32(k, "expert_used_count", ps->n_expert_used);
    if (ps->ff_expert != ps->d_ff || ps->oai || ps->ff_layers)
        put_u32(k, "expert_feed_forward_length", ps->ff_expert);
    if (ps->ff_shared) put_u32(k, "expert_shared_feed_forward_length", ps->ff_shared);
    if (ps->ff_shared && ps->shared_whole)
        put_u32(k, "expert_shared_count", (ps->ff_shared + ps->ff_expert - 1) / ps->ff_expert);
    if (ps->gating) put_u32(k, "expert_gating_func", ps->gating);
    if (ps->dense_lead) put_u32(k, "leading_dense_block_count", ps->dense_lead);
    if (ps->shares_normed) kt__gguf_put_bool(k->w, key(k, "expert_weights_norm"), true);
    if (ps->expert_scale > 0) put_f32(k, "expert_weights_scale", ps->expert_scale);
    if (strcmp(ps->arch, "ernie4_5-moe") == 0) put_u32(k, "interleave_moe_layer_step", 1);
}

static void put_states(keys *k, const kt__synth_preset *ps, int n_row) {
    put_u32(k, "ssm.conv_kernel", ps->conv_width);
    put_u32(k, "ssm.state_size", ps->state_dim);
    put_u32(k, "ssm.group_count", ps->n_state_key);
    put_u32(k, "ssm.time_step_rank", ps->n_state_value);
    put_u32(k, "ssm.inner_size", ps->n_state_value * n_row);
}

static void put_latent(keys *k, const kt__synth_preset *ps) {
    if (ps->q_rank) put_u32(k, "attention.q_lora_rank", ps->q_rank);
    put_u32(k, "attention.kv_lora_rank", ps->kv_rank);
    put_u32(k, "attention.key_length", ps->kv_rank + ps->n_rot);
    put_u32(k, "attention.value_length", ps->kv_rank);
    put_u32(k, "attention.key_length_mla", ps->head_dim);
    put_u32(k, "attention.value_length_mla", ps->head_dim_v);
    if (ps->yarn_factor) put_f32(k, "rope.scaling.yarn_log_multiplier", 0.0707f);
}

static void put_ff_widths(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64 };
    int32_t n_ff[MAX_LAYER];
    for (int i = 0; i < ps->n_layer && i < MAX_LAYER; i++)
        n_ff[i] = is_ff_alone(ps, i) ? ps->d_ff : 0;
    if (ps->ff_layers) {
        kt__gguf_put_i32s(k->w, key(k, "feed_forward_length"), n_ff, (uint64_t)ps->n_layer);
    } else {
        put_u32(k, "feed_forward_length", ps->d_ff);
    }
}

/* Heads of keys, and what recurrent layers have. */
static void put_recurrent(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64 }; /* a bit each */
    int32_t n_kv[MAX_LAYER];
    for (int i = 0; i < ps->n_layer && i < MAX_LAYER; i++)
        n_kv[i] = is_recurrent(ps, i) || is_ff_alone(ps, i) ? 0 : ps->n_head_kv;
    if (ps->attention_layers) {
        kt__gguf_put_i32s(k->w, key(k, "attention.head_count_kv"), n_kv, (uint64_t)ps->n_layer);
    } else {
        put_u32(k, "attention.head_count_kv", ps->n_head_kv);
    }
    if (ps->state_rows) put_states(k, ps, ps->state_rows);
    if (ps->attention_layers && !ps->state_rows) put_u32(k, "shortconv.l_cache", ps->conv_width);
    if (!ps->attention_every) return;
    int half = ps->n_rot / 2;
    const int32_t sections[] = {(half + 2) / 3, (half + 1) / 3, half / 3, 0};
    kt__gguf_put_i32s(k->w, key(k, "rope.dimension_sections"), sections, 4);
    put_states(k, ps, ps->state_dim);
    put_u32(k, "full_attention_interval", ps->attention_every);
}

void kt__synth_put_meta(const kt__synth_plan *plan, kt__gguf_writer *w) {
    const kt__synth_preset *ps = plan->preset;
    keys k = {.w = w, .arch = ps->arch};
    put_general(plan, w);
    put_u32(&k, "block_count", ps->n_layer);
    put_u32(&k, "context_length", ps->n_ctx);
    put_u32(&k, "embedding_length", ps->d_model);
    put_ff_widths(&k, ps);
    put_u32(&k, "attention.head_count", ps->n_head);
    put_recurrent(&k, ps);
    put_f32(&k,
            ps->layer_norm || ps->layer_norms ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon",
            ps->eps);
    if (ps->ff_layers) put_f32(&k, "attention.layer_norm_epsilon", ps->eps); /* besides */
    if (ps->kv_rank) put_latent(&k, ps);
    if (ps->head_keys) {
        put_u32(&k, "attention.key_length", ps->head_dim);
        put_u32(&k, "attention.value_length", ps->head_dim);
    }
    put_rope(&k, ps);
    put_experts(&k, ps);
    if (ps->window) put_u32(&k, "attention.sliding_window", ps->window);
    if (ps->layer_norms || ps->dense) kt__gguf_put_bool(w, key(&k, "attention.causal"), false);
    if (ps->pooling) put_u32(&k, "pooling_type", ps->pooling);
    if (ps->dense) {
        put_u32(&k, "dense_2_feat_in", ps->d_model);
        put_u32(&k, "dense_2_feat_out", 4 * ps->d_model);
        put_u32(&k, "dense_3_feat_in", 4 * ps->d_model);
        put_u32(&k, "dense_3_feat_out", ps->d_model);
    }
    put_scales(&k, ps);
    if (ps->attn_cap > 0) put_f32(&k, "attn_logit_softcapping", ps->attn_cap);
    if (ps->final_cap > 0) put_f32(&k, "final_logit_softcapping", ps->final_cap);
    if (strcmp(ps->arch, "llama") == 0) put_u32(&k, "vocab_size", plan->n_vocab);
}
