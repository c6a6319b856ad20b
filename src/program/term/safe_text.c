#include "term/safe_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

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
