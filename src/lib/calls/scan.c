#include "calls/scan.h"

#include <string.h>

kt__scan kt__scan_blanks(const kt__span *span, size_t *at) {
    while (*at < span->n && kt__is_blank(span->s[*at])) ++*at;
    return *at < span->n || span->ended ? KT__SCAN_YES : KT__SCAN_MORE;
}

kt__scan kt__scan_literal(const kt__span *span, const char *literal, size_t *at) {
    size_t i = *at;
    for (const char *l = literal ? literal : ""; *l;) {
        if (kt__is_blank(*l)) {
            while (kt__is_blank(*l)) l++;
            if (kt__scan_blanks(span, &i) == KT__SCAN_MORE) return KT__SCAN_MORE;
            continue;
        }
        if (i == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
        if (span->s[i++] != *l++) return KT__SCAN_NO;
    }
    *at = i;
    return KT__SCAN_YES;
}

kt__scan kt__scan_exact(const kt__span *span, const char *literal, size_t *at) {
    size_t have = span->n - *at, want = literal ? strlen(literal) : 0;
    size_t n = have < want ? have : want;
    if (n > 0 && memcmp(span->s + *at, literal, n) != 0) return KT__SCAN_NO;
    if (have < want) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    *at += want;
    return KT__SCAN_YES;
}

/* ---- JSON ---- */

enum {
    J_VALUE,
    J_VALUE_OR_END, /* after [ */
    J_KEY_OR_END,   /* after { */
    J_KEY,
    J_COLON,
    J_AFTER,
    J_STRING,
    J_KEY_STRING,
    J_ESCAPE,
    J_KEY_ESCAPE,
    J_WORD,
    /* numbers, in the order of their parts */
    J_SIGN,
    J_ZERO,
    J_DIGITS,
    J_POINT,
    J_FRACTION,
    J_E,
    J_E_SIGN,
    J_EXPONENT,
    J_DONE
};

void kt__jscan_start(kt__jscan *j) {
    memset(j, 0, sizeof *j);
}

static bool in_array(const kt__jscan *j) {
    unsigned d = j->depth - 1u;
    return j->arrays[d / 64] >> (d % 64) & 1;
}

/* A value ended. */
static kt__scan value_ended(kt__jscan *j) {
    j->state = j->depth > 0 ? J_AFTER : J_DONE;
    return j->depth > 0 ? KT__SCAN_MORE : KT__SCAN_YES;
}

static kt__scan open_container(kt__jscan *j, bool array) {
    if (j->depth == KT__JSCAN_DEPTH) return KT__SCAN_NO;
    uint64_t bit = UINT64_C(1) << (j->depth % 64), *word = &j->arrays[j->depth / 64];
    *word = array ? *word | bit : *word & ~bit;
    j->depth++;
    j->state = array ? J_VALUE_OR_END : J_KEY_OR_END;
    return KT__SCAN_MORE;
}

static kt__scan close_container(kt__jscan *j, char c) {
    if (j->depth == 0 || in_array(j) != (c == ']')) return KT__SCAN_NO;
    j->depth--;
    return value_ended(j);
}

static kt__scan begin_word(kt__jscan *j, const char *rest) {
    strcpy(j->word, rest);
    j->state = J_WORD;
    return KT__SCAN_MORE;
}

static kt__scan begin_value(kt__jscan *j, char c) {
    switch (c) {
    case '{': return open_container(j, false);
    case '[': return open_container(j, true);
    case '"': j->state = J_STRING; return KT__SCAN_MORE;
    case 't': return begin_word(j, "rue");
    case 'f': return begin_word(j, "alse");
    case 'n': return begin_word(j, "ull");
    case '-': j->state = J_SIGN; return KT__SCAN_MORE;
    case '0': j->state = J_ZERO; return KT__SCAN_MORE;
    default: break;
    }
    if (c < '1' || c > '9') return KT__SCAN_NO;
    j->state = J_DIGITS;
    return KT__SCAN_MORE;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static kt__scan string_byte(kt__jscan *j, char c) {
    bool key = j->state == J_KEY_STRING || j->state == J_KEY_ESCAPE;
    if (j->hex > 0) {
        j->hex--;
        return is_hex(c) ? KT__SCAN_MORE : KT__SCAN_NO;
    }
    if (j->state == J_ESCAPE || j->state == J_KEY_ESCAPE) {
        j->hex = c == 'u' ? 4 : 0;
        j->state = key ? J_KEY_STRING : J_STRING;
        return c && strchr("\"\\/bfnrtu", c) ? KT__SCAN_MORE : KT__SCAN_NO;
    }
    if ((unsigned char)c < 0x20) return KT__SCAN_NO;
    if (c == '\\') j->state = key ? J_KEY_ESCAPE : J_ESCAPE;
    if (c != '"') return KT__SCAN_MORE;
    if (!key) return value_ended(j);
    j->state = J_COLON;
    return KT__SCAN_MORE;
}

/* The state of a number after c, or J_DONE where it does not belong to it. */
static uint8_t number_next(uint8_t state, char c) {
    bool digit = c >= '0' && c <= '9';
    bool may_point = state == J_ZERO || state == J_DIGITS;
    if (state == J_SIGN) return c == '0' ? J_ZERO : digit ? J_DIGITS : J_DONE;
    if (digit && state == J_DIGITS) return J_DIGITS;
    if (digit && (state == J_POINT || state == J_FRACTION)) return J_FRACTION;
    if (digit && state >= J_E) return J_EXPONENT;
    if (c == '.' && may_point) return J_POINT;
    if ((c | 32) == 'e' && (may_point || state == J_FRACTION)) return J_E;
    if ((c == '+' || c == '-') && state == J_E) return J_E_SIGN;
    return J_DONE;
}

static bool number_whole(uint8_t state) {
    return state == J_ZERO || state == J_DIGITS || state == J_FRACTION || state == J_EXPONENT;
}

static kt__scan between_byte(kt__jscan *j, char c) {
    if (c == '}' || c == ']') return close_container(j, c);
    if (c != ',' || j->depth == 0) return KT__SCAN_NO;
    j->state = in_array(j) ? J_VALUE : J_KEY;
    return KT__SCAN_MORE;
}

static kt__scan number_byte(kt__jscan *j, char c) {
    uint8_t next = number_next(j->state, c);
    if (next != J_DONE) {
        j->state = next;
        return KT__SCAN_MORE;
    }
    if (!number_whole(j->state) || j->depth == 0) return KT__SCAN_NO;
    j->state = J_AFTER;
    return kt__is_blank(c) ? KT__SCAN_MORE : between_byte(j, c);
}

static kt__scan word_byte(kt__jscan *j, char c) {
    if (j->word[0] != c) return KT__SCAN_NO;
    memmove(j->word, j->word + 1, sizeof j->word - 1);
    return j->word[0] ? KT__SCAN_MORE : value_ended(j);
}

kt__scan kt__jscan_byte(kt__jscan *j, char c) {
    if (j->state == J_STRING || j->state == J_KEY_STRING || j->state == J_ESCAPE ||
        j->state == J_KEY_ESCAPE)
        return string_byte(j, c);
    if (j->state == J_WORD) return word_byte(j, c);
    if (j->state >= J_SIGN && j->state <= J_EXPONENT) return number_byte(j, c);
    if (j->state == J_DONE) return KT__SCAN_NO;
    if (kt__is_blank(c)) return KT__SCAN_MORE;
    switch (j->state) {
    case J_VALUE: return begin_value(j, c);
    case J_VALUE_OR_END: return c == ']' ? close_container(j, c) : begin_value(j, c);
    case J_KEY_OR_END:
        if (c == '}') return close_container(j, c);
        /* fallthrough */
    case J_KEY: j->state = J_KEY_STRING; return c == '"' ? KT__SCAN_MORE : KT__SCAN_NO;
    case J_COLON: j->state = J_VALUE; return c == ':' ? KT__SCAN_MORE : KT__SCAN_NO;
    default: return between_byte(j, c);
    }
}

bool kt__jscan_whole(const kt__jscan *j) {
    return j->state == J_DONE || (j->depth == 0 && number_whole(j->state));
}

kt__scan kt__jscan_value(const kt__span *span, size_t *at) {
    kt__jscan j;
    kt__jscan_start(&j);
    for (size_t i = *at; i < span->n; i++) {
        kt__scan r = kt__jscan_byte(&j, span->s[i]);
        if (r == KT__SCAN_MORE) continue;
        bool number = r == KT__SCAN_NO && kt__jscan_whole(&j);
        if (r == KT__SCAN_NO && !number) return KT__SCAN_NO;
        *at = number ? i : i + 1;
        return KT__SCAN_YES;
    }
    if (!span->ended) return KT__SCAN_MORE;
    if (!kt__jscan_whole(&j)) return KT__SCAN_NO;
    *at = span->n;
    return KT__SCAN_YES;
}
