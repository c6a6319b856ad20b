/* Which layers attend through the sliding window, and which are rotated: config.json's layer_types,
 * sliding_window_pattern and no_rope_layers, besides what the GGUF architecture implies. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/config.h"

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
