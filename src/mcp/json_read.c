#include "mcp/json_read.h"

#include <string.h>

#include "base/error.h"

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
    if (*out) return KT_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return kt__fail_nomem(err, "a request", len);
    return kt__fail_at(err, KT_E_FORMAT, NULL, error.position < 0 ? 0 : (uint64_t)error.position,
                       "not JSON: %s", error.text);
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
