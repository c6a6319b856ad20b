#include "convert/config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* ---- the tables ---- */

static const char *const arch_names[] = {
#define ARCH(name, arch_name) [KT__HF_AT_##name] = arch_name,
#include "convert/archs.def"
};

typedef struct arch_class {
    const char *class_name, *model_type;
    int at; /* of archs.def */
} arch_class;

static const arch_class classes[] = {
#define CLASS(class_name, model_type, arch) {class_name, model_type, KT__HF_AT_##arch},
#include "convert/archs.def"
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

kt__hf_archs kt__hf_arch_of(const char *arch_name) {
    for (int i = 0; i < KT__HF_N_ARCHS; i++)
        if (!strcmp(arch_names[i], arch_name)) return (kt__hf_archs)1 << i;
    return 0;
}

typedef struct int_key {
    size_t at; /* in kt__hf_config */
    kt__hf_archs archs;
    const char *key, *names;
    bool must;
    int64_t min, max;
} int_key;

typedef struct num_key {
    size_t at;
    kt__hf_archs archs;
    const char *key, *names;
    bool must;
} num_key;

enum { MAY = 0, MUST = 1 };
/* Tokens that Nomic's models with experts were trained with, whatever config.json says. */
enum { NOMIC_MOE_CTX = 512 };
/* In the table, NAME for KT__HF_NAME. */
__extension__ enum {
#define ARCH(name, arch_name) name = KT__HF_##name,
#define GROUP(name, set) name = KT__HF_##name,
#include "convert/archs.def"
};
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
        if (!fallback) fallback = kt__hf_default(c, name);
        if (!value) continue;
        *out = json_is_null(value) ? (double)NAN : json_number_value(value);
        if (json_is_number(value) || json_is_null(value)) return KT_OK;
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX, "\"%s\" is not a number", name);
    }
    *out = fallback ? *fallback : (double)NAN;
    return KT_OK;
}

static kt_status missing_key(const kt__hf_config *c, const char *names, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                       "\"%.*s\" is missing, and the class %s has no default for it: add it",
                       (int)strcspn(names, "|"), names, c->class_name);
}

static kt_status read_int(kt__hf_config *c, const int_key *k, kt_error *err) {
    int64_t *field = (int64_t *)(void *)((char *)c + k->at);
    double value;
    if (!(k->archs & c->arch)) return KT_OK;
    kt_status status = find_number(c, k->names, &value, err);
    if (status != KT_OK) return status;
    if (isnan(value)) return k->must ? missing_key(c, k->names, err) : KT_OK;
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
    if (!(k->archs & c->arch)) return KT_OK;
    kt_status status = find_number(c, k->names, field, err);
    if (status != KT_OK) return status;
    if (isnan(*field)) return k->must ? missing_key(c, k->names, err) : KT_OK;
    if (*field >= 0.0 && *field <= 1e30) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                       "\"%s\" is %g; a positive number is expected", k->names, *field);
}

static void clear_numbers(kt__hf_config *c) {
    for (int i = 0; i < N_INT_KEYS; i++)
        *(int64_t *)(void *)((char *)c + int_keys[i].at) = KT__HF_NONE;
    for (int i = 0; i < N_NUM_KEYS; i++)
        *(double *)(void *)((char *)c + num_keys[i].at) = (double)NAN;
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

/* Encoders that people look for and that are not run, by what their classes' names begin with. */
static const struct {
    const char *prefix, *why;
} other_encoders[] = {
    {"ModernBertFor", "its head, for hidden words or for classes, is not computed"},
    {"MPNet", "its attention adds a bias by distance"},
    {"NewModel", "gte's own class, with gated products and rotated positions"},
    {"NewFor", "gte's own class, with gated products and rotated positions"}};

static kt_status refuse_encoder(const kt__hf_config *c, const char *name, const char *why,
                                kt_error *err) {
    return kt__fail_at(
        err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
        "the encoder class '%.60s' is not supported (%s); take an embedding model or reranker of the "
        "class BertModel, RobertaModel, XLMRobertaModel, NomicBertModel, ModernBertModel, "
        "Gemma3TextModel or Qwen3Model",
        name, why);
}

static const char *why_no_encoder(const char *name) {
    for (size_t i = 0; i < sizeof other_encoders / sizeof *other_encoders; i++)
        if (strncmp(name, other_encoders[i].prefix, strlen(other_encoders[i].prefix)) == 0)
            return other_encoders[i].why;
    return NULL;
}

static kt_status unknown_class(const kt__hf_config *c, kt_error *err) {
    char list[400] = "";
    size_t at = 0;
    const char *name = json_string_value(
        json_array_get(json_object_get(c->root, "architectures"), 0));
    bool other_part = json_object_get(c->root, "vision_config") ||
                      json_object_get(c->root, "audio_config");
    if (!name) name = json_string_value(json_object_get(c->root, "model_type"));
    const char *why = name ? why_no_encoder(name) : NULL;
    if (why) return refuse_encoder(c, name, why, err);
    for (int i = 0; i < N_CLASSES && at < sizeof list; i++)
        if (i == 0 || strcmp(classes[i].model_type, classes[i - 1].model_type) != 0)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                                   classes[i].model_type);
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "the model class '%.60s'%s is not supported; supported are the classes of: "
                       "%s",
                       name ? name : "(none named)",
                       other_part ? ", which has a vision or audio part," : "", list);
}

static void take_class(kt__hf_config *c, const arch_class *class) {
    c->arch = (kt__hf_archs)1 << class->at;
    c->arch_name = arch_names[class->at];
    c->model_type = class->model_type;
}

/* A model that sees as well holds a language model, whose model_type decides. */
static kt_status read_text(kt__hf_config *c, json_t *text, kt_error *err) {
    static const struct {
        const char *whole, *text;
    } presets[] = {
        {"gemma3", "gemma3_text"},           {"gemma3n", "gemma3n_text"},
        {"gemma4", "gemma4_text"},           {"gemma4_unified", "gemma4_unified_text"},
        {"gemma4_assistant", "gemma4_text"}, {"gemma4_unified_assistant", "gemma4_unified_text"},
        {"llama4", "llama4_text"},           {"mistral3", "mistral"},
        {"qwen3_5", "qwen3_5_text"},         {"qwen3_5_moe", "qwen3_5_moe_text"}};
    const char *type = json_string_value(json_object_get(text, "model_type"));
    for (size_t i = 0; i < sizeof presets / sizeof *presets && !type; i++)
        if (strcmp(presets[i].whole, c->model_type) == 0) type = presets[i].text;
    for (int i = 0; i < N_CLASSES && type; i++) {
        if (strcmp(classes[i].model_type, type) != 0) continue;
        if (c->arch == KT__HF_GEMMA4_ASSISTANT)
            c->model_type = classes[i].model_type; /* whose defaults count */
        else
            take_class(c, &classes[i]);
        return KT_OK;
    }
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "\"text_config\" is of model_type '%.60s', which is not supported in a %s",
                       type ? type : "(none named)", c->class_name);
}

static kt_status read_class(kt__hf_config *c, kt_error *err) {
    const arch_class *found = find_class(c->root);
    json_t *text = json_object_get(c->root, "text_config");
    if (!found || why_no_encoder(found->class_name)) return unknown_class(c, err);
    c->class_name = found->class_name;
    take_class(c, found);
    c->ranks = strstr(found->class_name, "ForSequenceClassification") != NULL;
    c->pooling = c->ranks ? KT__HF_POOL_RANK : KT__HF_NONE;
    c->text = json_is_object(text) ? text : c->root;
    kt__hf_parts_choose(c);
    kt__hf_experts_choose(c);
    return c->text == text ? read_text(c, text, err) : KT_OK;
}

/* ---- what the architecture cannot express ---- */

static const char *activation_of(const kt__hf_config *c) {
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function"};
    const char *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !value; i++)
        value = json_string_value(json_object_get(c->text, names[i]));
    return value ? value : c->arch == KT__HF_BITNET ? "relu2" : NULL;
}

static kt_status check_activation(const kt__hf_config *c, kt_error *err) {
    const char *want = c->arch & (KT__HF_GEMMA | KT__HF_KINDS) ? "gelu_pytorch_tanh"
                       : c->arch == KT__HF_NOMIC               ? "swiglu"
                       : c->arch & KT__HF_ENCODERS             ? "gelu"
                                                               : "silu";
    const char *value = activation_of(c);
    if (!value || strcmp(value, want) == 0) return KT_OK;
    if (c->arch & KT__HF_BITNETS && strcmp(value, "relu2") == 0) return KT_OK;
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "\"hidden_act\" is '%.60s'; %s models compute %s", value, c->arch_name,
                       want);
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

/* What a BERT-like class can be told that the formats do not know: {"name", the value it must have}. */
static kt_status check_encoder(const kt__hf_config *c, kt_error *err) {
    static const char *const off[] = {"is_decoder",   "prenorm",
                                      "use_rms_norm", "rotary_emb_interleaved",
                                      "causal",       "add_cross_attention",
                                      "norm_bias",    "attention_bias",
                                      "mlp_bias"};
    const char *positions = json_string_value(kt__hf_config_get(c, "position_embedding_type"));
    if (positions && strcmp(positions, "absolute") != 0)
        return kt__hf_refuse(c, "position_embedding_type", "the bert format has absolute positions",
                             err);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (kt__hf_flag(c, off[i], false))
            return kt__hf_refuse(c, off[i], "is true, which the format cannot express", err);
    if (json_is_number(kt__hf_config_get(c, "rotary_emb_scale_base")))
        return kt__hf_refuse(c, "rotary_emb_scale_base", "the format has no such scaling", err);
    return KT_OK;
}

/* gemma-embedding is gemma3 that attends in both directions, and no other class does. */
static kt_status check_directions(const kt__hf_config *c, kt_error *err) {
    bool both = json_is_true(json_object_get(c->text, "use_bidirectional_attention"));
    if (both == (c->arch == KT__HF_GEMMA_EMB)) return KT_OK;
    return kt__hf_refuse(c, "use_bidirectional_attention",
                         both ? "of models that attend in both directions, Gemma3TextModel is "
                                "supported"
                              : "a Gemma3TextModel without it has no head: it neither embeds nor "
                                "answers",
                         err);
}

/* gpt-oss is published in MXFP4 blocks, which are kept as they are; BitNet as what it is. */
static kt_status check_prequantised(const kt__hf_config *c, kt_error *err) {
    if (c->arch == KT__HF_GPTOSS && kt__prequantised_mxfp4(c->text)) return KT_OK;
    if (c->arch & KT__HF_BITNETS && kt__prequantised_bitnet(c->text)) return KT_OK;
    KT__STEP(kt__prequantised_config(c->root, c->path, err));
    return kt__prequantised_config(c->text, c->path, err);
}

static kt_status check_expressible(kt__hf_config *c, const kt__convert_notes *notes,
                                   kt_error *err) {
    KT__STEP(check_prequantised(c, err));
    KT__STEP(check_directions(c, err));
    if (!(c->arch & KT__HF_PART_ROTATED) && !isnan(c->rotary_share) && c->rotary_share != 1.0)
        return kt__hf_refuse(c, "partial_rotary_factor",
                             "only phi3, glm4 and qwen35 models rotate a part of a head", err);
    if (c->arch == KT__HF_COHERE && kt__hf_flag(c, "use_qk_norm", false))
        return kt__hf_refuse(c, "use_qk_norm",
                             "layer norms of query and key heads are not computed", err);
    if (c->arch & KT__HF_BITNETS && kt__hf_flag(c, "attention_bias", false))
        return kt__hf_refuse(c, "attention_bias", "the bitnet format has no such biases", err);
    KT__STEP(check_activation(c, err));
    if (c->arch & (KT__HF_EXPERTS | KT__HF_NOMICMOE)) KT__STEP(kt__hf_experts_read(c, err));
    if (c->arch & KT__HF_ENCODERS) KT__STEP(check_encoder(c, err));
    if (c->arch & KT__HF_GEMMA) KT__STEP(check_query_scale(c, err));
    if (c->arch & (KT__HF_FALCONH1 | KT__HF_ONLY_MAMBA)) KT__STEP(kt__hf_mamba_read(c, err));
    if (c->arch & KT__HF_NEMOTRONS) KT__STEP(kt__hf_parts_read(c, err));
    KT__STEP(kt__hf_layers_read(c, notes, err));
    if (c->arch & KT__HF_KINDS) KT__STEP(kt__hf_kinds_check(c, err));
    if (c->arch == KT__HF_GEMMA3N) KT__STEP(kt__hf_streams_check(c, err));
    return KT_OK;
}

/* ---- reading ---- */

static kt_status derive_values(kt__hf_config *c, kt_error *err) {
    if (c->arch == KT__HF_DEEPSEEK) return kt__hf_latent_derive(c, err);
    if (c->arch & KT__HF_ONLY_MAMBA) { /* of which there is nothing */
        c->n_head = c->n_head_kv = 1;
        c->head_dim = c->n_rot = 2;
        if (c->arch == KT__HF_MAMBA) kt__hf_scan_derive(c);
        c->tied = kt__hf_flag(c, "tie_word_embeddings", true);
        return KT_OK;
    }
    if (c->n_head_kv == KT__HF_NONE) c->n_head_kv = c->n_head;
    if (c->arch & KT__HF_GEMMA4S) KT__STEP(kt__hf_kinds_derive(c, err));
    if (c->n_head % c->n_head_kv != 0)
        return kt__hf_refuse(c, "num_key_value_heads", "does not divide the number of heads", err);
    if (c->head_dim == KT__HF_NONE && c->d_model % c->n_head != 0)
        return kt__hf_refuse(c, "num_attention_heads", "does not divide hidden_size", err);
    c->has_head_keys = c->head_dim != KT__HF_NONE;
    if (c->head_dim == KT__HF_NONE) c->head_dim = c->d_model / c->n_head;
    double share = isnan(c->rotary_share) ? 1.0 : c->rotary_share;
    c->n_rot = (int64_t)((double)c->head_dim * share);
    if (c->head_dim % 2 != 0 || c->head_dim > 1024 || c->n_rot < 2 || c->n_rot > c->head_dim ||
        c->n_rot % 2 != 0)
        return kt__hf_refuse(c, "head_dim", "heads and their rotated part need an even size", err);
    c->tied = kt__hf_flag(c, "tie_word_embeddings", true);
    if (c->arch == KT__HF_LFM2) return kt__hf_fit_width(c, err);
    if (c->arch == KT__HF_NOMICMOE && c->n_ctx > NOMIC_MOE_CTX) c->n_ctx = NOMIC_MOE_CTX;
    if (c->arch != KT__HF_XLMR) return KT_OK;
    c->n_ctx -= KT__HF_XLMR_FIRST; /* its first positions belong to no text */
    return c->n_ctx > 0 ? KT_OK
                        : kt__hf_refuse(c, "max_position_embeddings", "3 is the least", err);
}

kt_status kt__hf_config_read(json_t *root, const char *path, const kt__convert_notes *notes,
                             kt__hf_config *out, kt_error *err) {
    kt_status status;
    *out = (kt__hf_config){.path = path, .root = root};
    clear_numbers(out);
    KT__TRY(read_class(out, err));
    if (out->arch == KT__HF_GEMMA3N) kt__hf_streams_read(out);
    if (out->arch == KT__HF_MAMBA) kt__hf_scan_read(out);
    KT__TRY(kt__hf_rope_read(out, err));
    for (int i = 0; i < N_INT_KEYS; i++) KT__TRY(read_int(out, &int_keys[i], err));
    for (int i = 0; i < N_NUM_KEYS; i++) KT__TRY(read_num(out, &num_keys[i], err));
    KT__TRY(derive_values(out, err));
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

/* The labels of a classifier, by their numbers: {"0": "LABEL_0"}. */
static void put_labels(const kt__hf_config *c, kt__gguf_writer *w) {
    kt__str labels[256];
    char key[128], number[16];
    json_t *names = kt__hf_config_get(c, "id2label");
    size_t n = json_object_size(names);
    if (n == 0 || n > sizeof labels / sizeof *labels) return;
    for (size_t i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%zu", i);
        const json_t *name = json_object_get(names, number);
        if (!json_is_string(name)) return;
        labels[i] = (kt__str){json_string_value(name), json_string_length(name)};
    }
    kt__gguf_put_strs(w, key_name(c, "classifier.output_labels", key), labels, n);
}

/* What becomes of a text's states, and in which directions it is read. */
static void put_pooling(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    if (c->arch & (KT__HF_ENCODERS | KT__HF_GEMMA_EMB))
        kt__gguf_put_bool(w, key_name(c, "attention.causal", key), false);
    if (c->pooling != KT__HF_NONE)
        kt__gguf_put_u32(w, key_name(c, "pooling_type", key), (uint32_t)c->pooling);
    if (c->ranks) put_labels(c, w);
    if (c->pooling == KT__HF_POOL_RANK && !c->ranks) /* the logits of two tokens are compared */
        kt__gguf_put_strs(w, key_name(c, "classifier.output_labels", key),
                          (const kt__str[]){{"yes", 3}, {"no", 2}}, 2);
    if (c->n_types != KT__HF_NONE)
        kt__gguf_put_u32(w, "tokenizer.ggml.token_type_count", (uint32_t)c->n_types);
}

/* The blocks that propose tokens are counted with the layers. */
static void put_blocks(const kt__hf_config *c, kt__gguf_writer *w) {
    char key[128];
    kt__gguf_put_u32(w, key_name(c, "block_count", key), (uint32_t)(c->n_layer + c->n_mtp));
    if (c->n_mtp > 0)
        kt__gguf_put_u32(w, key_name(c, "nextn_predict_layers", key), (uint32_t)c->n_mtp);
}

void kt__hf_config_put(const kt__hf_config *c, int64_t n_vocab, kt__gguf_writer *w) {
    char key[128];
    put_blocks(c, w);
    for (int i = 0; i < N_INT_KEYS; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)c + int_keys[i].at);
        if (int_keys[i].key && int_keys[i].archs & c->arch && value != KT__HF_NONE)
            kt__gguf_put_u32(w, key_name(c, int_keys[i].key, key), (uint32_t)value);
    }
    for (int i = 0; i < N_NUM_KEYS; i++) {
        double value = *(const double *)(const void *)((const char *)c + num_keys[i].at);
        if (num_keys[i].key && num_keys[i].archs & c->arch && !isnan(value))
            kt__gguf_put_f32(w, key_name(c, num_keys[i].key, key), (float)value);
    }
    if (c->has_head_keys) {
        kt__gguf_put_u32(w, key_name(c, "attention.key_length", key), (uint32_t)c->head_dim);
        kt__gguf_put_u32(w, key_name(c, "attention.value_length", key), (uint32_t)c->head_dim);
    }
    if (c->arch & (KT__HF_PERMUTED | KT__HF_PART_ROTATED | KT__HF_LLAMA4))
        kt__gguf_put_u32(w, key_name(c, "rope.dimension_count", key), (uint32_t)c->n_rot);
    if (c->arch & (KT__HF_EXPERTS | KT__HF_NEMOTRONM)) kt__hf_experts_put(c, w);
    if (c->arch == KT__HF_LLAMA4) kt__hf_chunks_put(c, w);
    if (c->arch & KT__HF_NEMOTRONS) kt__hf_parts_put(c, w);
    if (c->arch == KT__HF_DEEPSEEK) kt__hf_latent_put(c, w);
    if (c->arch & KT__HF_GEMMA4S) kt__hf_kinds_put(c, w);
    if (c->arch == KT__HF_GEMMA3N) kt__hf_streams_put(c, w);
    if (c->arch & KT__HF_BITNETS && activation_of(c))
        kt__gguf_put_str(w, key_name(c, "hidden_act", key), activation_of(c));
    if (c->arch & KT__HF_ALL_MAMBAS) kt__hf_mamba_put(c, w);
    kt__hf_layers_put(c, w);
    kt__gguf_put_u32(w, key_name(c, "vocab_size", key), (uint32_t)n_vocab);
    kt__hf_rope_put(c, w);
    put_pooling(c, w);
}
