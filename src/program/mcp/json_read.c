#include "mcp/json_read.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hex.h"

/* Brackets outside strings: found before a parser recurses over them. */
static size_t json_depth(const char *json, size_t len) {
    size_t depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = json[i];
        if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) most = depth;
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return most;
}

/* ---- what other languages write ---- */

/* The code unit of "\\uXXXX" at s, or 0. */
static unsigned escaped_unit(const char *s, size_t len) {
    unsigned unit = 0;
    if (len < 6 || s[0] != '\\' || s[1] != 'u') return 0;
    for (int i = 2; i < 6; i++) {
        int digit = kt__hex_digit(s[i]);
        if (digit < 0) return 0;
        unit = unit << 4 | (unsigned)digit;
    }
    return unit;
}

/* Languages whose texts are UTF-16 write half a pair where a text was cut there: U+FFFD, as encoders
 * of UTF-8 make of it. In place; false: there was none. */
static bool mend_surrogates(char *json, size_t len) {
    bool found = false;
    for (size_t i = 0; i + 1 < len; i++) {
        if (json[i] != '\\') continue;
        unsigned unit = escaped_unit(json + i, len - i);
        if (unit < 0xd800 || unit > 0xdfff) {
            i++; /* past the escaped character, be it a backslash */
            continue;
        }
        unsigned next = unit < 0xdc00 ? escaped_unit(json + i + 6, len - i < 6 ? 0 : len - i - 6)
                                      : 0;
        bool pair = next >= 0xdc00 && next <= 0xdfff;
        if (!pair) memcpy(json + i + 2, "fffd", 4);
        found |= !pair;
        i += pair ? 11 : 5;
    }
    return found;
}

static json_t *read_mended(const char *json, size_t len, json_error_t *error) {
    json_t *v = NULL;
    char *copy = kt__malloc(len + 1);
    if (copy) {
        memcpy(copy, json, len);
        if (mend_surrogates(copy, len)) v = json_loadb(copy, len, 0, error);
    }
    kt__free(copy);
    return v;
}

static kt_status explain_error(const json_error_t *error, size_t len, kt_error *err) {
    uint64_t at = error->position < 0 ? 0 : (uint64_t)error->position;
    switch (json_error_code(error)) {
    case json_error_out_of_memory: return kt__fail_nomem(err, "a request", len);
    case json_error_null_character:
        return kt__fail_at(
            err, KT_E_FORMAT, NULL, at,
            "a text has the character U+0000 (\\u0000), which no text may have here");
    case json_error_numeric_overflow:
        return kt__fail_at(err, KT_E_FORMAT, NULL, at,
                           "a number is too large: whole ones go to 9223372036854775807, others to "
                           "1.8e308");
    default: return kt__fail_at(err, KT_E_FORMAT, NULL, at, "not JSON: %s", error->text);
    }
}

kt_status kt__json_read(const char *json, size_t len, const kt__json_limits *limits, json_t **out,
                        kt_error *err) {
    json_error_t error;
    *out = NULL;
    kt__error_clear(err);
    if (len > limits->bytes) {
        return kt__fail(err, KT_E_LIMIT, "%zu bytes of JSON; at most %zu are allowed", len,
                        limits->bytes);
    }
    if (len >= 3 && !memcmp(json, "\xef\xbb\xbf", 3)) { /* a byte-order mark says nothing here */
        json += 3;
        len -= 3;
    }
    if (json_depth(json, len) > limits->depth) {
        return kt__fail(err, KT_E_LIMIT, "the JSON nests deeper than %zu", limits->depth);
    }
    *out = json_loadb(json, len, 0, &error);
    if (!*out && json_error_code(&error) == json_error_invalid_syntax)
        *out = read_mended(json, len, &error);
    return *out ? KT_OK : explain_error(&error, len, err);
}

static int append_dumped(const char *data, size_t len, void *user) {
    return kt__buf_append(user, data, len) ? 0 : -1;
}

bool kt__json_write(kt__buf *out, const json_t *value) {
    if (json_dump_callback(value, append_dumped, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
        return true;
    out->failed = true;
    return false;
}
