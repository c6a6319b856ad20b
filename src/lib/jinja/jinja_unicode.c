#include "jinja/jinja_text.h"

#include <string.h>
#include <utf8proc.h>

#include "base/text.h"

/* The white space of str.isspace: 29 characters. */
static bool is_space(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

size_t kt__jstr_space(const char *s, size_t len) {
    uint32_t cp;
    size_t n = len ? kt__utf8_decode(s, len, &cp) : 0;
    return n && is_space(cp) ? n : 0;
}

size_t kt__jstr_space_before(const char *s, size_t len) {
    if (!len) return 0;
    size_t at = len - 1;
    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80) at--;
    return kt__jstr_space(s + at, len - at);
}

size_t kt__jstr_line_end(const char *s, size_t len) {
    uint32_t cp;
    size_t n = len ? kt__utf8_decode(s, len, &cp) : 0;
    if (!n) return 0;
    if (cp == '\r') return len > 1 && s[1] == '\n' ? 2 : 1;
    bool ends = (cp >= 10 && cp <= 12) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 ||
                cp == 0x2028 || cp == 0x2029;
    return ends ? n : 0;
}

typedef struct special_case {
    uint32_t cp, upper[3], title[3];
} special_case;

static const special_case special_cases[] = {
#include "jinja/jinja_case.inc"
};

static const special_case *find_special(uint32_t cp) {
    size_t lo = 0, hi = sizeof special_cases / sizeof *special_cases;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (special_cases[mid].cp == cp) return &special_cases[mid];
        if (special_cases[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static size_t copy_special(const uint32_t from[3], uint32_t out[3]) {
    memcpy(out, from, 3 * sizeof *out);
    return from[2] ? 3 : from[1] ? 2 : 1;
}

size_t kt__j_upper(uint32_t cp, uint32_t out[3]) {
    const special_case *special = cp < 0x80 ? NULL : find_special(cp);
    if (special) return copy_special(special->upper, out);
    out[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
    return 1;
}

size_t kt__j_title(uint32_t cp, uint32_t out[3]) {
    const special_case *special = cp < 0x80 ? NULL : find_special(cp);
    if (special) return copy_special(special->title, out);
    out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
    return 1;
}

size_t kt__j_lower(uint32_t cp, uint32_t out[3]) {
    if (cp == 0x130) { /* I with a dot: the one whose lower case is two characters */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

static utf8proc_category_t category_of(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

static bool is_lower_case(uint32_t cp) {
    return category_of(cp) == UTF8PROC_CATEGORY_LL || cp == 0xaa || cp == 0xba;
}

static bool is_upper_case(uint32_t cp) {
    utf8proc_category_t c = category_of(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT;
}

bool kt__j_is_cased(uint32_t cp) {
    return is_upper_case(cp) || is_lower_case(cp);
}

bool kt__j_is_case_ignorable(uint32_t cp) {
    switch (category_of(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default:
        return cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x2018 || cp == 0x2019;
    }
}

bool kt__j_is_alpha(uint32_t cp) {
    utf8proc_category_t c = category_of(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool kt__j_is_digit(uint32_t cp) {
    return category_of(cp) == UTF8PROC_CATEGORY_ND;
}

bool kt__j_is_printable(uint32_t cp) {
    if (cp == ' ') return true;
    switch (category_of(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}
