/* The models of a configuration: [[models]] tables, and what these change of the settings for one. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "setup/config_set.h"

/* ---- the setting kv_type ---- */

kt_status kt__kv_types_read(const char *text, kt_engine_params *params, kt_error *err) {
    char keys[16];
    const char *slash = text ? strchr(text, '/') : NULL;
    if (!text || !*text || kt_kv_named(text, params)) return KT_OK;
    snprintf(keys, sizeof keys, "%.*s", slash ? (int)(slash - text) : (int)strlen(text), text);
    params->kv_keys = kt_kv_type_named(keys);
    params->kv_values = slash ? kt_kv_type_named(slash + 1) : params->kv_keys;
    if (params->kv_keys != KT_KV_TYPES && params->kv_values != KT_KV_TYPES) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "kv_type: \"%.40s\", expected f16, q8_0 (q8), q4_0 (q4), k8v4, KEYS/VALUES of "
                    "these types, or chat-short, chat-long, document-qa, code or cpu",
                    text);
}

enum { MAX_MODELS = 64 };

/* What a model may have of its own; the rest sizes the server, or is said by requests. */
static const char *const of_models[] = {"isa",
                                        "threads",
                                        "threads_batch",
                                        "cpus",
                                        "priority",
                                        "contexts",
                                        "preset",
                                        "ctx",
                                        "batch",
                                        "ubatch",
                                        "kv",
                                        "kv_type",
                                        "kv_keys",
                                        "kv_values",
                                        "kv_tail",
                                        "exact",
                                        "parallel",
                                        "gap_ms",
                                        "tuned",
                                        "draft_tokens",
                                        "draft_from",
                                        "mmap",
                                        "mlock",
                                        "blas",
                                        "flash_attn",
                                        "cache.dir",
                                        "cache.max",
                                        "rope_scaling",
                                        "rope_freq_base",
                                        "rope_freq_scale",
                                        "yarn_orig_ctx",
                                        "yarn_ext_factor",
                                        "yarn_attn_factor",
                                        "yarn_beta_fast",
                                        "yarn_beta_slow",
                                        "optimizer.enabled",
                                        "optimizer.target_latency_ms",
                                        "optimizer.min_throughput",
                                        "optimizer.memory_threshold"};
enum { N_OF_MODELS = sizeof of_models / sizeof of_models[0] };

static bool is_of_models(const char *key) {
    for (size_t i = 0; i < N_OF_MODELS; i++) {
        if (!strcmp(of_models[i], key)) return true;
    }
    return false;
}

/* ---- reading ---- */

/* The value is checked by setting it, and the setting is as it was afterwards. */
static kt_status add_override(kt__config *c, kt__model_config *m, const kt__setting *s,
                              const kt__toml *v, const char *from, kt_error *err) {
    unsigned char before[sizeof(kt__texts)];
    void *slot = (char *)c + s->at;
    size_t size = kt__setting_size(s->kind);
    kt__override *o = kt__arena_calloc(&c->arena, 1, sizeof *o), **end = &m->overrides;
    if (!o) return kt__fail_nomem(err, "the configuration", sizeof *o);
    memcpy(before, slot, size);
    kt_status status = kt__config_set_toml(c, s, v, from, err);
    memcpy(o->value, slot, size);
    memcpy(slot, before, size);
    o->setting = s;
    while (*end) end = &(*end)->next;
    *end = o;
    return status;
}

static kt_status unknown_of_model(const char *key, const char *from, kt_error *err) {
    const char *names[N_OF_MODELS + 4] = {"name", "path", "draft_model", "load_in"};
    if (kt__config_find_key(key) && !is_of_models(key))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX,
                           "%s: \"%.80s\" is a setting of the server, not of one model", from, key);
    memcpy(names + 4, of_models, sizeof of_models);
    return kt__config_unknown(key, names, N_OF_MODELS + 4, from, err);
}

/* Members of a table within a model's: cache = { dir = "..." }; prefix "cache." */
static kt_status read_own_settings(kt__config *c, kt__model_config *m, const kt__toml *v,
                                   const char *prefix, const char *name, kt_error *err) {
    char key[128], from[256];
    snprintf(from, sizeof from, "%s:%d", name, v->line);
    snprintf(key, sizeof key, "%s%s", prefix, v->key);
    if (v->kind == KT__TOML_TABLE && !*prefix) {
        kt_status status = KT_OK;
        snprintf(key, sizeof key, "%s.", v->key);
        for (const kt__toml *in = v->first; in && status == KT_OK; in = in->next)
            status = read_own_settings(c, m, in, key, name, err);
        return status;
    }
    if (!is_of_models(key)) return unknown_of_model(key, from, err);
    return add_override(c, m, kt__config_find_key(key), v, from, err);
}

static kt_status read_model(kt__config *c, const kt__toml *table, const char *name,
                            kt__model_config *out, kt_error *err) {
    static const char *const names[] = {"name", "path", "draft_model", "load_in"};
    const char **const slots[] = {&out->name, &out->path, &out->draft_path, &out->load_in};
    enum { N = sizeof names / sizeof names[0] };
    for (const kt__toml *v = table->first; v; v = v->next) {
        char from[256];
        size_t i = 0;
        kt_status status;
        snprintf(from, sizeof from, "%s:%d", name, v->line);
        while (i < N && strcmp(v->key, names[i]) != 0) i++;
        if (i == N) {
            status = read_own_settings(c, out, v, "", name, err);
        } else if (v->kind != KT__TOML_STRING) {
            status = kt__config_expected(NULL, from, "a text", kt__toml_kind_name(v->kind), err);
        } else {
            status = i == 1 || i == 2 ? kt__config_copy_path(c, v->text, slots[i], from, err)
                                      : kt__config_copy_text(c, v->text, v->len, slots[i], err);
        }
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__config_read_models(kt__config *c, const kt__toml *v, const char *name,
                                 kt_error *err) {
    if (v->kind != KT__TOML_ARRAY || v->n > MAX_MODELS)
        return kt__config_expected(NULL, name, "at most 64 [[models]] tables",
                                   kt__toml_kind_name(v->kind), err);
    c->models = kt__arena_calloc(&c->arena, v->n + 1, sizeof *c->models);
    if (!c->models) return kt__fail_nomem(err, "the configuration", v->n);
    c->n_models = 0;
    for (const kt__toml *item = v->first; item; item = item->next) {
        if (item->kind != KT__TOML_TABLE)
            return kt__config_expected(NULL, name, "[[models]] tables",
                                       kt__toml_kind_name(item->kind), err);
        kt_status status = read_model(c, item, name, &c->models[c->n_models++], err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* ---- the settings of one model ---- */

/* What a preset says where nothing else does. */
static void apply_preset(kt__config *own) {
    const char *preset = own->preset ? own->preset : "";
    if (!strcmp(preset, "potato")) {
        if (!own->threads) own->threads = 2;
        if (!own->batch) own->batch = 1024;
        if (!own->ubatch) own->ubatch = 256;
    } else if (!strcmp(preset, "extreme")) {
        if (!own->batch) own->batch = 2048;
        if (!own->ubatch) own->ubatch = 512;
    }
}

static kt_status check_word(const char *value, const char *const *words, const char *key,
                            const char *expected, kt_error *err) {
    for (; value && *words; words++) {
        if (!strcmp(value, *words)) return KT_OK;
    }
    return value ? kt__config_expected(NULL, key, expected, value, err) : KT_OK;
}

static kt_status check_own(const kt__config *own, kt_error *err) {
    static const char *const presets[] = {"none", "potato", "extreme", NULL};
    static const char *const scalings[] = {"model", "none", "linear", "yarn", NULL};
    static const char *const types[] = {"f16", "q8_0", "q4_0", NULL};
    static const char *const switches[] = {"on", "off", "auto", NULL};
    static const char *const drafts[] = {"any", "text", "model", NULL};
    kt_engine_params params = {0};
    KT__STEP(check_word(own->preset, presets, "preset", "none, potato or extreme", err));
    KT__STEP(check_word(own->rope_scaling, scalings, "rope_scaling", "model, none, linear or yarn",
                        err));
    KT__STEP(check_word(own->flash_attn, switches, "flash_attn", "on, off or auto", err));
    KT__STEP(check_word(own->draft_from, drafts, "draft_from", "any, text or model", err));
    KT__STEP(check_word(own->kv_keys, types, "kv_keys", "f16, q8_0 or q4_0", err));
    KT__STEP(check_word(own->kv_values, types, "kv_values", "f16, q8_0 or q4_0", err));
    return kt__kv_types_read(own->kv_type, &params, err);
}

kt_status kt__config_finish_own(kt__config *own, kt_error *err) {
    kt_status status = check_own(own, err);
    if (status == KT_OK) apply_preset(own);
    return status;
}

kt_status kt__config_finish_models(kt__config *c, kt_error *err) {
    for (size_t i = 0; i < c->n_models; i++) {
        kt__model_config *m = &c->models[i];
        kt__config *own = kt__arena_calloc(&c->arena, 1, sizeof *own);
        if (!own) return kt__fail_nomem(err, "the configuration", sizeof *own);
        memcpy(own, c, sizeof *own);
        for (const kt__override *o = m->overrides; o; o = o->next)
            memcpy((char *)own + o->setting->at, o->value, kt__setting_size(o->setting->kind));
        kt_status status = kt__config_finish_own(own, err);
        if (status != KT_OK) return status;
        m->own = own;
    }
    return KT_OK;
}
