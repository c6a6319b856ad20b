#include "serve/config_set.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest.h"

static const kt__setting settings[] = {
#define X(member, kind, key, value, low, high, live, help) \
    {key, KT__SET_##kind, offsetof(kt__config, member), low, (double)(high), live, help},
#include "serve/settings.def"
#undef X
};
_Static_assert(sizeof settings / sizeof settings[0] == KT__N_SETTINGS, "a name for each setting");

const kt__setting *kt__config_settings(size_t *n) {
    *n = KT__N_SETTINGS;
    return settings;
}

/* ---- life ---- */

kt_status kt__config_create(kt__config **out, kt_error *err) {
    const kt__config defaults = {
#define X(member, kind, key, value, low, high, live, help) .member = value,
#include "serve/settings.def"
#undef X
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

/* ---- one setting ---- */

void *kt__config_slot(kt__config *config, const kt__setting *s) {
    return (char *)config + s->at;
}

kt_status kt__config_copy_text(kt__config *c, const char *text, size_t len, const char **out,
                               kt_error *err) {
    *out = NULL;
    if (!len) return KT_OK;
    *out = kt__arena_strndup(&c->arena, text, len);
    return *out ? KT_OK : kt__fail_nomem(err, "the configuration", len);
}

kt_status kt__config_set_number(kt__config *c, const kt__setting *s, double value, const char *from,
                                kt_error *err) {
    if (!(value >= s->low && value <= s->high))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: expected a number from %g to %g",
                           from, s->low, s->high);
    if (s->kind == KT__SET_FLOAT) {
        *(double *)kt__config_slot(c, s) = value;
    } else {
        *(int64_t *)kt__config_slot(c, s) = (int64_t)value;
    }
    return KT_OK;
}

kt_status kt__config_set_size(kt__config *c, const kt__setting *s, double bytes, const char *from,
                              kt_error *err) {
    double high = s->high > 0 ? s->high : 0x1p60;
    if (!(bytes >= s->low && bytes <= high))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX,
                           "%s: expected a number of bytes from %.0f to %.0f", from, s->low, high);
    *(uint64_t *)kt__config_slot(c, s) = (uint64_t)bytes;
    return KT_OK;
}

/* "3G" */
static bool parse_size(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    if (end == text || !isfinite(*out)) return false;
    if (!*end) return true;
    if (!unit) return false;
    *out *= exp2(10.0 * (double)(unit - units + 1));
    end++;
    if (*end == 'i') end++;
    if (*end == 'B' || *end == 'b') end++;
    return !*end;
}

kt_status kt__config_set_list(kt__config *c, const kt__setting *s, const char *value,
                              kt_error *err) {
    kt__texts *list = kt__config_slot(c, s);
    size_t n = 1;
    for (const char *at = value; *at; at++) n += *at == ',';
    list->items = kt__arena_calloc(&c->arena, n, sizeof *list->items);
    list->n = 0;
    if (!list->items) return kt__fail_nomem(err, "the configuration", n);
    while (*value) {
        size_t len = strcspn(value, ",");
        while (len && (*value == ' ' || *value == '\t')) value++, len--;
        if (len) {
            kt_status status = kt__config_copy_text(c, value, len, &list->items[list->n++], err);
            if (status != KT_OK) return status;
        }
        value += len + (value[len] == ',');
    }
    return KT_OK;
}

static bool parse_bool(const char *text, bool *out) {
    static const char *const yes[] = {"true", "1", "yes", "on"};
    static const char *const no[] = {"false", "0", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i])) return *out = true;
        if (!strcmp(text, no[i])) return !(*out = false);
    }
    return false;
}

kt_status kt__config_expected(const char *from, const char *what, const char *got, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: expected %s, got \"%.60s\"", from,
                       what, got);
}

kt_status kt__config_set_text(kt__config *c, const kt__setting *s, const char *value,
                              const char *from, kt_error *err) {
    char *end;
    double number;
    switch (s->kind) {
    case KT__SET_TEXT:
        return kt__config_copy_text(c, value, strlen(value), (const char **)kt__config_slot(c, s),
                                    err);
    case KT__SET_TEXTS: return kt__config_set_list(c, s, value, err);
    case KT__SET_BOOL:
        if (parse_bool(value, (bool *)kt__config_slot(c, s))) return KT_OK;
        return kt__config_expected(from, "true or false", value, err);
    case KT__SET_SIZE:
        if (parse_size(value, &number)) return kt__config_set_size(c, s, number, from, err);
        return kt__config_expected(from, "bytes such as 512M or 3G", value, err);
    case KT__SET_MODE:
        number = (double)strtol(value, &end, 8);
        if (*value && !*end) return kt__config_set_number(c, s, number, from, err);
        return kt__config_expected(from, "permissions such as 0600", value, err);
    default:
        number = strtod(value, &end);
        if (*value && !*end && (s->kind == KT__SET_FLOAT || number == floor(number)))
            return kt__config_set_number(c, s, number, from, err);
        return kt__config_expected(from, s->kind == KT__SET_FLOAT ? "a number" : "a whole number",
                                   value, err);
    }
}

const kt__setting *kt__config_find_key(const char *key) {
    for (int i = 0; i < KT__N_SETTINGS; i++) {
        if (!strcmp(settings[i].key, key)) return &settings[i];
    }
    return NULL;
}

kt_status kt__config_unknown(const char *key, const char *const *names, size_t n, const char *from,
                             kt_error *err) {
    const char *near = kt__nearest_name(key, strlen(key), names, n);
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: unknown setting \"%.80s\"%s%s%s", from,
                       key, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

kt_status kt__config_unknown_key(const char *key, const char *from, kt_error *err) {
    const char *names[KT__N_SETTINGS];
    for (int i = 0; i < KT__N_SETTINGS; i++) names[i] = settings[i].key;
    return kt__config_unknown(key, names, KT__N_SETTINGS, from, err);
}

kt_status kt__config_set(kt__config *config, const char *key, const char *value, const char *from,
                         kt_error *err) {
    const kt__setting *s = kt__config_find_key(key);
    return s ? kt__config_set_text(config, s, value, from, err)
             : kt__config_unknown_key(key, from, err);
}

/* ---- the whole ---- */

kt_status kt__config_set_model(kt__config *config, const char *path, kt_error *err) {
    config->n_models = 0;
    return kt__config_copy_text(config, path, strlen(path), &config->model, err);
}

/* "qwen2.5-1.5b-q4_k_m" of "/models/qwen2.5-1.5b-q4_k_m.gguf" */
static kt_status name_of_file(kt__config *c, const char *path, const char **out, kt_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    if (len > 5 && !strcmp(name + len - 5, ".gguf")) len -= 5;
    return kt__config_copy_text(c, name, len, out, err);
}

static kt_status finish_models(kt__config *c, kt_error *err) {
    kt_status status = KT_OK;
    if (!c->n_models) {
        c->models = kt__arena_calloc(&c->arena, 1, sizeof *c->models);
        if (!c->models) return kt__fail_nomem(err, "the configuration", sizeof *c->models);
        c->models[c->n_models++] = (kt__model_config){c->alias, c->model, c->draft_model};
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

static kt_status finish_socket(kt__config *c, kt_error *err) {
    const char *dir = getenv("XDG_RUNTIME_DIR");
    char path[512];
    if (c->socket && !strcmp(c->socket, "none")) {
        c->socket = NULL;
    } else if (!c->socket && dir && *dir) {
        snprintf(path, sizeof path, "%s/kentang.sock", dir);
        return kt__config_copy_text(c, path, strlen(path), &c->socket, err);
    }
    if (c->socket && strlen(c->socket) > 100)
        return kt__fail(err, KT_E_ARG, "socket.path is longer than 100 bytes: %.60s...", c->socket);
    return KT_OK;
}

static bool one_of(const char *text, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(text, names[i])) return true;
    }
    return false;
}

kt_status kt__config_finish(kt__config *c, kt_error *err) {
    static const char *const formats[] = {"human", "json"};
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    kt_status status;
    KT__TRY(finish_models(c, err));
    KT__TRY(finish_socket(c, err));
    if (c->listen && !strcmp(c->listen, "none")) c->listen = NULL;
    if (!c->log_format) c->log_format = "human";
    if (!c->log_level) c->log_level = "info";
    if (!one_of(c->log_format, formats, 2))
        return kt__config_expected("log.format", "human or json", c->log_format, err);
    if (!one_of(c->log_level, levels, 4))
        return kt__config_expected("log.level", "error, warn, info or debug", c->log_level, err);
    if (!c->tls_cert != !c->tls_key)
        return kt__fail(err, KT_E_ARG, "http.tls_cert and http.tls_key belong together");
out:
    return status;
}

kt_request_params kt__config_request(const kt__config *c) {
    kt_request_params r = kt_request_params_default();
    kt_sampling *s = &r.gen.sampling;
    r.gen.n_predict = (int32_t)c->default_max_new_tokens;
    s->temperature = (float)c->temperature;
    s->top_k = (int32_t)c->top_k;
    s->top_p = (float)c->top_p;
    s->min_p = (float)c->min_p;
    s->repeat_penalty = (float)c->repeat_penalty;
    s->repeat_last_n = (int32_t)c->repeat_last_n;
    return r;
}
