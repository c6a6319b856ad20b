#include "host/host.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool kt__text_open(const char *root, const char *dir, const char *name, kt__text *out) {
    char path[PATH_MAX];
    out->at = out->len = 0;
    int n = snprintf(path, sizeof path, "%s%s%s%s", root, dir, *dir ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    return out->fd >= 0;
}

void kt__text_close(kt__text *text) {
    close(text->fd);
}

/* False at the end of the file, or where it cannot be read. */
static bool fill_text(kt__text *text) {
    ssize_t n;
    do n = read(text->fd, text->chunk, sizeof text->chunk);
    while (n < 0 && errno == EINTR);
    text->at = 0;
    text->len = n > 0 ? (int)n : 0;
    return n > 0;
}

bool kt__text_next(kt__text *text, char *line, int size) {
    int n = 0;
    bool any = false;
    while (text->at < text->len || fill_text(text)) {
        char c = text->chunk[text->at++];
        any = true;
        if (c == '\n') break;
        if (n < size - 1) line[n++] = c;
    }
    line[n] = '\0';
    return any;
}

bool kt__text_line(const char *root, const char *dir, const char *name, char *line, int size) {
    kt__text text;
    if (!kt__text_open(root, dir, name, &text)) return false;
    bool ok = kt__text_next(&text, line, size);
    kt__text_close(&text);
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
    kt__text text;
    char line[256];
    size_t len = strlen(key);
    bool found = false;
    if (!kt__text_open(root, dir, name, &text)) return false;
    while (!found && kt__text_next(&text, line, sizeof line)) {
        if (strncmp(line, key, len) != 0 || (line[len] != ':' && line[len] != ' ')) continue;
        const char *value = line + len + 1;
        found = kt__text_parse_u64(value + strspn(value, " \t"), out);
    }
    kt__text_close(&text);
    return found;
}
