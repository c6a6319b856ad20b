#include "host/textfile.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

FILE *kt__text_open(const char *root, const char *dir, const char *name) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s%s", root, dir, *dir ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path) return NULL;
    return fopen(path, "re");
}

bool kt__text_line(const char *root, const char *dir, const char *name, char *line, int size) {
    FILE *f = kt__text_open(root, dir, name);
    if (!f) return false;
    bool ok = fgets(line, size, f) != NULL;
    if (ok) line[strcspn(line, "\n")] = '\0';
    fclose(f);
    return ok;
}

bool kt__text_parse_u64(const char *text, uint64_t *out) {
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

bool kt__text_u64(const char *root, const char *dir, const char *name, uint64_t *out) {
    char line[64];
    return kt__text_line(root, dir, name, line, sizeof line) && kt__text_parse_u64(line, out);
}

bool kt__text_keyed(const char *root, const char *dir, const char *name, const char *key,
                    uint64_t *out) {
    FILE *f = kt__text_open(root, dir, name);
    if (!f) return false;
    char line[256];
    size_t len = strlen(key);
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, len) != 0 || (line[len] != ':' && line[len] != ' ')) continue;
        const char *value = line + len + 1;
        found = kt__text_parse_u64(value + strspn(value, " \t"), out);
    }
    fclose(f);
    return found;
}
