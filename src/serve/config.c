#include "serve/config.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest.h"
#include "serve/toml.h"

enum { MAX_FILE_BYTES = KT__TOML_MAX_BYTES, MAX_MODELS = 64 };

static const kt__setting settings[] = {
#define X(member, kind, key, value, low, high, live, help) \
    {key, KT__SET_##kind, offsetof(kt__config, member), low, (double)(high), live, help},
#include "serve/settings.def"
#undef X
};
enum { N_SETTINGS = (int)(sizeof settings / sizeof settings[0]) };

const kt__setting *kt__config_settings(size_t *n) {
    *n = N_SETTINGS;
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

static void *slot(kt__config *config, const kt__setting *s) {
    return (char *)config + s->at;
}

static kt_status copy_text(kt__config *c, const char *text, size_t len, const char **out,
                           kt_error *err) {
    *out = NULL;
    if (!len) return KT_OK;
    *out = kt__arena_strndup(&c->arena, text, len);
    return *out ? KT_OK : kt__fail_nomem(err, "the configuration", len);
}

static kt_status set_number(kt__config *c, const kt__setting *s, double value, const char *from,
                            kt_error *err) {
    if (!(value >= s->low && value <= s->high))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: expected a number from %g to %g",
                           from, s->low, s->high);
    if (s->kind == KT__SET_FLOAT) {
        *(double *)slot(c, s) = value;
    } else {
        *(int64_t *)slot(c, s) = (int64_t)value;
    }
    return KT_OK;
}

static kt_status set_size(kt__config *c, const kt__setting *s, double bytes, const char *from,
                          kt_error *err) {
    double high = s->high > 0 ? s->high : 0x1p60;
    if (!(bytes >= s->low && bytes <= high))
        return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX,
                           "%s: expected a number of bytes from %.0f to %.0f", from, s->low, high);
    *(uint64_t *)slot(c, s) = (uint64_t)bytes;
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

static kt_status set_list(kt__config *c, const kt__setting *s, const char *value, kt_error *err) {
    kt__texts *list = slot(c, s);
    size_t n = 1;
    for (const char *at = value; *at; at++) n += *at == ',';
    list->items = kt__arena_calloc(&c->arena, n, sizeof *list->items);
    list->n = 0;
    if (!list->items) return kt__fail_nomem(err, "the configuration", n);
    while (*value) {
        size_t len = strcspn(value, ",");
        while (len && (*value == ' ' || *value == '\t')) value++, len--;
        if (len) {
            kt_status status = copy_text(c, value, len, &list->items[list->n++], err);
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

static kt_status expected(const char *from, const char *what, const char *got, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: expected %s, got \"%.60s\"", from,
                       what, got);
}

static kt_status set_text(kt__config *c, const kt__setting *s, const char *value, const char *from,
                          kt_error *err) {
    char *end;
    double number;
    switch (s->kind) {
    case KT__SET_TEXT: return copy_text(c, value, strlen(value), (const char **)slot(c, s), err);
    case KT__SET_TEXTS: return set_list(c, s, value, err);
    case KT__SET_BOOL:
        if (parse_bool(value, (bool *)slot(c, s))) return KT_OK;
        return expected(from, "true or false", value, err);
    case KT__SET_SIZE:
        if (parse_size(value, &number)) return set_size(c, s, number, from, err);
        return expected(from, "bytes such as 512M or 3G", value, err);
    case KT__SET_MODE:
        number = (double)strtol(value, &end, 8);
        if (*value && !*end) return set_number(c, s, number, from, err);
        return expected(from, "permissions such as 0600", value, err);
    default:
        number = strtod(value, &end);
        if (*value && !*end && (s->kind == KT__SET_FLOAT || number == floor(number)))
            return set_number(c, s, number, from, err);
        return expected(from, s->kind == KT__SET_FLOAT ? "a number" : "a whole number", value, err);
    }
}

static const kt__setting *find_key(const char *key) {
    for (int i = 0; i < N_SETTINGS; i++) {
        if (!strcmp(settings[i].key, key)) return &settings[i];
    }
    return NULL;
}

static kt_status unknown(const char *key, const char *const *names, size_t n, const char *from,
                         kt_error *err) {
    const char *near = kt__nearest_name(key, strlen(key), names, n);
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: unknown setting \"%.80s\"%s%s%s", from,
                       key, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static kt_status unknown_key(const char *key, const char *from, kt_error *err) {
    const char *names[N_SETTINGS];
    for (int i = 0; i < N_SETTINGS; i++) names[i] = settings[i].key;
    return unknown(key, names, N_SETTINGS, from, err);
}

kt_status kt__config_set(kt__config *config, const char *key, const char *value, const char *from,
                         kt_error *err) {
    const kt__setting *s = find_key(key);
    return s ? set_text(config, s, value, from, err) : unknown_key(key, from, err);
}

/* ---- TOML ---- */

static kt_status set_texts_value(kt__config *c, const kt__setting *s, const kt__toml *v,
                                 const char *from, kt_error *err) {
    kt__texts *list = slot(c, s);
    if (v->kind == KT__TOML_STRING) return set_list(c, s, v->text, err);
    if (v->kind != KT__TOML_ARRAY) return expected(from, "an array of texts", "another", err);
    list->items = kt__arena_calloc(&c->arena, v->n + 1, sizeof *list->items);
    list->n = 0;
    if (!list->items) return kt__fail_nomem(err, "the configuration", v->n);
    for (const kt__toml *item = v->first; item; item = item->next) {
        if (item->kind != KT__TOML_STRING)
            return expected(from, "an array of texts", kt__toml_kind_name(item->kind), err);
        kt_status status = copy_text(c, item->text, item->len, &list->items[list->n++], err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status set_value(kt__config *c, const kt__setting *s, const kt__toml *v, const char *from,
                           kt_error *err) {
    bool number = v->kind == KT__TOML_INT || v->kind == KT__TOML_FLOAT;
    double x = v->kind == KT__TOML_FLOAT ? v->real : (double)v->whole;
    bool whole = v->kind == KT__TOML_INT;
    const char *got = kt__toml_kind_name(v->kind);
    switch (s->kind) {
    case KT__SET_BOOL:
        if (v->kind != KT__TOML_BOOL) return expected(from, "true or false", got, err);
        *(bool *)slot(c, s) = v->truth;
        return KT_OK;
    case KT__SET_FLOAT:
        return number ? set_number(c, s, x, from, err) : expected(from, "a number", got, err);
    case KT__SET_INT:
        return whole ? set_number(c, s, x, from, err) : expected(from, "a whole number", got, err);
    case KT__SET_MODE:
    case KT__SET_SIZE:
        if (v->kind == KT__TOML_STRING) return set_text(c, s, v->text, from, err);
        if (!whole) return expected(from, "a whole number or a text", got, err);
        return s->kind == KT__SET_MODE ? set_number(c, s, x, from, err)
                                       : set_size(c, s, x, from, err);
    case KT__SET_TEXT:
        if (v->kind != KT__TOML_STRING) return expected(from, "a text", got, err);
        return copy_text(c, v->text, v->len, (const char **)slot(c, s), err);
    default: return set_texts_value(c, s, v, from, err);
    }
}

static kt_status read_model(kt__config *c, const kt__toml *table, const char *name,
                            kt__model_config *out, kt_error *err) {
    static const char *const names[] = {"name", "path", "draft_model"};
    const char **const slots[] = {&out->name, &out->path, &out->draft_path};
    enum { N = sizeof names / sizeof names[0] };
    for (const kt__toml *v = table->first; v; v = v->next) {
        char from[256];
        size_t i = 0;
        snprintf(from, sizeof from, "%s:%d", name, v->line);
        while (i < N && strcmp(v->key, names[i]) != 0) i++;
        if (i == N) return unknown(v->key, names, N, from, err);
        if (v->kind != KT__TOML_STRING)
            return expected(from, "a text", kt__toml_kind_name(v->kind), err);
        kt_status status = copy_text(c, v->text, v->len, slots[i], err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status read_models(kt__config *c, const kt__toml *v, const char *name, kt_error *err) {
    if (v->kind != KT__TOML_ARRAY || v->n > MAX_MODELS)
        return expected(name, "at most 64 [[models]] tables", kt__toml_kind_name(v->kind), err);
    c->models = kt__arena_calloc(&c->arena, v->n + 1, sizeof *c->models);
    if (!c->models) return kt__fail_nomem(err, "the configuration", v->n);
    c->n_models = 0;
    for (const kt__toml *item = v->first; item; item = item->next) {
        if (item->kind != KT__TOML_TABLE)
            return expected(name, "[[models]] tables", kt__toml_kind_name(item->kind), err);
        kt_status status = read_model(c, item, name, &c->models[c->n_models++], err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* Members of a table; prefix "" or "http." */
static kt_status read_table(kt__config *c, const kt__toml *table, const char *prefix,
                            const char *name, kt_error *err) {
    kt_status status = KT_OK;
    for (const kt__toml *v = table->first; v && status == KT_OK; v = v->next) {
        char key[128], from[256];
        snprintf(from, sizeof from, "%s:%d", name, v->line);
        snprintf(key, sizeof key, "%s%s", prefix, v->key);
        if (!*prefix && !strcmp(key, "models")) {
            status = read_models(c, v, name, err);
        } else if (v->kind == KT__TOML_TABLE && !*prefix) {
            snprintf(key, sizeof key, "%s.", v->key);
            status = read_table(c, v, key, name, err);
        } else {
            const kt__setting *s = find_key(key);
            status = s ? set_value(c, s, v, from, err) : unknown_key(key, from, err);
        }
    }
    return status;
}

kt_status kt__config_read_toml(kt__config *config, const char *text, size_t len, const char *name,
                               kt_error *err) {
    kt__arena arena;
    kt__toml *root;
    kt__arena_init(&arena, 4096, 64 << 20);
    kt_status status = kt__toml_parse(text, len, name, &arena, &root, err);
    if (status == KT_OK) status = read_table(config, root, "", name, err);
    kt__arena_free(&arena);
    return status;
}

/* ---- files ---- */

static kt_status slurp(const char *path, kt__buf *out, kt_error *err) {
    char piece[4096];
    size_t n;
    kt__buf_init(out, MAX_FILE_BYTES);
    FILE *in = fopen(path, "rb");
    if (!in)
        return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot open %s: %s", path,
                           strerror(errno));
    while ((n = fread(piece, 1, sizeof piece, in)) > 0) (void)kt__buf_append(out, piece, n);
    bool failed = ferror(in) != 0;
    fclose(in);
    if (failed) return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read %s", path);
    if (out->failed) return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "%s is too long", path);
    return KT_OK;
}

kt_status kt__config_read_file(kt__config *config, const char *path, kt_error *err) {
    kt__buf text;
    kt_status status = slurp(path, &text, err);
    if (status == KT_OK) status = copy_text(config, path, strlen(path), &config->file, err);
    if (status == KT_OK)
        status = kt__config_read_toml(config, text.data ? text.data : "", text.len, path, err);
    kt__buf_free(&text);
    return status;
}

bool kt__config_find_file(char *path, size_t size) {
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg && *xdg) {
        snprintf(path, size, "%s/kentang/kentang.toml", xdg);
        if (access(path, F_OK) == 0) return true;
    } else if (home && *home) {
        snprintf(path, size, "%s/.config/kentang/kentang.toml", home);
        if (access(path, F_OK) == 0) return true;
    }
    snprintf(path, size, "/etc/kentang/kentang.toml");
    return access(path, F_OK) == 0;
}

/* ---- environment ---- */

/* "KENTANG_HTTP_LISTEN" of "http.listen" */
static void environment_name(const char *key, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "KENTANG_%s", key);
    for (size_t i = 0; i < n && i < size; i++) {
        if (out[i] == '.') out[i] = '_';
        if (out[i] >= 'a' && out[i] <= 'z') out[i] = (char)(out[i] - 32);
    }
}

static const kt__setting *find_environment(const char *name, size_t len) {
    char known[128];
    for (int i = 0; i < N_SETTINGS; i++) {
        environment_name(settings[i].key, known, sizeof known);
        if (strlen(known) == len && !memcmp(known, name, len)) return &settings[i];
    }
    if (len == 22 && !memcmp(name, "DEFAULT_MAX_NEW_TOKENS", len))
        return find_key("default_max_new_tokens");
    return NULL;
}

static kt_status unknown_environment(const char *name, const char *from, kt_error *err) {
    char text[N_SETTINGS][64];
    const char *names[N_SETTINGS];
    for (int i = 0; i < N_SETTINGS; i++) {
        environment_name(settings[i].key, text[i], sizeof text[i]);
        names[i] = text[i];
    }
    return unknown(name, names, N_SETTINGS, from, err);
}

/* KENTANG_CONFIG names the file; it is read before. */
static bool is_ours(const char *name, size_t len) {
    return len > 8 && !memcmp(name, "KENTANG_", 8) &&
           !(len == 14 && !memcmp(name, "KENTANG_CONFIG", 14));
}

kt_status kt__config_read_environment(kt__config *config, char *const *environment,
                                      kt__buf *strange, kt_error *err) {
    for (; *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        size_t len = equals ? (size_t)(equals - *environment) : 0;
        char name[160];
        if (!len || len >= sizeof name) continue;
        memcpy(name, *environment, len);
        name[len] = '\0';
        const kt__setting *s = find_environment(name, len);
        if (s) {
            kt_status status = set_text(config, s, equals + 1, name, err);
            if (status != KT_OK) return status;
        } else if (is_ours(name, len) && strange) {
            kt_error what;
            (void)unknown_environment(name, "environment", &what);
            (void)kt__buf_printf(strange, "%s\n", what.message);
        }
    }
    return KT_OK;
}

/* NAME=VALUE, NAME="VALUE", 'VALUE', export NAME=VALUE, # comment */
static kt_status read_dotenv_line(kt__config *c, char *line, const char *from, kt_error *err) {
    while (*line == ' ' || *line == '\t') line++;
    if (!strncmp(line, "export ", 7)) line += 7;
    if (!*line || *line == '#') return KT_OK;
    char *equals = strchr(line, '=');
    if (!equals)
        return kt__fail_at(err, KT_E_FORMAT, from, UINT64_MAX, "%s: expected NAME=VALUE", from);
    *equals = '\0';
    char *value = equals + 1, *end = value + strlen(value);
    for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--)
        line[n - 1] = '\0';
    while (*value == ' ' || *value == '\t') value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) *--end = '\0';
    if (end - value >= 2 && (*value == '"' || *value == '\'') && end[-1] == *value) {
        *--end = '\0';
        value++;
    }
    const kt__setting *s = find_environment(line, strlen(line));
    if (s) return set_text(c, s, value, from, err);
    return is_ours(line, strlen(line)) ? unknown_environment(line, from, err) : KT_OK;
}

kt_status kt__config_read_dotenv(kt__config *config, const char *path, kt_error *err) {
    kt__buf text;
    char from[256];
    kt_status status = slurp(path, &text, err);
    char *line = text.data, *save = NULL;
    for (int n = 1; status == KT_OK && line && *line; n++, line = save) {
        save = strchr(line, '\n');
        if (save) *save++ = '\0';
        snprintf(from, sizeof from, "%s:%d", path, n);
        status = read_dotenv_line(config, line, from, err);
        if (!save) break;
    }
    kt__buf_free(&text);
    return status;
}

/* ---- the whole ---- */

kt_status kt__config_set_model(kt__config *config, const char *path, kt_error *err) {
    config->n_models = 0;
    return copy_text(config, path, strlen(path), &config->model, err);
}

/* "qwen2.5-1.5b-q4_k_m" of "/models/qwen2.5-1.5b-q4_k_m.gguf" */
static kt_status name_of_file(kt__config *c, const char *path, const char **out, kt_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    if (len > 5 && !strcmp(name + len - 5, ".gguf")) len -= 5;
    return copy_text(c, name, len, out, err);
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
        return copy_text(c, path, strlen(path), &c->socket, err);
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
        return expected("log.format", "human or json", c->log_format, err);
    if (!one_of(c->log_level, levels, 4))
        return expected("log.level", "error, warn, info or debug", c->log_level, err);
    if (!c->tls_cert != !c->tls_key)
        return kt__fail(err, KT_E_ARG, "http.tls_cert and http.tls_key belong together");
out:
    return status;
}

/* ---- printing ---- */

static void print_text(kt__buf *out, const char *text) {
    (void)kt__buf_putc(out, '"');
    for (; text && *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\') (void)kt__buf_putc(out, '\\');
        if (ch < 0x20 || ch == 0x7f) {
            (void)kt__buf_printf(out, "\\u%04x", ch);
        } else {
            (void)kt__buf_putc(out, (char)ch);
        }
    }
    (void)kt__buf_putc(out, '"');
}

void kt__config_print_value(const kt__config *c, const kt__setting *s, kt__buf *out) {
    const void *at = (const char *)c + s->at;
    switch (s->kind) {
    case KT__SET_BOOL: (void)kt__buf_puts(out, *(const bool *)at ? "true" : "false"); break;
    case KT__SET_INT: (void)kt__buf_printf(out, "%lld", (long long)*(const int64_t *)at); break;
    case KT__SET_FLOAT: (void)kt__buf_printf(out, "%g", *(const double *)at); break;
    case KT__SET_SIZE:
        (void)kt__buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case KT__SET_MODE: (void)kt__buf_printf(out, "\"%04o\"", (unsigned)*(const int64_t *)at); break;
    case KT__SET_TEXT: print_text(out, *(const char *const *)at); break;
    case KT__SET_TEXTS: {
        const kt__texts *list = at;
        (void)kt__buf_putc(out, '[');
        for (size_t i = 0; i < list->n; i++) {
            if (i) (void)kt__buf_puts(out, ", ");
            print_text(out, list->items[i]);
        }
        (void)kt__buf_putc(out, ']');
    }
    }
}

static bool same_text(const char *a, const char *b) {
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_texts(const kt__texts *a, const kt__texts *b) {
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = same_text(a->items[i], b->items[i]);
    return same;
}

bool kt__config_same(const kt__config *a, const kt__config *b, const kt__setting *s) {
    const void *x = (const char *)a + s->at, *y = (const char *)b + s->at;
    switch (s->kind) {
    case KT__SET_BOOL: return *(const bool *)x == *(const bool *)y;
    case KT__SET_FLOAT: return !memcmp(x, y, sizeof(double));
    case KT__SET_TEXT: return same_text(*(const char *const *)x, *(const char *const *)y);
    case KT__SET_TEXTS: return same_texts(x, y);
    default: return *(const int64_t *)x == *(const int64_t *)y; /* INT, MODE; SIZE is as wide */
    }
}

void kt__config_print(const kt__config *c, kt__buf *out) {
    static const char *const tables[] = {"",     "cache",  "sampling", "socket",
                                         "http", "limits", "log"};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        size_t len = strlen(tables[t]);
        if (len) (void)kt__buf_printf(out, "\n[%s]\n", tables[t]);
        for (int i = 0; i < N_SETTINGS; i++) {
            const kt__setting *s = &settings[i];
            const char *dot = strchr(s->key, '.');
            size_t n = dot ? (size_t)(dot - s->key) : 0;
            if (n != len || memcmp(s->key, tables[t], len) != 0) continue;
            bool absent = (s->at == offsetof(kt__config, model) && !c->model) ||
                          (s->at == offsetof(kt__config, alias) && !c->alias) ||
                          (s->at == offsetof(kt__config, draft_model) && !c->draft_model);
            if (*s->help) (void)kt__buf_printf(out, "# %s\n", s->help);
            (void)kt__buf_printf(out, "%s%s = ", absent ? "# " : "", dot ? dot + 1 : s->key);
            kt__config_print_value(c, s, out);
            (void)kt__buf_putc(out, '\n');
        }
    }
    for (size_t i = 0; !c->model && i < c->n_models; i++) {
        (void)kt__buf_puts(out, "\n[[models]]\nname = ");
        print_text(out, c->models[i].name);
        if (c->models[i].path)
            (void)kt__buf_puts(out, "\npath = "), print_text(out, c->models[i].path);
        if (c->models[i].draft_path)
            (void)kt__buf_puts(out, "\ndraft_model = "), print_text(out, c->models[i].draft_path);
        (void)kt__buf_putc(out, '\n');
    }
}

kt_request kt__config_request(const kt__config *c) {
    kt_request r = kt_request_default();
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
