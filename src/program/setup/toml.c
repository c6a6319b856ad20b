#include "setup/toml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/le.h"
#include "base/text.h"

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

/* ---- toml parse ---- */

/* How a table came to be decides who may still add to it. */
enum {
    MADE_IMPLICIT, /* on the way to another header: may get a header of its own once */
    MADE_HEADER,   /* [a.b] */
    MADE_DOTTED,   /* a.b = 1: more dotted keys, no header */
    MADE_CLOSED,   /* { inline } or [ array ]: complete */
    MADE_TABLES    /* an array of [[tables]] */
};

const char *kt__toml_kind_name(kt__toml_kind kind) {
    static const char *const names[] = {"a table",        "an array", "a string",
                                        "a whole number", "a number", "a boolean"};
    return names[kind];
}

/* ---- the tree ---- */

static const kt__toml *find_member(const kt__toml *table, const char *key, size_t len) {
    for (const kt__toml *v = table->first; v; v = v->next) {
        if (strlen(v->key) == len && !memcmp(v->key, key, len)) return v;
    }
    return NULL;
}

const kt__toml *kt__toml_get(const kt__toml *table, const char *key) {
    return table && table->kind == KT__TOML_TABLE ? find_member(table, key, strlen(key)) : NULL;
}

static kt__toml *add_member(kt__toml_parser *p, kt__toml *parent, kt__toml_kind kind,
                            const char *key) {
    kt__toml *v = kt__arena_calloc(p->arena, 1, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    v->key = key;
    v->line = p->line;
    if (!parent) return v;
    if (parent->last) {
        parent->last->next = v;
    } else {
        parent->first = v;
    }
    parent->last = v;
    parent->n++;
    p->n_values++;
    return v;
}

/* ---- values ---- */

static kt_status take_value(kt__toml_parser *p, kt__toml *v, int depth);
static kt_status take_pair(kt__toml_parser *p, kt__toml *table, int depth);

/* Elements become known to their array only when they are whole; v is the array. */
static kt_status take_array(kt__toml_parser *p, kt__toml *v, int depth) {
    v->kind = KT__TOML_ARRAY;
    v->state = MADE_CLOSED;
    p->at++;
    for (;;) {
        KT__STEP(kt__toml_skip_space(p));
        if (kt__toml_peek(p, 0) == ']') break;
        kt__toml *item = add_member(p, v, KT__TOML_INT, NULL);
        if (!item) return kt__toml_fail_nomem(p);
        KT__STEP(take_value(p, item, depth + 1));
        KT__STEP(kt__toml_skip_space(p));
        if (kt__toml_peek(p, 0) == ']') break;
        if (kt__toml_peek(p, 0) != ',')
            return kt__toml_fail(p, "expected a comma or the array's end");
        p->at++;
    }
    p->at++;
    return KT_OK;
}

static void close_table(kt__toml *table) {
    table->state = MADE_CLOSED;
    for (kt__toml *v = table->first; v; v = v->next) {
        if (v->kind == KT__TOML_TABLE) close_table(v);
    }
}

static kt_status take_inline_table(kt__toml_parser *p, kt__toml *v, int depth) {
    v->kind = KT__TOML_TABLE;
    v->state = MADE_DOTTED;
    p->at++;
    kt__toml_skip_blanks(p);
    for (bool first = true; kt__toml_peek(p, 0) != '}' || !first; first = false) {
        KT__STEP(take_pair(p, v, depth + 1));
        kt__toml_skip_blanks(p);
        if (kt__toml_peek(p, 0) == '}') break;
        if (kt__toml_peek(p, 0) != ',')
            return kt__toml_fail(p, "expected a comma or the table's end");
        p->at++;
        kt__toml_skip_blanks(p);
    }
    p->at++;
    close_table(v);
    return KT_OK;
}

static kt_status take_value(kt__toml_parser *p, kt__toml *v, int depth) {
    if (depth > KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
    if (p->n_values > KT__TOML_MAX_VALUES) return kt__toml_fail(p, "too many values");
    v->line = p->line;
    switch (kt__toml_peek(p, 0)) {
    case '"':
    case '\'': v->kind = KT__TOML_STRING; return kt__toml_take_string(p, &v->text, &v->len, true);
    case '[': return take_array(p, v, depth);
    case '{': return take_inline_table(p, v, depth);
    default: return kt__toml_take_scalar(p, v);
    }
}

/* a.b.c = value, in table */
static kt_status take_pair(kt__toml_parser *p, kt__toml *table, int depth) {
    const char *key;
    size_t len;
    for (int level = 0;; level++) {
        KT__STEP(kt__toml_take_key_part(p, &key, &len));
        kt__toml *found = (kt__toml *)(uintptr_t)find_member(table, key, len);
        if (!kt__toml_take_dot(p)) {
            if (found) return kt__toml_fail(p, "this key was given before");
            break;
        }
        if (depth + level >= KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
        bool free = found && found->kind == KT__TOML_TABLE &&
                    (found->state == MADE_DOTTED || found->state == MADE_IMPLICIT);
        if (found && !free)
            return kt__toml_fail(p, "a dotted key cannot add to what was defined before");
        if (found) found->state = MADE_DOTTED;
        if (!found) {
            found = add_member(p, table, KT__TOML_TABLE, key);
            if (!found) return kt__toml_fail_nomem(p);
            found->state = MADE_DOTTED;
        }
        table = found;
    }
    kt__toml_skip_blanks(p);
    if (kt__toml_peek(p, 0) != '=') return kt__toml_fail(p, "expected = after the key");
    p->at++;
    kt__toml_skip_blanks(p);
    kt__toml *v = add_member(p, table, KT__TOML_INT, key);
    if (!v) return kt__toml_fail_nomem(p);
    return take_value(p, v, depth);
}

/* ---- headers ---- */

/* One step towards a header's table: into it, or into the last table of an array. */
static kt_status step_into(kt__toml_parser *p, kt__toml **table, const char *key, size_t len) {
    kt__toml *found = (kt__toml *)(uintptr_t)find_member(*table, key, len);
    if (!found) {
        found = add_member(p, *table, KT__TOML_TABLE, key);
        if (!found) return kt__toml_fail_nomem(p);
        found->state = MADE_IMPLICIT;
    }
    if (found->kind == KT__TOML_ARRAY && found->state == MADE_TABLES) found = found->last;
    if (found->kind != KT__TOML_TABLE || found->state == MADE_CLOSED)
        return kt__toml_fail(p, "this name is no table that can be added to");
    *table = found;
    return KT_OK;
}

static kt_status open_table(kt__toml_parser *p, kt__toml *parent, const char *key, size_t len,
                            bool array, kt__toml **out) {
    kt__toml *found = (kt__toml *)(uintptr_t)find_member(parent, key, len);
    if (array) {
        if (found && (found->kind != KT__TOML_ARRAY || found->state != MADE_TABLES))
            return kt__toml_fail(p, "this name is no array of tables");
        if (!found && !(found = add_member(p, parent, KT__TOML_ARRAY, key)))
            return kt__toml_fail_nomem(p);
        found->state = MADE_TABLES;
        *out = add_member(p, found, KT__TOML_TABLE, NULL);
    } else if (found) {
        if (found->kind != KT__TOML_TABLE || found->state != MADE_IMPLICIT)
            return kt__toml_fail(p, "this table was defined before");
        *out = found;
    } else {
        *out = add_member(p, parent, KT__TOML_TABLE, key);
    }
    if (!*out) return kt__toml_fail_nomem(p);
    (*out)->state = MADE_HEADER;
    return KT_OK;
}

/* [a.b] or [[a.b]] */
static kt_status take_header(kt__toml_parser *p, kt__toml *root, kt__toml **out) {
    const char *key;
    size_t len;
    bool array = kt__toml_peek(p, 1) == '[';
    kt__toml *table = root;
    p->at += array ? 2 : 1;
    kt__toml_skip_blanks(p);
    for (int level = 0;; level++) {
        if (level >= KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
        KT__STEP(kt__toml_take_key_part(p, &key, &len));
        if (!kt__toml_take_dot(p)) break;
        KT__STEP(step_into(p, &table, key, len));
    }
    kt__toml_skip_blanks(p);
    if (!kt__toml_looking_at(p, array ? "]]" : "]"))
        return kt__toml_fail(p, "expected the header's end");
    p->at += array ? 2 : 1;
    return open_table(p, table, key, len, array, out);
}

static kt_status end_of_line(kt__toml_parser *p) {
    kt__toml_skip_blanks(p);
    kt_status status = kt__toml_skip_comment(p);
    if (status != KT_OK) return status;
    if (p->at < p->end && !kt__toml_at_newline(p))
        return kt__toml_fail(p, "expected the end of the line");
    return KT_OK;
}

kt_status kt__toml_parse(const char *text, size_t len, const char *name, kt__arena *arena,
                         kt__toml **out, kt_error *err) {
    kt__toml_parser p = {text, text + len, text, 1, 0, name, arena, err};
    *out = NULL;
    kt__error_clear(err);
    if (len > KT__TOML_MAX_BYTES)
        return kt__fail_at(err, KT_E_LIMIT, name, UINT64_MAX, "%s: %zu bytes; at most %d", name,
                           len, (int)KT__TOML_MAX_BYTES);
    kt__toml *root = add_member(&p, NULL, KT__TOML_TABLE, NULL), *table = root;
    if (!root) return kt__toml_fail_nomem(&p);
    root->state = MADE_HEADER;
    for (;;) {
        KT__STEP(kt__toml_skip_space(&p));
        if (p.at >= p.end) break;
        if (kt__toml_peek(&p, 0) == '[') {
            KT__STEP(take_header(&p, root, &table));
        } else {
            KT__STEP(take_pair(&p, table, 0));
        }
        KT__STEP(end_of_line(&p));
    }
    *out = root;
    return KT_OK;
}
