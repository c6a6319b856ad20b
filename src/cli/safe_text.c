#include "cli/safe_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static bool is_unsafe(uint32_t cp) {
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || /* controls */
           cp == 0x200e || cp == 0x200f || (cp >= 0x202a && cp <= 0x202e) ||         /* bidi */
           (cp >= 0x2066 && cp <= 0x2069) || cp == 0x061c || cp == 0xfeff;
}

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

void kt__safe_append(kt__buf *out, const char *text, size_t len, size_t max) {
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        size_t n = kt__utf8_decode(text + i, len - i, &cp);
        if (max && i + (n ? n : 1) > max) {
            kt__buf_puts(out, "...");
            return;
        }
        if (n == 0) {
            kt__buf_printf(out, "\\x%02x", (unsigned char)text[i]);
        } else if (is_unsafe(cp)) {
            append_escape(out, cp);
        } else if (cp == '\\') {
            kt__buf_puts(out, "\\\\");
        } else {
            kt__buf_append(out, text + i, n);
        }
        i += n ? n : 1;
    }
}

void kt__safe_print(FILE *out, const char *text, size_t len, size_t max) {
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    kt__safe_append(&buf, text, len, max);
    if (buf.len) fwrite(buf.data, 1, buf.len, out);
    kt__buf_free(&buf);
}

void kt__json_append(kt__buf *out, const char *text, size_t len) {
    kt__buf_putc(out, '"');
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        size_t n = kt__utf8_decode(text + i, len - i, &cp);
        if (n == 0) {
            kt__buf_puts(out, "\xef\xbf\xbd");
        } else if (cp == '"' || cp == '\\') {
            kt__buf_printf(out, "\\%c", (char)cp);
        } else if (cp == '\n') {
            kt__buf_puts(out, "\\n");
        } else if (cp < 0x10000 && is_unsafe(cp)) {
            kt__buf_printf(out, "\\u%04x", (unsigned)cp);
        } else {
            kt__buf_append(out, text + i, n);
        }
        i += n ? n : 1;
    }
    kt__buf_putc(out, '"');
}
