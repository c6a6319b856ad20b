#include "jinja/json.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "jinja/jinja_text.h"

typedef struct reader {
    kt__json_in in;
    kt__arena *arena;
    int nest;
    kt_error *err;
} reader;

static kt_status bad_json(reader *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, "JSON", r->in.at, "not JSON: %s", what);
}

static kt_status no_memory(reader *r) {
    return kt__fail(r->err, KT_E_NOMEM,
                    "JSON of %zu bytes: no memory, or over the rendering's limit", r->in.len);
}

static kt_status read_string(reader *r, kt__jv *out) {
    kt__json_raw raw;
    if (!kt__json_in_string(&r->in, &raw)) return bad_json(r, r->in.fault);
    if (raw.escaped) {
        char *data = kt__arena_alloc_aligned(r->arena, raw.len, 1);
        if (!data) return no_memory(r);
        raw.len = kt__json_unescape(&raw, data);
        raw.s = data;
    }
    const kt__jstr *s = kt__jstr_new(r->arena, raw.s, raw.len, false);
    if (!s) return no_memory(r);
    *out = kt__j_str(s);
    return KT_OK;
}

/* ---- numbers ---- */

static kt_status json_integer_of(reader *r, size_t from, kt__jv *out) {
    bool negative = r->in.text[from] == '-';
    int64_t value = 0;
    for (size_t i = from + negative; i < r->in.at; i++) {
        int d = r->in.text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            (negative ? __builtin_sub_overflow(value, d, &value)
                      : __builtin_add_overflow(value, d, &value))) {
            const kt__jstr *s = kt__jstr_new(r->arena, r->in.text + from, r->in.at - from, false);
            if (!s) return no_memory(r);
            *out = (kt__jv){.type = KT__J_BIGINT, .u.s = s};
            return KT_OK;
        }
    }
    *out = kt__j_int(value);
    return KT_OK;
}

static kt_status read_number(reader *r, kt__jv *out) {
    size_t from = r->in.at;
    bool is_float;
    double f;
    if (!kt__json_in_number(&r->in, &is_float)) return bad_json(r, r->in.fault);
    if (!is_float) return json_integer_of(r, from, out);
    if (!kt__jnum_parse(r->in.text + from, r->in.at - from, &f))
        return bad_json(r, "a number is too long");
    *out = kt__j_float(f);
    return KT_OK;
}

/* ---- values ---- */

static kt_status read_value(reader *r, kt__jv *out);

static kt_status read_array(reader *r, kt__jv *out) {
    kt__jlist *list = kt__jlist_new(r->arena, KT__JL_LIST, 0);
    if (!list) return no_memory(r);
    *out = kt__j_list(list);
    kt__json_in_blanks(&r->in);
    if (kt__json_in_take(&r->in, ']')) return KT_OK;
    for (;;) {
        kt__jv item;
        kt_status status = read_value(r, &item);
        if (status != KT_OK) return status;
        if (!kt__jlist_push(r->arena, list, item)) return no_memory(r);
        if (kt__json_in_take(&r->in, ']')) return KT_OK;
        if (!kt__json_in_take(&r->in, ',')) return bad_json(r, "expected ',' or ']'");
    }
}

static kt_status read_member(reader *r, kt__jdict *dict) {
    kt__jv key, value;
    uint64_t steps = UINT64_MAX; /* text keys: nothing to count */
    kt__json_in_blanks(&r->in);
    if (!kt__json_in_take(&r->in, '"')) return bad_json(r, "expected a member's name in quotes");
    kt_status status = read_string(r, &key);
    if (status != KT_OK) return status;
    kt__json_in_blanks(&r->in);
    if (!kt__json_in_take(&r->in, ':')) return bad_json(r, "expected ':'");
    status = read_value(r, &value);
    if (status != KT_OK) return status;
    if (kt__jdict_set(r->arena, dict, key, value, &steps) == KT__JKEY_NOMEM) return no_memory(r);
    return KT_OK;
}

static kt_status read_object(reader *r, kt__jv *out) {
    kt__jdict *dict = kt__jdict_new(r->arena);
    if (!dict) return no_memory(r);
    *out = kt__j_dict(dict);
    kt__json_in_blanks(&r->in);
    if (kt__json_in_take(&r->in, '}')) return KT_OK;
    for (;;) {
        kt_status status = read_member(r, dict);
        if (status != KT_OK) return status;
        if (kt__json_in_take(&r->in, '}')) return KT_OK;
        if (!kt__json_in_take(&r->in, ',')) return bad_json(r, "expected ',' or '}'");
    }
}

static kt_status read_nested(reader *r, kt__jv *out) {
    if (++r->nest > KT__JSON_MAX_NEST)
        return kt__fail_at(r->err, KT_E_LIMIT, "JSON", r->in.at, "nested deeper than %d",
                           KT__JSON_MAX_NEST);
    kt_status status = r->in.text[r->in.at++] == '[' ? read_array(r, out) : read_object(r, out);
    r->nest--;
    return status;
}

/* One value and the white space on both sides of it. */
static kt_status read_value(reader *r, kt__jv *out) {
    kt_status status = KT_OK;
    kt__json_in_blanks(&r->in);
    char c = kt__json_in_peek(&r->in);
    if (c == '[' || c == '{')
        status = read_nested(r, out);
    else if (kt__json_in_take(&r->in, '"'))
        status = read_string(r, out);
    else if (kt__json_in_word(&r->in, "true"))
        *out = kt__j_bool(true);
    else if (kt__json_in_word(&r->in, "false"))
        *out = kt__j_bool(false);
    else if (kt__json_in_word(&r->in, "null"))
        *out = kt__j_none();
    else
        status = read_number(r, out);
    kt__json_in_blanks(&r->in);
    return status;
}

kt_status kt__json_parse(kt__arena *arena, const char *text, size_t len, kt__jv *out,
                         kt_error *err) {
    reader r = {.in = {.text = text, .len = len}, .arena = arena, .err = err};
    kt_status status = read_value(&r, out);
    if (status == KT_OK && r.in.at < len) status = bad_json(&r, "unexpected text after the value");
    return status;
}
