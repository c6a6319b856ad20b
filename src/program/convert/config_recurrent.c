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
