#include "jinja/json.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "jinja/jinja_num.h"

typedef struct reader {
    kt__arena *arena;
    const char *text;
    size_t len, at;
    int nest;
    kt_error *err;
} reader;

static kt_status bad(reader *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, "JSON", r->at, "not JSON: %s", what);
}

static kt_status no_memory(reader *r) {
    return kt__fail(r->err, KT_E_NOMEM,
                    "JSON of %zu bytes: no memory, or over the rendering's limit", r->len);
}

static void skip_space(reader *r) {
    while (r->at < r->len && memchr(" \t\n\r", r->text[r->at], 4)) r->at++;
}

static bool json_take(reader *r, char c) {
    if (r->at >= r->len || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

/* ---- strings ---- */

static bool hex4(reader *r, uint32_t *out) {
    if (r->len - r->at < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = r->text[r->at++];
        uint32_t d = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                            : 16;
        if (d == 16) return false;
        *out = *out << 4 | d;
    }
    return true;
}

/* After "\u": one code point, from a pair of surrogates where it begins with one. */
static kt_status unicode_escape(reader *r, uint32_t *cp) {
    uint32_t low;
    if (!hex4(r, cp)) return bad(r, "\\u needs four hexadecimal digits");
    if (*cp < 0xD800 || *cp > 0xDFFF) return KT_OK;
    if (*cp > 0xDBFF || !json_take(r, '\\') || !json_take(r, 'u') || !hex4(r, &low) ||
        low < 0xDC00 || low > 0xDFFF)
        return bad(r, "an unpaired surrogate");
    *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    return KT_OK;
}

static kt_status escape(reader *r, char **out) {
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->len ? r->text[r->at] : '\0';
    const char *hit = c ? strchr(names, c) : NULL;
    if (hit) {
        r->at++;
        *(*out)++ = bytes[hit - names];
        return KT_OK;
    }
    if (!json_take(r, 'u')) return bad(r, "an unknown escape");
    uint32_t cp = 0;
    kt_status status = unicode_escape(r, &cp);
    if (status == KT_OK) *out += kt__utf8_encode(cp, *out);
    return status;
}

/* From after the opening quote to the closing one; notes whether there are escapes. */
static kt_status scan_string(reader *r, size_t *end, bool *escaped) {
    size_t at = r->at;
    *escaped = false;
    while (at < r->len && r->text[at] != '"') {
        unsigned char c = (unsigned char)r->text[at];
        uint32_t cp;
        size_t n = c < 0x80 ? 1 : kt__utf8_decode(r->text + at, r->len - at, &cp);
        if (c == '\\') {
            *escaped = true;
            n = r->len - at > 1 && (unsigned char)r->text[at + 1] < 0x80 ? 2 : 0;
        }
        if (c < 0x20 || n == 0) {
            r->at = at;
            return bad(r, c < 0x20    ? "a control character in a string"
                          : c == '\\' ? "an unknown escape"
                                      : "a byte that is not UTF-8");
        }
        at += n;
    }
    *end = at;
    if (at < r->len) return KT_OK;
    r->at = at;
    return bad(r, "a string without its end");
}

static kt_status read_string(reader *r, kt__jv *out) {
    size_t end = 0;
    bool escaped;
    kt_status status = scan_string(r, &end, &escaped);
    if (status != KT_OK) return status;
    kt__jstr *s;
    if (!escaped) {
        s = kt__jstr_new(r->arena, r->text + r->at, end - r->at, false);
    } else {
        char *data = kt__arena_alloc_aligned(r->arena, end - r->at, 1), *to = data;
        if (!data) return no_memory(r);
        while (r->at < end) {
            char c = r->text[r->at++];
            if (c != '\\') {
                *to++ = c;
            } else if ((status = escape(r, &to)) != KT_OK) {
                return status;
            }
        }
        s = kt__jstr_new(r->arena, data, (size_t)(to - data), false);
    }
    r->at = end + 1;
    if (!s) return no_memory(r);
    *out = kt__j_str(s);
    return KT_OK;
}

/* ---- numbers ---- */

static bool json_digits(reader *r) {
    size_t from = r->at;
    while (r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9') r->at++;
    return r->at > from;
}

static kt_status json_integer_of(reader *r, size_t from, kt__jv *out) {
    bool negative = r->text[from] == '-';
    int64_t value = 0;
    for (size_t i = from + negative; i < r->at; i++) {
        int d = r->text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            (negative ? __builtin_sub_overflow(value, d, &value)
                      : __builtin_add_overflow(value, d, &value))) {
            const kt__jstr *s = kt__jstr_new(r->arena, r->text + from, r->at - from, false);
            if (!s) return no_memory(r);
            *out = (kt__jv){.type = KT__J_BIGINT, .u.s = s};
            return KT_OK;
        }
    }
    *out = kt__j_int(value);
    return KT_OK;
}

static kt_status read_number(reader *r, kt__jv *out) {
    size_t from = r->at;
    bool is_float = false;
    json_take(r, '-');
    if (!json_take(r, '0') && !json_digits(r)) return bad(r, "expected a value");
    if (json_take(r, '.')) {
        is_float = true;
        if (!json_digits(r)) return bad(r, "a number needs digits after its point");
    }
    if (json_take(r, 'e') || json_take(r, 'E')) {
        is_float = true;
        if (!json_take(r, '-')) json_take(r, '+');
        if (!json_digits(r)) return bad(r, "a number needs digits in its exponent");
    }
    if (!is_float) return json_integer_of(r, from, out);
    double f;
    if (!kt__jnum_parse(r->text + from, r->at - from, &f)) return bad(r, "a number is too long");
    *out = kt__j_float(f);
    return KT_OK;
}

/* ---- values ---- */

static kt_status read_value(reader *r, kt__jv *out);

static kt_status read_array(reader *r, kt__jv *out) {
    kt__jlist *list = kt__jlist_new(r->arena, KT__JL_LIST, 0);
    if (!list) return no_memory(r);
    *out = kt__j_list(list);
    skip_space(r);
    if (json_take(r, ']')) return KT_OK;
    for (;;) {
        kt__jv item;
        kt_status status = read_value(r, &item);
        if (status != KT_OK) return status;
        if (!kt__jlist_push(r->arena, list, item)) return no_memory(r);
        if (json_take(r, ']')) return KT_OK;
        if (!json_take(r, ',')) return bad(r, "expected ',' or ']'");
    }
}

static kt_status read_member(reader *r, kt__jdict *dict) {
    kt__jv key, value;
    uint64_t steps = UINT64_MAX; /* text keys: nothing to count */
    skip_space(r);
    if (!json_take(r, '"')) return bad(r, "expected a member's name in quotes");
    kt_status status = read_string(r, &key);
    if (status != KT_OK) return status;
    skip_space(r);
    if (!json_take(r, ':')) return bad(r, "expected ':'");
    status = read_value(r, &value);
    if (status != KT_OK) return status;
    if (kt__jdict_set(r->arena, dict, key, value, &steps) == KT__JKEY_NOMEM) return no_memory(r);
    return KT_OK;
}

static kt_status read_object(reader *r, kt__jv *out) {
    kt__jdict *dict = kt__jdict_new(r->arena);
    if (!dict) return no_memory(r);
    *out = kt__j_dict(dict);
    skip_space(r);
    if (json_take(r, '}')) return KT_OK;
    for (;;) {
        kt_status status = read_member(r, dict);
        if (status != KT_OK) return status;
        if (json_take(r, '}')) return KT_OK;
        if (!json_take(r, ',')) return bad(r, "expected ',' or '}'");
    }
}

static bool word(reader *r, const char *text) {
    size_t n = strlen(text);
    if (r->len - r->at < n || memcmp(r->text + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

static kt_status read_nested(reader *r, kt__jv *out) {
    if (++r->nest > KT__JSON_MAX_NEST)
        return kt__fail_at(r->err, KT_E_LIMIT, "JSON", r->at, "nested deeper than %d",
                           KT__JSON_MAX_NEST);
    kt_status status = r->text[r->at++] == '[' ? read_array(r, out) : read_object(r, out);
    r->nest--;
    return status;
}

/* One value and the white space on both sides of it. */
static kt_status read_value(reader *r, kt__jv *out) {
    kt_status status = KT_OK;
    skip_space(r);
    char c = r->at < r->len ? r->text[r->at] : '\0';
    if (c == '[' || c == '{')
        status = read_nested(r, out);
    else if (json_take(r, '"'))
        status = read_string(r, out);
    else if (word(r, "true"))
        *out = kt__j_bool(true);
    else if (word(r, "false"))
        *out = kt__j_bool(false);
    else if (word(r, "null"))
        *out = kt__j_none();
    else
        status = read_number(r, out);
    skip_space(r);
    return status;
}

kt_status kt__json_parse(kt__arena *arena, const char *text, size_t len, kt__jv *out,
                         kt_error *err) {
    reader r = {.arena = arena, .text = text, .len = len, .err = err};
    kt_status status = read_value(&r, out);
    if (status == KT_OK && r.at < len) status = bad(&r, "unexpected text after the value");
    return status;
}
