#include "serve/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MIN_KEY = 16, MAX_NAME = 64, MAX_KEYS = 4096 };

typedef struct key {
    char name[MAX_NAME];
    unsigned char bytes[KT__KEY_MAX]; /* padded with zeros */
    size_t len;
} key;

struct kt__keys {
    size_t n;
    key keys[];
};

static kt_status parse_line(char *line, int n, const char *path, key *out, bool *found,
                            kt_error *err) {
    size_t len = strcspn(line, "\r\n");
    line[len] = '\0';
    *found = false;
    while (*line == ' ' || *line == '\t') line++;
    if (!*line || *line == '#') return KT_OK;
    char *colon = strchr(line, ':'), *secret = colon ? colon + 1 : line;
    len = strlen(secret);
    while (len && (secret[len - 1] == ' ' || secret[len - 1] == '\t')) len--;
    *out = (key){.len = len};
    if (len < MIN_KEY || len > KT__KEY_MAX)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "%s:%d: a key has %d to %d characters, this one %zu", path, n,
                           (int)MIN_KEY, (int)KT__KEY_MAX, len);
    memcpy(out->bytes, secret, len);
    if (colon) {
        snprintf(out->name, sizeof out->name, "%.*s", (int)(colon - line), line);
    } else {
        snprintf(out->name, sizeof out->name, "key-%d", n);
    }
    *found = true;
    return KT_OK;
}

kt_status kt__keys_read(const char *path, kt__keys **out, kt_error *err) {
    char line[1024];
    struct stat st;
    kt_status status = KT_OK;
    *out = NULL;
    FILE *in = fopen(path, "re");
    if (!in || fstat(fileno(in), &st) != 0) {
        int code = errno;
        if (in) fclose(in);
        return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read the keys in %s: %s", path,
                           strerror(code));
    }
    kt__keys *keys = kt__calloc(1, sizeof *keys + MAX_KEYS * sizeof keys->keys[0]);
    if (!keys) status = kt__fail_nomem(err, "keys", 0);
    if (status == KT_OK && (st.st_mode & 077) != 0)
        status = kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                             "%s may be read or written by others: chmod 600 %s", path, path);
    for (int n = 1; status == KT_OK && fgets(line, sizeof line, in); n++) {
        bool found = false;
        if (keys->n == MAX_KEYS) {
            status = kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "%s: at most %d keys", path,
                                 (int)MAX_KEYS);
            break;
        }
        status = parse_line(line, n, path, &keys->keys[keys->n], &found, err);
        keys->n += found;
    }
    fclose(in);
    explicit_bzero(line, sizeof line);
    if (status == KT_OK && !keys->n)
        status = kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "%s holds no key", path);
    if (status != KT_OK) {
        kt__keys_free(keys);
    } else {
        *out = keys;
    }
    return status;
}

void kt__keys_free(kt__keys *keys) {
    if (keys) explicit_bzero(keys->keys, keys->n * sizeof keys->keys[0]);
    kt__free(keys);
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
