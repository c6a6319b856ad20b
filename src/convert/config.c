#include "convert/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void kt__convert_note(const kt__convert_notes *notes, const char *fmt, ...) {
    char line[512];
    va_list args;
    if (!notes || !notes->fn) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    notes->fn(notes->user, line);
}

/* ---- the tables ---- */

typedef struct arch_class {
    const char *class_name, *model_type;
    unsigned arch;
    const char *arch_name;
} arch_class;

static const arch_class classes[] = {
#define X(class_name, model_type, arch, arch_name) \
    {class_name, model_type, KT__HF_##arch, arch_name},
#include "convert/archs.def"
#undef X
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

unsigned kt__hf_arch_of(const char *arch_name) {
    for (int i = 0; i < N_CLASSES; i++)
        if (!strcmp(classes[i].arch_name, arch_name)) return classes[i].arch;
    return 0;
}

typedef struct int_key {
    size_t at; /* in kt__hf_config */
    unsigned archs;
    const char *key, *names;
    bool must;
    int64_t min, max;
} int_key;

typedef struct num_key {
    size_t at;
    unsigned archs;
    const char *key, *names;
    bool must;
} num_key;

enum { MAY = 0, MUST = 1 };
#define ALL KT__HF_ALL
#define LLAMA KT__HF_LLAMA
#define GRANITE KT__HF_GRANITE
#define QWEN2 KT__HF_QWEN2
#define GEMMA2 KT__HF_GEMMA2
#define GEMMA3 KT__HF_GEMMA3
#define PHI3 KT__HF_PHI3
#define WINDOWED KT__HF_WINDOWED
#define INT(field, archs, key, names, need, min, max) \
    {offsetof(kt__hf_config, field), archs, key, names, need, min, max},
#define NUM(field, archs, key, names, need)
static const int_key int_keys[] = {
#include "convert/config_keys.def"
};
#undef INT
#undef NUM
#define INT(field, archs, key, names, need, min, max)
#define NUM(field, archs, key, names, need) \
    {offsetof(kt__hf_config, field), archs, key, names, need},
static const num_key num_keys[] = {
#include "convert/config_keys.def"
};
#undef INT
#undef NUM
enum {
    N_INT_KEYS = sizeof int_keys / sizeof *int_keys,
    N_NUM_KEYS = sizeof num_keys / sizeof *num_keys
};

static const struct {
    const char *model_type, *name;
    double value;
} defaults[] = {
#define X(model_type, name, value) {model_type, name, value},
#include "convert/config_defaults.def"
#undef X
};
enum { N_DEFAULTS = sizeof defaults / sizeof *defaults };

static const double *class_default(const kt__hf_config *c, const char *name) {
    for (int i = 0; i < N_DEFAULTS; i++)
        if (strcmp(defaults[i].model_type, c->model_type) == 0 &&
            strcmp(defaults[i].name, name) == 0)
            return &defaults[i].value;
    return NULL;
}

json_t *kt__hf_config_get(const kt__hf_config *c, const char *name) {
    json_t *value = json_object_get(c->text, name);
    return value ? value : json_object_get(c->root, name);
}

/* ---- numbers ---- */

/* The next of "a|b|c" into name; false: none left. */
static bool next_name(const char **names, char name[64]) {
    size_t len = strcspn(*names, "|");
    if (len == 0) return false;
    snprintf(name, 64, "%.*s", (int)len, *names);
    *names += len + ((*names)[len] == '|');
    return true;
}

/* The number under the first of the names that is there; null gives NaN, as does absence without a
 * class default. */
static kt_status find_number(const kt__hf_config *c, const char *names, double *out,
                             kt_error *err) {
    char name[64];
    const double *fallback = NULL;
    for (const char *rest = names; next_name(&rest, name);) {
        json_t *value = kt__hf_config_get(c, name);
        if (!fallback) fallback = class_default(c, name);
        if (!value) continue;
        *out = json_is_null(value) ? (double)NAN : json_number_value(value);
        if (json_is_number(value) || json_is_null(value)) return KT_OK;
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX, "\"%s\" is not a number", name);
    }
    *out = fallback ? *fallback : (double)NAN;
    return KT_OK;
}

static kt_status missing(const kt__hf_config *c, const char *names, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                       "\"%.*s\" is missing, and the class %s has no default for it: add it",
                       (int)strcspn(names, "|"), names, c->class_name);
}

static kt_status read_int(kt__hf_config *c, const int_key *k, kt_error *err) {
    int64_t *field = (int64_t *)(void *)((char *)c + k->at);
    double value;
    *field = KT__HF_NONE;
    if (!(k->archs & c->arch)) return KT_OK;
    kt_status status = find_number(c, k->names, &value, err);
    if (status != KT_OK) return status;
    if (isnan(value)) return k->must ? missing(c, k->names, err) : KT_OK;
    if (!(value >= (double)k->min && value <= (double)k->max) || value != floor(value))
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                           "\"%s\" is %.17g; a whole number from %" PRId64 " to %" PRId64
                           " is expected",
                           k->names, value, k->min, k->max);
    *field = (int64_t)value;
    return KT_OK;
}

static kt_status read_num(kt__hf_config *c, const num_key *k, kt_error *err) {
    double *field = (double *)(void *)((char *)c + k->at);
    *field = (double)NAN;
    if (!(k->archs & c->arch)) return KT_OK;
    kt_status status = find_number(c, k->names, field, err);
    if (status != KT_OK) return status;
    if (isnan(*field)) return k->must ? missing(c, k->names, err) : KT_OK;
    if (*field >= 0.0 && *field <= 1e30) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                       "\"%s\" is %g; a positive number is expected", k->names, *field);
}

static bool read_flag(const kt__hf_config *c, const char *name, bool fallback) {
    json_t *value = kt__hf_config_get(c, name);
    const double *preset = class_default(c, name);
    if (json_is_boolean(value)) return json_is_true(value);
    return preset ? *preset != 0.0 : fallback;
}

/* ---- the class ---- */

static const arch_class *find_class(const json_t *root) {
    const char *name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const char *type = json_string_value(json_object_get(root, "model_type"));
    for (int i = 0; i < N_CLASSES; i++)
        if (name ? strcmp(classes[i].class_name, name) == 0
                 : type && strcmp(classes[i].model_type, type) == 0)
            return &classes[i];
    return NULL;
}

static kt_status unknown_class(const kt__hf_config *c, kt_error *err) {
    char list[300] = "";
    size_t at = 0;
    const char *name = json_string_value(
        json_array_get(json_object_get(c->root, "architectures"), 0));
    if (!name) name = json_string_value(json_object_get(c->root, "model_type"));
    for (int i = 0; i < N_CLASSES && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                               classes[i].class_name);
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "the model class '%.80s' is not supported; supported are: %s",
                       name ? name : "(none named)", list);
}

static kt_status read_class(kt__hf_config *c, kt_error *err) {
    const arch_class *found = find_class(c->root);
    json_t *text = json_object_get(c->root, "text_config");
    if (!found) return unknown_class(c, err);
    c->arch = found->arch;
    c->class_name = found->class_name;
    c->arch_name = found->arch_name;
    c->model_type = found->model_type;
    c->text = json_is_object(text) ? text : c->root;
    if (c->arch == KT__HF_GEMMA3) c->model_type = "gemma3_text";
    return KT_OK;
}

/* ---- what the architecture cannot express ---- */

static kt_status refuse(const kt__hf_config *c, kt_error *err, const char *name, const char *why) {
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX, "\"%s\": %s", name, why);
}

static kt_status check_activation(const kt__hf_config *c, kt_error *err) {
    const char *want = c->arch & KT__HF_GEMMA ? "gelu_pytorch_tanh" : "silu";
    json_t *value = json_object_get(c->text, "hidden_activation");
    if (!json_is_string(value)) value = json_object_get(c->text, "hidden_act");
    if (!json_is_string(value) || strcmp(json_string_value(value), want) == 0) return KT_OK;
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "\"hidden_act\" is '%.60s'; %s models compute %s", json_string_value(value),
                       c->arch_name, want);
}

/* Readers of GGUF know Gemma's query scale by the model's size. */
static kt_status check_query_scale(const kt__hf_config *c, kt_error *err) {
    int64_t width = c->d_model / c->n_head;
    bool is_27b = width != c->head_dim && c->n_layer == (c->arch == KT__HF_GEMMA2 ? 46 : 62);
    double want = (double)(is_27b ? width : c->head_dim);
    if (isnan(c->query_scalar) || c->query_scalar == want) return KT_OK;
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "\"query_pre_attn_scalar\" is %g; the %s format implies %g", c->query_scalar,
                       c->arch_name, want);
}

/* The format implies which layers see all positions: each second (gemma2) or sixth (gemma3). */
static kt_status check_layer_types(const kt__hf_config *c, kt_error *err) {
    json_t *types = json_object_get(c->text, "layer_types"), *type;
    int64_t period = c->arch == KT__HF_GEMMA2 ? 2 : 6;
    size_t i;
    if (c->window_pattern != KT__HF_NONE && c->window_pattern != period)
        return refuse(c, err, "sliding_window_pattern",
                      "the format implies that each sixth layer is global");
    json_array_foreach(types, i, type) {
        const char *name = json_string_value(type);
        bool global = (int64_t)(i + 1) % period == 0;
        if (!name || strcmp(name, global ? "full_attention" : "sliding_attention") != 0)
            return refuse(c, err, "layer_types",
                          "another order of local and global layers than the format implies");
    }
    return KT_OK;
}

/* Of smollm3, the format implies that each fourth layer has no rotation. */
static kt_status check_rotated_layers(const kt__hf_config *c, kt_error *err) {
    json_t *list = json_object_get(c->text, "no_rope_layers"), *rotated;
    size_t i;
    json_array_foreach(list, i, rotated) {
        if ((json_integer_value(rotated) != 0) != ((i + 1) % 4 != 0))
            return refuse(c, err, "no_rope_layers", "each fourth layer is expected to be 0");
    }
    if (read_flag(c, "use_sliding_window", false))
        return refuse(c, err, "use_sliding_window", "the smollm3 format has no sliding window");
    return KT_OK;
}

static kt_status check_window(kt__hf_config *c, const kt__convert_notes *notes, kt_error *err) {
    bool used = c->window > 0 && c->window < c->n_ctx;
    if (c->arch == KT__HF_QWEN2 && used && read_flag(c, "use_sliding_window", false))
        return refuse(c, err, "use_sliding_window", "the qwen2 format has no sliding window");
    if (c->arch == KT__HF_LLAMA && used)
        kt__convert_note(notes,
                         "the sliding window of %" PRId64
                         " positions is not part of the llama format: answers beyond it differ",
                         c->window);
    return KT_OK;
}

static kt_status check_expressible(kt__hf_config *c, const kt__convert_notes *notes,
                                   kt_error *err) {
    json_t *quantised = json_object_get(c->root, "quantization_config");
    kt_status status;
    if (json_is_object(quantised)) {
        const char *method = json_string_value(json_object_get(quantised, "quant_method"));
        return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                           "the weights are quantised already (%.60s): convert the original model",
                           method ? method : "quantization_config");
    }
    if (json_is_true(json_object_get(c->text, "use_bidirectional_attention")))
        return refuse(c, err, "use_bidirectional_attention", "embedding models are not supported");
    if (c->arch != KT__HF_PHI3 && !isnan(c->rotary_share) && c->rotary_share != 1.0)
        return refuse(c, err, "partial_rotary_factor", "only phi3 models rotate a part of a head");
    KT__TRY(check_activation(c, err));
    KT__TRY(check_window(c, notes, err));
    if (c->arch == KT__HF_SMOLLM3) KT__TRY(check_rotated_layers(c, err));
    if (c->arch & KT__HF_GEMMA) {
        KT__TRY(check_query_scale(c, err));
        KT__TRY(check_layer_types(c, err));
    }
    status = KT_OK;
out:
    return status;
}

/* ---- reading ---- */

static kt_status derive(kt__hf_config *c, kt_error *err) {
    if (c->n_head_kv == KT__HF_NONE) c->n_head_kv = c->n_head;
    if (c->n_head % c->n_head_kv != 0)
        return refuse(c, err, "num_key_value_heads", "does not divide the number of heads");
    if (c->head_dim == KT__HF_NONE && c->d_model % c->n_head != 0)
        return refuse(c, err, "num_attention_heads", "does not divide hidden_size");
    c->has_head_keys = c->head_dim != KT__HF_NONE;
    if (c->head_dim == KT__HF_NONE) c->head_dim = c->d_model / c->n_head;
    double share = isnan(c->rotary_share) ? 1.0 : c->rotary_share;
    c->n_rot = (int64_t)((double)c->head_dim * share);
    if (c->head_dim % 2 != 0 || c->head_dim > 1024 || c->n_rot < 2 || c->n_rot > c->head_dim ||
        c->n_rot % 2 != 0)
        return refuse(c, err, "head_dim", "heads and their rotated part need an even size");
    c->tied = read_flag(c, "tie_word_embeddings", true);
    return KT_OK;
}

kt_status kt__hf_config_read(json_t *root, const char *path, const kt__convert_notes *notes,
                             kt__hf_config *out, kt_error *err) {
    kt_status status;
    *out = (kt__hf_config){.path = path, .root = root};
    KT__TRY(read_class(out, err));
    KT__TRY(kt__hf_rope_read(out, err));
    for (int i = 0; i < N_INT_KEYS; i++) KT__TRY(read_int(out, &int_keys[i], err));
    for (int i = 0; i < N_NUM_KEYS; i++) KT__TRY(read_num(out, &num_keys[i], err));
    KT__TRY(derive(out, err));
    KT__TRY(kt__hf_rope_finish(out, err));
    KT__TRY(check_expressible(out, notes, err));
out:
    if (status != KT_OK) kt__hf_config_free(out);
    return status;
}

void kt__hf_config_free(kt__hf_config *config) {
    json_decref(config->root);
    *config = (kt__hf_config){0};
}

/* ---- writing ---- */

static const char *key_name(const kt__hf_config *c, const char *suffix, char out[128]) {
    snprintf(out, 128, "%s.%s", c->arch_name, suffix);
    return out;
}

void kt__hf_config_put(const kt__hf_config *c, int64_t n_vocab, kt__gguf_writer *w) {
    char key[128];
    for (int i = 0; i < N_INT_KEYS; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)c + int_keys[i].at);
        if (int_keys[i].key && value != KT__HF_NONE)
            kt__gguf_put_u32(w, key_name(c, int_keys[i].key, key), (uint32_t)value);
    }
    for (int i = 0; i < N_NUM_KEYS; i++) {
        double value = *(const double *)(const void *)((const char *)c + num_keys[i].at);
        if (num_keys[i].key && !isnan(value))
            kt__gguf_put_f32(w, key_name(c, num_keys[i].key, key), (float)value);
    }
    if (c->has_head_keys) {
        kt__gguf_put_u32(w, key_name(c, "attention.key_length", key), (uint32_t)c->head_dim);
        kt__gguf_put_u32(w, key_name(c, "attention.value_length", key), (uint32_t)c->head_dim);
    }
    if (c->arch & (KT__HF_PERMUTED | KT__HF_PHI3))
        kt__gguf_put_u32(w, key_name(c, "rope.dimension_count", key), (uint32_t)c->n_rot);
    if (c->arch & KT__HF_WINDOWED) /* phi3 without a window says 0 */
        kt__gguf_put_u32(w, key_name(c, "attention.sliding_window", key),
                         c->window > 0 ? (uint32_t)c->window : 0);
    kt__gguf_put_u32(w, key_name(c, "vocab_size", key), (uint32_t)n_vocab);
    kt__hf_rope_put(c, w);
}
