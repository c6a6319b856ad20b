#include "wire/wire_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "mcp/rpc.h"

kt_status kt__wire_parse(const char *json, size_t len, json_t **out, kt_error *err) {
    const kt__json_limits limits = {KT__WIRE_MAX_BYTES, KT__WIRE_MAX_DEPTH};
    return kt__json_read(json, len, &limits, out, err);
}

/* ---- places: a path is built from the stack, and written out only for an error ---- */

static size_t path_write(const kt__wire_reader *r, const kt__wire_place *at, char *out,
                         size_t size) {
    size_t len = at->up ? path_write(r, at->up, out, size)
                        : (size_t)snprintf(out, size, "%s", r->prefix ? r->prefix : "");
    if (len >= size) return size;
    int n = at->key ? snprintf(out + len, size - len, "%s%s", len ? "." : "", at->key)
                    : snprintf(out + len, size - len, "[%zu]", at->index);
    return len + (size_t)(n > 0 ? n : 0);
}

char *kt__wire_path(const kt__wire_reader *r, const kt__wire_place *at) {
    char path[sizeof((kt_error *)0)->where];
    (void)path_write(r, at, path, sizeof path);
    return kt__arena_strndup(r->arena, path, strlen(path));
}

kt_status kt__wire_fail_at(const kt__wire_reader *r, kt_status code, const kt__wire_place *at,
                           const char *fmt, ...) {
    char path[sizeof((kt_error *)0)->where], text[sizeof((kt_error *)0)->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)path_write(r, at, path, sizeof path);
    return kt__fail_at(r->err, code, path, UINT64_MAX, "%s: %s", path, text);
}

kt_status kt__wire_fail_nomem(const kt__wire_reader *r) {
    return kt__fail_nomem(r->err, "a request", r->arena->used_bytes);
}

const char *kt__wire_type_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

kt_status kt__wire_fail_type(const kt__wire_reader *r, const kt__wire_place *at,
                             const char *expected, const json_t *found) {
    return kt__wire_fail_at(r, KT_E_ARG, at, "expected %s, got %s", expected,
                            kt__wire_type_name(found));
}

json_t *kt__wire_member(const json_t *object, const char *key) {
    json_t *v = json_object_get(object, key);
    return v && !json_is_null(v) ? v : NULL;
}

bool kt__wire_is_empty(const json_t *v) {
    return (json_is_array(v) && !json_array_size(v)) ||
           (json_is_object(v) && !json_object_size(v)) ||
           (json_is_string(v) && !json_string_length(v)) || json_is_false(v);
}

/* ---- single values ---- */

kt_status kt__wire_read_number(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                               double low, double high, double *out) {
    if (!json_is_number(v)) return kt__wire_fail_type(r, at, "a number", v);
    double x = json_number_value(v);
    if (!(x >= low && x <= high)) {
        return kt__wire_fail_at(r, KT_E_ARG, at, "expected a number from %g to %g, got %g", low,
                                high, x);
    }
    *out = x;
    return KT_OK;
}

/* 40.0 is as good as 40: some languages have no integers. */
kt_status kt__wire_read_int(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                            int64_t low, int64_t high, int64_t *out) {
    if (!json_is_number(v)) return kt__wire_fail_type(r, at, "a whole number", v);
    double x = json_number_value(v);
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
    } else if (x == floor(x) && fabs(x) <= 0x1p53) {
        *out = (int64_t)x;
    } else {
        return kt__wire_fail_at(r, KT_E_ARG, at, "expected a whole number, got %g", x);
    }
    if (*out >= low && *out <= high) return KT_OK;
    return kt__wire_fail_at(r, KT_E_ARG, at, "expected a whole number from %lld to %lld, got %lld",
                            (long long)low, (long long)high, (long long)*out);
}

kt_status kt__wire_read_bool(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                             bool *out) {
    if (!json_is_boolean(v)) return kt__wire_fail_type(r, at, "true or false", v);
    *out = json_is_true(v);
    return KT_OK;
}

kt_status kt__wire_read_string(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                               char **out, size_t *len) {
    if (!json_is_string(v)) return kt__wire_fail_type(r, at, "a string", v);
    size_t n = json_string_length(v);
    *out = kt__arena_strndup(r->arena, json_string_value(v), n);
    if (len) *len = n;
    return *out ? KT_OK : kt__wire_fail_nomem(r);
}

kt_status kt__wire_read_text(const kt__wire_reader *r, const json_t *body, const char *key,
                             const char **out) {
    kt__wire_place at = {.key = key};
    json_t *v = kt__wire_member(body, key);
    char *text;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_string(r, &at, v, &text, NULL);
    if (status == KT_OK) *out = text;
    return status;
}

kt_status kt__wire_read_strings(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                                size_t max, const char *const **out, size_t *n_out) {
    bool one = json_is_string(v);
    if (!one && !json_is_array(v))
        return kt__wire_fail_type(r, at, "a string or an array of strings", v);
    size_t n = one ? 1 : json_array_size(v);
    if (n > max) {
        return kt__wire_fail_at(r, KT_E_LIMIT, at, "%zu strings; at most %zu are allowed", n, max);
    }
    char **list = kt__arena_calloc(r->arena, n + 1, sizeof *list);
    if (!list) return kt__wire_fail_nomem(r);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        kt__wire_place item = {.up = at, .index = i};
        size_t len = 0;
        kt_status status = kt__wire_read_string(r, one ? at : &item, one ? v : json_array_get(v, i),
                                                &list[kept], &len);
        if (status != KT_OK) return status;
        if (len) kept++;
    }
    *out = (const char *const *)list;
    *n_out = kept;
    return KT_OK;
}

kt_status kt__wire_note(const kt__wire_reader *r, const kt__wire_place *at, const char *format,
                        ...) {
    char what[160];
    va_list args;
    const char *before = r->request->notes, *path = kt__wire_path(r, at);
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!path) return kt__wire_fail_nomem(r);
    size_t size = (before ? strlen(before) + 1 : 0) + strlen(path) + strlen(what) + 3;
    char *notes = kt__arena_calloc(r->arena, size, 1);
    if (!notes) return kt__wire_fail_nomem(r);
    snprintf(notes, size, "%s%s%s: %s", before ? before : "", before ? "\n" : "", path, what);
    r->request->notes = notes;
    return KT_OK;
}
