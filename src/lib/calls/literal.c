#include "calls/parser_impl.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

enum { L_VALUE, L_VALUE_OR_END, L_KEY_OR_END, L_COLON, L_AFTER, L_STRING, L_DONE };
enum { MAX_WORD = 512, MAX_BLANKS = 4096 };

void kt__literal_start(kt__literal *lit, kt__lit_mode mode, const char *quote, kt__buf *out) {
    memset(lit, 0, sizeof *lit);
    lit->mode = mode;
    lit->quote = quote;
    if (mode == KT__LIT_VALUE) return;
    kt__buf_putc(out, '{');
    lit->closers[lit->depth++] = mode == KT__LIT_ARGS ? ')' : '}';
    lit->state = L_KEY_OR_END;
}

static char literal_closer(const kt__literal *lit) {
    return lit->depth > 0 ? lit->closers[lit->depth - 1] : '\0';
}

static bool literal_in_object(const kt__literal *lit) {
    char closer = literal_closer(lit);
    return closer == '}' || (closer == ')' && lit->depth == 1 && lit->mode == KT__LIT_ARGS);
}

static void literal_value_ended(kt__literal *lit) {
    lit->state = lit->depth > 0 ? L_AFTER : L_DONE;
}

static kt__scan literal_close(kt__literal *lit, size_t *at, kt__buf *out) {
    kt__buf_putc(out, literal_in_object(lit) ? '}' : ']');
    lit->depth--;
    ++*at;
    literal_value_ended(lit);
    return KT__SCAN_YES;
}

static kt__scan literal_open(kt__literal *lit, char c, size_t *at, kt__buf *out) {
    if (lit->depth == KT__LIT_DEPTH) return KT__SCAN_NO;
    lit->closers[lit->depth++] = c == '{' ? '}' : c == '[' ? ']' : ')';
    kt__buf_putc(out, c == '{' ? '{' : '[');
    lit->state = c == '{' ? L_KEY_OR_END : L_VALUE_OR_END;
    ++*at;
    return KT__SCAN_YES;
}

/* ---- strings ---- */

/* Begins a string if one begins here. */
static kt__scan literal_open_string(kt__literal *lit, const kt__span *span, size_t *at,
                                    kt__buf *out) {
    static const char *const quotes[] = {"\"\"\"", "'''", "\"", "'"};
    kt__scan r = lit->quote ? kt__scan_exact(span, lit->quote, at) : KT__SCAN_NO;
    lit->raw = r == KT__SCAN_YES;
    lit->delim = lit->quote;
    for (int i = 0; i < 4 && r == KT__SCAN_NO; i++) {
        lit->delim = quotes[i];
        r = kt__scan_exact(span, quotes[i], at);
    }
    if (r != KT__SCAN_YES) return r;
    lit->state = L_STRING;
    kt__buf_putc(out, '"');
    return KT__SCAN_YES;
}

/* At a quote of one character: whether it ends the string, by what follows. */
static kt__scan quote_ends(const kt__literal *lit, const kt__span *span, size_t at) {
    size_t from = ++at;
    if (kt__scan_blanks(span, &at) == KT__SCAN_MORE && at - from < MAX_BLANKS) return KT__SCAN_MORE;
    if (at - from >= MAX_BLANKS) return KT__SCAN_NO;
    if (at == span->n) return KT__SCAN_YES;
    char c = span->s[at];
    if (lit->is_key) return c == ':' || c == '=' ? KT__SCAN_YES : KT__SCAN_NO;
    if (lit->depth == 0) return KT__SCAN_NO;
    return strchr(",)]}", c) && c ? KT__SCAN_YES : KT__SCAN_NO;
}

static bool hex_value(const char *s, int digits, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digits; i++) {
        char c = (char)(s[i] | 32);
        bool digit = s[i] >= '0' && s[i] <= '9';
        if (!digit && (c < 'a' || c > 'f')) return false;
        *out = *out << 4 | (uint32_t)(digit ? s[i] - '0' : c - 'a' + 10);
    }
    return true;
}

static void put_code(kt__buf *out, uint32_t code) {
    char utf8[4];
    kt__json_chars(out, utf8, kt__utf8_encode(code, utf8), KT__JSON_PLAIN);
}

/* \xHH, \uHHHH, \UHHHHHHHH: surrogates continue as they are. */
static kt__scan coded_escape(const kt__span *span, size_t *at, char kind, kt__buf *out) {
    int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t code;
    size_t left = span->n - *at - 2;
    if (left < (size_t)digits && !span->ended) return KT__SCAN_MORE;
    bool good = left >= (size_t)digits && hex_value(span->s + *at + 2, digits, &code);
    if (!good || code > 0x10ffff || (kind == 'U' && code >= 0xd800 && code < 0xe000)) {
        kt__buf_puts(out, "\\\\");
        ++*at;
        return KT__SCAN_YES;
    }
    if (code >= 0xd800 && code < 0xe000)
        kt__buf_printf(out, "\\u%04x", code);
    else
        put_code(out, code);
    *at += 2 + (size_t)digits;
    return KT__SCAN_YES;
}

static kt__scan literal_escape(const kt__span *span, size_t *at, kt__buf *out) {
    static const char names[] = "nrtbf\\'\"/\n", codes[] = "\n\r\t\b\f\\'\"/";
    if (*at + 1 == span->n && !span->ended) return KT__SCAN_MORE;
    char c = *at + 1 < span->n ? span->s[*at + 1] : '\0';
    if (c == 'x' || c == 'u' || c == 'U') return coded_escape(span, at, c, out);
    const char *hit = c ? strchr(names, c) : NULL;
    if (hit && *hit != '\n') put_code(out, (uint8_t)codes[hit - names]);
    if (!hit) kt__buf_puts(out, "\\\\"); /* as in Python: the backslash stays */
    *at += hit ? 2 : 1;
    return KT__SCAN_YES;
}

/* Plain characters up to what could end the string. */
static kt__scan literal_chars(const kt__literal *lit, const kt__span *span, size_t *at,
                              kt__buf *out) {
    size_t end = *at;
    while (end < span->n && span->s[end] != lit->delim[0] && (lit->raw || span->s[end] != '\\'))
        end++;
    size_t n = end - *at;
    if (end == span->n && !span->ended) n -= kt__utf8_incomplete_tail(span->s + *at, n);
    if (n > 0) kt__json_chars(out, span->s + *at, n, KT__JSON_PLAIN);
    *at += n;
    return n > 0 ? KT__SCAN_YES : span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
}

static kt__scan literal_end_string(kt__literal *lit, size_t *at, size_t end, kt__buf *out) {
    *at = end;
    kt__buf_putc(out, '"');
    if (lit->is_key)
        lit->state = L_COLON;
    else
        literal_value_ended(lit);
    return KT__SCAN_YES;
}

static kt__scan literal_string(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    if (*at == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    char c = span->s[*at];
    if (c == '\\' && !lit->raw) return literal_escape(span, at, out);
    if (c != lit->delim[0]) return literal_chars(lit, span, at, out);
    size_t end = *at;
    kt__scan r = kt__scan_exact(span, lit->delim, &end);
    if (r == KT__SCAN_YES && lit->delim[1] == '\0') r = quote_ends(lit, span, *at);
    if (r == KT__SCAN_YES) return literal_end_string(lit, at, end, out);
    if (r == KT__SCAN_MORE) return r;
    kt__json_chars(out, &c, 1, KT__JSON_PLAIN);
    ++*at;
    return KT__SCAN_YES;
}

/* ---- words and numbers ---- */

static bool literal_word_ends(const kt__literal *lit, char c) {
    if (c == '\0' || strchr(",)]}", c)) return true;
    return !lit->quote && (kt__is_blank(c) || c == ':' || c == '=');
}

/* The extent of a bare word at `at`; NO: too long or none. */
static kt__scan literal_word(const kt__literal *lit, const kt__span *span, size_t at, size_t *len) {
    size_t i = at;
    while (i < span->n && i - at <= MAX_WORD && !literal_word_ends(lit, span->s[i])) i++;
    if (i - at > MAX_WORD) return KT__SCAN_NO;
    if (i == span->n && !span->ended) return KT__SCAN_MORE;
    while (i > at && kt__is_blank(span->s[i - 1])) i--;
    *len = i - at;
    return i > at ? KT__SCAN_YES : KT__SCAN_NO;
}

static bool word_is_json(const char *s, size_t n) {
    const kt__span span = {s, n, true};
    size_t at = 0;
    return kt__jscan_value(&span, &at) == KT__SCAN_YES && at == n;
}

/* Python's numbers that JSON has no form for: 1_000, +1, .5, 5. */
static bool python_number(kt__buf *out, const char *s, size_t n) {
    char text[MAX_WORD + 8];
    size_t m = 0;
    bool minus = n > 0 && s[0] == '-';
    size_t i = n > 0 && (minus || s[0] == '+');
    if (minus) text[m++] = '-';
    if (i < n && s[i] == '.') text[m++] = '0';
    for (; i < n; i++) {
        if (s[i] == '_') continue;
        text[m++] = s[i];
        bool digit_next = i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9';
        if (s[i] == '.' && !digit_next) text[m++] = '0';
    }
    if (m == 0 || !word_is_json(text, m)) return false;
    return kt__buf_append(out, text, m);
}

static bool put_word(const kt__literal *lit, kt__buf *out, const char *s, size_t n) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (int i = 0; i < 3; i++)
        if (strlen(words[i][0]) == n && memcmp(s, words[i][0], n) == 0)
            return kt__buf_puts(out, words[i][1]);
    if (word_is_json(s, n)) return kt__buf_append(out, s, n);
    if (python_number(out, s, n)) return true;
    if (!lit->quote) return false;
    kt__json_string(out, s, n, KT__JSON_PLAIN);
    return true;
}

static kt__scan literal_bare_value(kt__literal *lit, const kt__span *span, size_t *at,
                                   kt__buf *out) {
    size_t len;
    kt__scan r = literal_word(lit, span, *at, &len);
    if (r != KT__SCAN_YES) return r;
    if (!put_word(lit, out, span->s + *at, len)) return KT__SCAN_NO;
    *at += len;
    literal_value_ended(lit);
    return KT__SCAN_YES;
}

/* ---- containers ---- */

static kt__scan literal_value(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    char c = span->s[*at];
    if (lit->state == L_VALUE_OR_END && c == literal_closer(lit))
        return literal_close(lit, at, out);
    if (c == '{' || c == '[' || c == '(') return literal_open(lit, c, at, out);
    lit->is_key = false;
    kt__scan r = literal_open_string(lit, span, at, out);
    return r == KT__SCAN_NO ? literal_bare_value(lit, span, at, out) : r;
}

/* A key without quotes: a name before = or :, or a number. */
static kt__scan literal_bare_key(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    size_t i = *at;
    while (i < span->n && i - *at <= MAX_WORD && !strchr(":=,(){}[]\"'", span->s[i]) &&
           span->s[i] && !kt__is_blank(span->s[i]))
        i++;
    if (i - *at > MAX_WORD) return KT__SCAN_NO;
    if (i == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    if (i == *at) return KT__SCAN_NO;
    kt__json_string(out, span->s + *at, i - *at, KT__JSON_PLAIN);
    *at = i;
    lit->state = L_COLON;
    return KT__SCAN_YES;
}

static kt__scan literal_key(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    if (span->s[*at] == literal_closer(lit)) return literal_close(lit, at, out);
    lit->is_key = true;
    kt__scan r = literal_open_string(lit, span, at, out);
    return r == KT__SCAN_NO ? literal_bare_key(lit, span, at, out) : r;
}

static kt__scan literal_colon(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    char c = span->s[*at];
    bool arguments = literal_closer(lit) == ')';
    if (c != '=' && (c != ':' || arguments)) return KT__SCAN_NO;
    kt__buf_puts(out, ": ");
    lit->state = L_VALUE;
    ++*at;
    return KT__SCAN_YES;
}

/* The comma is written once something follows it. */
static kt__scan literal_after(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    char c = span->s[*at];
    if (c == literal_closer(lit)) return literal_close(lit, at, out);
    if (c != ',') return KT__SCAN_NO;
    size_t next = *at + 1;
    if (kt__scan_blanks(span, &next) == KT__SCAN_MORE && next - *at < MAX_BLANKS)
        return KT__SCAN_MORE;
    if (next - *at >= MAX_BLANKS) return KT__SCAN_NO;
    *at = next;
    if (next < span->n && span->s[next] == literal_closer(lit)) return literal_close(lit, at, out);
    kt__buf_puts(out, ", ");
    lit->state = literal_in_object(lit) ? L_KEY_OR_END : L_VALUE;
    return KT__SCAN_YES;
}

static kt__scan literal_step(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    if (lit->state == L_STRING) return literal_string(lit, span, at, out);
    if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    if (*at == span->n) return KT__SCAN_NO;
    switch (lit->state) {
    case L_VALUE:
    case L_VALUE_OR_END: return literal_value(lit, span, at, out);
    case L_KEY_OR_END: return literal_key(lit, span, at, out);
    case L_COLON: return literal_colon(lit, span, at, out);
    default: return literal_after(lit, span, at, out);
    }
}

kt__scan kt__literal_read(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out) {
    while (lit->state != L_DONE) {
        kt__scan r = literal_step(lit, span, at, out);
        if (r != KT__SCAN_YES) return r;
    }
    return KT__SCAN_YES;
}
