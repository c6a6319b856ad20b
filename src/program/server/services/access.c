#include "services/access.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "setup/config_set.h"

/* The name of "name:port" and "[v6]:port"; false: neither. */
static bool split_host(const char *text, const char **name, size_t *len) {
    size_t n = strlen(text);
    *name = text;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end) return false;
        *name = text + 1;
        *len = (size_t)(end - text) - 1;
        text = end + 1;
    } else {
        *len = strcspn(text, ":");
        text += *len;
    }
    if (!*len || n > 255) return false;
    if (!*text) return true;
    return *text == ':' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
}

static bool is_same_name(const char *a, const char *name, size_t len) {
    return strlen(a) == len && !kt__strncasecmp(a, name, len);
}

/* "127.1.2.3", "::1" */
static bool is_loopback_name(const char *name, size_t len) {
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    struct in6_addr six;
    if (len >= sizeof text) return false;
    memcpy(text, name, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* "localhost" and the loopback's addresses */
static bool is_local_name(const char *name, size_t len) {
    return is_same_name("localhost", name, len) || is_loopback_name(name, len);
}

bool kt__access_host(const kt__config *config, const char *address, const char *host) {
    const char *name;
    size_t len;
    for (size_t i = 0; i < config->hosts.n; i++) {
        if (!strcmp(config->hosts.items[i], "*")) return true;
    }
    if (!host || !split_host(host, &name, &len)) return false;
    if (is_local_name(name, len)) return true;
    if (address && is_same_name(address, name, len)) return true;
    for (size_t i = 0; i < config->hosts.n; i++) {
        if (is_same_name(config->hosts.items[i], name, len)) return true;
    }
    return false;
}

bool kt__access_origin(const kt__config *config, const char *address, const char *origin) {
    const char *host = strstr(origin, "://");
    return host && kt__access_host(config, address, host + 3);
}

/* "http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080" */
static bool is_local_page(const char *origin) {
    const char *name, *scheme_end = strstr(origin, "://");
    size_t len;
    if (!scheme_end || strncmp(origin, "http", 4) != 0 || !split_host(scheme_end + 3, &name, &len))
        return false;
    return is_local_name(name, len);
}

const char *kt__access_cors(const kt__config *config, const char *origin) {
    for (size_t i = 0; i < config->cors.n; i++) {
        const char *item = config->cors.items[i];
        if (!kt__strcasecmp(item, origin) || !strcmp(item, "*")) return origin;
        if (!strcmp(item, "localhost") && is_local_page(origin)) return origin;
    }
    return NULL;
}

static bool is_type(const char *type, const char *name) {
    size_t len = strlen(name);
    if (!type || kt__strncasecmp(type, name, len) != 0) return false;
    type += len;
    while (*type == ' ' || *type == '\t') type++;
    return !*type || *type == ';';
}

bool kt__access_is_json(const char *type) {
    return is_type(type, "application/json");
}

bool kt__access_is_untold(const char *type) {
    return !type || is_type(type, "application/x-www-form-urlencoded");
}

const char *kt__access_key(const kt__keys *keys, const char *authorization, const char *api_key) {
    if (authorization && !kt__strncasecmp(authorization, "Bearer ", 7)) {
        const char *key = authorization + 7;
        while (*key == ' ') key++;
        return kt__keys_find(keys, key, strlen(key));
    }
    return api_key ? kt__keys_find(keys, api_key, strlen(api_key)) : NULL;
}

/* ---- keys ---- */

enum { MAX_NAME = 64, MAX_KEYS = 4096, MAX_FILE_BYTES = 4 << 20 };

typedef struct key {
    char name[MAX_NAME];
    unsigned char bytes[KT__KEY_MAX]; /* padded with zeros */
    size_t len;
} key;

struct kt__keys {
    size_t n;
    key keys[];
};

static kt_status parse_line(char *line, int n, const char *path, size_t least, key *out,
                            bool *found, kt_error *err) {
    size_t len = strcspn(line, "\r\n");
    line[len] = '\0';
    *found = false;
    while (*line == ' ' || *line == '\t') line++;
    if (!*line || *line == '#') return KT_OK;
    char *colon = strchr(line, ':'), *secret = colon ? colon + 1 : line;
    len = strlen(secret);
    while (len && (secret[len - 1] == ' ' || secret[len - 1] == '\t')) len--;
    *out = (key){.len = len};
    if (len < least || len > KT__KEY_MAX)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "%s:%d: a key has %zu to %d characters, this one %zu", path, n, least,
                           (int)KT__KEY_MAX, len);
    memcpy(out->bytes, secret, len);
    if (colon) {
        snprintf(out->name, sizeof out->name, "%.*s", (int)(colon - line), line);
    } else {
        snprintf(out->name, sizeof out->name, "key-%d", n);
    }
    *found = true;
    return KT_OK;
}

static kt_status parse_keys(char *text, const char *path, size_t least, kt__keys *keys,
                            kt_error *err) {
    size_t before = keys->n;
    for (int n = 1; *text; n++) {
        bool found = false;
        char *newline = strchr(text, '\n'), *line = text;
        text = newline ? newline + 1 : text + strlen(text);
        if (keys->n == MAX_KEYS)
            return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "%s: at most %d keys", path,
                               (int)MAX_KEYS);
        kt_status status = parse_line(line, n, path, least, &keys->keys[keys->n], &found, err);
        if (status != KT_OK) return status;
        keys->n += found;
    }
    if (keys->n > before) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "%s holds no key", path);
}

static kt_status read_file(const char *path, size_t least, kt__keys *keys, kt_error *err) {
    kt__buf text;
    kt__file_info st;
    kt_status status;
    KT__TRY(kt__config_file_read(path, "the keys", MAX_FILE_BYTES, &text, &st, err));
    if ((st.permissions & 077) != 0)
        KT__TRY(kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                            "%s may be read or written by others: chmod 600 %s", path, path));
    KT__TRY(parse_keys(text.data ? text.data : (char[]){""}, path, least, keys, err));
out:
    kt__config_file_forget(&text);
    return status;
}

/* KEY or NAME:KEY, with commas between them */
static kt_status read_list(const char *list, size_t least, kt__keys *keys, kt_error *err) {
    size_t len = strlen(list);
    char *lines = kt__strdup(list);
    if (!lines) return kt__fail_nomem(err, "keys", len);
    for (char *comma = lines; (comma = strchr(comma, ',')) != NULL;) *comma = '\n';
    kt_status status = parse_keys(lines, "http.api_key", least, keys, err);
    explicit_bzero(lines, len);
    kt__free(lines);
    return status;
}

kt_status kt__keys_read(const char *path, const char *list, size_t least, kt__keys **out,
                        kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    if (!path && !list) return KT_OK;
    kt__keys *keys = kt__calloc(1, sizeof *keys + MAX_KEYS * sizeof keys->keys[0]);
    if (!keys) return kt__fail_nomem(err, "keys", MAX_KEYS * sizeof keys->keys[0]);
    if (path) KT__TRY(read_file(path, least, keys, err));
    if (list) KT__TRY(read_list(list, least, keys, err));
    *out = keys;
    keys = NULL;
out:
    kt__keys_free(keys);
    return status;
}

void kt__keys_free(kt__keys *keys) {
    if (keys) explicit_bzero(keys->keys, keys->n * sizeof keys->keys[0]);
    kt__free(keys);
}

size_t kt__keys_least(const char *listen_at) {
    char one[KT__LISTEN_BYTES];
    const char *name;
    size_t len;
    while (kt__config_next_listen(&listen_at, one)) {
        bool here = !strncmp(one, "unix:", 5) ||
                    (split_host(one, &name, &len) && is_local_name(name, len));
        if (!here) return KT__KEY_LEAST;
    }
    return 1;
}

bool kt__keys_are_short(const kt__keys *keys) {
    for (size_t i = 0; keys && i < keys->n; i++)
        if (keys->keys[i].len < KT__KEY_LEAST) return true;
    return false;
}

const char *kt__keys_find(const kt__keys *keys, const char *given, size_t len) {
    unsigned char padded[KT__KEY_MAX] = {0};
    const char *name = NULL;
    memcpy(padded, given, len < sizeof padded ? len : sizeof padded);
    for (size_t i = 0; i < keys->n; i++) {
        const volatile unsigned char *bytes = keys->keys[i].bytes;
        unsigned differ = (unsigned)(len ^ keys->keys[i].len);
        for (size_t k = 0; k < sizeof padded; k++) differ |= (unsigned)(bytes[k] ^ padded[k]);
        if (!differ) name = keys->keys[i].name;
    }
    return name;
}
