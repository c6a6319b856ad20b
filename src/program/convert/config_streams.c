/* Gemma 3n: several residual streams, and gates that are cut. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/math.h"
#include "convert/config.h"

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
