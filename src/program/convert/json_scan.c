#include "convert/json_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static bool scan_expects(kt__json_scan *s, const char *what) {
    if (!s->wrong) s->wrong = what;
    return false;
}

char kt__json_scan_peek(kt__json_scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->end ? *s->at : 0;
}

bool kt__json_scan_enter(kt__json_scan *s, char open) {
    if (s->wrong) return false;
    if (kt__json_scan_peek(s) != open) return scan_expects(s, open == '{' ? "an object" : "a list");
    s->at++;
    return true;
}

bool kt__json_scan_more(kt__json_scan *s, char close, size_t n) {
    if (s->wrong) return false;
    char next = kt__json_scan_peek(s);
    if (next == close) {
        s->at++;
        return false;
    }
    if (n == 0) return true;
    if (next != ',') return scan_expects(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->at++;
    return true;
}

/* ---- strings ---- */

/* The four digits after \u; -1: they are none. */
static int32_t hex_of(const char *at, const char *end) {
    int32_t value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* \uXXXX, or a pair of surrogates, from the 'u' on: bytes written; 0: no character. */
static size_t unescape_unicode(const char **at, const char *end, char *to) {
    int32_t cp = hex_of(*at + 1, end);
    *at += 5;
    if (cp >= 0xd800 && cp < 0xdc00) {
        int32_t low = end - *at > 6 && (*at)[0] == '\\' && (*at)[1] == 'u' ? hex_of(*at + 2, end)
                                                                           : -1;
        if (low < 0xdc00 || low > 0xdfff) return 0;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        *at += 6;
    } else if (cp >= 0xdc00 && cp <= 0xdfff) {
        return 0;
    }
    return cp > 0 ? kt__utf8_encode((uint32_t)cp, to) : 0;
}

/* One escape from its backslash on. */
static size_t unescape_one(const char **at, const char *end, char *to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *c = ++*at < end && **at ? strchr(from, **at) : NULL;
    if (*at < end && **at == 'u') return unescape_unicode(at, end, to);
    if (!c) return 0;
    *to = into[c - from];
    ++*at;
    return 1;
}

/* The end of a stretch of plain characters: a quote, a backslash, or what may not be there. */
static char *plain_end(char *at, const char *end) {
    while (at < end) {
        unsigned char c = (unsigned char)*at;
        uint32_t cp;
        size_t n = 1;
        if (c < 0x20 || c == '"' || c == '\\') return at;
        if (c >= 0x80 && (n = kt__utf8_decode(at, (size_t)(end - at), &cp)) == 0) return at;
        at += n;
    }
    return at;
}

bool kt__json_scan_text(kt__json_scan *s, kt__str *out) {
    if (s->wrong) return false;
    if (kt__json_scan_peek(s) != '"') return scan_expects(s, "a string");
    char *begin = ++s->at, *to = begin;
    for (;;) {
        char *stop = plain_end(s->at, s->end);
        size_t n = (size_t)(stop - s->at);
        if (to != s->at) memmove(to, s->at, n);
        to += n;
        s->at = stop;
        if (stop < s->end && *stop == '"') break;
        if (stop == s->end || *stop != '\\') return scan_expects(s, "a character of a string");
        const char *at = stop;
        n = unescape_one(&at, s->end, to);
        if (n == 0) return scan_expects(s, "an escape");
        to += n;
        s->at = stop + (at - stop);
    }
    s->at++; /* the quote, whose place the NUL takes at the latest */
    *to = '\0';
    *out = (kt__str){begin, (size_t)(to - begin)};
    return true;
}

bool kt__json_scan_key(kt__json_scan *s, kt__str *out) {
    if (!kt__json_scan_text(s, out)) return false;
    if (kt__json_scan_peek(s) != ':') return scan_expects(s, "':'");
    s->at++;
    return true;
}

/* ---- numbers ---- */

static const char *past_digits(const char *at) {
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

/* The end of a number as JSON writes it; NULL: it is none. */
static const char *number_end(const char *at, bool *whole) {
    const char *digits = at += *at == '-';
    *whole = true;
    at = past_digits(at);
    if (at == digits || (*digits == '0' && at > digits + 1)) return NULL;
    if (*at == '.') {
        *whole = false;
        at = past_digits(digits = at + 1);
        if (at == digits) return NULL;
    }
    if (*at == 'e' || *at == 'E') {
        *whole = false;
        at++;
        at += *at == '+' || *at == '-';
        at = past_digits(digits = at);
        if (at == digits) return NULL;
    }
    return at;
}

bool kt__json_scan_number(kt__json_scan *s, double *out, bool *whole) {
    if (s->wrong) return false;
    (void)kt__json_scan_peek(s);
    const char *end = number_end(s->at, whole); /* *s->end is NUL */
    if (!end) return scan_expects(s, "a number");
    *out = strtod(s->at, NULL);
    s->at += end - s->at;
    return true;
}

bool kt__json_scan_size(kt__json_scan *s, uint64_t *out) {
    bool whole;
    if (s->wrong) return false;
    (void)kt__json_scan_peek(s);
    const char *end = number_end(s->at, &whole);
    if (!end || !whole || *s->at == '-') return scan_expects(s, "a size");
    for (*out = 0; s->at < end; s->at++) {
        if (__builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*s->at - '0'), out) || *out > INT64_MAX)
            return scan_expects(s, "a size");
    }
    return true;
}

bool kt__json_scan_is_text(kt__str text) {
    uint32_t cp;
    for (size_t i = 0, n; i < text.len; i += n) {
        n = (unsigned char)text.s[i] < 0x80 ? text.s[i] != 0
                                            : kt__utf8_decode(text.s + i, text.len - i, &cp);
        if (n == 0) return false;
    }
    return true;
}

/* ---- what is passed over ---- */

static bool skip_string(kt__json_scan *s) {
    char *at = s->at + 1;
    for (; at < s->end && *at != '"'; at++)
        if (*at == '\\') at++;
    s->at = at < s->end ? at + 1 : s->end;
    return at < s->end || scan_expects(s, "the end of a string");
}

bool kt__json_scan_skip(kt__json_scan *s) {
    size_t depth = 0;
    do {
        char c = kt__json_scan_peek(s);
        if (c == 0 || s->wrong) return scan_expects(s, "a value");
        if (c == '"') {
            if (!skip_string(s)) return false;
        } else if (depth == 0 && strchr(",:]}", c)) {
            return scan_expects(s, "a value");
        } else {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            s->at++;
            while (!strchr("\"{}[],: \n\r\t", c) && s->at < s->end &&
                   !strchr("\"{}[],: \n\r\t", *s->at))
                s->at++;
        }
    } while (depth);
    return true;
}
