#include "grammar/schema.h"

#include <string.h>

enum { MAX_EXP = 100000 };

typedef unsigned __int128 wide;

static void strip_zeros(kt__decimal *a) {
    size_t lead = 0;
    while (lead < a->n && a->d[lead] == 0) lead++;
    memmove(a->d, a->d + lead, a->n - lead);
    a->n = (uint8_t)(a->n - lead);
    while (a->n > 0 && a->d[a->n - 1] == 0) {
        a->n--;
        a->exp++;
    }
    if (a->n == 0) *a = (kt__decimal){0};
}

static bool add_digit(kt__decimal *a, uint8_t digit, bool fraction) {
    if (a->n == 0 && digit == 0) {
        a->exp -= fraction;
        return true;
    }
    if (a->n == KT__DEC_DIGITS) return false;
    a->d[a->n++] = digit;
    a->exp -= fraction;
    return true;
}

static bool parse_exponent(const char *s, size_t len, kt__decimal *out) {
    int32_t e = 0;
    size_t i = 0;
    bool negative = len > 0 && s[0] == '-';
    if (len > 0 && (s[0] == '-' || s[0] == '+')) i++;
    for (; i < len; i++) {
        if (e < MAX_EXP) e = e * 10 + (s[i] - '0');
    }
    if (e >= MAX_EXP && out->n > 0) return false;
    out->exp += negative ? -e : e;
    return true;
}

bool kt__decimal_parse(const char *s, size_t len, kt__decimal *out) {
    bool fraction = false;
    size_t i = 0;
    *out = (kt__decimal){0};
    if (len > 0 && s[0] == '-') {
        out->negative = true;
        i++;
    }
    for (; i < len && s[i] != 'e' && s[i] != 'E'; i++) {
        if (s[i] == '.')
            fraction = true;
        else if (!add_digit(out, (uint8_t)(s[i] - '0'), fraction))
            return false;
    }
    if (i < len && !parse_exponent(s + i + 1, len - i - 1, out)) return false;
    strip_zeros(out);
    return true;
}

int32_t kt__decimal_top(const kt__decimal *a) {
    return a->n == 0 ? INT32_MIN : a->exp + a->n;
}

static int compare_magnitude(const kt__decimal *a, const kt__decimal *b) {
    int32_t x = kt__decimal_top(a), y = kt__decimal_top(b);
    if (x != y) return x < y ? -1 : 1;
    size_t n = a->n < b->n ? a->n : b->n;
    int c = memcmp(a->d, b->d, n);
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

int kt__decimal_compare(const kt__decimal *a, const kt__decimal *b) {
    bool x = a->negative && a->n, y = b->negative && b->n;
    if (x != y) return x ? -1 : 1;
    return x ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool kt__decimal_is_integer(const kt__decimal *a) {
    return a->n == 0 || a->exp >= 0;
}

bool kt__decimal_step_from(const kt__decimal *a, kt__decimal_step *out) {
    if (a->n == 0 || a->n > 18 || a->negative) return false;
    *out = (kt__decimal_step){.exp = a->exp};
    for (size_t i = 0; i < a->n; i++) out->unit = out->unit * 10 + a->d[i];
    return true;
}

/* Digits, then zeros up to exp, modulo m; m * 10 fits. */
static wide remainder_of(const kt__decimal *a, int32_t zeros, wide m) {
    wide r = 0;
    for (size_t i = 0; i < a->n; i++) r = (r * 10 + a->d[i]) % m;
    for (int32_t i = 0; i < zeros && r; i++) r = r * 10 % m;
    return r;
}

int kt__decimal_is_multiple(const kt__decimal *a, const kt__decimal_step *step) {
    if (a->n == 0) return 1;
    int32_t shift = a->exp - step->exp;
    if (shift >= 0) return shift > 4000 ? -1 : remainder_of(a, shift, step->unit) == 0;
    wide m = step->unit;
    for (; shift < 0; shift++) {
        if (m > (wide)1 << 120) return -1;
        m *= 10;
    }
    return remainder_of(a, 0, m) == 0;
}
