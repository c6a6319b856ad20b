/* Presets, their metadata, and the list of tensors with their statistics. A preset's numbers become
 * the keys that the converters of llama.cpp write; what a model reads in them says, by
 * model/weights.def, which tensors it has. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "model/net.h"
#include "synth/synth.h"
#include "term/options.h"

static const kt__synth_preset presets[] = {
#define X(...) {__VA_ARGS__},
#include "synth/synth_presets.def"
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
 * Embeddings are small compared with what the layers add, or a tied head would only repeat the input; the
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

static void add_vector(planner *p, const char *name, int64_t n, float mean, float std) {
    kt__synth_tensor t = {
        .type = KT__TYPE_F32, .n_dims = 1, .n_cols = n, .n_rows = 1, .mean = mean, .std = std};
    set_name(&t, -1, name);
    add_tensor(p, t);
}

static void add_norm(planner *p, const char *name, int64_t n, float mean) {
    add_vector(p, name, n, mean, 0.1f * mean);
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
static void add_matrix(planner *p, kt__tensor_role role, const char *name, int64_t n_cols,
                       int64_t n_rows, float gain) {
    const kt__synth_plan *plan = p->plan;
    kt__synth_tensor t = {.type = recipe_type(plan, role, -1, n_cols),
                          .n_dims = 2,
                          .n_cols = n_cols,
                          .n_rows = n_rows,
                          .std = gain / sqrtf((float)n_cols)};
    set_name(&t, -1, name);
    add_tensor(p, t);
}

/* ---- tensors of a layer ---- */

/* Choices that tell experts apart: the softmax of logits as wide as this is far from flat. */
#define ROUTER_GAIN 2.0f

/* What a slot's random numbers are: of a matrix, by the RMS of its product's result for inputs of
 * RMS 1 (gain); of others, around a mean. */
typedef struct slot_stats {
    float gain, mean, std;
} slot_stats;

/* Else a matrix has the gain 1, and f32 values are a norm around 1. */
static const slot_stats known_stats[KT__SLOT_COUNT] = {
    [KT__SLOT_ATTN_Q] = {.gain = QK_GAIN},
    [KT__SLOT_ATTN_Q_GATE] = {.gain = QK_GAIN},
    [KT__SLOT_ATTN_K] = {.gain = QK_GAIN},
    [KT__SLOT_LATENT_Q] = {.gain = QK_GAIN},
    [KT__SLOT_LATENT_Q_B] = {.gain = QK_GAIN},
    [KT__SLOT_ATTN_QKV] = {.gain = 1.2f},
    [KT__SLOT_ROUTER] = {.gain = ROUTER_GAIN},
    [KT__SLOT_MTP_END] = {.mean = LOGIT_STD, .std = 0.1f * LOGIT_STD},
    [KT__SLOT_MTP_HEAD] = {.gain = 1.0f},
    [KT__SLOT_SHARED_SHARE] = {.gain = 1.0f},
    /* the token's own tap counts as much as those before it */
    [KT__SLOT_CONV_TAPS] = {.gain = 1.0f},
    [KT__SLOT_DELTA_TAPS] = {.gain = 1.0f},
    [KT__SLOT_MAMBA_TAPS] = {.gain = 1.0f},
    [KT__SLOT_ATTN_Q_NORM] = {.mean = QK_GAIN, .std = 0.1f * QK_GAIN},
    [KT__SLOT_ATTN_K_NORM] = {.mean = QK_GAIN, .std = 0.1f * QK_GAIN},
    [KT__SLOT_ATTN_Q_NORM_ROW] = {.mean = QK_GAIN, .std = 0.1f * QK_GAIN},
    [KT__SLOT_ATTN_K_NORM_ROW] = {.mean = QK_GAIN, .std = 0.1f * QK_GAIN},
    [KT__SLOT_ATTN_Q_BIAS] = {.std = 0.5f},
    [KT__SLOT_ATTN_K_BIAS] = {.std = 0.5f},
    [KT__SLOT_ATTN_V_BIAS] = {.std = 0.1f},
    [KT__SLOT_ATTN_QKV_BIAS] = {.std = 0.1f},
    [KT__SLOT_ATTN_OUT_BIAS] = {.std = 0.2f},
    [KT__SLOT_ATTN_SINKS] = {.mean = 1.0f, .std = 1.0f},
    [KT__SLOT_ATTN_OUT_NORM_BIAS] = {.std = 0.1f},
    [KT__SLOT_LAYER_OUT_NORM_BIAS] = {.std = 0.1f},
    [KT__SLOT_FFN_GATE_BIAS] = {.std = 0.3f},
    [KT__SLOT_FFN_UP_BIAS] = {.std = 0.3f},
    [KT__SLOT_FFN_GATE_UP_BIAS] = {.std = 0.3f},
    [KT__SLOT_FFN_DOWN_BIAS] = {.std = 0.2f},
    [KT__SLOT_PICK_BIAS] = {.std = 0.1f},
    [KT__SLOT_ROUTER_SCALE] = {.mean = 30.0f, .std = 3.0f}, /* it is divided by sqrt(d_model) */
    [KT__SLOT_STREAM_PREDICT] = {.std = 0.03f},
    [KT__SLOT_STREAM_CORRECT] = {.std = 0.1f},
    [KT__SLOT_LOW_END] = {.mean = 0.5f, .std = 0.05f},
    [KT__SLOT_INPUT_END] = {.mean = 0.3f, .std = 0.03f}, /* less than the layer's blocks add */
    [KT__SLOT_DOWN_SCALE] = {.mean = 1.0f, .std = 0.3f},
    [KT__SLOT_OUT_SCALE] = {.mean = 0.8f, .std = 0.1f},
    [KT__SLOT_ROUTER_BIAS] = {.std = 0.5f},
    [KT__SLOT_GATE_EXPS_BIAS] = {.std = 0.2f},
    [KT__SLOT_UP_EXPS_BIAS] = {.std = 0.2f},
    [KT__SLOT_DOWN_EXPS_BIAS] = {.std = 0.2f},
    /* decays between a half and one, as trained ones are */
    [KT__SLOT_SCAN_TAPS] = {.gain = 1.0f},
    [KT__SLOT_SCAN_TAPS_BIAS] = {.std = 0.1f},
    [KT__SLOT_SCAN_DT_BIAS] = {.mean = -1.0f, .std = 0.5f},
    [KT__SLOT_SCAN_A] = {.mean = -1.0f, .std = 0.3f},
    [KT__SLOT_SCAN_D] = {.mean = 1.0f, .std = 0.2f},
    [KT__SLOT_DELTA_A] = {.mean = -0.5f, .std = 0.1f},
    [KT__SLOT_DELTA_DT] = {.mean = -1.0f, .std = 0.5f},
    [KT__SLOT_MAMBA_A] = {.mean = -0.5f, .std = 0.1f},
    [KT__SLOT_MAMBA_DT] = {.mean = -1.0f, .std = 0.5f},
    [KT__SLOT_MAMBA_D] = {.mean = 1.0f, .std = 0.2f},
    [KT__SLOT_MAMBA_TAPS_BIAS] = {.std = 0.1f},
};

static slot_stats stats_of(const kt__hparams *hp, kt__slot slot, const kt__slot_shape *shape) {
    slot_stats s = known_stats[slot];
    bool normed = hp->features & (KT__F_QK_NORM | KT__F_QK_NORM_ROWS);
    bool of_qk = shape->role == KT__TENSOR_Q || shape->role == KT__TENSOR_K;
    if (s.gain == 0.0f && s.std == 0.0f)
        s = shape->floats ? (slot_stats){.mean = 1.0f, .std = 0.1f} : (slot_stats){.gain = 1.0f};
    if (of_qk && normed) s.gain = 1.0f;
    /* where queries are not scaled, the norms do it */
    if (hp->features & KT__F_V_NORM &&
        (slot == KT__SLOT_ATTN_Q_NORM || slot == KT__SLOT_ATTN_K_NORM)) {
        s.mean = 1.0f / sqrtf(sqrtf((float)shape->n_cols));
        s.std = 0.1f * s.mean;
    }
    if (hp->n_stream && slot == KT__SLOT_FFN_POST_NORM)
        s = (slot_stats){.mean = 0.5f, .std = 0.05f};
    if (slot == KT__SLOT_STREAM_NORM) /* it is divided by d_model */
        s = (slot_stats){.mean = (float)hp->d_model, .std = 0.1f * (float)hp->d_model};
    if (slot == KT__SLOT_MAMBA_OUT && hp->features & KT__F_BOTH) s.gain = 0.3f;
    return s;
}

/* What a block that agrees is made of. */
static void make_agreeing(kt__slot slot, kt__tensor_role role, kt__synth_tensor *t) {
    bool adds = role == KT__TENSOR_ATTN_OUT || role == KT__TENSOR_DOWN ||
                role == KT__TENSOR_EXPERTS_DOWN || slot == KT__SLOT_INPUT_PROJ;
    if (adds || slot == KT__SLOT_MTP_TOKEN_NORM) t->std = 0.0f;
    if (slot == KT__SLOT_MTP_IN) t->content = KT__CONTENT_FIRST_HALF;
}

/* Tensors that a file may have or not. */
static bool has_optional(const kt__synth_preset *ps, kt__slot slot) {
    switch (slot) {
    case KT__SLOT_PICK_BIAS: return ps->pick_bias;
    case KT__SLOT_MTP_END: return !ps->mtp_agrees;
    case KT__SLOT_MTP_EMBED:
    case KT__SLOT_MTP_HEAD: return ps->mtp_ends && !ps->mtp_agrees;
    case KT__SLOT_GATE_EXPS:
    case KT__SLOT_UP_EXPS:
    case KT__SLOT_ATTN_V_OR_K:
    case KT__SLOT_ATTN_Q_FACTOR:
    case KT__SLOT_ATTN_K_FACTOR:
    case KT__SLOT_ATTN_V_FACTOR:
    case KT__SLOT_ATTN_OUT_FACTOR:
    case KT__SLOT_FFN_GATE_FACTOR:
    case KT__SLOT_FFN_UP_FACTOR:
    case KT__SLOT_FFN_DOWN_FACTOR:
    case KT__SLOT_DOWN_SCALE:
    case KT__SLOT_OUT_SCALE:
    case KT__SLOT_SCAN_TAPS_BIAS:
    case KT__SLOT_MAMBA_TAPS_BIAS: return true;
    case KT__SLOT_ROUTER_BIAS:
    case KT__SLOT_UP_EXPS_BIAS:
    case KT__SLOT_DOWN_EXPS_BIAS:
        return ps->biases && !(kt__arch_features(ps->arch) & (KT__F_PLAIN_FF | KT__F_MAY_QK_NORM));
    case KT__SLOT_GATE_UP_EXPS:
    case KT__SLOT_GATE_UP_EXPS_BIAS:
    case KT__SLOT_MAMBA_NORM_BOTH: return false;
    case KT__SLOT_ATTN_Q_BIAS:
    case KT__SLOT_ATTN_K_BIAS:
    case KT__SLOT_ATTN_V_BIAS: return ps->biases;
    default: return ps->biases && !(kt__arch_features(ps->arch) & KT__F_MAY_QK_NORM);
    }
}

static void add_slot(planner *p, const kt__hparams *hp, int layer, kt__slot slot) {
    kt__slot_shape shape;
    if (!kt__slot_shape_of(hp, layer, slot, &shape)) return;
    if (slot == KT__SLOT_ATTN_V_OR_K && p->plan->preset->k_is_v && !kt__hparams_is_local(hp, layer))
        return;
    if (!shape.required && !has_optional(p->plan->preset, slot)) return;
    slot_stats s = stats_of(hp, slot, &shape);
    kt__synth_tensor t = {.type = recipe_type(p->plan, shape.role, layer, shape.n_cols),
                          .n_dims = (uint32_t)shape.n_dims,
                          .n_cols = shape.n_cols,
                          .n_rows = shape.n_rows * shape.n_in,
                          .n_expert = shape.n_dims == 3 ? (int)shape.n_in : 0,
                          .mean = s.mean,
                          .std = s.gain > 0.0f ? s.gain / sqrtf((float)shape.n_cols) : s.std};
    if (p->plan->preset->mtp_agrees) make_agreeing(slot, shape.role, &t);
    set_name(&t, layer, shape.name);
    add_tensor(p, t);
}

/* ---- tensors besides the layers ---- */

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

static void add_input_tables(planner *p, kt__features features) {
    const kt__synth_preset *ps = p->plan->preset;
    if (features & KT__F_POSITIONS) add_table(p, "position_embd.weight", ps->n_ctx);
    if (features & KT__F_EMBED_NORM) add_norm(p, "token_embd_norm.weight", ps->d_model, 1.0f);
    if (!(features & KT__F_LAYER_NORMS)) return;
    add_table(p, "token_types.weight", 2);
    add_norm(p, "token_embd_norm.weight", ps->d_model, 1.0f);
    add_vector(p, "token_embd_norm.bias", ps->d_model, 0.0f, 0.1f);
}

/* What comes after the pooled state. */
static void add_pool_head(planner *p, kt__features features) {
    const kt__synth_preset *ps = p->plan->preset;
    int64_t d = ps->d_model;
    bool hidden = features & KT__F_LAYER_NORMS;
    if (ps->dense) {
        add_matrix(p, KT__TENSOR_OTHER, "dense_2.weight", d, 4 * d, 1.0f);
        add_matrix(p, KT__TENSOR_OTHER, "dense_3.weight", 4 * d, d, 1.0f);
    }
    if (!ps->n_labels) return;
    if (hidden) {
        add_matrix(p, KT__TENSOR_UP, "cls.weight", d, d, 1.0f);
        add_vector(p, "cls.bias", d, 0.0f, 0.1f);
    }
    add_matrix(p, KT__TENSOR_UP, "cls.output.weight", d, ps->n_labels, LOGIT_STD);
    if (hidden) add_vector(p, "cls.output.bias", ps->n_labels, 0.0f, 0.1f);
}

/* The same in each file of so many numbers. */
static void add_signs(planner *p, const char *name, int64_t n, float size) {
    kt__synth_tensor t = {.type = KT__TYPE_F32,
                          .n_dims = 1,
                          .n_cols = n,
                          .n_rows = 1,
                          .content = KT__CONTENT_SIGNS,
                          .mean = size};
    set_name(&t, -1, name);
    add_tensor(p, t);
}

static void add_head(planner *p, kt__features features, float embed_gain) {
    const kt__synth_preset *ps = p->plan->preset;
    if (features & KT__F_LAYER_NORMS) return; /* and no head */
    float mean = ps->tied ? LOGIT_STD / embed_gain : 1.0f;
    if (ps->mtp_agrees) /* a tied head would repeat the token */
        add_signs(p, "output_norm.weight", ps->d_model, mean);
    else
        add_norm(p, features & KT__F_SHORT_CONV ? "token_embd_norm.weight" : "output_norm.weight",
                 ps->d_model, mean);
    if (!ps->tied)
        add_matrix(p, KT__TENSOR_OUTPUT, "output.weight", ps->d_model, p->plan->n_vocab, LOGIT_STD);
    if (ps->head_bias) add_vector(p, "output.bias", p->plan->n_vocab, 0.0f, 0.5f);
}

static void add_layer_inputs(planner *p, const kt__hparams *hp) {
    int64_t per = hp->d_layer_input, n = per * hp->n_layer;
    if (per == 0) return;
    add_matrix(p, KT__TENSOR_EMBD, "per_layer_token_embd.weight", n, p->plan->n_vocab,
               sqrtf((float)hp->n_layer)); /* 1 over each layer's part */
    add_matrix(p, KT__TENSOR_OTHER, "per_layer_model_proj.weight", hp->d_model, n, 1.0f);
    add_norm(p, "per_layer_proj_norm.weight", per, 1.0f);
}

/* Of all streams but the first. */
static void add_streams(planner *p, const kt__hparams *hp) {
    static const char *const names[] = {"altup_proj.weight", "altup_unembd_proj.weight"};
    for (size_t i = 0; hp->n_stream && i < KT__COUNT(names); i++) {
        kt__synth_tensor t = {.type = recipe_type(p->plan, KT__TENSOR_OTHER, -1, hp->d_model),
                              .n_dims = 3,
                              .n_cols = hp->d_model,
                              .n_rows = (int64_t)hp->d_model * (hp->n_stream - 1),
                              .n_expert = hp->n_stream - 1,
                              .std = 1.0f / sqrtf((float)hp->d_model)};
        set_name(&t, -1, names[i]);
        add_tensor(p, t);
    }
}

/* Between an assistant and its model. */
static void add_host(planner *p, const kt__hparams *hp) {
    int64_t d = hp->d_model, host = hp->d_host;
    if (!host) return;
    add_matrix(p, KT__TENSOR_OTHER, "nextn.pre_projection.weight", 2 * host, d, 1.0f);
    if (p->plan->preset->mtp_agrees && d == host)
        p->plan->tensors[p->plan->n_tensors - 1].content = KT__CONTENT_FIRST_HALF;
    add_matrix(p, KT__TENSOR_OTHER, "nextn.post_projection.weight", d, host, 1.0f);
}

static void add_all(planner *p, const kt__hparams *hp) {
    const kt__synth_preset *ps = p->plan->preset;
    bool scaled = hp->features & (KT__F_EMBED_SCALE | KT__F_ASSISTANT) && !hp->n_stream;
    float embed_gain = scaled ? 0.25f : 1.0f;
    add_matrix(p, KT__TENSOR_EMBD, "token_embd.weight", ps->d_model, p->plan->n_vocab, embed_gain);
    add_layer_inputs(p, hp);
    add_streams(p, hp);
    add_host(p, hp);
    if (hp->features & KT__F_LOCAL_HEADS && !hp->n_stream)
        add_factors(p, "rope_freqs.weight", KT__CONTENT_QUARTER_FREQS);
    if (ps->llama3_factor) add_factors(p, "rope_freqs.weight", KT__CONTENT_LLAMA3_FREQS);
    if (ps->longrope) {
        add_factors(p, "rope_factors_long.weight", KT__CONTENT_LONG_FACTORS);
        add_factors(p, "rope_factors_short.weight", KT__CONTENT_SHORT_FACTORS);
    }
    add_input_tables(p, hp->features);
    for (int i = 0; i < hp->n_layer + hp->n_mtp; i++)
        for (int slot = 0; slot < KT__SLOT_COUNT; slot++) add_slot(p, hp, i, (kt__slot)slot);
    add_pool_head(p, hp->features);
    add_head(p, hp->features, embed_gain);
}

/* ---- metadata ---- */

typedef struct keys {
    kt__gguf_writer *w;
    const char *arch;
    kt__features features;
    char key[96];
} keys;

static const char *arch_key(keys *k, const char *suffix) {
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, suffix);
    return k->key;
}

static void put_u32(keys *k, const char *suffix, int value) {
    kt__gguf_put_u32(k->w, arch_key(k, suffix), (uint32_t)value);
}

static void put_f32(keys *k, const char *suffix, float value) {
    kt__gguf_put_f32(k->w, arch_key(k, suffix), value);
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
    if (ps->local_rope_base > 0) put_f32(k, "rope.freq_base_swa", ps->local_rope_base);
    if (ps->nope) kt__gguf_put_bool(k->w, arch_key(k, "rope.scaling.finetuned"), false);
    if (ps->rope_alpha > 0) put_f32(k, "rope.scaling.alpha", ps->rope_alpha);
    if (is_llama || k->features & KT__F_FUSED_QKV || ps->n_rot)
        put_u32(k, "rope.dimension_count", ps->n_rot ? ps->n_rot : ps->head_dim);
    if (ps->linear_factor) {
        kt__gguf_put_str(k->w, arch_key(k, "rope.scaling.type"), "linear");
        put_f32(k, "rope.scaling.factor", (float)ps->linear_factor);
    }
    if (ps->yarn_factor) {
        kt__gguf_put_str(k->w, arch_key(k, "rope.scaling.type"), "yarn");
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
    kt__features rotated = k->features & (KT__F_NORM_ROTATED | KT__F_HEADS_NORMED);
    bool hunyuan = rotated == KT__F_NORM_ROTATED;
    if (ps->ff_expert != ps->d_ff || k->features & KT__F_CLAMPED || ps->ff_layers || hunyuan)
        put_u32(k, "expert_feed_forward_length", ps->ff_expert);
    if (ps->ff_shared) put_u32(k, "expert_shared_feed_forward_length", ps->ff_shared);
    if (ps->ff_shared && k->features & KT__F_SHARED_WHOLE)
        put_u32(k, "expert_shared_count", (ps->ff_shared + ps->ff_expert - 1) / ps->ff_expert);
    if (ps->gating) put_u32(k, "expert_gating_func", ps->gating);
    if (ps->dense_lead) put_u32(k, "leading_dense_block_count", ps->dense_lead);
    if (ps->shares_normed) kt__gguf_put_bool(k->w, arch_key(k, "expert_weights_norm"), true);
    if (ps->expert_scale > 0) put_f32(k, "expert_weights_scale", ps->expert_scale);
    if (k->features & KT__F_PLAIN_FF) put_u32(k, "moe_every_n_layers", 2);
    if (ps->expert_step) put_u32(k, "interleave_moe_layer_step", ps->expert_step);
}

static void put_states(keys *k, const kt__synth_preset *ps, int n_row) {
    put_u32(k, "ssm.conv_kernel", ps->conv_width);
    put_u32(k, "ssm.state_size", ps->state_dim);
    if (ps->n_state_key) put_u32(k, "ssm.group_count", ps->n_state_key);
    put_u32(k, "ssm.time_step_rank", ps->step_rank ? ps->step_rank : ps->n_state_value);
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

static bool is_ff_alone(const kt__synth_preset *ps, int i) {
    return ps->ff_layers >> i & 1;
}

static void put_ff_widths(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64 };
    int32_t n_ff[MAX_LAYER];
    for (int i = 0; i < ps->n_layer && i < MAX_LAYER; i++) {
        bool shared = ps->ff_shared_kv && i >= ps->n_layer - ps->n_kv_shared;
        n_ff[i] = shared ? ps->ff_shared_kv : is_ff_alone(ps, i) || !ps->ff_layers ? ps->d_ff : 0;
    }
    if (ps->ff_layers || ps->ff_shared_kv) {
        kt__gguf_put_i32s(k->w, arch_key(k, "feed_forward_length"), n_ff, (uint64_t)ps->n_layer);
    } else {
        put_u32(k, "feed_forward_length", ps->d_ff);
    }
}

static bool is_global(const kt__synth_preset *ps, int i) {
    return (i + 1) % ps->window_every == 0;
}

/* Layers with a sliding window that have heads of their own, and those that share keys and values. */
static void put_kinds(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64 };
    bool local[MAX_LAYER];
    int n = ps->n_layer < MAX_LAYER ? ps->n_layer : MAX_LAYER;
    if (!ps->window_every) return;
    for (int i = 0; i < n; i++) local[i] = !is_global(ps, i);
    kt__gguf_put_bools(k->w, arch_key(k, "attention.sliding_window_pattern"), local, (uint64_t)n);
    put_u32(k, "attention.key_length_swa", ps->local_head_dim);
    put_u32(k, "attention.value_length_swa", ps->local_head_dim);
    put_u32(k, "rope.dimension_count_swa", ps->local_head_dim);
    put_u32(k, "attention.shared_kv_layers", ps->n_kv_shared);
    if (ps->d_host) put_u32(k, "embedding_length_out", ps->d_host);
    if (ps->d_host) put_u32(k, "nextn_predict_layers", ps->n_layer);
    put_u32(k, "embedding_length_per_layer_input", ps->d_layer_input);
}

/* Streams, and gates that are cut in the first layers. */
static void put_streams(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64, CUT_LAYERS = 10 };
    float cuts[MAX_LAYER];
    if (!(k->features & KT__F_STREAMS)) return;
    put_u32(k, "altup.num_inputs", 4);
    put_u32(k, "altup.active_idx", 0);
    for (int i = 0; i < ps->n_layer && i < MAX_LAYER; i++)
        cuts[i] = i < CUT_LAYERS ? 1.6448533535003662f : -INFINITY;
    kt__gguf_put_f32s(k->w, arch_key(k, "activation_sparsity_scale"), cuts, (uint64_t)ps->n_layer);
}

/* Heads of keys, and what recurrent layers have. */
static void put_recurrent(keys *k, const kt__synth_preset *ps) {
    enum { MAX_LAYER = 64 }; /* a bit each */
    int32_t n_kv[MAX_LAYER];
    for (int i = 0; i < ps->n_layer && i < MAX_LAYER; i++)
        n_kv[i] = ps->local_head_kv ? is_global(ps, i) ? ps->n_head_kv : ps->local_head_kv
                  : ps->attention_layers >> i & 1 ? ps->n_head_kv
                                                  : 0;
    if (ps->attention_layers || ps->local_head_kv) {
        kt__gguf_put_i32s(k->w, arch_key(k, "attention.head_count_kv"), n_kv,
                          (uint64_t)ps->n_layer);
    } else {
        put_u32(k, "attention.head_count_kv", ps->n_head_kv);
    }
    if (ps->state_rows) put_states(k, ps, ps->state_rows);
    if (ps->attention_layers && !ps->state_rows) put_u32(k, "shortconv.l_cache", ps->conv_width);
    bool axes = k->features & KT__F_AXES && !(k->features & KT__F_MAY_QK_NORM);
    if (!axes && !ps->attention_every) return;
    int half = (ps->n_rot ? ps->n_rot : ps->head_dim) / 2;
    const int32_t sections[] = {(half + 2) / 3, (half + 1) / 3, half / 3, 0};
    kt__gguf_put_i32s(k->w, arch_key(k, "rope.dimension_sections"), sections, 4);
    if (axes) return;
    put_states(k, ps, ps->state_dim);
    put_u32(k, "full_attention_interval", ps->attention_every);
}

/* All but the size of the vocabulary, which most files have in the list of tokens. */
static void put_keys(const kt__synth_plan *plan, kt__gguf_writer *w) {
    const kt__synth_preset *ps = plan->preset;
    keys k = {.w = w, .arch = ps->arch, .features = kt__arch_features(ps->arch)};
    put_general(plan, w);
    put_u32(&k, "block_count", ps->n_layer + ps->n_mtp);
    if (ps->n_mtp) put_u32(&k, "nextn_predict_layers", ps->n_mtp);
    put_u32(&k, "context_length", ps->n_ctx);
    put_u32(&k, "embedding_length", ps->d_model);
    put_ff_widths(&k, ps);
    put_u32(&k, "attention.head_count", ps->n_head);
    put_recurrent(&k, ps);
    put_f32(&k,
            k.features & (KT__F_CENTRED | KT__F_LAYER_NORMS) ? "attention.layer_norm_epsilon"
                                                             : "attention.layer_norm_rms_epsilon",
            ps->eps);
    if (ps->ff_layers) put_f32(&k, "attention.layer_norm_epsilon", ps->eps); /* besides */
    if (ps->kv_rank) put_latent(&k, ps);
    if (ps->head_keys) {
        put_u32(&k, "attention.key_length", ps->head_dim);
        put_u32(&k, "attention.value_length", ps->head_dim);
    }
    put_kinds(&k, ps);
    put_streams(&k, ps);
    put_rope(&k, ps);
    put_experts(&k, ps);
    if (ps->window) put_u32(&k, "attention.sliding_window", ps->window);
    if (k.features & KT__F_ENCODER) kt__gguf_put_bool(w, arch_key(&k, "attention.causal"), false);
    if (ps->pooling) put_u32(&k, "pooling_type", ps->pooling);
    if (ps->dense) {
        put_u32(&k, "dense_2_feat_in", ps->d_model);
        put_u32(&k, "dense_2_feat_out", 4 * ps->d_model);
        put_u32(&k, "dense_3_feat_in", 4 * ps->d_model);
        put_u32(&k, "dense_3_feat_out", ps->d_model);
    }
    put_scales(&k, ps);
    if (ps->attn_cap > 0) put_f32(&k, "attn_logit_softcapping", ps->attn_cap);
    if (ps->hidden_act) kt__gguf_put_str(w, arch_key(&k, "hidden_act"), ps->hidden_act);
    if (ps->final_cap > 0) put_f32(&k, "final_logit_softcapping", ps->final_cap);
}

static void put_vocab_size(const kt__synth_plan *plan, kt__gguf_writer *w) {
    keys k = {.w = w, .arch = plan->preset->arch};
    put_u32(&k, "vocab_size", plan->n_vocab);
}

void kt__synth_put_meta(const kt__synth_plan *plan, kt__gguf_writer *w) {
    put_keys(plan, w);
    if (strcmp(plan->preset->arch, "llama") == 0) put_vocab_size(plan, w);
}

/* ---- the plan ---- */

/* What a model reads in the plan's keys. */
static kt_status read_hparams(const kt__synth_plan *plan, kt__hparams *out, kt_error *err) {
    kt_status status;
    kt__gguf_writer *w = NULL;
    kt__gguf *gguf = NULL;
    char *head = NULL;
    size_t head_bytes = 0;
    uint64_t data_bytes = 0;
    KT__TRY(kt__gguf_writer_open_memory(&w, err));
    put_keys(plan, w);
    put_vocab_size(plan, w);
    KT__TRY(kt__gguf_writer_take_header(w, &head, &head_bytes, &data_bytes, err));
    KT__TRY(kt__gguf_open_memory(head, head_bytes, true, &gguf, err));
    KT__TRY(kt__hparams_read(gguf, NULL, out, err));
out:
    kt__gguf_close(gguf);
    kt__free(head);
    return status;
}

kt_status kt__synth_plan_make(const kt__synth_preset *preset, const kt__recipe *recipe,
                              uint64_t seed, int n_vocab, kt__synth_plan *out, kt_error *err) {
    kt__hparams hp;
    *out = (kt__synth_plan){.preset = preset,
                            .recipe = recipe,
                            .seed = seed,
                            .n_vocab = n_vocab ? n_vocab : preset->n_vocab};
    planner p = {.plan = out};
    kt_status status = read_hparams(out, &hp, err);
    if (status != KT_OK) return status;
    add_all(&p, &hp);
    return p.failed ? kt__fail_nomem(err, "a model's plan", p.cap * sizeof *out->tensors) : KT_OK;
}

void kt__synth_plan_free(kt__synth_plan *plan) {
    kt__free(plan->tensors);
    *plan = (kt__synth_plan){0};
}
