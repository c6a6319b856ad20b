#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "setup/adapters.h"
#include "setup/config.h"
#include "setup/config_set.h"
#include "setup/learn_config.h"

/* ---- life ---- */

kt_status kt__config_create(kt__config **out, kt_error *err) {
    const kt__config defaults = {
#define SETTING(member, kind, value, ...) .member = value,
#include "setup/settings.def"
#undef SETTING
    };
    *out = kt__malloc(sizeof **out);
    if (!*out) return kt__fail_nomem(err, "the configuration", sizeof **out);
    memcpy(*out, &defaults, sizeof defaults);
    kt__arena_init(&(*out)->arena, 4096, 64 << 20);
    return KT_OK;
}

void kt__config_free(kt__config *config) {
    if (!config) return;
    kt__arena_free(&config->arena);
    kt__free(config);
}

/* ---- the whole ---- */

kt_status kt__config_set_model(kt__config *config, const char *path, kt_error *err) {
    config->n_models = 0;
    return kt__config_copy_path(config, path, &config->model, "--model", err);
}

/* "qwen2.5-1.5b-q4_k_m" of "/models/qwen2.5-1.5b-q4_k_m.gguf" */
static kt_status name_of_file(kt__config *c, const char *path, const char **out, kt_error *err) {
    const char *name = kt__files_name(path);
    size_t len = strlen(name);
    if (len > 5 && !strcmp(name + len - 5, ".gguf")) len -= 5;
    return kt__config_copy_text(c, name, len, out, err);
}

/* "b,a,c": the first by the alphabet is the model's name, as in llama-server; the others are further
 * names of it. */
static kt_status split_alias(kt__config *c, kt_error *err) {
    const char *names[64], *first = NULL;
    size_t n = 0;
    if (!c->alias || !strchr(c->alias, ',')) return KT_OK;
    char *list = kt__arena_strndup(&c->arena, c->alias, strlen(c->alias));
    kt__texts all = {kt__arena_calloc(&c->arena, c->aliases.n + 64, sizeof *all.items), 0};
    if (!list || !all.items) return kt__fail_nomem(err, "the configuration", 0);
    for (char *name; n < 64 && (name = strsep(&list, ",")) != NULL;) {
        if (!*name) continue;
        if (!first || strcmp(name, first) < 0) first = name;
        names[n++] = name;
    }
    for (size_t i = 0; i < n; i++)
        if (names[i] != first) all.items[all.n++] = names[i];
    for (size_t i = 0; i < c->aliases.n; i++) all.items[all.n++] = c->aliases.items[i];
    c->alias = first;
    c->aliases = all;
    return KT_OK;
}

static kt_status finish_models(kt__config *c, kt_error *err) {
    kt_status status = split_alias(c, err);
    if (status != KT_OK) return status;
    if (!c->n_models) {
        c->models = kt__arena_calloc(&c->arena, 1, sizeof *c->models);
        if (!c->models) return kt__fail_nomem(err, "the configuration", sizeof *c->models);
        c->models[c->n_models++] = (kt__model_config){
            .name = c->alias, .path = c->model, .draft_path = c->draft_model};
    } else if (c->model) {
        return kt__fail(err, KT_E_ARG, "`model` and [[models]] are given: choose one");
    } else if (c->draft_model) {
        return kt__fail(err, KT_E_ARG,
                        "with [[models]], give draft_model in the table of its model");
    }
    for (size_t i = 0; i < c->n_models && status == KT_OK; i++) {
        kt__model_config *m = &c->models[i];
        if (!m->path && m->name == NULL) m->name = "demo";
        if (!m->name) status = name_of_file(c, m->path, &m->name, err);
        for (size_t k = 0; k < i && status == KT_OK; k++) {
            if (!strcmp(c->models[k].name, m->name))
                status = kt__fail(err, KT_E_ARG, "two models are named \"%.80s\"", m->name);
        }
    }
    return status;
}

static const kt__model_config *find_named_model(const kt__config *c, const char *name) {
    for (size_t i = 0; i < c->n_models; i++)
        if (!strcmp(c->models[i].name, name)) return &c->models[i];
    return NULL;
}

const kt__model_config *kt__config_find_model(const kt__config *c, const char *name) {
    const kt__model_config *found = find_named_model(c, name);
    for (size_t i = 0; i < c->aliases.n && !found; i++) {
        const char *alias = c->aliases.items[i] ? c->aliases.items[i] : "";
        size_t len = strcspn(alias, "=");
        if (strlen(name) != len || strncmp(alias, name, len) != 0 || !strcmp(name, "*")) continue;
        found = alias[len] ? find_named_model(c, alias + len + 1) : &c->models[0];
    }
    return found;
}

static kt_status check_aliases(const kt__config *c, kt_error *err) {
    for (size_t i = 0; i < c->aliases.n; i++) {
        const char *alias = c->aliases.items[i] ? c->aliases.items[i] : "";
        const char *target = strchr(alias, '=');
        bool found = !target && *alias;
        for (size_t k = 0; target && k < c->n_models && !found; k++)
            found = !strcmp(c->models[k].name, target + 1);
        if (!found)
            return kt__config_expected(NULL, "aliases",
                                       "NAME or NAME=MODEL, of a model that is there", alias, err);
    }
    return KT_OK;
}

static kt_status finish_socket(kt__config *c, kt_error *err) {
    const char *dir = getenv("XDG_RUNTIME_DIR");
    char path[512];
    if (c->socket && !strcmp(c->socket, "none")) {
        c->socket = NULL;
    } else if (!c->socket && dir && *dir) {
        snprintf(path, sizeof path, "%s/kentang.sock", dir);
        return kt__config_copy_text(c, path, strlen(path), &c->socket, err);
    } else if (!c->socket) {
        c->no_run_dir = true;
    }
    if (c->socket && strlen(c->socket) > 100)
        return kt__fail(err, KT_E_ARG, "socket.path is longer than 100 bytes: %.60s...", c->socket);
    return KT_OK;
}

/* "unix:~/kentang.sock" */
bool kt__config_next_listen(const char **list, char out[KT__LISTEN_BYTES]) {
    const char *at = *list ? *list + strspn(*list, ", ") : "";
    size_t len = !strncmp(at, "unix:", 5) ? strlen(at) : strcspn(at, ", ");
    if (!len) return false;
    snprintf(out, KT__LISTEN_BYTES, "%.*s", (int)(len < KT__LISTEN_BYTES ? len : KT__LISTEN_BYTES),
             at);
    *list = at + len;
    return true;
}

static kt_status finish_listen(kt__config *c, kt_error *err) {
    const char *path;
    char whole[512];
    if (c->listen && !strcmp(c->listen, "none")) c->listen = NULL;
    if (!c->listen || strncmp(c->listen, "unix:~", 6) != 0) return KT_OK;
    kt_status status = kt__config_copy_path(c, c->listen + 5, &path, "http.listen", err);
    if (status != KT_OK) return status;
    snprintf(whole, sizeof whole, "unix:%.400s", path);
    return kt__config_copy_text(c, whole, strlen(whole), &c->listen, err);
}

static bool one_of(const char *text, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(text, names[i])) return true;
    }
    return false;
}

/* A name or address as a Host header carries it, less the port: what has a scheme, a port or a path
 * would never match. */
static kt_status check_hosts(const kt__texts *hosts, kt_error *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._";
    for (size_t i = 0; i < hosts->n; i++) {
        const char *host = hosts->items[i] ? hosts->items[i] : "";
        const char *rest = host + strspn(host, letters), *colon = strchr(host, ':');
        if (colon && strchr(colon + 1, ':')) rest = host + strspn(host, "0123456789abcdefABCDEF:.");
        if (!*host || (*rest && strcmp(host, "*") != 0))
            return kt__config_expected(NULL, "http.hosts",
                                       "a name such as \"box.lan\", without scheme, port, "
                                       "brackets or path",
                                       host, err);
    }
    return KT_OK;
}

/* SCHEME://HOST, as browsers and programs made of one (app://, vscode-webview://) send it: no path. */
static bool is_origin(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+.-";
    size_t scheme = strspn(text, letters);
    const char *host = text + scheme + 3;
    return scheme && !strncmp(text + scheme, "://", 3) && *host && !strpbrk(host, "/*?#@ ");
}

/* "*" lets any page in: only where a key is needed for more than to look. */
static kt_status check_origins(const kt__config *c, kt_error *err) {
    for (size_t i = 0; i < c->cors.n; i++) {
        const char *origin = c->cors.items[i] ? c->cors.items[i] : "";
        if (!strcmp(origin, "localhost") || is_origin(origin)) continue;
        if (!strcmp(origin, "*") && (c->keys || c->api_key)) continue;
        if (!strcmp(origin, "*"))
            return kt__fail_at(err, KT_E_ARG, "http.cors", UINT64_MAX,
                               "http.cors: \"*\" lets every web page use this server, so it needs "
                               "keys: set http.keys or http.api_key, or name the origins");
        return kt__config_expected(NULL, "http.cors",
                                   "an origin such as https://app.example:8080, without path, "
                                   "localhost, or * with keys",
                                   origin, err);
    }
    return KT_OK;
}

/* Where it is on, its folder is known. */
static kt_status finish_learning(kt__config *c, kt_error *err) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char path[512];
    for (size_t i = 0; i < c->learn_namespaces.n; i++) {
        const char *name = c->learn_namespaces.items[i] ? c->learn_namespaces.items[i] : "";
        if (!kt__namespace_is_name(name))
            return kt__config_expected(NULL, "learning.namespaces",
                                       "1 to 48 letters, digits, '.', '-' and '_'", name, err);
    }
    kt_status status = kt__learn_config_check(c, err);
    if (status != KT_OK || !c->learn || c->learn_dir) return status;
    if ((!data || !*data) && (!home || !*home))
        return kt__fail(err, KT_E_ARG, "learning.dir: neither XDG_DATA_HOME nor HOME says where");
    snprintf(path, sizeof path, "%.400s/kentang/learned", data && *data ? data : home);
    if (!data || !*data) snprintf(path, sizeof path, "%.400s/.local/share/kentang/learned", home);
    return kt__config_copy_text(c, path, strlen(path), &c->learn_dir, err);
}

static kt_status check_request_defaults(const kt__config *c, kt_error *err) {
    json_t *v = c->request_defaults ? json_loads(c->request_defaults, 0, NULL) : NULL;
    bool fits = !c->request_defaults || json_is_object(v);
    json_decref(v);
    if (fits) return KT_OK;
    return kt__config_expected(NULL, "request_defaults", "a JSON object", c->request_defaults, err);
}

kt_status kt__config_finish(kt__config *c, kt_error *err) {
    static const char *const formats[] = {"human", "json"};
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    static const char *const switches[] = {"on", "off", "auto"};
    static const char *const poolings[] = {"mean", "last", "cls", "model", "none", "rank"};
    KT__STEP(finish_models(c, err));
    KT__STEP(check_aliases(c, err));
    KT__STEP(kt__adapters_check(c, err));
    KT__STEP(finish_socket(c, err));
    KT__STEP(check_hosts(&c->hosts, err));
    KT__STEP(check_origins(c, err));
    KT__STEP(finish_listen(c, err));
    KT__STEP(finish_learning(c, err));
    KT__STEP(check_request_defaults(c, err));
    if (!c->log_format) c->log_format = "human";
    if (!c->log_level) c->log_level = "info";
    if (c->reasoning && !one_of(c->reasoning, switches, 3))
        return kt__config_expected(NULL, "reasoning", "on, off or auto", c->reasoning, err);
    if (c->pooling && !one_of(c->pooling, poolings, 6))
        return kt__config_expected(NULL, "pooling", "mean, last, cls, model or none", c->pooling,
                                   err);
    if (!one_of(c->log_format, formats, 2))
        return kt__config_expected(NULL, "log.format", "human or json", c->log_format, err);
    if (!one_of(c->log_level, levels, 4))
        return kt__config_expected(NULL, "log.level", "error, warn, info or debug", c->log_level,
                                   err);
    if (c->bodies < c->max_body)
        return kt__fail_at(err, KT_E_ARG, "limits.bodies", UINT64_MAX,
                           "limits.bodies: less than limits.body, so that a request of that length "
                           "could never be taken");
    if (!c->tls_cert != !c->tls_key)
        return kt__fail(err, KT_E_ARG, "http.tls_cert and http.tls_key belong together");
    return kt__config_finish_models(c, err);
}

kt_request_params kt__config_request(const kt__config *c) {
    kt_request_params r = kt_request_params_default();
    kt_sampling *s = &r.gen.sampling;
    r.gen.n_predict = (int32_t)c->default_max_new_tokens;
    r.constraint.compact = c->compact_json;
    r.calls.native = c->native_calls;
    r.overflow.shift = c->context_shift;
    s->temperature = (float)c->temperature;
    s->top_k = (int32_t)c->top_k;
    s->top_p = (float)c->top_p;
    s->min_p = (float)c->min_p;
    s->repeat_penalty = (float)c->repeat_penalty;
    s->repeat_last_n = (int32_t)c->repeat_last_n;
    s->typical_p = (float)c->typical_p;
    s->top_n_sigma = (float)c->top_n_sigma;
    s->xtc_probability = (float)c->xtc_probability;
    s->xtc_threshold = (float)c->xtc_threshold;
    s->presence_penalty = (float)c->presence_penalty;
    s->frequency_penalty = (float)c->frequency_penalty;
    s->dry_multiplier = (float)c->dry_multiplier;
    s->dry_base = (float)c->dry_base;
    s->dry_allowed_length = (int32_t)c->dry_allowed_length;
    s->dry_penalty_last_n = (int32_t)c->dry_penalty_last_n;
    s->dynatemp_range = (float)c->dynatemp_range;
    s->dynatemp_exponent = (float)c->dynatemp_exponent;
    s->mirostat = (int32_t)c->mirostat;
    s->mirostat_tau = (float)c->mirostat_tau;
    s->mirostat_eta = (float)c->mirostat_eta;
    s->mt19937 = (int32_t)c->mt19937;
    if (c->prefill) r.prompt.chat_flags |= KT_CHAT_CONTINUE;
    if (c->reasoning && (!strcmp(c->reasoning, "on") || !strcmp(c->reasoning, "auto")))
        r.prompt.template_vars = "{\"enable_thinking\":true,\"thinking\":true}";
    if (c->reasoning && !strcmp(c->reasoning, "off"))
        r.prompt.template_vars = "{\"enable_thinking\":false,\"thinking\":false}";
    if (c->samplers) s->chain = c->samplers;
    if (c->seed >= 0) s->seed = (uint64_t)c->seed;
    return r;
}

/* The models of a configuration: [[models]] tables, and what these change of the settings for one. */

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

static const kt__setting *find_of_models(const char *key) {
    const kt__setting *s = kt__config_find_key(key);
    return s && s->of_model ? s : NULL;
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
    const char *names[KT__N_SETTINGS + 4] = {"name", "path", "draft_model", "load_in"};
    size_t n_settings, n = 4;
    const kt__setting *settings = kt__config_settings(&n_settings);
    if (kt__config_find_key(key))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX,
                           "%s: \"%.80s\" is a setting of the server, not of one model", from, key);
    for (size_t i = 0; i < n_settings; i++) {
        if (settings[i].of_model) names[n++] = settings[i].key;
    }
    return kt__config_unknown(key, names, n, from, err);
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
    const kt__setting *setting = find_of_models(key);
    return setting ? add_override(c, m, setting, v, from, err) : unknown_of_model(key, from, err);
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

/* Whether words, with bars between them ("on|off|auto"), have this one. */
static bool has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == len && !strncmp(at, word, len)) return true;
    }
    return false;
}

/* "on|off|auto" as "on, off or auto" */
static void say_words(const char *words, char *out, size_t size) {
    size_t n = 0;
    for (const char *at = words; *at && n + 5 < size; at++) {
        const char *between = strchr(at + 1, '|') ? ", " : " or ";
        if (*at != '|') {
            out[n++] = *at;
        } else {
            n += (size_t)snprintf(out + n, size - n, "%s", between);
        }
    }
    out[n] = 0;
}

/* Settings of a model that are one of the words that their option lists. */
static kt_status check_own(const kt__config *own, kt_error *err) {
    kt_engine_params params = {0};
    size_t n;
    const kt__setting *s = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        char expected[128];
        if (!s[i].of_model || s[i].kind != KT__SET_TEXT || !s[i].argument ||
            !strchr(s[i].argument, '|'))
            continue;
        const char *value = *(const char *const *)(const void *)((const char *)own + s[i].at);
        if (!value || has_word(s[i].argument, value)) continue;
        say_words(s[i].argument, expected, sizeof expected);
        return kt__config_expected(NULL, s[i].key, expected, value, err);
    }
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
