#include "setup/config_set.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

static const kt__setting settings[] = {
#define SETTING(member_, kind_, value, ...) \
    {.at = offsetof(kt__config, member_), .kind = KT__SET_##kind_, __VA_ARGS__},
#include "setup/settings.def"
#undef SETTING
};
_Static_assert(sizeof settings / sizeof settings[0] == KT__N_SETTINGS, "a name for each setting");

const kt__setting *kt__config_settings(size_t *n) {
    *n = KT__N_SETTINGS;
    return settings;
}

const kt__setting *kt__config_find_key(const char *key) {
    for (int i = 0; i < KT__N_SETTINGS; i++) {
        if (!strcmp(settings[i].key, key)) return &settings[i];
    }
    return NULL;
}

size_t kt__setting_size(kt__setting_kind kind) {
    switch (kind) {
    case KT__SET_BOOL: return sizeof(bool);
    case KT__SET_FLOAT: return sizeof(double);
    case KT__SET_SIZE: return sizeof(uint64_t);
    case KT__SET_TEXT:
    case KT__SET_PATH: return sizeof(const char *);
    case KT__SET_TEXTS: return sizeof(kt__texts);
    default: return sizeof(int64_t);
    }
}

static void *slot_of(kt__config *config, const kt__setting *s) {
    return (char *)config + s->at;
}

/* ---- errors ---- */

static bool same_but_dots(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '.' ? '_' : *a) != (*b == '.' ? '_' : *b)) return false;
    return *a == *b;
}

/* "socket.path" for socket_path, "model" for model_path, else what is spelled nearly so. */
static const char *near_name(const char *key, const char *const *names, size_t n) {
    const char *begins = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (same_but_dots(key, names[i])) return names[i];
        bool is_longer = !strncmp(key, names[i], len) && (key[len] == '_' || key[len] == '.');
        if (is_longer && (!begins || len > strlen(begins))) begins = names[i];
    }
    const char *near = kt__nearest_name(key, strlen(key), names, n);
    return near ? near : begins;
}

kt_status kt__config_unknown(const char *key, const char *const *names, size_t n, const char *from,
                             kt_error *err) {
    const char *near = near_name(key, names, n);
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: unknown setting \"%.80s\"%s%s%s", from,
                       key, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

kt_status kt__config_unknown_key(const char *key, const char *from, kt_error *err) {
    const char *names[KT__N_SETTINGS];
    for (int i = 0; i < KT__N_SETTINGS; i++) names[i] = settings[i].key;
    return kt__config_unknown(key, names, KT__N_SETTINGS, from, err);
}

/* "f.toml:3: limits.queue"; the name of a variable or an option says which setting it is. */
static void name_place(const kt__setting *s, const char *from, char *out, size_t size) {
    bool is_option = s && s->option && !strncmp(from, "--", 2) && !strcmp(from + 2, s->option);
    bool named = !s || !strncmp(from, "KENTANG_", 8) || is_option;
    snprintf(out, size, "%s%s%s", from, named ? "" : ": ", named ? "" : s->key);
}

kt_status kt__config_expected(const kt__setting *s, const char *from, const char *what,
                              const char *got, kt_error *err) {
    char place[256];
    name_place(s, from, place, sizeof place);
    return kt__fail_at(err, KT_E_ARG, from, UINT64_MAX, "%s: expected %s, got \"%.60s\"", place,
                       what, got);
}

/* ---- texts and paths ---- */

kt_status kt__config_copy_text(kt__config *c, const char *text, size_t len, const char **out,
                               kt_error *err) {
    *out = NULL;
    if (!len) return KT_OK;
    *out = kt__arena_strndup(&c->arena, text, len);
    return *out ? KT_OK : kt__fail_nomem(err, "the configuration", len);
}

kt_status kt__config_copy_path(kt__config *c, const char *path, const char **out, const char *from,
                               kt_error *err) {
    const char *home = getenv("HOME");
    char whole[4096];
    if (path[0] != '~') return kt__config_copy_text(c, path, strlen(path), out, err);
    if ((path[1] && path[1] != '/') || !home || !kt__files_is_absolute(home))
        return kt__fail_at(
            err, KT_E_ARG, from, UINT64_MAX,
            "%s: %.80s: %s; write the whole path, or ./~ for a file of that name", from, path,
            path[1] && path[1] != '/' ? "another user's ~ is not looked up" : "HOME is not set");
    int len = snprintf(whole, sizeof whole, "%s%s", home, path + 1);
    if ((size_t)len >= sizeof whole)
        return kt__config_expected(NULL, from, "a shorter path", path, err);
    return kt__config_copy_text(c, whole, (size_t)len, out, err);
}

static kt_status set_list(kt__config *c, const kt__setting *s, const char *value, kt_error *err) {
    kt__texts *list = slot_of(c, s);
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

/* ---- numbers ---- */

/* Whole numbers are printed as such: "1 to 1048576". */
static void print_range(const kt__setting *s, double low, double high, char *out, size_t size) {
    const char *form = s->kind == KT__SET_FLOAT  ? "a number from %g to %g"
                       : s->kind == KT__SET_SIZE ? "a number of bytes from %.0f to %.0f"
                                                 : "a whole number from %.0f to %.0f";
    if (s->kind == KT__SET_MODE) {
        snprintf(out, size, "permissions from 0000 to %04o", (unsigned)high);
    } else {
        snprintf(out, size, form, low, high);
    }
}

/* got: what was given, as it stood there */
static kt_status set_number(kt__config *c, const kt__setting *s, double value, const char *got,
                            const char *from, kt_error *err) {
    double high = s->kind == KT__SET_SIZE && s->high <= 0 ? 0x1p60 : s->high;
    void *slot = slot_of(c, s);
    char range[96];
    if (!(value >= s->low && value <= high)) {
        print_range(s, s->low, high, range, sizeof range);
        return kt__config_expected(s, from, range, got, err);
    }
    switch (s->kind) {
    case KT__SET_FLOAT: *(double *)slot = value; break;
    case KT__SET_SIZE: *(uint64_t *)slot = (uint64_t)value; break;
    default: *(int64_t *)slot = (int64_t)value; break;
    }
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

static bool parse_bool(const char *text, bool *out) {
    static const char *const yes[] = {"true", "1", "yes", "on"};
    static const char *const no[] = {"false", "0", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i])) return *out = true;
        if (!strcmp(text, no[i])) return !(*out = false);
    }
    return false;
}

/* Are its words "on" and "off", and perhaps others? true and false mean them. */
static bool is_switch(const kt__setting *s) {
    return s->argument && !strncmp(s->argument, "on|off", 6);
}

bool kt__setting_has_words(const kt__setting *s) {
    return s->kind == KT__SET_INT && s->argument && !strcmp(s->argument, "N|auto|all");
}

static bool parse_word(const kt__setting *s, const char *text, double *out) {
    bool is_all = !strcmp(text, "all");
    *out = is_all ? s->high : s->low;
    return kt__setting_has_words(s) && (is_all || !strcmp(text, "auto"));
}

/* ---- from text ---- */

static kt_status set_plain(kt__config *c, const kt__setting *s, const char *value, const char *from,
                           kt_error *err) {
    char *end;
    double number;
    bool truth;
    switch (s->kind) {
    case KT__SET_TEXT:
        if (is_switch(s) && parse_bool(value, &truth)) value = truth ? "on" : "off";
        return kt__config_copy_text(c, value, strlen(value), slot_of(c, s), err);
    case KT__SET_PATH: return kt__config_copy_path(c, value, slot_of(c, s), from, err);
    case KT__SET_TEXTS: return set_list(c, s, value, err);
    case KT__SET_BOOL:
        if (parse_bool(value, slot_of(c, s))) return KT_OK;
        return kt__config_expected(s, from, "true or false", value, err);
    case KT__SET_SIZE:
        if (parse_size(value, &number)) return set_number(c, s, number, value, from, err);
        return kt__config_expected(s, from, "bytes such as 512M or 3G", value, err);
    case KT__SET_MODE:
        number = (double)strtol(value, &end, 8);
        if (*value && !*end) return set_number(c, s, number, value, from, err);
        return kt__config_expected(s, from, "permissions such as 0600", value, err);
    default:
        if (parse_word(s, value, &number)) return set_number(c, s, number, value, from, err);
        number = strtod(value, &end);
        if (*value && !*end && (s->kind == KT__SET_FLOAT || number == floor(number)))
            return set_number(c, s, number, value, from, err);
        return kt__config_expected(s, from,
                                   s->kind == KT__SET_FLOAT   ? "a number"
                                   : kt__setting_has_words(s) ? "a whole number, auto or all"
                                                              : "a whole number",
                                   value, err);
    }
}

/* A quoted text, and for a list an array too, may be written as in the file. An array is one only
 * there: http.listen may begin with the bracket of an IPv6 address. */
static bool is_written_as_toml(const kt__setting *s, const char *value) {
    return value[0] == '"' || value[0] == '\'' || (s->kind == KT__SET_TEXTS && value[0] == '[');
}

kt_status kt__config_set_text(kt__config *c, const kt__setting *s, const char *value,
                              const char *from, kt_error *err) {
    kt__arena arena;
    kt__buf text;
    kt__toml *root;
    kt_status status;
    if (!is_written_as_toml(s, value)) return set_plain(c, s, value, from, err);
    kt__arena_init(&arena, 4096, 4 << 20);
    kt__buf_init(&text, KT__TOML_MAX_BYTES);
    if (!kt__buf_puts(&text, "value = ") || !kt__buf_puts(&text, value)) {
        status = kt__fail_nomem(err, "the configuration", strlen(value));
        goto out;
    }
    KT__TRY(kt__toml_parse(text.data, text.len, from, &arena, &root, err));
    status = root->n == 1 ? kt__config_set_toml(c, s, root->first, from, err)
                          : kt__config_expected(s, from, "one value", value, err);
out:
    kt__buf_free(&text);
    kt__arena_free(&arena);
    return status;
}

/* ---- from TOML ---- */

static kt_status set_texts(kt__config *c, const kt__setting *s, const kt__toml *v, const char *from,
                           kt_error *err) {
    kt__texts *list = slot_of(c, s);
    if (v->kind == KT__TOML_STRING) return set_list(c, s, v->text, err);
    if (v->kind != KT__TOML_ARRAY)
        return kt__config_expected(s, from, "an array of texts", kt__toml_kind_name(v->kind), err);
    list->items = kt__arena_calloc(&c->arena, v->n + 1, sizeof *list->items);
    list->n = 0;
    if (!list->items) return kt__fail_nomem(err, "the configuration", v->n);
    for (const kt__toml *item = v->first; item; item = item->next) {
        if (item->kind != KT__TOML_STRING)
            return kt__config_expected(s, from, "an array of texts", kt__toml_kind_name(item->kind),
                                       err);
        kt_status status = kt__config_copy_text(c, item->text, item->len, &list->items[list->n++],
                                                err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* A number, or a text such as "3G" or "0660" where the kind has such. */
static kt_status set_toml_number(kt__config *c, const kt__setting *s, const kt__toml *v,
                                 const char *from, kt_error *err) {
    char got[32];
    bool real = s->kind == KT__SET_FLOAT;
    bool text = s->kind == KT__SET_SIZE || s->kind == KT__SET_MODE || kt__setting_has_words(s);
    if (v->kind == KT__TOML_STRING && text) return set_plain(c, s, v->text, from, err);
    if (v->kind == KT__TOML_INT) {
        snprintf(got, sizeof got, "%lld", (long long)v->whole);
        return set_number(c, s, (double)v->whole, got, from, err);
    }
    if (v->kind == KT__TOML_FLOAT && real) {
        snprintf(got, sizeof got, "%g", v->real);
        return set_number(c, s, v->real, got, from, err);
    }
    return kt__config_expected(s, from,
                               real   ? "a number"
                               : text ? "a whole number or a text"
                                      : "a whole number",
                               kt__toml_kind_name(v->kind), err);
}

kt_status kt__config_set_toml(kt__config *c, const kt__setting *s, const kt__toml *v,
                              const char *from, kt_error *err) {
    const char *got = kt__toml_kind_name(v->kind);
    switch (s->kind) {
    case KT__SET_BOOL:
        if (v->kind != KT__TOML_BOOL)
            return kt__config_expected(s, from, "true or false", got, err);
        *(bool *)slot_of(c, s) = v->truth;
        return KT_OK;
    case KT__SET_TEXT:
    case KT__SET_PATH:
        if (v->kind == KT__TOML_BOOL && is_switch(s)) {
            const char *word = v->truth ? "on" : "off";
            return kt__config_copy_text(c, word, strlen(word), slot_of(c, s), err);
        }
        if (v->kind != KT__TOML_STRING) return kt__config_expected(s, from, "a text", got, err);
        return s->kind == KT__SET_PATH
                   ? kt__config_copy_path(c, v->text, slot_of(c, s), from, err)
                   : kt__config_copy_text(c, v->text, v->len, slot_of(c, s), err);
    case KT__SET_TEXTS: return set_texts(c, s, v, from, err);
    default: return set_toml_number(c, s, v, from, err);
    }
}

kt_status kt__config_set(kt__config *config, const char *key, const char *value, const char *from,
                         kt_error *err) {
    const kt__setting *s = kt__config_find_key(key);
    return s ? kt__config_set_text(config, s, value, from, err)
             : kt__config_unknown_key(key, from, err);
}
