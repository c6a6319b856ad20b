/* Models with experts: how a token's experts are chosen, which layers have them, and what the formats
 * imply of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "convert/config.h"

/* Values of expert_gating_func. */
enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };

void kt__hf_experts_choose(kt__hf_config *c) {
    const json_t *every = kt__hf_config_get(c, "moe_every_n_layers");
    if (c->arch != KT__HF_NOMIC || json_number_value(every) <= 0.0) return;
    c->arch = KT__HF_NOMICMOE;
    c->arch_name = "nomic-bert-moe";
}

bool kt__hf_is_dense(const kt__hf_config *c, int64_t layer) {
    if (c->arch == KT__HF_NOMICMOE) return layer % c->expert_step != 1;
    if (c->arch == KT__HF_LLAMA4) return (layer + 1) % c->expert_step != 0;
    return c->arch & KT__HF_DENSE_LEAD && layer < c->n_dense_lead;
}

/* ---- what the formats imply ---- */

/* The format implies how gpt-oss's gate is clamped. */
static kt_status check_clamp(const kt__hf_config *c, kt_error *err) {
    static const char *const names[] = {"swiglu_limit", "swiglu_alpha"};
    for (int i = 0; i < 2; i++) {
        json_t *value = kt__hf_config_get(c, names[i]);
        if (value && json_number_value(value) != *kt__hf_default(c, names[i]))
            return kt__hf_refuse(c, names[i], "the format implies another value", err);
    }
    return KT_OK;
}

/* The formats imply whose softmax an expert's share is of, and that every layer has experts. */
static kt_status check_fixed(const kt__hf_config *c, kt_error *err) {
    bool of_chosen = c->arch & (KT__HF_QWEN3MOE | KT__HF_QWEN35MOE | KT__HF_QWEN3NEXT);
    json_t *step = json_object_get(c->text, "decoder_sparse_step");
    json_t *clip = json_object_get(c->text, "clip_qkv");
    if (kt__hf_flag(c, "norm_topk_prob", (c->arch & (KT__HF_QWEN35MOE | KT__HF_QWEN3NEXT)) != 0) !=
        of_chosen)
        return kt__hf_refuse(c, "norm_topk_prob",
                             of_chosen ? "the format implies that a token's shares sum to 1"
                                       : "the format implies that shares are of all experts",
                             err);
    if ((json_is_integer(step) && json_integer_value(step) != 1) ||
        json_array_size(json_object_get(c->text, "mlp_only_layers")) > 0)
        return kt__hf_refuse(c, "decoder_sparse_step", "the format implies experts in every layer",
                             err);
    if (clip && !json_is_null(clip))
        return kt__hf_refuse(c, "clip_qkv", "the format does not clip queries, keys and values",
                             err);
    if (kt__hf_flag(c, "use_sliding_window", false))
        return kt__hf_refuse(c, "use_sliding_window", "the format has no sliding window", err);
    return KT_OK;
}

static bool is_one(const json_t *value) {
    return !json_is_number(value) || json_number_value(value) == 1.0;
}

/* ERNIE: experts in each layer from the first one on. */
static kt_status check_ernie(const kt__hf_config *c, kt_error *err) {
    const json_t *end = kt__hf_config_get(c, "moe_layer_end_index");
    if (!is_one(kt__hf_config_get(c, "moe_layer_interval")))
        return kt__hf_refuse(c, "moe_layer_interval", "1 is expected", err);
    if (json_is_integer(end) && json_integer_value(end) != -1 &&
        json_integer_value(end) != c->n_layer - 1)
        return kt__hf_refuse(c, "moe_layer_end_index", "the last layer is expected", err);
    if (kt__hf_flag(c, "use_bias", false))
        return kt__hf_refuse(c, "use_bias", "the ernie4_5-moe format has no biases", err);
    return KT_OK;
}

/* Which experts a token's groups leave it. */
static kt_status check_deepseek(const kt__hf_config *c, kt_error *err) {
    const char *method = json_string_value(kt__hf_config_get(c, "topk_method"));
    const char *scores = json_string_value(kt__hf_config_get(c, "scoring_func"));
    if (method && strcmp(method, "group_limited_greedy") == 0 && c->n_group > 1)
        return kt__hf_refuse(c, "topk_method",
                             "groups by their best expert; the format has groups by their best "
                             "two",
                             err);
    if (scores && strcmp(scores, "softmax") != 0 && strcmp(scores, "sigmoid") != 0)
        return kt__hf_refuse(c, "scoring_func", "softmax or sigmoid is expected", err);
    if (!is_one(kt__hf_config_get(c, "moe_layer_freq")))
        return kt__hf_refuse(c, "moe_layer_freq", "1 is expected", err);
    if (kt__hf_flag(c, "attention_bias", false))
        return kt__hf_refuse(c, "attention_bias", "the deepseek2 format has no such biases", err);
    return KT_OK;
}

/* Nomic's experts have the width of its other feed-forward parts. */
static kt_status check_nomic(const kt__hf_config *c, kt_error *err) {
    if (kt__hf_flag(c, "moe_normalize_expert_weights", false))
        return kt__hf_refuse(c, "moe_normalize_expert_weights",
                             "the format implies that shares are of all experts", err);
    if (kt__hf_flag(c, "expert_choice_router", false))
        return kt__hf_refuse(c, "expert_choice_router",
                             "the format implies that tokens choose their experts", err);
    if (json_number_value(kt__hf_config_get(c, "num_shared_experts")) > 0.0)
        return kt__hf_refuse(c, "num_shared_experts", "the format has no shared experts", err);
    return KT_OK;
}

static kt_status check_free(const kt__hf_config *c, kt_error *err) {
    if (c->n_dense_lead > c->n_layer)
        return kt__hf_refuse(c, "first_k_dense_replace", "more than there are layers", err);
    if (c->arch == KT__HF_ERNIEMOE) return check_ernie(c, err);
    if (c->arch == KT__HF_DEEPSEEK) return check_deepseek(c, err);
    if (!kt__hf_flag(c, "use_expert_bias", true))
        return kt__hf_refuse(c, "use_expert_bias", "the lfm2moe format has this bias", err);
    return KT_OK;
}

kt_status kt__hf_experts_read(kt__hf_config *c, kt_error *err) {
    if (c->n_expert_used > c->n_expert)
        return kt__hf_refuse(c, c->arch == KT__HF_NOMICMOE ? "moe_top_k" : "num_experts_per_tok",
                             "more than there are experts", err);
    if (c->arch == KT__HF_LLAMA4) return kt__hf_chunks_read(c, err);
    if (c->arch == KT__HF_NOMICMOE) return check_nomic(c, err);
    if (c->n_shared > 0) c->d_ff_shared = c->n_shared * c->d_ff_expert;
    if (c->arch & KT__HF_DENSE_LEAD) return check_free(c, err);
    if (c->arch == KT__HF_GRANITEMOE) return KT_OK; /* its class has shares of the chosen alone */
    return c->arch == KT__HF_GPTOSS ? check_clamp(c, err) : check_fixed(c, err);
}

/* ---- writing ---- */

static bool is_sigmoid(const kt__hf_config *c) {
    const char *scores = json_string_value(kt__hf_config_get(c, "scoring_func"));
    if (scores) return strcmp(scores, "sigmoid") == 0;
    return c->arch & (KT__HF_LFM2MOE | KT__HF_NEMOTRONM) ||
           (c->arch == KT__HF_DEEPSEEK && strcmp(c->model_type, "deepseek_v2") != 0);
}

void kt__hf_experts_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    if (!(c->arch & (KT__HF_DENSE_LEAD | KT__HF_NEMOTRONM))) return;
    snprintf(key, sizeof key, "%s.expert_gating_func", c->arch_name);
    kt__gguf_put_u32(w, key, is_sigmoid(c) ? GATING_SIGMOID : GATING_SOFTMAX);
    snprintf(key, sizeof key, "%s.interleave_moe_layer_step", c->arch_name);
    if (c->arch == KT__HF_ERNIEMOE) kt__gguf_put_u32(w, key, 1);
    snprintf(key, sizeof key, "%s.expert_shared_feed_forward_length", c->arch_name);
    if (c->arch == KT__HF_ERNIEMOE && c->n_shared > 0)
        kt__gguf_put_u32(w, key, (uint32_t)c->d_ff_shared);
    snprintf(key, sizeof key, "%s.expert_weights_norm", c->arch_name);
    kt__gguf_put_bool(w, key, kt__hf_flag(c, "norm_topk_prob", c->arch != KT__HF_DEEPSEEK));
}

/* Attention over latent vectors (DeepSeek-AI 2024): heads share one vector for keys and values, which
 * GGUF has as one head of keys. */

kt_status kt__hf_latent_derive(kt__hf_config *c, kt_error *err) {
    if (c->rope_dim % 2 != 0)
        return kt__hf_refuse(c, "qk_rope_head_dim", "an even size is expected", err);
    if (c->kv_rank % 2 != 0 || c->kv_rank + c->rope_dim > 1024)
        return kt__hf_refuse(c, "kv_lora_rank",
                             "an even size is expected, with qk_rope_head_dim at most 1024", err);
    c->n_head_kv = c->n_head;
    c->has_head_keys = false; /* kt__hf_latent_put writes them */
    c->head_dim = c->kv_rank + c->rope_dim;
    c->n_rot = c->rope_dim;
    c->tied = kt__hf_flag(c, "tie_word_embeddings", false);
    if (!kt__hf_flag(c, "rope_interleave", true))
        return kt__hf_refuse(c, "rope_interleave", "the format rotates neighbours", err);
    return KT_OK;
}

static void put_length(const kt__hf_config *c, kt__gguf_writer *w, const char *suffix,
                       int64_t value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->arch_name, suffix);
    kt__gguf_put_u32(w, key, (uint32_t)value);
}

void kt__hf_latent_put(const kt__hf_config *c, kt__gguf_writer *w) {
    put_length(c, w, "attention.head_count_kv", 1);
    put_length(c, w, "attention.key_length", c->kv_rank + c->rope_dim);
    put_length(c, w, "attention.value_length", c->kv_rank);
    put_length(c, w, "attention.key_length_mla", c->nope_dim + c->rope_dim);
    put_length(c, w, "rope.dimension_count", c->rope_dim);
}

/* Gemma 3n: several residual streams, and gates that are cut. */

void kt__hf_streams_read(kt__hf_config *c) {
    json_t *list = json_object_get(c->text, "intermediate_size"), *width;
    json_t *first = json_array_get(list, 0);
    size_t i;
    if (!json_is_integer(first)) return;
    json_array_foreach(list, i, width) {
        if (!json_equal(width, first)) return;
    }
    json_object_set(c->text, "intermediate_size", first);
}

static const json_t *pattern_of(const kt__hf_config *c) {
    return kt__hf_config_get(c, "activation_sparsity_pattern");
}

/* The share of a gate that does not count; without a list, most of it in the first ten layers. */
static double share_at(const kt__hf_config *c, int64_t layer) {
    const json_t *pattern = pattern_of(c);
    if (!json_is_array(pattern)) return layer < 10 && !json_is_null(pattern) ? 0.95 : 0.0;
    return json_number_value(json_array_get(pattern, (size_t)layer));
}

kt_status kt__hf_streams_check(const kt__hf_config *c, kt_error *err) {
    const json_t *pattern = pattern_of(c), *first = kt__hf_config_get(c, "altup_active_idx");
    if (json_is_array(pattern) && json_array_size(pattern) != (size_t)c->n_layer)
        return kt__hf_refuse(c, "activation_sparsity_pattern",
                             "a number for each layer is expected", err);
    for (int64_t i = 0; i < c->n_layer; i++)
        if (!(share_at(c, i) >= 0.0 && share_at(c, i) <= 0.9999))
            return kt__hf_refuse(c, "activation_sparsity_pattern", "0 to 0.9999 is expected", err);
    if (json_is_integer(first) && json_integer_value(first) != 0)
        return kt__hf_refuse(c, "altup_active_idx", "the first stream is expected", err);
    if (!kt__hf_flag(c, "altup_correct_scale", true))
        return kt__hf_refuse(c, "altup_correct_scale", "the gemma3n format has it", err);
    return KT_OK;
}

/* The normal distribution below z, by its series around 0 (|z| < 6). */
static double normal_below(double z) {
    double term = z, sum = z;
    for (int n = 3; n < 200; n += 2) {
        term *= z * z / n;
        sum += term;
    }
    return 0.5 + sum * kt__exp(-0.5 * z * z) * 0.3989422804014327;
}

static float quantile_of(double share) {
    double low = -6.0, high = 6.0;
    if (share <= 0.0) return -INFINITY;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (normal_below(middle) < share)
            low = middle;
        else
            high = middle;
    }
    return (float)low;
}

void kt__hf_streams_put(const kt__hf_config *c, kt__gguf_writer *w) {
    float cuts[KT__HF_MAX_LAYERS];
    char key[128];
    for (int64_t i = 0; i < c->n_layer; i++) cuts[i] = quantile_of(share_at(c, i));
    snprintf(key, sizeof key, "%s.activation_sparsity_scale", c->arch_name);
    kt__gguf_put_f32s(w, key, cuts, (uint64_t)c->n_layer);
    snprintf(key, sizeof key, "%s.altup.active_idx", c->arch_name);
    kt__gguf_put_u32(w, key, 0);
}
