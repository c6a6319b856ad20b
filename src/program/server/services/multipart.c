#include "services/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_BOUNDARY = 70 };

/* The value of key="VALUE" or key=VALUE in a header; "" where it is not there. */
static void header_parameter(const char *header, size_t len, const char *key, char *out,
                             size_t size) {
    size_t n_key = strlen(key);
    out[0] = '\0';
    for (size_t at = 0; at + n_key + 1 < len; at++) {
        bool begins = at == 0 || header[at - 1] == ';' || header[at - 1] == ' ';
        if (!begins || strncasecmp(header + at, key, n_key) != 0 || header[at + n_key] != '=')
            continue;
        const char *value = header + at + n_key + 1, *end = header + len;
        bool quoted = *value == '"';
        size_t n = 0;
        for (value += quoted; value < end && n + 1 < size; value++) {
            if (quoted ? *value == '"' : *value == ';' || *value == ' ') break;
            out[n++] = *value;
        }
        out[n] = '\0';
        return;
    }
}

bool kt__multipart_begin(kt__multipart *form, const char *type, const char *body, size_t len) {
    static const char kind[] = "multipart/form-data";
    char boundary[MAX_BOUNDARY + 2];
    if (!type || strncasecmp(type, kind, sizeof kind - 1) != 0) return false;
    header_parameter(type, strlen(type), "boundary", boundary, sizeof boundary);
    size_t n = strlen(boundary);
    if (!n || n > MAX_BOUNDARY) return false;
    *form = (kt__multipart){.body = body, .len = len};
    form->boundary_len = (size_t)snprintf(form->boundary, sizeof form->boundary, "--%s", boundary);
    return true;
}

/* Where the next boundary begins, at or after `at`; NULL: nowhere. */
static const char *find_boundary(const kt__multipart *form, size_t at) {
    return form->len > at
               ? memmem(form->body + at, form->len - at, form->boundary, form->boundary_len)
               : NULL;
}

/* Headers up to the empty line; where the content begins, or 0. */
static size_t read_headers(const kt__multipart *form, size_t at, kt__multipart_part *out) {
    static const char wanted[] = "Content-Disposition:";
    while (at < form->len) {
        const char *line = form->body + at, *end = memmem(line, form->len - at, "\r\n", 2);
        if (!end) return 0;
        size_t len = (size_t)(end - line);
        at += len + 2;
        if (!len) return at;
        if (len < sizeof wanted || strncasecmp(line, wanted, sizeof wanted - 1) != 0) continue;
        header_parameter(line, len, "name", out->name, sizeof out->name);
        header_parameter(line, len, "filename", out->filename, sizeof out->filename);
    }
    return 0;
}

bool kt__multipart_next(kt__multipart *form, kt__multipart_part *out) {
    const char *mark = find_boundary(form, form->at);
    *out = (kt__multipart_part){.len = 0};
    if (!mark) return false;
    size_t at = (size_t)(mark - form->body) + form->boundary_len;
    if (form->len - at < 2 || memcmp(form->body + at, "\r\n", 2) != 0) return false; /* the end */
    at = read_headers(form, at + 2, out);
    const char *end = at ? find_boundary(form, at) : NULL;
    if (!end || end - form->body < (ptrdiff_t)at + 2 || memcmp(end - 2, "\r\n", 2) != 0)
        return false;
    out->data = form->body + at;
    out->len = (size_t)(end - form->body) - at - 2;
    form->at = (size_t)(end - form->body);
    return true;
}
