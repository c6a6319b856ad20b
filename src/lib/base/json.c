#include "base/json.h"

#include "base/error.h"
#include "base/le.h"
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

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

/* ---- the tree ---- */

typedef struct reader {
    kt__json_in in;
    kt__arena *arena;
    int depth;
    kt_error *err;
} reader;

static kt_status bad_json(const reader *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, "JSON", r->in.at, "not JSON: %s", what);
}

static kt_status no_room(const reader *r) {
    return kt__fail(r->err, KT_E_NOMEM, "no memory for JSON of %zu bytes", r->in.len);
}

/* ---- values ---- */

/* After the opening quote. */
static kt_status read_text(reader *r, const char **s, uint32_t *n) {
    kt__json_raw raw;
    if (!kt__json_in_string(&r->in, &raw)) return bad_json(r, r->in.fault);
    char *to = kt__arena_alloc_aligned(r->arena, raw.len + 1, 1);
    if (!to) return no_room(r);
    *n = (uint32_t)kt__json_unescape(&raw, to);
    to[*n] = '\0';
    *s = to;
    return KT_OK;
}

static kt_status read_number(reader *r, kt__json_node *node) {
    size_t from = r->in.at;
    bool is_float;
    if (!kt__json_in_number(&r->in, &is_float)) return bad_json(r, r->in.fault);
    node->type = KT__JSON_NUMBER;
    node->s = r->in.text + from;
    node->n = (uint32_t)(r->in.at - from);
    return KT_OK;
}

static kt_status read_json(reader *r, kt__json_node *node);

static kt__json_node *add_child(reader *r, kt__json_node *parent, kt__json_node *last) {
    kt__json_node *node = kt__arena_calloc(r->arena, 1, sizeof *node);
    if (!node) return NULL;
    node->parent = parent;
    node->index = parent->n++;
    if (last)
        last->next = node;
    else
        parent->first = node;
    return node;
}

static kt_status read_items(reader *r, kt__json_node *node) {
    kt__json_node *last = NULL;
    node->type = KT__JSON_ARRAY;
    kt__json_in_blanks(&r->in);
    if (kt__json_in_take(&r->in, ']')) return KT_OK;
    for (;;) {
        last = add_child(r, node, last);
        if (!last) return no_room(r);
        kt_status status = read_json(r, last);
        if (status != KT_OK || kt__json_in_take(&r->in, ']')) return status;
        if (!kt__json_in_take(&r->in, ',')) return bad_json(r, "expected ',' or ']'");
    }
}

static int compare_text(const char *a, size_t n, const char *b, size_t m) {
    int c = memcmp(a, b, n < m ? n : m);
    return c ? c : (n > m) - (n < m);
}

static int by_key(const void *a, const void *b) {
    const kt__json_node *x = *(kt__json_node *const *)a, *y = *(kt__json_node *const *)b;
    return compare_text(x->key, x->key_len, y->key, y->key_len);
}

static kt_status sort_members(reader *r, kt__json_node *node) {
    size_t n = 0;
    node->sorted = kt__arena_calloc(r->arena, node->n + 1u, sizeof(kt__json_node *));
    if (!node->sorted) return no_room(r);
    for (kt__json_node *kid = node->first; kid; kid = kid->next) node->sorted[n++] = kid;
    qsort(node->sorted, n, sizeof(kt__json_node *), by_key);
    for (size_t i = 1; i < n; i++)
        if (by_key(node->sorted + i - 1, node->sorted + i) == 0)
            return bad_json(r, "a member's name twice in the object that ends here");
    return KT_OK;
}

static kt_status read_members(reader *r, kt__json_node *node) {
    kt__json_node *last = NULL;
    node->type = KT__JSON_OBJECT;
    kt__json_in_blanks(&r->in);
    if (kt__json_in_take(&r->in, '}')) return sort_members(r, node);
    for (;;) {
        kt__json_in_blanks(&r->in);
        if (!kt__json_in_take(&r->in, '"'))
            return bad_json(r, "expected a member's name in quotes");
        last = add_child(r, node, last);
        if (!last) return no_room(r);
        kt_status status = read_text(r, &last->key, &last->key_len);
        if (status != KT_OK) return status;
        kt__json_in_blanks(&r->in);
        if (!kt__json_in_take(&r->in, ':')) return bad_json(r, "expected ':'");
        status = read_json(r, last);
        if (status != KT_OK) return status;
        if (kt__json_in_take(&r->in, '}')) return sort_members(r, node);
        if (!kt__json_in_take(&r->in, ',')) return bad_json(r, "expected ',' or '}'");
    }
}

static kt_status read_container(reader *r, kt__json_node *node) {
    if (++r->depth > KT__JDOC_MAX_DEPTH)
        return kt__fail_at(r->err, KT_E_LIMIT, "JSON", r->in.at, "nested deeper than %d",
                           KT__JDOC_MAX_DEPTH);
    kt_status status = r->in.text[r->in.at++] == '[' ? read_items(r, node) : read_members(r, node);
    r->depth--;
    return status;
}

static kt_status read_json(reader *r, kt__json_node *node) {
    kt_status status = KT_OK;
    kt__json_in_blanks(&r->in);
    char c = kt__json_in_peek(&r->in);
    if (c == '[' || c == '{') {
        status = read_container(r, node);
    } else if (c == '"') {
        r->in.at++;
        node->type = KT__JSON_STRING;
        status = read_text(r, &node->s, &node->n);
    } else if (kt__json_in_word(&r->in, "true")) {
        node->type = KT__JSON_TRUE;
    } else if (kt__json_in_word(&r->in, "false")) {
        node->type = KT__JSON_FALSE;
    } else if (kt__json_in_word(&r->in, "null")) {
        node->type = KT__JSON_NULL;
    } else {
        status = read_number(r, node);
    }
    kt__json_in_blanks(&r->in);
    return status;
}

kt_status kt__jdoc_parse(kt__arena *arena, const char *text, size_t len, kt__json_node **out,
                         kt_error *err) {
    reader r = {.in = {.text = text, .len = len}, .arena = arena, .err = err};
    *out = NULL;
    if (len > KT__JDOC_MAX_BYTES)
        return kt__fail(err, KT_E_LIMIT, "JSON of %zu bytes: at most %d are read", len,
                        (int)KT__JDOC_MAX_BYTES);
    kt__json_node *root = kt__arena_calloc(arena, 1, sizeof *root);
    if (!root) return no_room(&r);
    kt_status status = read_json(&r, root);
    if (status == KT_OK && r.in.at < len) status = bad_json(&r, "text after the value");
    if (status == KT_OK) *out = root;
    return status;
}

/* ---- places ---- */

kt__json_node *kt__jdoc_member(const kt__json_node *object, const char *name, size_t len) {
    if (object->type != KT__JSON_OBJECT) return NULL;
    size_t low = 0, high = object->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        kt__json_node *kid = object->sorted[mid];
        int c = compare_text(kid->key, kid->key_len, name, len);
        if (c == 0) return kid;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static kt__json_node *item_at(const kt__json_node *array, const char *s, size_t len) {
    size_t index = 0;
    if (len == 0 || len > 9 || (s[0] == '0' && len > 1)) return NULL;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9') return NULL;
        index = index * 10 + (size_t)(s[i] - '0');
    }
    kt__json_node *kid = array->first;
    while (kid && index-- > 0) kid = kid->next;
    return kid;
}

/* One reference token of a pointer, decoded; returns its length, SIZE_MAX if it is too long. */
static size_t decode_token(const char *s, size_t len, char *out, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (c == '%' && i + 2 < len && kt__hex_digit(s[i + 1]) >= 0 &&
            kt__hex_digit(s[i + 2]) >= 0) {
            c = (char)(kt__hex_digit(s[i + 1]) * 16 + kt__hex_digit(s[i + 2]));
            i += 2;
        }
        if (c == '~' && i + 1 < len && (s[i + 1] == '0' || s[i + 1] == '1'))
            c = s[++i] == '0' ? '~' : '/';
        if (n == cap) return SIZE_MAX;
        out[n++] = c;
    }
    return n;
}

kt__json_node *kt__jdoc_at(kt__json_node *root, const char *pointer, size_t len) {
    char name[1024];
    kt__json_node *node = root;
    size_t at = 0;
    while (node && at < len) {
        if (pointer[at++] != '/') return NULL;
        const char *slash = memchr(pointer + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - pointer) - at : len - at;
        size_t decoded = decode_token(pointer + at, n, name, sizeof name);
        if (decoded == SIZE_MAX) return NULL;
        if (node->type == KT__JSON_OBJECT)
            node = kt__jdoc_member(node, name, decoded);
        else
            node = node->type == KT__JSON_ARRAY ? item_at(node, name, decoded) : NULL;
        at += n;
    }
    return node;
}

/* The end of the pointer is written first, from the buffer's end. */
void kt__jdoc_pointer(const kt__json_node *node, char *out, size_t cap) {
    char text[2048];
    size_t at = sizeof text;
    for (; node->parent && at > 600; node = node->parent) {
        char part[256];
        size_t n = 0;
        if (!node->key) n = (size_t)snprintf(part, sizeof part, "%u", (unsigned)node->index);
        for (uint32_t i = 0; node->key && i < node->key_len && n + 2 < sizeof part; i++) {
            char c = node->key[i];
            if (c == '~' || c == '/') part[n++] = '~';
            part[n++] = c == '~' ? '0' : c == '/' ? '1' : c;
        }
        at -= n;
        memcpy(text + at, part, n);
        text[--at] = '/';
    }
    size_t n = sizeof text - at < cap - 1 ? sizeof text - at : cap - 1;
    memcpy(out, text + at, n);
    out[n] = '\0';
}

bool kt__jdoc_is(const kt__json_node *node, const char *text) {
    return node->type == KT__JSON_STRING && node->n == strlen(text) &&
           memcmp(node->s, text, node->n) == 0;
}
