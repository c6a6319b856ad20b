#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

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
