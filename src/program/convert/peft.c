#include "convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/config.h"
#include "convert/json_file.h"
#include "convert/plan.h"
#include "convert/safetensors.h"
#include "host/pages.h"

#define WEIGHTS_NAME "adapter_model.safetensors"
#define CONFIG_NAME "adapter_config.json"
enum { MAX_CONFIG = 1 << 20, MAX_MODULE = KT__ST_MAX_NAME, ALIGNMENT = 32 };

typedef struct peft_pair {
    const kt__st_tensor *a, *b;
    const kt__shard *shard;
    char name[KT__GGUF_MAX_NAME_BYTES + 1]; /* of the tensor adapted, in GGUF */
    kt__change change;
    float fold;   /* B is multiplied by it, */
    int n_scales; /* and its rows by what the model's own are multiplied by; 0: nothing */
    kt__hf_scale scales[KT__HF_MAX_SCALES];
} peft_pair;

typedef struct peft_reader {
    const kt__peft_model *model;
    kt__hf_archs arch;
    char *config_path, *base_path;
    json_t *config;
    kt__hf_config base; /* of a model whose weights have multipliers in GGUF; else zeroed */
    kt__folder folder;
    double alpha; /* the file's one alpha */
    peft_pair *pairs;
    size_t n;
    kt_error *err;
} peft_reader;

/* ---- the configuration ---- */

static kt_status refuse_key(const peft_reader *r, const char *key, const char *why) {
    return kt__fail_at(r->err, KT_E_UNSUPPORTED, r->config_path, UINT64_MAX, "%s: %s", key, why);
}

/* A key that is absent, null, false, 0 or empty asks for nothing. */
static bool asks_for(const json_t *config, const char *key) {
    const json_t *v = json_object_get(config, key);
    if (!v || json_is_null(v) || json_is_false(v)) return false;
    if (json_is_number(v)) return json_number_value(v) != 0.0;
    if (json_is_array(v)) return json_array_size(v) > 0;
    if (json_is_object(v)) return json_object_size(v) > 0;
    return true;
}

/* What changes the adapter's arithmetic beyond A and B. */
static kt_status check_methods(const peft_reader *r) {
    static const char *const keys[] = {
        "use_dora",
        "use_qalora",
        "modules_to_save",
        "fan_in_fan_out",
        "lora_bias",
        "layer_replication",
        "trainable_token_indices",
        "alora_invocation_tokens",
        "megatron_config",
        "target_parameters",
        "arrow_config",
    };
    const char *type = json_string_value(json_object_get(r->config, "peft_type"));
    const char *bias = json_string_value(json_object_get(r->config, "bias"));
    if (!type || strcmp(type, "LORA") != 0)
        return refuse_key(r, "peft_type", "only LORA adapters can be read");
    if (bias && strcmp(bias, "none") != 0)
        return refuse_key(r, "bias", "an adapter that trains biases cannot be used");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (asks_for(r->config, keys[i]))
            return refuse_key(r, keys[i], "an adapter made so cannot be used");
    return KT_OK;
}

static kt_status read_positive(const peft_reader *r, const json_t *v, const char *key,
                               double *out) {
    *out = json_number_value(v);
    if (json_is_number(v) && *out >= 0.0 && *out <= 1e9) return KT_OK;
    return kt__fail_at(r->err, KT_E_FORMAT, r->config_path, UINT64_MAX,
                       "%s: a number from 0 to 1e9 is expected", key);
}

/* A pattern is a module's name or its end, dots escaped or not; what else it says is refused. */
static kt_status pattern_fits(const peft_reader *r, const char *key, const char *pattern,
                              const char *module, bool *fits) {
    char plain[MAX_MODULE];
    size_t n = 0, len = strlen(module);
    for (const char *at = pattern; *at && n + 1 < sizeof plain; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                      (*at >= '0' && *at <= '9') || *at == '_' || *at == '.';
        if (*at == '\\' && at[1] == '.') continue;
        if (!letter) return refuse_key(r, key, "a pattern that is no module's name");
        plain[n++] = *at;
    }
    plain[n] = 0;
    *fits = n > 0 && len >= n && strcmp(module + len - n, plain) == 0 &&
            (len == n || module[len - n - 1] == '.');
    return KT_OK;
}

/* The number of `key`, or that of the first of `patterns` that fits the module. */
static kt_status number_for(const peft_reader *r, const char *key, const char *patterns,
                            const char *module, double *out) {
    const char *pattern;
    json_t *value, *list = json_object_get(r->config, patterns);
    if (list && !json_is_null(list) && !json_is_object(list))
        return refuse_key(r, patterns, "an object is expected");
    json_object_foreach(list, pattern, value) {
        bool fits;
        KT__STEP(pattern_fits(r, patterns, pattern, module, &fits));
        if (fits) return read_positive(r, value, patterns, out);
    }
    return read_positive(r, json_object_get(r->config, key), key, out);
}

static kt_status read_peft_config(peft_reader *r, const char *folder) {
    r->config_path = kt__folder_path(folder, CONFIG_NAME);
    if (!r->config_path) return kt__fail_nomem(r->err, "a path", strlen(folder));
    KT__STEP(kt__folder_read_json(r->config_path, MAX_CONFIG, true, &r->config, r->err));
    KT__STEP(check_methods(r));
    KT__STEP(read_positive(r, json_object_get(r->config, "lora_alpha"), "lora_alpha", &r->alpha));
    if (r->alpha == 0.0) r->alpha = 1.0; /* in GGUF 0 means the rank; folded into B */
    return KT_OK;
}

/* In GGUF the model's multipliers are a part of its weights, of which an adapter's matrices know nothing: they are in
 * the model's config.json alone. */
static kt_status read_multipliers(peft_reader *r, const char *folder) {
    const kt__convert_notes none = {0};
    json_t *root;
    r->base_path = kt__folder_path(folder, "config.json");
    if (!r->base_path) return kt__fail_nomem(r->err, "a path", strlen(folder));
    KT__STEP(kt__folder_read_json(r->base_path, MAX_CONFIG, false, &root, r->err));
    if (!root)
        return kt__fail_at(r->err, KT_E_UNSUPPORTED, r->base_path, UINT64_MAX,
                           "an adapter of a %s model needs the multipliers in that model's "
                           "config.json: copy that file next to adapter_config.json",
                           r->model->arch);
    KT__STEP(kt__hf_config_read(root, r->base_path, &none, &r->base, r->err));
    if (r->base.arch != r->arch)
        return kt__fail_at(r->err, KT_E_FORMAT, r->base_path, UINT64_MAX,
                           "it is of a %s model, and the adapter is for a %s model",
                           r->base.arch_name, r->model->arch);
    return KT_OK;
}

/* ---- names ---- */

static kt_status bad_peft_tensor(const peft_reader *r, const kt__shard *shard,
                                 const kt__st_tensor *t, kt_status code, const char *why) {
    return kt__fail_at(r->err, code, shard->path, t->begin, "tensor '%.200s': %s", t->name, why);
}

/* "layers.3.self_attn.q_proj" of base_model.model.layers.3.self_attn.q_proj.lora_A.weight, and
 * whether it is A. false: another kind of tensor. */
static bool split_name(const char *name, char module[MAX_MODULE], bool *is_a) {
    static const char head[] = "base_model.model.";
    static const char *const tails[] = {".lora_A.weight", ".lora_B.weight",
                                        ".lora_A.default.weight", ".lora_B.default.weight"};
    size_t len;
    if (strncmp(name, head, sizeof head - 1) != 0) return false;
    name += sizeof head - 1;
    len = strlen(name);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t tail = strlen(tails[i]);
        if (len <= tail || len - tail >= MAX_MODULE || strcmp(name + len - tail, tails[i]) != 0)
            continue;
        snprintf(module, MAX_MODULE, "%.*s", (int)(len - tail), name);
        *is_a = i % 2 == 0;
        return true;
    }
    return false;
}

/* The other half of a pair: the name with the other letter. */
static const kt__st_tensor *other_half(const peft_reader *r, const kt__st_tensor *t) {
    char name[KT__ST_MAX_NAME + 1];
    const kt__shard *shard;
    snprintf(name, sizeof name, "%s", t->name);
    char *letter = strstr(name, ".lora_A.");
    if (!letter) letter = strstr(name, ".lora_B.");
    letter[6] = letter[6] == 'A' ? 'B' : 'A';
    return kt__folder_find(&r->folder, name, &shard);
}

static kt_status map_module(const peft_reader *r, const kt__shard *shard, const kt__st_tensor *t,
                            const char *module, peft_pair *pair) {
    char name[MAX_MODULE + 16];
    snprintf(name, sizeof name, "%s.weight", module);
    if (!kt__tensor_name_find(name, r->arch, pair->name, sizeof pair->name, &pair->change))
        return bad_peft_tensor(r, shard, t, KT_E_UNSUPPORTED,
                               "the model has no matrix of this name that an adapter may change");
    if (strcmp(pair->name, "token_embd.weight") == 0)
        return bad_peft_tensor(r, shard, t, KT_E_UNSUPPORTED,
                               "adapters of the embedding are not supported; train it without "
                               "embed_tokens");
    if (pair->change == KT__CHANGE_TILED || pair->change == KT__CHANGE_TILED_COLS)
        return bad_peft_tensor(r, shard, t, KT_E_UNSUPPORTED,
                               "adapters of linear_attn are not supported; train it without");
    return KT_OK;
}

/* ---- pairs ---- */

static kt_status check_half(const peft_reader *r, const kt__shard *shard, const kt__st_tensor *t) {
    if (t->type == KT__TYPE_COUNT)
        return bad_peft_tensor(r, shard, t, KT_E_UNSUPPORTED, "its type cannot be read");
    if (t->n_dims != 2 || t->shape[0] == 0 || t->shape[1] == 0 || t->shape[0] > 1 << 24 ||
        t->shape[1] > 1 << 24)
        return bad_peft_tensor(r, shard, t, KT_E_FORMAT, "it is no matrix of a usable size");
    return KT_OK;
}

/* The multipliers of the rows that an adapter changes: by the name without a layer's number. */
static void find_scales(const peft_reader *r, peft_pair *pair) {
    char name[KT__GGUF_MAX_NAME_BYTES + 4];
    const char *rest = strncmp(pair->name, "blk.", 4) == 0 ? strchr(pair->name + 4, '.') : NULL;
    if (!r->base.root) return;
    snprintf(name, sizeof name, "%s%s", rest ? "blk" : "", rest ? rest : pair->name);
    pair->n_scales = kt__hf_scales_of(&r->base, name, pair->scales);
}

/* PEFT's scale of the module over the one that the file's alpha gives. */
static kt_status find_fold(const peft_reader *r, const char *module, peft_pair *pair) {
    double alpha, rank, own = (double)pair->a->shape[0];
    KT__STEP(number_for(r, "lora_alpha", "alpha_pattern", module, &alpha));
    KT__STEP(number_for(r, "r", "rank_pattern", module, &rank));
    if (rank != own)
        return kt__fail_at(r->err, KT_E_FORMAT, r->config_path, UINT64_MAX,
                           "the rank of %.200s is %.0f here and %.0f in its matrix", module, rank,
                           own);
    bool rs = json_is_true(json_object_get(r->config, "use_rslora"));
    pair->fold = (float)(alpha / (rs ? sqrt(own) : own) / (r->alpha / own));
    return KT_OK;
}

static kt_status add_pair(peft_reader *r, const kt__shard *shard, const kt__st_tensor *t) {
    char module[MAX_MODULE];
    bool is_a;
    peft_pair *pair = &r->pairs[r->n];
    if (!split_name(t->name, module, &is_a))
        return bad_peft_tensor(r, shard, t, KT_E_UNSUPPORTED, "it is no matrix A or B of LoRA");
    const kt__st_tensor *half = other_half(r, t);
    if (!half) return bad_peft_tensor(r, shard, t, KT_E_FORMAT, "its other half is missing");
    if (!is_a) return KT_OK;
    *pair = (peft_pair){.a = t, .b = half, .shard = shard};
    KT__STEP(check_half(r, shard, t));
    KT__STEP(check_half(r, shard, half));
    KT__STEP(map_module(r, shard, t, module, pair));
    KT__STEP(find_fold(r, module, pair));
    find_scales(r, pair);
    r->n++;
    return KT_OK;
}

static kt_status list_pairs(peft_reader *r) {
    const kt__shard *shard = &r->folder.shards[0];
    kt_status status = KT_OK;
    r->pairs = kt__calloc(shard->st.n + 1, sizeof *r->pairs);
    if (!r->pairs) return kt__fail_nomem(r->err, "an adapter's tensors", shard->st.n);
    for (size_t i = 0; i < shard->st.n && status == KT_OK; i++)
        status = add_pair(r, shard, &shard->st.tensors[i]);
    return status;
}

/* ---- the file ---- */

static bool keeps_bytes(const peft_pair *pair) {
    return pair->fold == 1.0f && pair->n_scales == 0;
}

static void declare_half(kt__gguf_writer *w, const peft_pair *pair, const kt__st_tensor *t,
                         const char *suffix, kt__type type) {
    char name[KT__GGUF_MAX_NAME_BYTES + 16];
    const uint64_t ne[2] = {t->shape[1], t->shape[0]};
    snprintf(name, sizeof name, "%s%s", pair->name, suffix);
    kt__gguf_declare_tensor(w, name, kt__type_get(type)->ggml_id, 2, ne);
}

static void put_header(const peft_reader *r, kt__gguf_writer *w) {
    kt__gguf_put_str(w, "general.type", "adapter");
    kt__gguf_put_str(w, "general.architecture", r->model->arch);
    kt__gguf_put_str(w, "adapter.type", "lora");
    kt__gguf_put_f32(w, "adapter.lora.alpha", (float)r->alpha);
    for (size_t i = 0; i < r->n; i++) {
        const peft_pair *p = &r->pairs[i];
        declare_half(w, p, p->a, ".lora_a", p->a->type);
        declare_half(w, p, p->b, ".lora_b", keeps_bytes(p) ? p->b->type : KT__TYPE_F32);
    }
}

/* The row of the folder's B that row r becomes; a matrix of another shape is refused later. */
static uint64_t peft_row(const peft_reader *r, const peft_pair *pair, uint64_t row) {
    uint64_t head = (uint64_t)r->model->head_dim;
    bool permuted = pair->change == KT__CHANGE_PERM_Q || pair->change == KT__CHANGE_PERM_K;
    if (!permuted || !head || head % 2 || pair->b->shape[0] % head) return row;
    uint64_t in = row % head;
    return row - in + in % 2 * (head / 2) + in / 2;
}

static kt_status copy_a(const peft_reader *r, const peft_pair *pair, char **at) {
    const kt__st_tensor *t = pair->a;
    const kt__weight_source source = {pair->shard->path, t->name, pair->shard->fd, t->begin,
                                      t->type};
    size_t size = (size_t)(t->end - t->begin);
    kt_status status = kt__weight_read(&source, 0, *at, size, r->err);
    *at += kt__align_up(size, ALIGNMENT);
    return status;
}

static kt_status copy_b(const peft_reader *r, const peft_pair *pair, char **at) {
    const kt__st_tensor *t = pair->b;
    const kt__weight_source source = {pair->shard->path, t->name, pair->shard->fd, t->begin,
                                      t->type};
    size_t n = (size_t)t->shape[1], row = kt__type_row_bytes(t->type, (int64_t)n);
    size_t out_row = keeps_bytes(pair) ? row : n * sizeof(float);
    kt_status status = KT_OK;
    char *raw = kt__malloc(row);
    if (!raw) return kt__fail_nomem(r->err, "a row", row);
    for (uint64_t i = 0; i < t->shape[0] && status == KT_OK; i++) {
        char *out = *at + i * out_row;
        status = kt__weight_read(&source, peft_row(r, pair, i) * row, raw, row, r->err);
        if (keeps_bytes(pair)) {
            memcpy(out, raw, row);
            continue;
        }
        float *values = (float *)(void *)out; /* rows of f32 from an aligned start */
        kt__dequantize_row(t->type, raw, (int64_t)n, values);
        float by = pair->fold;
        if (pair->n_scales) by *= kt__hf_scale_of_row(pair->scales, pair->n_scales, (int64_t)i);
        for (size_t k = 0; k < n; k++) values[k] *= by;
    }
    *at += kt__align_up((size_t)t->shape[0] * out_row, ALIGNMENT);
    kt__free(raw);
    return status;
}

static kt_status write_image(const peft_reader *r, kt__peft_file *out) {
    kt__gguf_writer *w;
    char *head = NULL;
    size_t head_bytes;
    uint64_t data_bytes;
    kt_status status;
    KT__TRY(kt__gguf_writer_open_memory(&w, r->err));
    put_header(r, w);
    KT__TRY(kt__gguf_writer_take_header(w, &head, &head_bytes, &data_bytes, r->err));
    out->size = head_bytes + (size_t)data_bytes;
    out->data = kt__pages_alloc(out->size);
    if (!out->data) {
        status = kt__fail_nomem(r->err, "an adapter", out->size);
        goto out;
    }
    memcpy(out->data, head, head_bytes);
    char *at = (char *)out->data + head_bytes;
    for (size_t i = 0; i < r->n; i++) {
        KT__TRY(copy_a(r, &r->pairs[i], &at));
        KT__TRY(copy_b(r, &r->pairs[i], &at));
    }
out:
    kt__free(head);
    return status;
}

kt_status kt__peft_read(const char *folder, const kt__peft_model *model, kt__peft_file *out,
                        kt_error *err) {
    peft_reader r = {.model = model, .arch = kt__hf_arch_of(model->arch), .err = err};
    kt_status status;
    *out = (kt__peft_file){0};
    if (!r.arch)
        return kt__fail_at(err, KT_E_UNSUPPORTED, folder, UINT64_MAX,
                           "PEFT folders can be read for the architectures that `kentang convert` "
                           "has, and %s is none: give the adapter as GGUF",
                           model->arch);
    KT__TRY(read_peft_config(&r, folder));
    if (r.arch == KT__HF_FALCONH1) KT__TRY(read_multipliers(&r, folder));
    KT__TRY(kt__folder_open_file(folder, WEIGHTS_NAME, &r.folder, err));
    KT__TRY(list_pairs(&r));
    KT__TRY(write_image(&r, out));
out:
    if (status != KT_OK) kt__peft_free(out);
    kt__free(r.pairs);
    kt__folder_close(&r.folder);
    kt__hf_config_free(&r.base);
    json_decref(r.config);
    kt__free(r.config_path);
    kt__free(r.base_path);
    return status;
}

void kt__peft_free(kt__peft_file *file) {
    kt__pages_free(file->data, file->size);
    *file = (kt__peft_file){0};
}
