#include "base/buf.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void kt__buf_init(kt__buf *buf, size_t max) {
    *buf = (kt__buf){.max = max};
}

void kt__buf_free(kt__buf *buf) {
    kt__free(buf->data);
    kt__buf_init(buf, buf->max);
}

void kt__buf_clear(kt__buf *buf) {
    buf->len = 0;
    buf->failed = false;
    if (buf->data) buf->data[0] = '\0';
}

bool kt__buf_reserve(kt__buf *buf, size_t extra) {
    size_t need, cap;
    if (buf->failed) return false;
    if (extra > buf->max - buf->len || !kt__add_size(buf->len + 1, extra, &need)) goto fail;
    if (need <= buf->cap) return true;
    cap = buf->cap ? buf->cap : 64;
    while (cap < need) cap = cap > (size_t)-1 / 2 ? need : cap * 2;
    char *grown = kt__realloc_array(buf->data, cap, 1);
    if (!grown) goto fail;
    buf->data = grown;
    buf->cap = cap;
    return true;
fail:
    buf->failed = true;
    return false;
}

bool kt__buf_append(kt__buf *buf, const void *data, size_t len) {
    if (!kt__buf_reserve(buf, len)) return false;
    if (len) memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return true;
}

bool kt__buf_puts(kt__buf *buf, const char *s) {
    return kt__buf_append(buf, s, strlen(s));
}

bool kt__buf_putc(kt__buf *buf, char c) {
    return kt__buf_append(buf, &c, 1);
}

bool kt__buf_printf(kt__buf *buf, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, fmt, args);
    bool ok = need >= 0 && kt__buf_reserve(buf, (size_t)need);
    if (ok) {
        vsnprintf(buf->data + buf->len, (size_t)need + 1, fmt, again);
        buf->len += (size_t)need;
    }
    va_end(again);
    va_end(args);
    return ok;
}

char *kt__buf_take(kt__buf *buf, size_t *len) {
    char *data = buf->data ? buf->data : kt__calloc(1, 1);
    if (len) *len = buf->len;
    kt__buf_init(buf, buf->max);
    return data;
}

/* ---- vec ---- */

enum { FIRST_ITEMS = 8 };

/* items: the address of a pointer to any type, hence the copies. */
bool kt__vec_reserve_bytes(void *items, size_t *cap, size_t need, size_t item_bytes) {
    void *old, *grown;
    size_t more = *cap > SIZE_MAX / 2 ? need : *cap * 2;
    if (need <= *cap) return true;
    if (more < FIRST_ITEMS) more = FIRST_ITEMS;
    if (more < need) more = need;
    memcpy(&old, items, sizeof old);
    grown = kt__realloc_array(old, more, item_bytes);
    if (!grown) return false;
    memcpy(items, &grown, sizeof grown);
    *cap = more;
    return true;
}

/* ---- lines ---- */

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
