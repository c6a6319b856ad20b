/* Mamba-2 (Dao and Gu 2024) in layers of its own or besides attention, and Falcon-H1's
 * multipliers. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/config.h"

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
