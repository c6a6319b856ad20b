#include "base/framer.h"

#include <string.h>

enum { KEPT_BYTES = 64 << 10 }; /* of memory, from a line to the next */

void kt__framer_init(kt__framer *f, size_t max_line) {
    *f = (kt__framer){.max_line = max_line};
    kt__buf_init(&f->line, max_line + 1);
}

void kt__framer_free(kt__framer *f) {
    kt__buf_free(&f->line);
}

static kt__frame give_line(kt__framer *f, const char **line, size_t *line_len) {
    size_t len = f->line.len;
    if (len && f->line.data[len - 1] == '\r') f->line.data[--len] = '\0';
    f->ready = true;
    *line = len ? f->line.data : "";
    *line_len = len;
    return KT__FRAME_LINE;
}

/* The line so far cannot be kept: what follows of it is dropped as it comes. */
static kt__frame skip_line(kt__framer *f, bool ended, kt__frame why) {
    f->ready = true;
    f->skipping = !ended;
    return why;
}

kt__frame kt__framer_next(kt__framer *f, const char *data, size_t len, size_t *used,
                          const char **line, size_t *line_len) {
    *used = 0;
    if (f->ready) {
        if (f->line.cap > KEPT_BYTES) kt__buf_free(&f->line);
        kt__buf_clear(&f->line);
        f->line.failed = f->ready = false;
    }
    if (!len) return KT__FRAME_NONE;
    const char *newline = memchr(data, '\n', len);
    size_t take = newline ? (size_t)(newline - data) : len;
    *used = newline ? take + 1 : len;
    if (f->skipping) {
        if (newline) f->skipping = false;
        return KT__FRAME_NONE;
    }
    if (take > f->max_line || f->line.len > f->max_line - take)
        return skip_line(f, newline != NULL, KT__FRAME_TOO_LONG);
    if (take && !kt__buf_append(&f->line, data, take))
        return skip_line(f, newline != NULL, KT__FRAME_NOMEM);
    return newline ? give_line(f, line, line_len) : KT__FRAME_NONE;
}

kt__frame kt__framer_end(kt__framer *f, const char **line, size_t *line_len) {
    if (f->ready || f->skipping || !f->line.len) return KT__FRAME_NONE;
    return give_line(f, line, line_len);
}

size_t kt__framer_pending(const kt__framer *f) {
    return f->ready || f->skipping ? 0 : f->line.len;
}

void kt__framer_skip(kt__framer *f) {
    kt__buf_free(&f->line);
    f->skipping = true;
}
