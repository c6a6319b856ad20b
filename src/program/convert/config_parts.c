/* Nemotron-H: layers that have one part each, as the letters of a pattern say: M Mamba-2, * attention,
 * - a feed-forward part, E experts. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/config.h"

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
