/* Models with layers that have a state besides layers with attention: LFM2's short convolutions,
 * Qwen3.5's delta nets. Which layers are which, and what the formats say of them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/config.h"

/* ---- which layers ---- */

static kt_status read_types(kt__hf_config *c, const json_t *types, kt_error *err) {
    bool mamba = c->arch == KT__HF_GRANITEHYB;
    const char *other = mamba ? "mamba" : c->arch & KT__HF_LFM2S ? "conv" : "linear_attention";
    const char *attends = mamba ? "attention" : "full_attention";
    if (json_array_size(types) != (size_t)c->n_layer)
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                           "\"layer_types\" has %zu elements for %" PRId64 " layers",
                           json_array_size(types), c->n_layer);
    for (int64_t i = 0; i < c->n_layer; i++) {
        const char *name = json_string_value(json_array_get(types, (size_t)i));
        c->recurrent[i] = name && strcmp(name, other) == 0;
        if (!c->recurrent[i] && (!name || strcmp(name, attends) != 0))
            return kt__hf_refuse(c, "layer_types",
                                 mamba ? "attention and mamba are expected"
                                 : c->arch & KT__HF_LFM2S
                                     ? "full_attention and conv are expected"
                                     : "full_attention and linear_attention are expected",
                                 err);
    }
    return KT_OK;
}

/* LFM2's older list of the layers with attention. */
static kt_status read_indices(kt__hf_config *c, const json_t *list, kt_error *err) {
    for (int64_t i = 0; i < c->n_layer; i++) c->recurrent[i] = true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *at = json_array_get(list, i);
        if (!json_is_integer(at) || json_integer_value(at) < 0 ||
            json_integer_value(at) >= c->n_layer)
            return kt__hf_refuse(c, "full_attn_idxs", "numbers of layers are expected", err);
        c->recurrent[json_integer_value(at)] = false;
    }
    return KT_OK;
}

static kt_status read_layers(kt__hf_config *c, kt_error *err) {
    const json_t *types = json_object_get(c->text, "layer_types");
    const json_t *list = json_object_get(c->text, "full_attn_idxs");
    if (json_is_array(types)) return read_types(c, types, err);
    if (c->arch & KT__HF_LFM2S && json_is_array(list)) return read_indices(c, list, err);
    if (!(c->arch & KT__HF_DELTAS))
        return kt__hf_refuse(c, "layer_types", "is missing: which layers have attention?", err);
    for (int64_t i = 0; i < c->n_layer; i++) c->recurrent[i] = (i + 1) % c->attention_every != 0;
    return KT_OK;
}

/* ---- what the formats imply ---- */

static kt_status check_delta(const kt__hf_config *c, kt_error *err) {
    for (int64_t i = 0; i < c->n_layer; i++)
        if (c->recurrent[i] != ((i + 1) % c->attention_every != 0))
            return kt__hf_refuse(c, "layer_types",
                                 "another order of layers than full_attention_interval says", err);
    if (c->state_value_dim != c->state_dim)
        return kt__hf_refuse(c, "linear_value_head_dim",
                             "the format has states of as many rows as columns", err);
    if (c->n_state_value % c->n_state_key != 0)
        return kt__hf_refuse(c, "linear_num_value_heads",
                             "is not a multiple of linear_num_key_heads", err);
    if (!kt__hf_flag(c, "attn_output_gate", true))
        return kt__hf_refuse(c, "attn_output_gate", "the format has this gate", err);
    return KT_OK;
}

kt_status kt__hf_recurrent_read(kt__hf_config *c, kt_error *err) {
    KT__STEP(read_layers(c, err));
    if (c->arch & KT__HF_DELTAS) KT__STEP(check_delta(c, err));
    if (c->arch == KT__HF_GRANITEHYB) KT__STEP(kt__hf_mamba_read(c, err));
    if (!kt__hf_flag(c, "conv_bias", false)) return KT_OK;
    return kt__hf_refuse(c, "conv_bias", "the lfm2 format has no such biases", err);
}

/* ---- widths ---- */

static double number_of(const kt__hf_config *c, const char *name) {
    const json_t *value = kt__hf_config_get(c, name);
    const double *fallback = kt__hf_default(c, name);
    return json_is_number(value) ? json_number_value(value) : fallback ? *fallback : (double)NAN;
}

/* Of LFM2: two thirds, times a factor, up to a multiple. */
kt_status kt__hf_fit_width(kt__hf_config *c, kt_error *err) {
    double by = number_of(c, "block_ffn_dim_multiplier"), unit = number_of(c, "block_multiple_of");
    if (!kt__hf_flag(c, "block_auto_adjust_ff_dim", true)) return KT_OK;
    if (!(unit >= 1.0 && unit <= 65536.0 && by > 0.0 && by <= 16.0))
        return kt__hf_refuse(c, "block_multiple_of", "does not give a width", err);
    int64_t multiple = (int64_t)unit, width = (int64_t)(by * (double)(2 * c->d_ff / 3));
    c->d_ff = (width + multiple - 1) / multiple * multiple;
    return c->d_ff > 0 ? KT_OK : kt__hf_refuse(c, "block_ff_dim", "does not give a width", err);
}

/* ---- writing ---- */

/* Positions of a text are the same on every axis: the sections matter to readers only that see. */
static void put_sections(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    int32_t sections[4] = {0}, half = (int32_t)(c->n_rot / 2), sum = 0;
    json_t *rope = json_object_get(c->text, "rope_parameters");
    json_t *given = json_object_get(rope, "mrope_section");
    for (size_t i = 0; i < 3; i++) {
        json_int_t n = json_integer_value(json_array_get(given, i));
        sections[i] = n > 0 && n <= half ? (int32_t)n : 0;
        sum += sections[i];
    }
    for (int i = 0; sum != half && i < 3; i++) sections[i] = (half + 2 - i) / 3;
    snprintf(key, sizeof key, "%s.rope.dimension_sections", c->arch_name);
    kt__gguf_put_i32s(w, key, sections, 4);
}

/* With experts the shared part is a shared expert, without them it is the feed-forward part. */
static void put_hybrid(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    const char *positions = json_string_value(kt__hf_config_get(c, "position_embedding_type"));
    snprintf(key, sizeof key, "%s.feed_forward_length", c->arch_name);
    kt__gguf_put_u32(w, key, (uint32_t)(c->n_expert > 0 ? c->d_ff : c->d_ff_shared));
    snprintf(key, sizeof key, "%s.expert_shared_feed_forward_length", c->arch_name);
    if (c->n_expert > 0) kt__gguf_put_u32(w, key, (uint32_t)c->d_ff_shared);
    snprintf(key, sizeof key, "%s.rope.scaling.finetuned", c->arch_name);
    kt__gguf_put_bool(w, key, positions && strcmp(positions, "rope") == 0);
}

void kt__hf_recurrent_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    int32_t n_kv[KT__HF_MAX_LAYERS];
    if (c->arch == KT__HF_GRANITEHYB) put_hybrid(c, w);
    if (!(c->arch & KT__HF_DELTAS)) {
        for (int64_t i = 0; i < c->n_layer; i++)
            n_kv[i] = c->recurrent[i] ? 0 : (int32_t)c->n_head_kv;
        snprintf(key, sizeof key, "%s.attention.head_count_kv", c->arch_name);
        kt__gguf_put_i32s(w, key, n_kv, (uint64_t)c->n_layer);
        return;
    }
    snprintf(key, sizeof key, "%s.ssm.inner_size", c->arch_name);
    kt__gguf_put_u32(w, key, (uint32_t)(c->n_state_value * c->state_dim));
    if (c->arch & KT__HF_QWEN35S) put_sections(c, w);
}

/* Mamba-2 (Dao and Gu 2024) in layers of its own or besides attention, and Falcon-H1's
 * multipliers. */

/* ---- sizes ---- */

static int64_t inner_width(const kt__hf_config *c) {
    if (c->arch & KT__HF_MIXERS) return c->n_state_value * c->mamba_head;
    return c->mamba_inner != KT__HF_NONE ? c->mamba_inner : c->mamba_expand * c->d_model;
}

int64_t kt__hf_state_rows(const kt__hf_config *c) {
    return c->arch & KT__HF_ALL_MAMBAS ? inner_width(c) / c->n_state_value : c->state_dim;
}

/* Falcon-H1 may have its gate after the norm; the format has it before. */
static kt_status check_falcon(const kt__hf_config *c, kt_error *err) {
    static const char *const off[] = {"attention_bias", "mlp_bias", "projectors_bias"};
    if (kt__hf_flag(c, "mamba_rms_norm", false) && kt__hf_flag(c, "mamba_norm_before_gate", true))
        return kt__hf_refuse(c, "mamba_norm_before_gate", "the format has the gate before the norm",
                             err);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (kt__hf_flag(c, off[i], false))
            return kt__hf_refuse(c, off[i], "the falcon-h1 format has no such biases", err);
    return KT_OK;
}

/* ---- Mamba ---- */

void kt__hf_scan_read(const kt__hf_config *c) {
    if (json_is_string(json_object_get(c->text, "time_step_rank")))
        json_object_del(c->text, "time_step_rank");
}

void kt__hf_scan_derive(kt__hf_config *c) {
    if (c->mamba_inner == KT__HF_NONE) c->mamba_inner = c->mamba_expand * c->d_model;
    if (c->step_rank == KT__HF_NONE) c->step_rank = (c->d_model + 15) / 16;
    c->n_state_value = c->mamba_inner;
    c->n_state_key = 0;
    c->mamba_head = 1;
}

/* Models that are Mamba or Mamba-2 alone. */
static kt_status check_alone(const kt__hf_config *c, kt_error *err) {
    const json_t *limits = kt__hf_config_get(c, "time_step_limit");
    double least = json_number_value(json_array_get(limits, 0));
    const json_t *most = json_array_get(limits, 1);
    if (least > 0.0 || (json_is_number(most) && json_number_value(most) < 1e30))
        return kt__hf_refuse(c, "time_step_limit", "the format does not limit steps", err);
    if (kt__hf_flag(c, "use_bias", false))
        return kt__hf_refuse(c, "use_bias", "the format has no such biases", err);
    if (!kt__hf_flag(c, "rms_norm", true))
        return kt__hf_refuse(c, "rms_norm", "the format has this norm", err);
    return KT_OK;
}

kt_status kt__hf_mamba_read(const kt__hf_config *c, kt_error *err) {
    const json_t *width = kt__hf_config_get(c, "mamba_d_head");
    if (c->arch == KT__HF_MAMBA) return check_alone(c, err);
    if (inner_width(c) % c->n_state_value != 0)
        return kt__hf_refuse(c, "mamba_n_heads", "does not divide the inner width", err);
    if (json_is_integer(width) && json_integer_value(width) != kt__hf_state_rows(c))
        return kt__hf_refuse(c, "mamba_d_head", "is not the inner width by mamba_n_heads", err);
    if (c->n_state_value % c->n_state_key != 0)
        return kt__hf_refuse(c, "mamba_n_heads", "is not a multiple of mamba_n_groups", err);
    if (kt__hf_flag(c, "mamba_proj_bias", false))
        return kt__hf_refuse(c, "mamba_proj_bias", "the format has no such biases", err);
    if (c->arch == KT__HF_FALCONH1) return check_falcon(c, err);
    if (c->arch == KT__HF_MAMBA2) return check_alone(c, err);
    if (c->n_expert > 0 && c->n_expert_used > c->n_expert)
        return kt__hf_refuse(c, "num_experts_per_tok", "more than there are experts", err);
    return KT_OK;
}

void kt__hf_mamba_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    snprintf(key, sizeof key, "%s.ssm.inner_size", c->arch_name);
    kt__gguf_put_u32(w, key, (uint32_t)(c->n_state_value * kt__hf_state_rows(c)));
    if (!(c->arch & KT__HF_ONLY_MAMBA)) return;
    snprintf(key, sizeof key, "%s.attention.head_count", c->arch_name); /* others ask for these */
    kt__gguf_put_u32(w, key, 0);
    snprintf(key, sizeof key, "%s.feed_forward_length", c->arch_name);
    kt__gguf_put_u32(w, key, 0);
}

/* ---- multipliers ---- */

/* The i-th of a list, or a number; 1 where there is none. */
static double multiplier_at(const kt__hf_config *c, const char *name, size_t i) {
    const json_t *value = kt__hf_config_get(c, name);
    if (json_is_array(value)) value = json_array_get(value, i);
    return json_is_number(value) ? json_number_value(value) : 1.0;
}

/* Of what a Mamba-2 part reads: gate, values, what is written, what is read, steps. */
static int scale_inputs(const kt__hf_config *c, kt__hf_scale out[KT__HF_MAX_SCALES]) {
    int64_t inner = inner_width(c), shared = c->n_state_key * c->state_dim;
    const int64_t rows[] = {inner, inner, shared, shared, c->n_state_value};
    double all = multiplier_at(c, "ssm_in_multiplier", 0);
    for (size_t i = 0; i < KT__HF_MAX_SCALES; i++)
        out[i] = (kt__hf_scale){rows[i], (float)(all * multiplier_at(c, "ssm_multipliers", i))};
    return KT__HF_MAX_SCALES;
}

float kt__hf_scale_of_row(const kt__hf_scale *scales, int n, int64_t row) {
    int k = 0;
    while (k + 1 < n && row >= scales[k].n_rows) row -= scales[k++].n_rows;
    return scales[k].by;
}

int kt__hf_scales_of(const kt__hf_config *c, const char *name,
                     kt__hf_scale out[KT__HF_MAX_SCALES]) {
    static const struct {
        const char *tensor, *multiplier, *more;
        size_t index;
    } rows[] = {{"token_embd.weight", "embedding_multiplier", NULL, 0},
                {"output.weight", "lm_head_multiplier", NULL, 0},
                {"blk.attn_q.weight", "attention_in_multiplier", NULL, 0},
                {"blk.attn_k.weight", "attention_in_multiplier", "key_multiplier", 0},
                {"blk.attn_v.weight", "attention_in_multiplier", NULL, 0},
                {"blk.attn_output.weight", "attention_out_multiplier", NULL, 0},
                {"blk.ffn_gate.weight", "mlp_multipliers", NULL, 0},
                {"blk.ffn_down.weight", "mlp_multipliers", NULL, 1},
                {"blk.ssm_out.weight", "ssm_out_multiplier", NULL, 0}};
    if (c->arch != KT__HF_FALCONH1) return 0;
    if (strcmp(name, "blk.ssm_in.weight") == 0) return scale_inputs(c, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].tensor, name) != 0) continue;
        double by = multiplier_at(c, rows[i].multiplier, rows[i].index);
        if (rows[i].more) by *= multiplier_at(c, rows[i].more, 0);
        out[0] = (kt__hf_scale){INT64_MAX, (float)by};
        return 1;
    }
    return 0;
}

/* Nemotron-H: layers that have one part each, as the letters of a pattern say: M Mamba-2, * attention,
 * - a feed-forward part, E experts. */

static const char *pattern_of(const kt__hf_config *c) {
    const char *pattern = json_string_value(kt__hf_config_get(c, "hybrid_override_pattern"));
    return pattern ? pattern : "";
}

void kt__hf_parts_choose(kt__hf_config *c) {
    if (c->arch != KT__HF_NEMOTRONH || !strchr(pattern_of(c), 'E')) return;
    c->arch = KT__HF_NEMOTRONM;
    c->arch_name = "nemotron_h_moe";
}

static kt_status check_flags(const kt__hf_config *c, kt_error *err) {
    static const char *const off[] = {"use_bias", "mlp_bias", "attention_bias", "mamba_proj_bias"};
    const char *function = json_string_value(kt__hf_config_get(c, "mlp_hidden_act"));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (kt__hf_flag(c, off[i], false))
            return kt__hf_refuse(c, off[i], "the nemotron_h format has no such biases", err);
    if (function && strcmp(function, "relu2") != 0)
        return kt__hf_refuse(c, "mlp_hidden_act", "relu2 is expected", err);
    if (c->n_state_value % c->n_state_key != 0)
        return kt__hf_refuse(c, "mamba_num_heads", "is not a multiple of n_groups", err);
    if (c->n_expert != KT__HF_NONE && c->n_expert_used > c->n_expert)
        return kt__hf_refuse(c, "num_experts_per_tok", "more than there are experts", err);
    return KT_OK;
}

kt_status kt__hf_parts_read(kt__hf_config *c, kt_error *err) {
    const char *pattern = pattern_of(c), *letters = c->arch == KT__HF_NEMOTRONM ? "M*E" : "M*-";
    if (strlen(pattern) != (size_t)c->n_layer)
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                           "\"hybrid_override_pattern\" has %zu letters for %lld layers",
                           strlen(pattern), (long long)c->n_layer);
    for (int64_t i = 0; i < c->n_layer; i++) {
        if (!strchr(letters, pattern[i]))
            return kt__hf_refuse(c, "hybrid_override_pattern",
                                 "M, * and either - or E are expected", err);
        c->parts[i] = pattern[i];
        c->recurrent[i] = pattern[i] == 'M';
    }
    return check_flags(c, err);
}

void kt__hf_parts_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    int32_t n_kv[KT__HF_MAX_LAYERS], d_ff[KT__HF_MAX_LAYERS];
    for (int64_t i = 0; i < c->n_layer; i++) {
        n_kv[i] = c->parts[i] == '*' ? (int32_t)c->n_head_kv : 0;
        d_ff[i] = c->parts[i] == '-'   ? (int32_t)c->d_ff
                  : c->parts[i] == 'E' ? (int32_t)c->d_ff_expert
                                       : 0;
    }
    snprintf(key, sizeof key, "%s.attention.head_count_kv", c->arch_name);
    kt__gguf_put_i32s(w, key, n_kv, (uint64_t)c->n_layer);
    snprintf(key, sizeof key, "%s.feed_forward_length", c->arch_name);
    kt__gguf_put_i32s(w, key, d_ff, (uint64_t)c->n_layer);
    snprintf(key, sizeof key, "%s.attention.layer_norm_epsilon", c->arch_name); /* some read this */
    kt__gguf_put_f32(w, key, (float)c->eps);
}
