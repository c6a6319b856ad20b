#include "term/safe_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "base/text.h"

static void append_escape(kt__buf *out, uint32_t cp) {
    if (cp == '\n') {
        kt__buf_puts(out, "\\n");
    } else if (cp == '\t') {
        kt__buf_puts(out, "\\t");
    } else if (cp == '\r') {
        kt__buf_puts(out, "\\r");
    } else if (cp < 0x100) {
        kt__buf_printf(out, "\\x%02x", (unsigned)cp);
    } else {
        kt__buf_printf(out, "\\u{%x}", (unsigned)cp);
    }
}

static void append_safe(kt__buf *out, const char *text, size_t len, size_t max, bool doubles) {
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        size_t n = kt__utf8_decode(text + i, len - i, &cp);
        if (max && i + (n ? n : 1) > max) {
            kt__buf_puts(out, "...");
            return;
        }
        if (n == 0) {
            kt__buf_printf(out, "\\x%02x", (unsigned char)text[i]);
        } else if (kt__utf8_steers_terminal(cp)) {
            append_escape(out, cp);
        } else if (cp == '\\' && doubles) {
            kt__buf_puts(out, "\\\\");
        } else {
            kt__buf_append(out, text + i, n);
        }
        i += n ? n : 1;
    }
}

void kt__safe_append(kt__buf *out, const char *text, size_t len, size_t max) {
    append_safe(out, text, len, max, true);
}

void kt__safe_line(FILE *out, const char *line) {
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    append_safe(&buf, line, strlen(line), 0, false);
    if (buf.len) fwrite(buf.data, 1, buf.len, out);
    kt__buf_free(&buf);
}

void kt__safe_print(FILE *out, const char *text, size_t len, size_t max) {
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    kt__safe_append(&buf, text, len, max);
    if (buf.len) fwrite(buf.data, 1, buf.len, out);
    kt__buf_free(&buf);
}

/* ---- cells ---- */

size_t kt__cell_length(const char *s, size_t len) {
    uint32_t cp;
    size_t n = kt__utf8_decode(s, len, &cp);
    return n ? n : 1;
}

/* One character as it is shown: *n its bytes; false: it has to be written out. */
static bool is_shown(const char *s, size_t len, size_t *n, uint32_t *cp) {
    *n = kt__utf8_decode(s, len, cp);
    if (*n) return !kt__utf8_steers_terminal(*cp);
    *n = 1;
    return false;
}

static int escape_width(const char *s, size_t n) {
    kt__buf text;
    kt__buf_init(&text, 64);
    kt__safe_append(&text, s, n, 0);
    int width = (int)text.len;
    kt__buf_free(&text);
    return width;
}

int kt__cells_width(const char *text, size_t len) {
    int width = 0;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        bool shown = is_shown(text + i, len - i, &n, &cp);
        width += shown ? utf8proc_charwidth((utf8proc_int32_t)cp) : escape_width(text + i, n);
    }
    return width;
}

void kt__cells_append(kt__buf *out, const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        if (is_shown(text + i, len - i, &n, &cp))
            kt__buf_append(out, text + i, n);
        else
            kt__safe_append(out, text + i, n, 0);
    }
}
