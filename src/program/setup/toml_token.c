#include "setup/toml_token.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/utf8.h"

kt_status kt__toml_fail(const kt__toml_parser *p, const char *what) {
    return kt__fail_at(p->err, KT_E_FORMAT, p->name, UINT64_MAX, "%s:%d:%d: %s", p->name, p->line,
                       (int)(p->at - p->line_start) + 1, what);
}

kt_status kt__toml_fail_nomem(const kt__toml_parser *p) {
    return kt__fail_nomem(p->err, p->name, p->arena->used_bytes);
}

/* ---- characters ---- */

int kt__toml_peek(const kt__toml_parser *p, size_t ahead) {
    return (size_t)(p->end - p->at) > ahead ? (unsigned char)p->at[ahead] : -1;
}

bool kt__toml_looking_at(const kt__toml_parser *p, const char *s) {
    size_t len = strlen(s);
    return (size_t)(p->end - p->at) >= len && !memcmp(p->at, s, len);
}

void kt__toml_skip_blanks(kt__toml_parser *p) {
    while (kt__toml_peek(p, 0) == ' ' || kt__toml_peek(p, 0) == '\t') p->at++;
}

static void read_newline(kt__toml_parser *p) {
    p->at += kt__toml_peek(p, 0) == '\r' ? 2 : 1;
    p->line++;
    p->line_start = p->at;
}

bool kt__toml_at_newline(const kt__toml_parser *p) {
    return kt__toml_peek(p, 0) == '\n' ||
           (kt__toml_peek(p, 0) == '\r' && kt__toml_peek(p, 1) == '\n');
}

/* One character of text, not a newline: control characters and broken UTF-8 are refused. */
static kt_status take_char(kt__toml_parser *p, size_t *n) {
    uint32_t cp;
    int c = kt__toml_peek(p, 0);
    if ((c < 0x20 && c != '\t') || c == 0x7f) return kt__toml_fail(p, "a control character");
    *n = kt__utf8_decode(p->at, (size_t)(p->end - p->at), &cp);
    if (!*n) return kt__toml_fail(p, "bytes that are not UTF-8");
    p->at += *n;
    return KT_OK;
}

kt_status kt__toml_skip_comment(kt__toml_parser *p) {
    size_t n;
    kt_status status = KT_OK;
    if (kt__toml_peek(p, 0) != '#') return KT_OK;
    while (status == KT_OK && p->at < p->end && !kt__toml_at_newline(p)) status = take_char(p, &n);
    return status;
}

/* Blanks, newlines and comments. */
kt_status kt__toml_skip_space(kt__toml_parser *p) {
    kt_status status = KT_OK;
    while (status == KT_OK) {
        kt__toml_skip_blanks(p);
        if (kt__toml_at_newline(p)) {
            read_newline(p);
        } else if (kt__toml_peek(p, 0) == '#') {
            status = kt__toml_skip_comment(p);
        } else {
            break;
        }
    }
    return status;
}

/* ---- strings ---- */

/* \uXXXX or \UXXXXXXXX; at the u. */
static kt_status take_unicode(kt__toml_parser *p, char **out) {
    size_t digits = *p->at == 'u' ? 4 : 8;
    uint32_t cp = 0;
    for (size_t i = 1; i <= digits; i++) {
        int d = kt__hex_digit(kt__toml_peek(p, i));
        if (d < 0) return kt__toml_fail(p, "an escape of too few hexadecimal digits");
        cp = cp << 4 | (uint32_t)d;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) || cp == 0)
        return kt__toml_fail(p, "an escape that is no character (NUL included)");
    *out += kt__utf8_encode(cp, *out);
    p->at += digits + 1;
    return KT_OK;
}

static bool ends_line_after_blanks(const kt__toml_parser *p) {
    kt__toml_parser look = *p;
    kt__toml_skip_blanks(&look);
    return kt__toml_at_newline(&look);
}

/* After the backslash. */
static kt_status take_escape(kt__toml_parser *p, char **out, bool multiline) {
    static const char letters[] = "btnfr\"\\e", values[] = "\b\t\n\f\r\"\\";
    int c = kt__toml_peek(p, 0);
    if (c == 'u' || c == 'U') return take_unicode(p, out);
    if (multiline && ends_line_after_blanks(p)) {
        for (;;) {
            kt__toml_skip_blanks(p);
            if (!kt__toml_at_newline(p)) return KT_OK;
            read_newline(p);
        }
    }
    const char *at = c > 0 ? memchr(letters, c, 7) : NULL;
    if (!at) return kt__toml_fail(p, "an unknown escape");
    *(*out)++ = values[at - letters];
    p->at++;
    return KT_OK;
}

/* The closing quotes of a multi-line string; up to two more belong to its text. */
static bool take_triple_end(kt__toml_parser *p, char quote, char **out) {
    size_t n = 0;
    while (n < 5 && kt__toml_peek(p, n) == quote) n++;
    if (n < 3) return false;
    for (size_t i = 3; i < n; i++) *(*out)++ = quote;
    p->at += n;
    return true;
}

/* Bytes that the text of a string can take at most: up to the quotes that close it. */
static size_t string_bound(const kt__toml_parser *p, char quote, bool triple) {
    const char *at = p->at;
    for (; at < p->end; at++) {
        if (*at == '\\' && quote == '"') {
            at++;
        } else if (!triple && (*at == quote || *at == '\n')) {
            break;
        } else if (triple && *at == quote && p->end - at > 2 && at[1] == quote && at[2] == quote) {
            break;
        }
    }
    return (size_t)(at - p->at) + 16;
}

/* At the opening quote. */
kt_status kt__toml_take_string(kt__toml_parser *p, const char **text, size_t *len, bool may_span) {
    char quote = *p->at;
    bool triple = kt__toml_peek(p, 1) == quote && kt__toml_peek(p, 2) == quote;
    if (triple && !may_span) return kt__toml_fail(p, "a multi-line string cannot be a key");
    p->at += triple ? 3 : 1;
    if (triple && kt__toml_at_newline(p)) read_newline(p);
    char *start = kt__arena_alloc(p->arena, string_bound(p, quote, triple)), *out = start;
    if (!start) return kt__toml_fail_nomem(p);
    kt_status status = KT_OK;
    while (status == KT_OK) {
        int c = kt__toml_peek(p, 0);
        if (c < 0) return kt__toml_fail(p, "a string without its closing quote");
        if (triple && c == quote && take_triple_end(p, quote, &out)) break;
        if (!triple && c == quote) {
            p->at++;
            break;
        }
        if (kt__toml_at_newline(p)) {
            if (!triple) return kt__toml_fail(p, "a string without its closing quote");
            *out++ = '\n';
            read_newline(p);
        } else if (c == '\\' && quote == '"') {
            p->at++;
            status = take_escape(p, &out, triple);
        } else {
            const char *from = p->at;
            size_t n = 0;
            status = take_char(p, &n);
            if (status == KT_OK) memcpy(out, from, n), out += n;
        }
    }
    *out = '\0';
    *text = start;
    *len = (size_t)(out - start);
    return status;
}

/* ---- keys ---- */

static bool is_bare(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

kt_status kt__toml_take_key_part(kt__toml_parser *p, const char **key, size_t *len) {
    int c = kt__toml_peek(p, 0);
    if (c == '"' || c == '\'') return kt__toml_take_string(p, key, len, false);
    const char *from = p->at;
    while (is_bare(kt__toml_peek(p, 0))) p->at++;
    *len = (size_t)(p->at - from);
    if (!*len) return kt__toml_fail(p, "expected a key");
    *key = kt__arena_strndup(p->arena, from, *len);
    return *key ? KT_OK : kt__toml_fail_nomem(p);
}

/* Whether another part of a dotted key follows; its dot is taken. */
bool kt__toml_take_dot(kt__toml_parser *p) {
    kt__toml_parser look = *p;
    kt__toml_skip_blanks(&look);
    if (kt__toml_peek(&look, 0) != '.') return false;
    look.at++;
    kt__toml_skip_blanks(&look);
    *p = look;
    return true;
}

/* ---- numbers and words ---- */

static size_t scalar_length(const kt__toml_parser *p) {
    size_t n = 0;
    while (is_bare(kt__toml_peek(p, n)) || kt__toml_peek(p, n) == '+' ||
           kt__toml_peek(p, n) == '.' || kt__toml_peek(p, n) == ':')
        n++;
    return n;
}

static bool is_digit(int c, int base) {
    int d = kt__hex_digit(c);
    return d >= 0 && d < base;
}

/* Copies digits[len] without underscores, which are between digits only. */
static bool strip_digits(const char *s, size_t len, int base, char *out) {
    for (size_t i = 0; i < len; i++) {
        if (s[i] != '_') {
            *out++ = s[i];
        } else if (i == 0 || i + 1 == len || !is_digit(s[i - 1], base) ||
                   !is_digit(s[i + 1], base)) {
            return false;
        }
    }
    *out = '\0';
    return true;
}

static bool all_digits(const char *s, int base) {
    if (!*s) return false;
    while (is_digit((unsigned char)*s, base)) s++;
    return !*s;
}

static bool read_based(const char *s, int64_t *out) {
    int base = s[1] == 'x' ? 16 : s[1] == 'o' ? 8 : 2;
    uint64_t value = 0;
    if (!all_digits(s + 2, base)) return false;
    for (s += 2; *s; s++) {
        if (__builtin_mul_overflow(value, (uint64_t)base, &value)) return false;
        value += (uint64_t)kt__hex_digit(*s);
    }
    *out = (int64_t)value;
    return value <= INT64_MAX;
}

/* digits, no leading zeros; s is after the sign */
static bool is_whole(const char *s) {
    return all_digits(s, 10) && (s[0] != '0' || !s[1]);
}

static bool is_real(char *s) {
    char *e = strpbrk(s, "eE"), *dot = strchr(s, '.');
    if (!e && !dot) return false;
    if (e) {
        *e = '\0';
        const char *exponent = e[1] == '+' || e[1] == '-' ? e + 2 : e + 1;
        if (!all_digits(exponent, 10)) return false;
    }
    if (dot && e && dot > e) return false;
    if (dot) *dot = '\0';
    bool good = is_whole(s) && (!dot || all_digits(dot + 1, 10));
    if (dot) *dot = '.';
    if (e) *e = 'e';
    return good;
}

static bool read_number(const char *s, size_t len, kt__toml *v) {
    char text[128];
    bool based = len > 2 && s[0] == '0' && strchr("xob", s[1]) && s[1];
    if (len >= sizeof text) return false;
    if (!(based ? (memcpy(text, s, 2), strip_digits(s + 2, len - 2, 16, text + 2))
                : strip_digits(s, len, 10, text)))
        return false;
    char *digits = text[0] == '+' || text[0] == '-' ? text + 1 : text;
    if (based) {
        v->kind = KT__TOML_INT;
        return read_based(text, &v->whole);
    }
    if (!strcmp(digits, "inf") || !strcmp(digits, "nan")) {
        v->kind = KT__TOML_FLOAT;
        v->real = digits[0] == 'n' ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (is_whole(digits)) {
        unsigned long long magnitude = strtoull(digits, NULL, 10);
        bool minus = text[0] == '-';
        v->kind = KT__TOML_INT;
        v->whole = minus ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
        return strlen(digits) < 20 && magnitude <= (uint64_t)INT64_MAX + minus;
    }
    if (!is_real(digits)) return false;
    v->kind = KT__TOML_FLOAT;
    v->real = strtod(text, NULL);
    return true;
}

static bool is_date(const char *s, size_t len) {
    return (len >= 10 && s[4] == '-' && s[7] == '-') || (len >= 8 && s[2] == ':' && s[5] == ':');
}

kt_status kt__toml_take_scalar(kt__toml_parser *p, kt__toml *v) {
    size_t len = scalar_length(p);
    if (len == 4 && kt__toml_looking_at(p, "true")) {
        v->kind = KT__TOML_BOOL;
        v->truth = true;
    } else if (len == 5 && kt__toml_looking_at(p, "false")) {
        v->kind = KT__TOML_BOOL;
    } else if (len && is_date(p->at, len)) {
        return kt__toml_fail(p, "dates and times are not used here: write a string");
    } else if (!len || !read_number(p->at, len, v)) {
        return kt__toml_fail(p, len ? "not a value: texts need quotes" : "expected a value");
    }
    p->at += len;
    return KT_OK;
}
