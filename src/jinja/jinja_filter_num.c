/* Filters over numbers: abs, int, float, round. */
#include <math.h>
#include <string.h>

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
    KT__JTRY(kt__jx_no_args(x, "abs", args));
    *out = kt__j_float(fabs(v.u.f));
    if (v.type == KT__J_FLOAT) return KT_OK;
    *out = kt__j_int(as_int(v));
    return is_integer(v) && as_int(v) >= 0 ? KT_OK : kt__jx_negate(x, v, true, out);
}

/* ---- text to numbers ---- */

/* s without white space around it and without single underscores between digits; false: too long,
 * or an underscore elsewhere. */
static bool plain_number(const kt__jstr *s, char out[KT__J_NUM_MAX], size_t *n) {
    size_t from = 0, to = s->len, k;
    while (from < to && (k = kt__jstr_space(s->data + from, to - from)) > 0) from += k;
    while (from < to && (k = kt__jstr_space_before(s->data + from, to - from)) > 0) to -= k;
    if (to - from >= KT__J_NUM_MAX) return false;
    *n = 0;
    for (size_t i = from; i < to; i++) {
        char c = s->data[i];
        if (c != '_') {
            out[(*n)++] = c;
            continue;
        }
        if (i == from || i + 1 == to || strchr("_+-.", s->data[i - 1]) || s->data[i + 1] == '_' ||
            s->data[i + 1] == '.')
            return false;
    }
    return true;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

/* "0x", "0o" or "0b" that goes with the base; base 0 is found out from it. */
static size_t base_prefix(const char *s, size_t n, int64_t *base) {
    int64_t named = 0;
    if (n > 2 && s[0] == '0') {
        char c = s[1];
        named = c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : c == 'b' || c == 'B' ? 2 : 0;
    }
    if (*base == 0) *base = named ? named : 10;
    return named && named == *base ? 2 : 0;
}

typedef enum parsed { PARSED, NOT_A_NUMBER, OVER } parsed;

static parsed parse_int(const kt__jstr *s, int64_t base, int64_t *out) {
    char buf[KT__J_NUM_MAX];
    size_t n, at = 0;
    if (!plain_number(s, buf, &n)) return NOT_A_NUMBER;
    bool negative = n && buf[0] == '-';
    at += n && (buf[0] == '-' || buf[0] == '+');
    at += base_prefix(buf + at, n - at, &base);
    if (at == n) return NOT_A_NUMBER;
    bool over = false;
    *out = 0;
    for (; at < n; at++) {
        int d = digit_value(buf[at]);
        if (d >= base) return NOT_A_NUMBER;
        over = over || __builtin_mul_overflow(*out, base, out) ||
               (negative ? __builtin_sub_overflow(*out, d, out)
                         : __builtin_add_overflow(*out, d, out));
    }
    return over ? OVER : PARSED;
}

static bool parse_special(const char *s, size_t n, double *out) {
    bool negative = n && s[0] == '-';
    size_t sign = n && (s[0] == '-' || s[0] == '+');
    s += sign;
    n -= sign;
    if ((n == 3 && strncasecmp(s, "inf", 3) == 0) || (n == 8 && strncasecmp(s, "infinity", 8) == 0))
        *out = negative ? -INFINITY : INFINITY;
    else if (n == 3 && strncasecmp(s, "nan", 3) == 0)
        *out = NAN;
    else
        return false;
    return true;
}

static bool parse_float(const kt__jstr *s, double *out) {
    char buf[KT__J_NUM_MAX];
    size_t n;
    if (!plain_number(s, buf, &n)) return false;
    return kt__jnum_parse(buf, n, out) || parse_special(buf, n, out);
}

static kt_status float_to_int(kt__jx *x, double f, kt__jv otherwise, kt__jv *out) {
    *out = otherwise;
    if (isnan(f)) return KT_OK;
    if (!(f > -0x1p63 - 1 && f < 0x1p63)) return kt__jx_fail(x, "int: an integer over 64 bits");
    *out = kt__j_int((int64_t)f);
    return KT_OK;
}

kt_status kt__jf_int(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default", "base"};
    kt__jv slots[2], otherwise = kt__j_int(0);
    int64_t base, i;
    double f;
    KT__JTRY(kt__jx_bind(x, "int", args, names, 2, 0, slots));
    KT__JTRY(kt__jx_int(x, "int", slots[1], 10, &base));
    if (slots[0].type != KT__J_MISSING) otherwise = slots[0];
    if (base != 0 && (base < 2 || base > 36)) base = 10;
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
    parsed p = parse_int(v.u.s, base, &i);
    if (p == OVER) return kt__jx_fail(x, "int: an integer over 64 bits");
    if (p == PARSED) *out = kt__j_int(i);
    if (p == NOT_A_NUMBER && parse_float(v.u.s, &f)) return float_to_int(x, f, otherwise, out);
    return KT_OK;
}

kt_status kt__jf_float(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default"};
    kt__jv slot;
    double f;
    KT__JTRY(kt__jx_bind(x, "float", args, names, 1, 0, &slot));
    *out = slot.type == KT__J_MISSING ? kt__j_float(0) : slot;
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type == KT__J_FLOAT) *out = v;
    if (is_integer(v)) *out = kt__j_float((double)as_int(v));
    bool text = v.type == KT__J_STR || v.type == KT__J_BIGINT;
    if (text && parse_float(v.u.s, &f)) *out = kt__j_float(f);
    return KT_OK;
}

/* ---- round ---- */

static double power_of_ten(int64_t n) {
    double p = 1;
    for (int64_t i = 0; i < n && i < 400; i++) p *= 10;
    return p;
}

/* Python's round: to the nearest decimal, ties of the exact value to even. */
static double round_float(double f, int64_t precision) {
    char buf[KT__J_NUM_MAX];
    double rounded = f;
    if (!isfinite(f) || precision > 100) return f;
    if (precision < 0) {
        double p = power_of_ten(-precision);
        return nearbyint(f / p) * p;
    }
    size_t n = kt__jnum_format(f, 'f', (int)precision, false, buf);
    return kt__jnum_parse(buf, n, &rounded) ? rounded : f;
}

static int64_t round_int(int64_t i, int64_t precision) {
    if (precision >= 0) return i;
    if (precision < -18) return 0;
    int64_t p = 1;
    for (int64_t k = 0; k < -precision; k++) p *= 10;
    int64_t rest = i % p, down = i - rest;
    if (rest < 0) down -= p, rest += p;
    bool up = rest > p - rest || (rest == p - rest && (down / p) % 2 != 0);
    return up && down <= INT64_MAX - p ? down + p : down;
}

kt_status kt__jf_round(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"precision", "method"};
    static const kt__jstr common = {.data = "common", .len = 6, .n_cp = 6};
    const kt__jstr *method = &common;
    kt__jv slots[2];
    int64_t precision;
    KT__JTRY(kt__jx_bind(x, "round", args, names, 2, 0, slots));
    KT__JTRY(kt__jx_int(x, "round", slots[0], 0, &precision));
    if (slots[1].type != KT__J_MISSING) KT__JTRY(kt__jx_text(x, "round", slots[1], &method));
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type != KT__J_FLOAT && !is_integer(v))
        return kt__jx_fail(x, "round: expected a number, not %s", kt__j_type_name(v));
    if (precision > 400 || precision < -400) return kt__jx_fail(x, "round: a precision over 400");
    double f = v.type == KT__J_FLOAT ? v.u.f : (double)as_int(v);
    bool ceiling = kt__jstr_is(method, "ceil");
    if (kt__jstr_is(method, "common")) {
        *out = v.type == KT__J_FLOAT ? kt__j_float(round_float(f, precision))
                                     : kt__j_int(round_int(as_int(v), precision));
        return KT_OK;
    }
    if (!ceiling && !kt__jstr_is(method, "floor"))
        return kt__jx_fail(x, "round: the method must be common, ceil or floor");
    double p = precision < 0 ? 1 / power_of_ten(-precision) : power_of_ten(precision);
    *out = kt__j_float((ceiling ? ceil(f * p) : floor(f * p)) / p);
    return KT_OK;
}
