/* Layers of two kinds, those with a sliding window and those without, each with heads of its own; and
 * layers that take keys and values from another. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "convert/config.h"

static bool is_shared(const kt__hf_config *c, int64_t layer) {
    return layer >= c->n_layer - c->n_shared_kv;
}

kt__hf_layer kt__hf_layer_of(const kt__hf_config *c, int64_t layer) {
    kt__hf_layer of = {.d_ff = c->d_ff,
                       .n_head_kv = c->n_head_kv,
                       .head_dim = c->head_dim,
                       .has_keys = true,
                       .has_values = true};
    if (!(c->arch & KT__HF_GEMMA4S)) return of;
    if (is_shared(c, layer) && kt__hf_flag(c, "use_double_wide_mlp", false)) of.d_ff *= 2;
    if (c->local[layer]) of.n_head_kv = c->local_n_head_kv;
    if (c->local[layer]) of.head_dim = c->local_head_dim;
    of.has_keys = !is_shared(c, layer);
    of.has_values = of.has_keys && (c->local[layer] || !kt__hf_flag(c, "attention_k_eq_v", false));
    return of;
}

kt_status kt__hf_kinds_derive(kt__hf_config *c, kt_error *err) {
    c->local_head_dim = c->head_dim; /* the class has a default */
    c->head_dim = c->global_head_dim;
    c->local_n_head_kv = c->n_head_kv;
    if (kt__hf_flag(c, "attention_k_eq_v", false) && c->n_head_kv_global != KT__HF_NONE)
        c->n_head_kv = c->n_head_kv_global;
    if (c->arch == KT__HF_GEMMA4_ASSISTANT && c->n_shared_kv == 0) c->n_shared_kv = c->n_layer;
    if (!kt__hf_flag(c, "enable_moe_block", false)) c->n_expert = KT__HF_NONE;
    if (c->n_expert == KT__HF_NONE) c->n_expert_used = c->d_ff_expert = KT__HF_NONE;
    if (c->local_head_dim % 2 != 0)
        return kt__hf_refuse(c, "head_dim", "heads need an even size", err);
    return c->n_head % c->local_n_head_kv == 0
               ? KT_OK
               : kt__hf_refuse(c, "num_key_value_heads", "does not divide the number of heads",
                               err);
}

/* Whether a layer of the kind has keys and values of its own. */
static bool has_own(const kt__hf_config *c, bool local) {
    for (int64_t i = 0; i < c->n_layer - c->n_shared_kv; i++)
        if (c->local[i] == local) return true;
    return false;
}

static kt_status check_assistant(const kt__hf_config *c, kt_error *err) {
    static const char *const off[] = {"enable_moe_block", "use_double_wide_mlp"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (kt__hf_flag(c, off[i], false))
            return kt__hf_refuse(c, off[i],
                                 "is true, which the format of assistants cannot express", err);
    if (c->d_layer_input > 0)
        return kt__hf_refuse(c, "hidden_size_per_layer_input",
                             "0 is expected: an assistant's layers have no embeddings of their own",
                             err);
    if (c->n_shared_kv != c->n_layer)
        return kt__hf_refuse(c, "num_kv_shared_layers",
                             "all layers of an assistant are expected to read its model's keys and "
                             "values",
                             err);
    return KT_OK;
}

static kt_status check_shared(const kt__hf_config *c, kt_error *err) {
    if (c->n_shared_kv >= c->n_layer)
        return kt__hf_refuse(c, "num_kv_shared_layers", "fewer than there are layers are expected",
                             err);
    for (int64_t i = c->n_layer - c->n_shared_kv; i < c->n_layer; i++)
        if (!has_own(c, c->local[i]))
            return kt__hf_refuse(c, "num_kv_shared_layers",
                                 "leaves no layer of one kind with keys and values", err);
    return KT_OK;
}

kt_status kt__hf_kinds_check(const kt__hf_config *c, kt_error *err) {
    if (c->n_expert > 0 && (c->n_expert_used < 1 || c->n_expert_used > c->n_expert))
        return kt__hf_refuse(c, "top_k_experts", "1 to the number of experts is expected", err);
    if (c->n_expert > 0 && c->d_ff_expert == KT__HF_NONE)
        return kt__hf_refuse(c, "moe_intermediate_size", "is missing, and there are experts", err);
    if (kt__hf_flag(c, "attention_bias", false))
        return kt__hf_refuse(c, "attention_bias", "the format has no such biases", err);
    return c->arch == KT__HF_GEMMA4_ASSISTANT ? check_assistant(c, err) : check_shared(c, err);
}

static void put_of_layers(const kt__hf_config *c, kt__gguf_writer *w) {
    int32_t widths[KT__HF_MAX_LAYERS], heads[KT__HF_MAX_LAYERS];
    char key[128];
    for (int64_t i = 0; i < c->n_layer; i++) {
        kt__hf_layer of = kt__hf_layer_of(c, i);
        widths[i] = (int32_t)of.d_ff;
        heads[i] = (int32_t)of.n_head_kv;
    }
    snprintf(key, sizeof key, "%s.feed_forward_length", c->arch_name);
    kt__gguf_put_i32s(w, key, widths, (uint64_t)c->n_layer);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", c->arch_name);
    kt__gguf_put_i32s(w, key, heads, (uint64_t)c->n_layer);
}

void kt__hf_kinds_put(const kt__hf_config *c, kt__gguf_writer *w) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"attention.key_length_swa", c->local_head_dim},
                 {"attention.value_length_swa", c->local_head_dim},
                 {"rope.dimension_count", c->head_dim},
                 {"rope.dimension_count_swa", c->local_head_dim}};
    char key[128];
    put_of_layers(c, w);
    snprintf(key, sizeof key, "%s.nextn_predict_layers", c->arch_name);
    if (c->arch == KT__HF_GEMMA4_ASSISTANT) kt__gguf_put_u32(w, key, (uint32_t)c->n_layer);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", c->arch_name, sizes[i].name);
        kt__gguf_put_u32(w, key, (uint32_t)sizes[i].value);
    }
}
