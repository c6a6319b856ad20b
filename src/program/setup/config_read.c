/* A configuration from a TOML file, a .env file and the environment. */
#include "setup/config_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"
#include "setup/toml.h"

enum { MAX_FILE_BYTES = KT__TOML_MAX_BYTES };

/* ---- TOML ---- */

/* Members of a table; prefix "" or "http." */
static kt_status read_table(kt__config *c, const kt__toml *table, const char *prefix,
                            const char *name, kt_error *err) {
    kt_status status = KT_OK;
    for (const kt__toml *v = table->first; v && status == KT_OK; v = v->next) {
        char key[128], from[256];
        snprintf(from, sizeof from, "%s:%d", name, v->line);
        snprintf(key, sizeof key, "%s%s", prefix, v->key);
        if (!*prefix && !strcmp(key, "models")) {
            status = kt__config_read_models(c, v, name, err);
        } else if (v->kind == KT__TOML_TABLE && !*prefix) {
            snprintf(key, sizeof key, "%s.", v->key);
            status = read_table(c, v, key, name, err);
        } else {
            const kt__setting *s = kt__config_find_key(key);
            status = s ? kt__config_set_toml(c, s, v, from, err)
                       : kt__config_unknown_key(key, from, err);
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

kt_status kt__config_read_file(kt__config *config, const char *path, kt_error *err) {
    kt__buf text;
    kt_status status;
    KT__TRY(kt__config_file_read(path, "the settings", MAX_FILE_BYTES, &text, NULL, err));
    KT__TRY(kt__config_copy_text(config, path, strlen(path), &config->file, err));
    KT__TRY(kt__config_read_toml(config, text.data ? text.data : "", text.len, path, err));
out:
    kt__buf_free(&text);
    return status;
}

bool kt__config_find_file(char *path, size_t size) {
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg && *xdg) {
        snprintf(path, size, "%s/kentang/kentang.toml", xdg);
        if (kt__file_exists(path)) return true;
    } else if (home && *home) {
        snprintf(path, size, "%s/.config/kentang/kentang.toml", home);
        if (kt__file_exists(path)) return true;
    }
    snprintf(path, size, "/etc/kentang/kentang.toml");
    return kt__file_exists(path);
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
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        environment_name(settings[i].key, known, sizeof known);
        if (strlen(known) == len && !memcmp(known, name, len)) return &settings[i];
    }
    if (len == 22 && !memcmp(name, "DEFAULT_MAX_NEW_TOKENS", len))
        return kt__config_find_key("default_max_new_tokens");
    return NULL;
}

/* Switches as other servers have them: LOAD_IN_4BIT and LOAD_IN_8BIT, of which the former counts
 * where both are true, and USE_FLASH_ATTENTION. *taken: it was one of them. */
static kt_status read_foreign_switch(kt__config *c, const char *name, const char *value,
                                     bool *taken, kt_error *err) {
    static const char *const yes[] = {"true", "True", "TRUE", "1", "yes", "on"};
    bool four = !strcmp(name, "LOAD_IN_4BIT"), flash = !strcmp(name, "USE_FLASH_ATTENTION");
    bool on = false;
    *taken = four || flash || !strcmp(name, "LOAD_IN_8BIT");
    for (size_t i = 0; *taken && i < sizeof yes / sizeof *yes; i++)
        on = on || !strcmp(value, yes[i]);
    if (flash) return kt__config_set(c, "flash_attn", on ? "on" : "off", name, err);
    if (!on || (!four && c->load_in && !strcmp(c->load_in, "4bit"))) return KT_OK;
    return kt__config_set(c, "load_in", four ? "4bit" : "8bit", name, err);
}

/* Names that other servers read from a .env file, and what means them here. */
static const struct {
    const char *name, *instead;
} foreign[] = {
    {"DEVICE", "all is computed by the processor"},
    {"DEVICE_MAP", "all is computed by the processor"},
    {"TORCH_DTYPE", "KENTANG_LOAD_IN says how weights are kept"},
    {"MODEL_NAME", "KENTANG_MODEL"},
    {"MODEL_ID", "KENTANG_MODEL"},
    {"MODEL_PATH", "KENTANG_MODEL"},
    {"HOST", "KENTANG_HTTP_LISTEN"},
    {"PORT", "KENTANG_HTTP_LISTEN"},
    {"LOG_LEVEL", "KENTANG_LOG_LEVEL"},
    {"MAX_NEW_TOKENS", "DEFAULT_MAX_NEW_TOKENS, or KENTANG_LIMITS_MAX_NEW_TOKENS"},
    {"TEMPERATURE", "KENTANG_SAMPLING_TEMPERATURE"},
    {"TOP_P", "KENTANG_SAMPLING_TOP_P"},
    {"TOP_K", "KENTANG_SAMPLING_TOP_K"},
    {"API_KEY", "KENTANG_HTTP_KEYS, a file"},
};

/* The name and what holds instead; the value may be a secret, and is not told. */
static void tell_foreign(const char *name, const char *from, kt__buf *strange) {
    for (size_t i = 0; strange && i < sizeof foreign / sizeof foreign[0]; i++) {
        if (strcmp(foreign[i].name, name) != 0) continue;
        (void)kt__buf_printf(strange, "%s: %s has no effect here: %s\n", from, name,
                             foreign[i].instead);
    }
}

static kt_status unknown_environment(const char *name, const char *from, kt_error *err) {
    char text[KT__N_SETTINGS][64];
    const char *names[KT__N_SETTINGS];
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        environment_name(settings[i].key, text[i], sizeof text[i]);
        names[i] = text[i];
    }
    return kt__config_unknown(name, names, n, from, err);
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
        bool taken;
        kt_status bits = read_foreign_switch(config, name, equals + 1, &taken, err);
        if (bits != KT_OK) return bits;
        if (s) {
            kt_status status = kt__config_set_text(config, s, equals + 1, name, err);
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
static kt_status read_dotenv_line(kt__config *c, char *line, const char *from, kt__buf *strange,
                                  kt_error *err) {
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
    bool taken;
    kt_status bits = read_foreign_switch(c, line, value, &taken, err);
    if (taken) return bits;
    tell_foreign(line, from, strange);
    if (s) return kt__config_set_text(c, s, value, from, err);
    return is_ours(line, strlen(line)) ? unknown_environment(line, from, err) : KT_OK;
}

kt_status kt__config_read_dotenv(kt__config *config, const char *path, kt__buf *strange,
                                 kt_error *err) {
    kt__buf text;
    char from[256];
    kt_status status = kt__config_file_read(path, "the settings", MAX_FILE_BYTES, &text, NULL, err);
    char *line = text.data, *save = NULL;
    for (int n = 1; status == KT_OK && line && *line; n++, line = save) {
        save = strchr(line, '\n');
        if (save) *save++ = '\0';
        snprintf(from, sizeof from, "%s:%d", path, n);
        status = read_dotenv_line(config, line, from, strange, err);
        if (!save) break;
    }
    kt__buf_free(&text);
    return status;
}

/* ---- config file ---- */

static kt_status fail_errno(const char *path, const char *what, kt_error *err) {
    int code = errno;
    return kt__fail_system(err, code, path, "cannot read %s in %s", what, path);
}

static const char *kind_of_file(const kt__file_info *st) {
    return st->is_folder   ? "a directory"
           : st->is_pipe   ? "a pipe"
           : st->is_socket ? "a socket"
                           : "a device";
}

static kt_status open_regular(const char *path, const char *what, int *fd, kt__file_info *st,
                              kt_error *err) {
    *fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_WAIT);
    if (*fd < 0 || !kt__fd_look(*fd, st)) return fail_errno(path, what, err);
    if (st->is_file) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                       "cannot read %s in %s: it is %s; they must be in a regular file, because a "
                       "reload reads them again",
                       what, path, kind_of_file(st));
}

static kt_status read_text(int fd, const char *path, const char *what, kt__buf *out,
                           kt_error *err) {
    char piece[4096];
    ssize_t n;
    while ((n = kt__fd_read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(path, what, err);
        if (kt__buf_append(out, piece, (size_t)n)) continue;
        if (out->len + (size_t)n <= out->max) return kt__fail_nomem(err, path, out->len);
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%s is too long: at most %zu bytes are read", path, out->max);
    }
    explicit_bzero(piece, sizeof piece);
    return KT_OK;
}

static kt_status check_text(kt__buf *text, const char *path, kt_error *err) {
    const unsigned char *bytes = (const unsigned char *)text->data;
    if (text->len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) {
        text->len -= 3;
        memmove(text->data, text->data + 3, text->len + 1);
    } else if (text->len >= 2 && (!memcmp(bytes, "\xff\xfe", 2) || !memcmp(bytes, "\xfe\xff", 2))) {
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "%s is UTF-16, as its byte-order mark says: save it as UTF-8", path);
    }
    if (text->len && memchr(text->data, '\0', text->len))
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "%s holds NUL bytes: no text file",
                           path);
    return KT_OK;
}

kt_status kt__config_file_read(const char *path, const char *what, size_t max, kt__buf *out,
                               kt__file_info *st, kt_error *err) {
    kt__file_info own;
    int fd = -1;
    kt_status status;
    if (!st) st = &own;
    kt__buf_init(out, max);
    KT__TRY(open_regular(path, what, &fd, st, err));
    if (st->bytes > 0 && st->bytes <= max)
        (void)kt__buf_reserve(out, (size_t)st->bytes); /* in one block: no copies remain */
    KT__TRY(read_text(fd, path, what, out, err));
    status = check_text(out, path, err);
out:
    if (fd >= 0) kt__fd_close(fd);
    return status;
}

kt_status kt__config_read_template(kt__config *c, kt_error *err) {
    enum { MOST_BYTES = 1 << 20 };
    kt__file_info st;
    kt__buf text;
    if (!c->chat_template_file) return KT_OK;
    KT__STEP(kt__config_file_read(c->chat_template_file, "the chat template", MOST_BYTES, &text,
                                  &st, err));
    kt_status status = kt__config_copy_text(c, text.data ? text.data : "", text.len,
                                            &c->chat_template, err);
    kt__buf_free(&text);
    return status;
}

void kt__config_file_forget(kt__buf *text) {
    if (text->data) explicit_bzero(text->data, text->len);
    kt__buf_free(text);
}
