/* Filters over numbers: abs, int, float. */
#include <math.h>

#include "jinja/jinja_filter.h"
#include "jinja/jinja_num.h"
#include "jinja/jinja_unicode.h"

static bool is_integer(kt__jv v) {
    return v.type == KT__J_INT || v.type == KT__J_BOOL;
}

static int64_t as_int(kt__jv v) {
    return v.type == KT__J_BOOL ? v.u.b : v.u.i;
}

kt_status kt__jf_abs(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    KT__STEP(kt__jx_no_args(x, "abs", args));
    *out = kt__j_float(fabs(v.u.f));
    if (v.type == KT__J_FLOAT) return KT_OK;
    *out = kt__j_int(as_int(v));
    return is_integer(v) && as_int(v) >= 0 ? KT_OK : kt__jx_negate(x, v, true, out);
}

/* ---- text to numbers ---- */

/* s without white space around it; false: too long. */
static bool trim_number(const kt__jstr *s, const char **text, size_t *n) {
    size_t from = 0, to = s->len, k;
    while (from < to && (k = kt__jstr_space(s->data + from, to - from)) > 0) from += k;
    while (from < to && (k = kt__jstr_space_before(s->data + from, to - from)) > 0) to -= k;
    *text = s->data + from;
    *n = to - from;
    return *n < KT__J_NUM_MAX;
}

typedef enum parsed { PARSED, NOT_A_NUMBER, OVER } parsed;

/* [sign] digits */
static parsed parse_int(const kt__jstr *s, int64_t *out) {
    const char *text;
    size_t n;
    if (!trim_number(s, &text, &n)) return NOT_A_NUMBER;
    bool negative = n && text[0] == '-', over = false;
    size_t at = n && (text[0] == '-' || text[0] == '+');
    *out = 0;
    if (at == n) return NOT_A_NUMBER;
    for (; at < n; at++) {
        int digit = text[at] - '0';
        if (digit < 0 || digit > 9) return NOT_A_NUMBER;
        over = over || __builtin_mul_overflow(*out, 10, out) ||
               (negative ? __builtin_sub_overflow(*out, digit, out)
                         : __builtin_add_overflow(*out, digit, out));
    }
    return over ? OVER : PARSED;
}

static bool parse_float(const kt__jstr *s, double *out) {
    const char *text;
    size_t n;
    return trim_number(s, &text, &n) && kt__jnum_parse(text, n, out);
}

static kt_status float_to_int(kt__jx *x, double f, kt__jv otherwise, kt__jv *out) {
    *out = otherwise;
    if (isnan(f)) return KT_OK;
    if (!(f > -0x1p63 - 1 && f < 0x1p63)) return kt__jx_fail(x, "int: an integer over 64 bits");
    *out = kt__j_int((int64_t)f);
    return KT_OK;
}

kt_status kt__jf_int(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default"};
    kt__jv slot, otherwise = kt__j_int(0);
    int64_t i;
    double f;
    KT__STEP(kt__jx_bind(x, "int", args, names, 1, 0, &slot));
    if (slot.type != KT__J_MISSING) otherwise = slot;
    *out = otherwise;
    switch (v.type) {
    case KT__J_UNDEF: return kt__jx_undefined(x, v);
    case KT__J_BIGINT: *out = v; return KT_OK;
    case KT__J_BOOL:
    case KT__J_INT: *out = kt__j_int(as_int(v)); return KT_OK;
    case KT__J_FLOAT: return float_to_int(x, v.u.f, otherwise, out);
    case KT__J_STR: break;
    default: return KT_OK;
    }
    parsed p = parse_int(v.u.s, &i);
    if (p == OVER) return kt__jx_fail(x, "int: an integer over 64 bits");
    if (p == PARSED) *out = kt__j_int(i);
    if (p == NOT_A_NUMBER && parse_float(v.u.s, &f)) return float_to_int(x, f, otherwise, out);
    return KT_OK;
}

kt_status kt__jf_float(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default"};
    kt__jv slot;
    double f;
    KT__STEP(kt__jx_bind(x, "float", args, names, 1, 0, &slot));
    *out = slot.type == KT__J_MISSING ? kt__j_float(0) : slot;
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type == KT__J_FLOAT) *out = v;
    if (is_integer(v)) *out = kt__j_float((double)as_int(v));
    bool text = v.type == KT__J_STR || v.type == KT__J_BIGINT;
    if (text && parse_float(v.u.s, &f)) *out = kt__j_float(f);
    return KT_OK;
}
