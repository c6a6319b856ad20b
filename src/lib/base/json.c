#include "base/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "base/text.h"

static bool json_fault(kt__json_in *in, size_t at, const char *what) {
    in->at = at;
    in->fault = what;
    return false;
}

void kt__json_in_blanks(kt__json_in *in) {
    while (in->at < in->len && memchr(" \t\n\r", in->text[in->at], 4)) in->at++;
}

char kt__json_in_peek(const kt__json_in *in) {
    return in->at < in->len ? in->text[in->at] : '\0';
}

bool kt__json_in_take(kt__json_in *in, char c) {
    if (in->at >= in->len || in->text[in->at] != c) return false;
    in->at++;
    return true;
}

bool kt__json_in_word(kt__json_in *in, const char *word) {
    size_t n = strlen(word);
    if (in->len - in->at < n || memcmp(in->text + in->at, word, n) != 0) return false;
    in->at += n;
    return true;
}

/* ---- strings ---- */

static bool read_hex4(const char *s, size_t len, uint32_t *out) {
    *out = 0;
    if (len < 4) return false;
    for (int i = 0; i < 4; i++) {
        int d = kt__hex_digit(s[i]);
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* "\uD83D\uDE00": s begins after the first "\u". Returns the bytes of it that were read, 0 where
 * they name no character. */
static size_t read_utf16(const char *s, size_t len, uint32_t *cp) {
    uint32_t low;
    if (!read_hex4(s, len, cp)) return 0;
    if (*cp < 0xD800 || *cp > 0xDFFF) return 4;
    if (*cp > 0xDBFF || len < 10 || s[4] != '\\' || s[5] != 'u' || !read_hex4(s + 6, 4, &low))
        return 0;
    *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    return low >= 0xDC00 && low <= 0xDFFF ? 10 : 0;
}

static const char escape_names[] = "\"\\/bfnrt", escape_bytes[] = "\"\\/\b\f\n\r\t";

/* After the backslash. */
static bool check_escape(kt__json_in *in) {
    uint32_t cp;
    char c = kt__json_in_peek(in);
    if (c && strchr(escape_names, c)) return kt__json_in_take(in, c);
    if (!kt__json_in_take(in, 'u')) return json_fault(in, in->at, "an unknown escape");
    size_t n = read_utf16(in->text + in->at, in->len - in->at, &cp);
    in->at += n;
    return n || json_fault(in, in->at, "\\u without four hexadecimal digits, or half a character");
}

bool kt__json_in_string(kt__json_in *in, kt__json_raw *out) {
    *out = (kt__json_raw){.s = in->text + in->at};
    while (in->at < in->len && in->text[in->at] != '"') {
        unsigned char c = (unsigned char)in->text[in->at];
        uint32_t cp;
        if (c < 0x20) return json_fault(in, in->at, "a control character in a string");
        if (c == '\\') {
            in->at++;
            out->escaped = true;
            if (!check_escape(in)) return false;
            continue;
        }
        size_t n = c < 0x80 ? 1 : kt__utf8_decode(in->text + in->at, in->len - in->at, &cp);
        if (!n) return json_fault(in, in->at, "a byte that is not UTF-8");
        in->at += n;
    }
    out->len = (size_t)(in->text + in->at - out->s);
    return kt__json_in_take(in, '"') || json_fault(in, in->at, "a string without its end");
}

size_t kt__json_unescape(const kt__json_raw *raw, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < raw->len; i++) {
        uint32_t cp = 0;
        if (raw->s[i] != '\\') {
            out[n++] = raw->s[i];
        } else if (raw->s[++i] != 'u') {
            out[n++] = escape_bytes[strchr(escape_names, raw->s[i]) - escape_names];
        } else {
            i += read_utf16(raw->s + i + 1, raw->len - i - 1, &cp);
            n += kt__utf8_encode(cp, out + n);
        }
    }
    return n;
}

/* ---- numbers ---- */

static bool skip_digits(kt__json_in *in) {
    size_t from = in->at;
    while (in->at < in->len && in->text[in->at] >= '0' && in->text[in->at] <= '9') in->at++;
    return in->at > from;
}

bool kt__json_in_number(kt__json_in *in, bool *is_float) {
    *is_float = false;
    (void)kt__json_in_take(in, '-');
    if (!kt__json_in_take(in, '0') && !skip_digits(in))
        return json_fault(in, in->at, "expected a value");
    if (kt__json_in_take(in, '.')) {
        *is_float = true;
        if (!skip_digits(in))
            return json_fault(in, in->at, "a number without digits after its point");
    }
    if (kt__json_in_take(in, 'e') || kt__json_in_take(in, 'E')) {
        *is_float = true;
        if (!kt__json_in_take(in, '-')) (void)kt__json_in_take(in, '+');
        if (!skip_digits(in))
            return json_fault(in, in->at, "a number without digits in its exponent");
    }
    return true;
}

/* ---- json out ---- */

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
