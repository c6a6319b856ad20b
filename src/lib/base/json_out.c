#include "base/json_out.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

size_t kt__json_escape(char out[16], uint32_t cp, kt__json_style style) {
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = cp && cp < 0x80 ? strchr(named, (int)cp) : NULL;
    bool escaped = cp < 0x20 || (style == KT__JSON_ASCII && cp > 0x7e) ||
                   (style == KT__JSON_TERMINAL && kt__utf8_steers_terminal(cp));
    if (at) return (size_t)snprintf(out, 16, "\\%c", letters[at - named]);
    if (!escaped) return 0;
    if (cp < 0x10000) return (size_t)snprintf(out, 16, "\\u%04x", (unsigned)cp);
    return (size_t)snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + (unsigned)((cp - 0x10000) >> 10),
                            0xdc00 + (unsigned)((cp - 0x10000) & 0x3ff));
}

/* Bytes of s[len], which begins no valid character, that one U+FFFD means: as much as begins
 * one, else one byte. */
static size_t broken_length(const char *s, size_t len) {
    for (size_t n = len < 3 ? len : 3; n > 1; n--)
        if (kt__utf8_incomplete_tail(s, n) == n) return n;
    return 1;
}

void kt__json_chars(kt__buf *out, const char *s, size_t len, kt__json_style style) {
    size_t plain = 0; /* s[plain..i) is copied as it is */
    for (size_t i = 0, n; i < len; i += n) {
        char escape[16];
        uint32_t cp = 0;
        const char *instead = escape;
        n = kt__utf8_decode(s + i, len - i, &cp);
        if (n == 0) {
            instead = style == KT__JSON_ASCII ? "\\ufffd" : "\xef\xbf\xbd";
            n = broken_length(s + i, len - i);
        } else if (!kt__json_escape(escape, cp, style)) {
            continue;
        }
        (void)kt__buf_append(out, s + plain, i - plain);
        (void)kt__buf_puts(out, instead);
        plain = i + n;
    }
    (void)kt__buf_append(out, s + plain, len - plain);
}

void kt__json_string(kt__buf *out, const char *s, size_t len, kt__json_style style) {
    (void)kt__buf_putc(out, '"');
    kt__json_chars(out, s, len, style);
    (void)kt__buf_putc(out, '"');
}

void kt__json_text(kt__buf *out, const char *s) {
    kt__json_string(out, s ? s : "", s ? strlen(s) : 0, KT__JSON_PLAIN);
}

void kt__json_key(kt__buf *out, const char *key) {
    char last = out->len ? out->data[out->len - 1] : '{';
    if (last != '{') (void)kt__buf_putc(out, ',');
    kt__json_text(out, key);
    (void)kt__buf_putc(out, ':');
}

void kt__json_member(kt__buf *out, const char *key, const char *text) {
    kt__json_key(out, key);
    kt__json_text(out, text);
}
