#include "jinja/jinja_num.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C locale for one conversion: strtod and printf would take the host program's decimal comma.
 */
typedef struct c_locale {
    locale_t mine, before;
} c_locale;

static c_locale enter_c_locale(void) {
    c_locale l = {.mine = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (l.mine) l.before = uselocale(l.mine);
    return l;
}

static void leave_c_locale(c_locale l) {
    if (!l.mine) return;
    uselocale(l.before);
    freelocale(l.mine);
}

static size_t skip_digits(const char *s, size_t len, size_t at) {
    while (at < len && s[at] >= '0' && s[at] <= '9') at++;
    return at;
}

/* [sign] (digits [. [digits]] | . digits) [e [sign] digits] */
static bool is_float_text(const char *s, size_t len) {
    size_t at = len && (s[0] == '-' || s[0] == '+');
    size_t whole = skip_digits(s, len, at), end = whole;
    if (end < len && s[end] == '.') end = skip_digits(s, len, end + 1);
    size_t n_digits = whole - at + (end > whole ? end - whole - 1 : 0);
    if (n_digits == 0) return false;
    if (end < len && (s[end] == 'e' || s[end] == 'E')) {
        size_t exp = end + 1;
        if (exp < len && (s[exp] == '-' || s[exp] == '+')) exp++;
        end = skip_digits(s, len, exp);
        if (end == exp) return false;
    }
    return end == len;
}

bool kt__jnum_parse(const char *text, size_t len, double *out) {
    char buf[KT__J_NUM_MAX];
    if (len >= sizeof buf || !is_float_text(text, len)) return false;
    memcpy(buf, text, len);
    buf[len] = '\0';
    c_locale l = enter_c_locale();
    *out = strtod(buf, NULL);
    leave_c_locale(l);
    return true;
}

static size_t special_text(double f, char *out) {
    const char *text = isnan(f) ? "nan" : f > 0 ? "inf" : "-inf";
    strcpy(out, text);
    return strlen(text);
}

/* The fewest significant digits that read back as f, as "d.ddde[+-]dd", zeros at their end aside.
 * Fifteen digits mean themselves in every float that is not subnormal. */
static void shortest_digits(double f, char *buf, size_t size) {
    c_locale l = enter_c_locale();
    for (int digits = fabs(f) >= DBL_MIN ? 15 : 1; digits <= 17; digits++) {
        snprintf(buf, size, "%.*e", digits - 1, f);
        if (strtod(buf, NULL) == f) break;
    }
    leave_c_locale(l);
}

/* Places the digits as repr does: a decimal point within 16 places, else an exponent. */
size_t kt__jnum_repr(double f, char out[40]) {
    if (!isfinite(f)) return special_text(f, out);
    char buf[40], digits[24];
    shortest_digits(f, buf, sizeof buf);
    char *mark = strchr(buf, 'e');
    int exponent = (int)strtol(mark + 1, NULL, 10), n = 0;
    for (char *p = buf; p < mark; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = '\0';
    const char *sign = buf[0] == '-' ? "-" : "";
    int len;
    if (exponent < -4 || exponent >= 16)
        len = snprintf(out, 40, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                       exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        len = snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    else if (n <= exponent + 1)
        len = snprintf(out, 40, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    else
        len = snprintf(out, 40, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    return len < 0 ? 0 : (size_t)len;
}
