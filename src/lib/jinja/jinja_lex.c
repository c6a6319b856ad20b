/* Template source to tokens: Jinja's white space rules (trim_blocks, lstrip_blocks, the signs '-'
 * and '+', one trailing newline dropped), comments, raw blocks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "jinja/jinja_ast.h"
#include "jinja/jinja_text.h"

typedef struct lexer {
    kt__arena *arena;
    const char *src; /* newlines normalised */
    size_t len, at;
    uint32_t line;
    bool starting_line; /* the last tag took the newline after it */
    kt__jtok *toks;
    size_t n, cap;
    kt_error *err;
} lexer;

kt_status kt__jinja_fail(kt_error *err, kt_status code, uint32_t line, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return kt__fail_at(err, code, "chat template", UINT64_MAX, "line %u: %s", line, text);
}

static kt_status no_memory(lexer *lx) {
    return kt__fail(lx->err, KT_E_NOMEM, "no memory for a chat template");
}

static kt_status push_token(lexer *lx, kt__jtok_kind kind, size_t from, size_t to) {
    if (lx->n == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 256;
        kt__jtok *grown = kt__arena_calloc(lx->arena, cap, sizeof *grown);
        if (!grown) return no_memory(lx);
        if (lx->n) memcpy(grown, lx->toks, lx->n * sizeof *grown);
        lx->toks = grown;
        lx->cap = cap;
    }
    lx->toks[lx->n++] = (kt__jtok){kind, lx->line, lx->src + from, to - from};
    return KT_OK;
}

/* Moves to `to`, counting lines. */
static void lexer_advance(lexer *lx, size_t to) {
    for (; lx->at < to; lx->at++) lx->line += lx->src[lx->at] == '\n';
}

static bool looking_at(const lexer *lx, size_t at, const char *text) {
    size_t n = strlen(text);
    return lx->len - at >= n && memcmp(lx->src + at, text, n) == 0;
}

static size_t skip_space(const lexer *lx, size_t at) {
    size_t n;
    while (at < lx->len && (n = kt__jstr_space(lx->src + at, lx->len - at)) > 0) at += n;
    return at;
}

/* ---- tags ---- */

/* Where "-%}", "+%}" or "%}" at `at` ends with the white space it takes; 0: no end tag here.
 * Variables take no newline and know no '+'. */
static size_t end_tag(const lexer *lx, size_t at, const char *close) {
    bool variable = close[0] == '}';
    size_t end = at;
    char sign = at < lx->len ? lx->src[at] : '\0';
    if (sign == '-' || (sign == '+' && !variable)) end++;
    if (!looking_at(lx, end, close)) return 0;
    end += 2;
    if (sign == '-') return skip_space(lx, end);
    if (sign != '+' && !variable && end < lx->len && lx->src[end] == '\n') end++;
    return end;
}

static void finish_tag(lexer *lx, size_t end) {
    lx->starting_line = end > lx->at && lx->src[end - 1] == '\n';
    lexer_advance(lx, end);
}

/* Text before a tag, without what the tag's sign or lstrip_blocks takes away. */
static kt_status push_data(lexer *lx, size_t from, size_t to, char sign, bool variable) {
    size_t end = to;
    if (sign == '-') {
        size_t n;
        while (end > from && (n = kt__jstr_space_before(lx->src + from, end - from)) > 0) end -= n;
    } else if (sign != '+' && !variable) {
        size_t line = to;
        while (line > from && lx->src[line - 1] != '\n') line--;
        bool at_line_start = line > from || lx->starting_line;
        if (at_line_start && skip_space(lx, line) >= to) end = line;
    }
    return end > from ? push_token(lx, KT__JT_DATA, from, end) : KT_OK;
}

/* The next "{{", "{%" or "{#", or the end. */
static size_t find_tag(const lexer *lx, size_t at) {
    for (; at + 1 < lx->len; at++) {
        const char *hit = memchr(lx->src + at, '{', lx->len - 1 - at);
        if (!hit) break;
        at = (size_t)(hit - lx->src);
        if (hit[1] == '{' || hit[1] == '%' || hit[1] == '#') return at;
    }
    return lx->len;
}

static bool is_sign(char c) {
    return c == '-' || c == '+';
}

/* After "{%" and a sign: whether `word` is alone there up to its end tag; the end, or 0. */
static size_t word_tag(const lexer *lx, size_t at, const char *word, bool trims) {
    at = skip_space(lx, at);
    if (!looking_at(lx, at, word)) return 0;
    at = skip_space(lx, at + strlen(word));
    size_t end = end_tag(lx, at, "%}");
    if (!end || trims) return end;
    return lx->src[at] == '-' ? end : lx->src[at] == '%' ? at + 2 : 0;
}

/* Inside {% raw %}: text up to {% endraw %}. */
static kt_status lex_raw(lexer *lx) {
    uint32_t line = lx->line;
    for (size_t at = lx->at; (at = find_tag(lx, at)) < lx->len; at++) {
        if (lx->src[at + 1] != '%') continue;
        char sign = at + 2 < lx->len ? lx->src[at + 2] : '\0';
        size_t end = word_tag(lx, at + 2 + is_sign(sign), "endraw", true);
        if (!end) continue;
        kt_status status = push_data(lx, lx->at, at, sign, false);
        finish_tag(lx, end);
        return status;
    }
    return kt__jinja_fail(lx->err, KT_E_TEMPLATE, line, "a raw block without its end");
}

static kt_status lex_comment(lexer *lx) {
    size_t at = lx->at + 2;
    if (at < lx->len && is_sign(lx->src[at])) at++;
    for (; at < lx->len; at++) {
        size_t end = end_tag(lx, at, "#}");
        if (!end) continue;
        finish_tag(lx, end);
        return KT_OK;
    }
    return kt__jinja_fail(lx->err, KT_E_TEMPLATE, lx->line, "a comment without its end");
}

/* ---- inside a tag ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
           (unsigned char)c >= 0x80;
}

/* digits with single underscores between them */
static size_t digit_run(const lexer *lx, size_t at) {
    while (at < lx->len && (is_digit(lx->src[at]) ||
                            (lx->src[at] == '_' && at + 1 < lx->len && is_digit(lx->src[at + 1]))))
        at++;
    return at;
}

static kt_status lex_number(lexer *lx) {
    size_t from = lx->at, end = digit_run(lx, from);
    kt__jtok_kind kind = KT__JT_INT;
    bool after_dot = from > 0 && lx->src[from - 1] == '.';
    if (!after_dot && end + 1 < lx->len && lx->src[end] == '.' && is_digit(lx->src[end + 1])) {
        kind = KT__JT_FLOAT;
        end = digit_run(lx, end + 1);
    }
    if (!after_dot && end < lx->len && (lx->src[end] == 'e' || lx->src[end] == 'E')) {
        size_t exp = end + 1;
        if (exp < lx->len && is_sign(lx->src[exp])) exp++;
        if (exp < lx->len && is_digit(lx->src[exp])) {
            kind = KT__JT_FLOAT;
            end = digit_run(lx, exp);
        }
    }
    kt_status status = push_token(lx, kind, from, end);
    lexer_advance(lx, end);
    return status;
}

static kt_status lex_string(lexer *lx) {
    char quote = lx->src[lx->at];
    size_t at = lx->at + 1;
    while (at < lx->len && lx->src[at] != quote) at += lx->src[at] == '\\' ? 2 : 1;
    if (at >= lx->len)
        return kt__jinja_fail(lx->err, KT_E_TEMPLATE, lx->line, "a string without its end");
    kt_status status = push_token(lx, KT__JT_STRING, lx->at, at + 1);
    lexer_advance(lx, at + 1);
    return status;
}

static kt_status lex_operator(lexer *lx, char *brackets, size_t *n_brackets) {
    static const char *const doubles[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = lx->src[lx->at];
    size_t n = 1;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        if (looking_at(lx, lx->at, doubles[i])) n = 2;
    }
    if (n == 1 && !strchr("+-/*%~[](){}><=.:|,;", c))
        return kt__jinja_fail(lx->err, KT_E_TEMPLATE, lx->line, "unexpected character '%c'",
                              c >= 0x20 && c < 0x7f ? c : '?');
    if (strchr("([{", c)) {
        if (*n_brackets == KT__J_MAX_DEPTH)
            return kt__jinja_fail(lx->err, KT_E_LIMIT, lx->line, "brackets nested deeper than %d",
                                  KT__J_MAX_DEPTH);
        brackets[(*n_brackets)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c) && (*n_brackets == 0 || brackets[--*n_brackets] != c)) {
        return kt__jinja_fail(lx->err, KT_E_TEMPLATE, lx->line, "unexpected '%c'", c);
    }
    kt_status status = push_token(lx, KT__JT_OP, lx->at, lx->at + n);
    lexer_advance(lx, lx->at + n);
    return status;
}

static kt_status lex_name(lexer *lx) {
    size_t end = lx->at;
    while (end < lx->len && is_name(lx->src[end])) end++;
    kt_status status = push_token(lx, KT__JT_NAME, lx->at, end);
    lexer_advance(lx, end);
    return status;
}

/* Tokens up to the end tag `close`. */
static kt_status lex_inside(lexer *lx, const char *close) {
    char brackets[KT__J_MAX_DEPTH];
    size_t n_brackets = 0, end;
    uint32_t line = lx->line;
    for (;;) {
        lexer_advance(lx, skip_space(lx, lx->at));
        if (lx->at >= lx->len)
            return kt__jinja_fail(lx->err, KT_E_TEMPLATE, line, "a tag without its end '%s'",
                                  close);
        if (n_brackets == 0 && (end = end_tag(lx, lx->at, close)) != 0) break;
        char c = lx->src[lx->at];
        kt_status status = is_digit(c)             ? lex_number(lx)
                           : is_name(c)            ? lex_name(lx)
                           : c == '\'' || c == '"' ? lex_string(lx)
                                                   : lex_operator(lx, brackets, &n_brackets);
        if (status != KT_OK) return status;
    }
    kt__jtok_kind kind = close[0] == '}' ? KT__JT_VAR_END : KT__JT_BLOCK_END;
    kt_status status = push_token(lx, kind, lx->at, end);
    finish_tag(lx, end);
    return status;
}

/* ---- the whole ---- */

static kt_status lex_tag(lexer *lx, size_t tag) {
    char type = lx->src[tag + 1], sign = tag + 2 < lx->len ? lx->src[tag + 2] : '\0';
    kt_status status = push_data(lx, lx->at, tag, sign, type == '{');
    if (status != KT_OK) return status;
    lexer_advance(lx, tag);
    if (type == '#') return lex_comment(lx);
    size_t inside = tag + 2 + is_sign(sign), raw;
    if (type == '%' && (raw = word_tag(lx, inside, "raw", false)) != 0) {
        finish_tag(lx, raw);
        return lex_raw(lx);
    }
    bool variable = type == '{';
    status = push_token(lx, variable ? KT__JT_VAR_BEGIN : KT__JT_BLOCK_BEGIN, tag, inside);
    if (status != KT_OK) return status;
    lexer_advance(lx, inside);
    return lex_inside(lx, variable ? "}}" : "%}");
}

/* A copy with \r\n and \r as \n, without one last newline. */
static kt_status normalise_newlines(lexer *lx, const char *source, size_t len) {
    char *copy = kt__arena_alloc_aligned(lx->arena, len + 1, 1);
    if (!copy) return no_memory(lx);
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
        copy[lx->len++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (lx->len && copy[lx->len - 1] == '\n') lx->len--;
    copy[lx->len] = '\0';
    lx->src = copy;
    for (size_t i = 0, n; i < lx->len; i += n) {
        uint32_t cp;
        n = kt__utf8_decode(copy + i, lx->len - i, &cp);
        lx->line += copy[i] == '\n';
        if (n == 0) return kt__jinja_fail(lx->err, KT_E_TEMPLATE, lx->line, "not UTF-8");
    }
    lx->line = 1;
    return KT_OK;
}

kt_status kt__jinja_lex(kt__arena *arena, const char *source, size_t len, kt__jtok **toks,
                        size_t *n, kt_error *err) {
    lexer lx = {.arena = arena, .line = 1, .starting_line = true, .err = err};
    kt_status status = normalise_newlines(&lx, source, len);
    while (status == KT_OK && lx.at < lx.len) {
        size_t tag = find_tag(&lx, lx.at);
        if (tag < lx.len) {
            status = lex_tag(&lx, tag);
        } else {
            status = push_token(&lx, KT__JT_DATA, lx.at, lx.len);
            lexer_advance(&lx, lx.len);
        }
    }
    if (status == KT_OK) status = push_token(&lx, KT__JT_EOF, lx.len, lx.len);
    *toks = lx.toks;
    *n = lx.n;
    return status;
}
