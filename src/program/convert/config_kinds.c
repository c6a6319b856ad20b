/* Layers of two kinds, those with a sliding window and those without, each with heads of its own; and
 * layers that take keys and values from another. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* Which layers attend through the sliding window, and which are rotated: config.json's layer_types,
 * sliding_window_pattern and no_rope_layers, besides what the GGUF architecture implies. */

/* Formats that imply the layers without a window: each second, fourth or sixth. */
static int64_t implied_period(const kt__hf_config *c) {
    return c->arch == KT__HF_GEMMA2 || c->arch == KT__HF_GPTOSS ? 2
           : c->arch & KT__HF_GEMMA3S                           ? 6
           : c->arch == KT__HF_COHERE2                          ? 4
           : c->arch == KT__HF_MODERN                           ? 3
                                                                : 0;
}

static kt_status check_layer_types(const kt__hf_config *c, kt_error *err) {
    json_t *types = json_object_get(c->text, "layer_types"), *type;
    int64_t period = implied_period(c), first = c->arch == KT__HF_MODERN ? 0 : period - 1;
    size_t i;
    if (c->window_pattern != KT__HF_NONE && c->window_pattern != period)
        return kt__hf_refuse(c, "sliding_window_pattern",
                             "the format implies another order of local and global layers", err);
    json_array_foreach(types, i, type) {
        const char *name = json_string_value(type);
        bool global = (int64_t)i % period == first;
        if (!name || strcmp(name, global ? "full_attention" : "sliding_attention") != 0)
            return kt__hf_refuse(c, "layer_types",
                                 "another order of local and global layers than the format implies",
                                 err);
    }
    return KT_OK;
}

/* ---- a flag for each layer ---- */

static kt_status read_types(kt__hf_config *c, json_t *types, kt_error *err) {
    if (json_array_size(types) != (size_t)c->n_layer)
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                           "\"layer_types\" has %zu elements for %" PRId64 " layers",
                           json_array_size(types), c->n_layer);
    for (int64_t i = 0; i < c->n_layer; i++) {
        const char *name = json_string_value(json_array_get(types, (size_t)i));
        c->local[i] = name && strcmp(name, "sliding_attention") == 0;
        if (!c->local[i] && (!name || strcmp(name, "full_attention") != 0))
            return kt__hf_refuse(c, "layer_types",
                                 "sliding_attention and full_attention are expected", err);
    }
    return KT_OK;
}

/* Every n-th layer is global, or letters that repeat ("LLLG"). */
static kt_status read_pattern(kt__hf_config *c, kt_error *err) {
    json_t *value = kt__hf_config_get(c, "sliding_window_pattern");
    const char *letters = json_string_value(value);
    int64_t period = json_is_integer(value) ? json_integer_value(value) : 4;
    size_t n = letters ? strlen(letters) : 0;
    bool is_letters = n > 0 && n < 256 && strspn(letters, "LG") == n;
    bool is_number = !value || json_is_null(value) || json_is_integer(value);
    if ((!is_letters && !is_number) || period < 1 || period > KT__HF_MAX_LAYERS)
        return kt__hf_refuse(c, "sliding_window_pattern",
                             "a number of layers, or letters L and G, are expected", err);
    for (int64_t i = 0; i < c->n_layer; i++)
        c->local[i] = is_letters ? letters[(size_t)i % n] == 'L' : (i + 1) % period != 0;
    return KT_OK;
}

static kt_status read_locals(kt__hf_config *c, kt_error *err) {
    json_t *types = json_object_get(c->text, "layer_types");
    c->has_locals = c->window > 0;
    if (!c->has_locals) return KT_OK;
    return json_is_array(types) ? read_types(c, types, err) : read_pattern(c, err);
}

/* Without a list each fifth of gemma3n has no window, and each sixth and the last of gemma4. */
static void imply_locals(kt__hf_config *c) {
    bool last = c->arch & KT__HF_GEMMA4S;
    int64_t period = last ? 6 : 5;
    c->has_locals = true;
    for (int64_t i = 0; i < c->n_layer; i++)
        c->local[i] = (i + 1) % period != 0 && !(last && i + 1 == c->n_layer);
}

/* ---- the formats ---- */

/* Of smollm3, the format implies that each fourth layer has no rotation. */
static kt_status check_rotated_layers(const kt__hf_config *c, kt_error *err) {
    json_t *list = json_object_get(c->text, "no_rope_layers"), *rotated;
    size_t i;
    json_array_foreach(list, i, rotated) {
        if ((json_integer_value(rotated) != 0) != ((i + 1) % 4 != 0))
            return kt__hf_refuse(c, "no_rope_layers", "each fourth layer is expected to be 0", err);
    }
    if (kt__hf_flag(c, "use_sliding_window", false))
        return kt__hf_refuse(c, "use_sliding_window", "the smollm3 format has no sliding window",
                             err);
    return KT_OK;
}

kt_status kt__hf_layers_read(kt__hf_config *c, const kt__convert_notes *notes, kt_error *err) {
    bool used = c->window > 0 && c->window < c->n_ctx;
    if (c->arch == KT__HF_QWEN2 && used && kt__hf_flag(c, "use_sliding_window", false))
        return kt__hf_refuse(c, "use_sliding_window", "the qwen2 format has no sliding window",
                             err);
    if (c->arch & (KT__HF_LLAMA | KT__HF_MISTRAL3) && used)
        kt__convert_note(notes,
                         "the sliding window of %" PRId64
                         " positions is not part of the %s format: answers beyond it differ",
                         c->window, c->arch_name);
    if (c->arch & KT__HF_RECURRENT) return kt__hf_recurrent_read(c, err);
    if (c->arch == KT__HF_SMOLLM3) return check_rotated_layers(c, err);
    if (c->arch == KT__HF_COHERE2 && c->window <= 0)
        return kt__hf_refuse(c, "sliding_window", "the cohere2 format has one", err);
    if (implied_period(c) > 0) return check_layer_types(c, err);
    if (c->arch & KT__HF_KINDS && !json_is_array(json_object_get(c->text, "layer_types")))
        imply_locals(c);
    else if (c->arch & KT__HF_POST_NORMS)
        return read_locals(c, err);
    return KT_OK;
}

void kt__hf_layers_put(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    if (c->arch & KT__HF_RECURRENT) kt__hf_recurrent_put(c, w);
    bool has_key = c->arch & (KT__HF_WINDOWED | KT__HF_COHERE2 |
                              KT__HF_MODERN); /* phi3 without a window says 0 */
    snprintf(key, sizeof key, "%s.attention.sliding_window", c->arch_name);
    if (has_key || c->has_locals) kt__gguf_put_u32(w, key, c->window > 0 ? (uint32_t)c->window : 0);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", c->arch_name);
    if (c->has_locals) kt__gguf_put_bools(w, key, c->local, (uint64_t)c->n_layer);
}

/* Llama 4: layers that see chunks of positions and those that see all, which are not rotated; experts in
 * every so many-th layer. */

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
