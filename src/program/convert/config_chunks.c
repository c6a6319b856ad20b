/* Llama 4: layers that see chunks of positions and those that see all, which are not rotated; experts in
 * every so many-th layer. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/config.h"

/* What files of the format do not say. */
enum { NOPE_EVERY = 4, USUAL_CHUNK = 8192, USUAL_SPAN = 8192, PLAIN_HEADS = 128 };
static const double usual_temperature = 0.1;

static bool is_rotated(const kt__hf_config *c, int64_t layer) {
    const json_t *list = kt__hf_config_get(c, "no_rope_layers");
    const json_t *every = kt__hf_config_get(c, "no_rope_layer_interval");
    int64_t period = json_is_integer(every) ? json_integer_value(every) : NOPE_EVERY;
    if (json_array_size(list) > 0) /* 1: it is rotated */
        return json_integer_value(json_array_get(list, (size_t)layer)) != 0;
    return period < 1 || (layer + 1) % period != 0;
}

/* Without a list, rotated layers are those with chunks. */
static bool sees_chunks(const kt__hf_config *c, int64_t layer) {
    const json_t *types = kt__hf_config_get(c, "layer_types");
    if (c->window == KT__HF_NONE) return false;
    if (json_array_size(types) == 0) return is_rotated(c, layer);
    const char *name = json_string_value(json_array_get(types, (size_t)layer));
    return !name || strcmp(name, "full_attention") != 0;
}

/* Either every fourth layer sees all and is not rotated, or every layer sees all and is. */
static kt_status check_layers(kt__hf_config *c, kt_error *err) {
    bool usual = true, plain = true;
    for (int64_t i = 0; i < c->n_layer; i++) {
        bool fourth = (i + 1) % NOPE_EVERY == 0;
        usual &= is_rotated(c, i) == !fourth && sees_chunks(c, i) == !fourth;
        plain &= is_rotated(c, i) && !sees_chunks(c, i);
    }
    if (plain) c->window = 0;
    return usual || plain
               ? KT_OK
               : kt__hf_refuse(
                     c, "no_rope_layers",
                     "with layer_types, every fourth layer that sees all positions and is "
                     "not rotated, or none, is expected",
                     err);
}

static kt_status check_experts(const kt__hf_config *c, kt_error *err) {
    const json_t *list = kt__hf_config_get(c, "moe_layers"), *layer;
    bool plain = c->n_expert == PLAIN_HEADS;
    size_t i;
    json_array_foreach(list, i, layer) {
        if (json_integer_value(layer) != (int64_t)(i + 1) * c->expert_step - 1)
            return kt__hf_refuse(c, "moe_layers",
                                 "other layers than interleave_moe_layer_step says", err);
    }
    if (kt__hf_flag(c, "use_qk_norm", true) == plain)
        return kt__hf_refuse(c, "use_qk_norm",
                             "the format implies norms of heads, but with 128 experts", err);
    if (kt__hf_flag(c, "attention_bias", false))
        return kt__hf_refuse(c, "attention_bias", "the llama4 format has no such biases", err);
    return KT_OK;
}

kt_status kt__hf_chunks_read(kt__hf_config *c, kt_error *err) {
    const json_t *tuned = kt__hf_config_get(c, "attn_temperature_tuning");
    c->d_ff_shared = c->d_ff_expert;
    if (json_is_false(tuned) || (json_is_number(tuned) && json_number_value(tuned) == 0.0))
        c->temperature = 0.0;
    KT__STEP(check_layers(c, err));
    return check_experts(c, err);
}

void kt__hf_chunks_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window", c->arch_name);
    if (c->window != USUAL_CHUNK) kt__gguf_put_u32(w, key, (uint32_t)c->window);
    if (c->window == 0) return;
    snprintf(key, sizeof key, "%s.attention.temperature_scale", c->arch_name);
    if (c->temperature != usual_temperature) kt__gguf_put_f32(w, key, (float)c->temperature);
    snprintf(key, sizeof key, "%s.attention.temperature_length", c->arch_name);
    if (c->temperature_span != USUAL_SPAN) kt__gguf_put_u32(w, key, (uint32_t)c->temperature_span);
}
