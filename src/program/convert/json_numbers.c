#include "convert/json_numbers.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

#define LARGEST_REAL "1.7976931348623157e308"
enum { MAX_REAL_DIGITS = 308 };

/* A stretch [begin, end) of the text, and what is written after it or in its place. */
typedef struct odd_number {
    size_t begin, end;
    const char *text; /* what replaces the stretch */
    bool keep;        /* the stretch stays, and text comes after it */
    bool too_long;
} odd_number;

static size_t string_end(const char *s, size_t len, size_t at) {
    for (at++; at < len && s[at] != '"'; at++)
        if (s[at] == '\\') at++;
    return at < len ? at + 1 : len;
}

static size_t number_end(const char *s, size_t len, size_t at) {
    while (at < len && s[at] && strchr("0123456789+-.eE", s[at])) at++;
    return at;
}

static bool is_integer(const char *s, size_t len) {
    for (size_t i = s[0] == '-'; i < len; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return len > (size_t)(s[0] == '-');
}

/* Whether an integer of digits only needs more than 64 bits. */
static bool is_beyond_64(const char *s, size_t len) {
    bool minus = s[0] == '-';
    size_t n = len - minus;
    if (n != 19) return n > 19;
    return memcmp(s + minus, minus ? "9223372036854775808" : "9223372036854775807", 19) > 0;
}

/* The number at `at`; false: jansson takes it as it is. */
static bool read_number(const char *s, size_t at, size_t end, odd_number *out) {
    size_t n = end - at;
    *out = (odd_number){.begin = at, .end = end, .too_long = n > KT__JSON_MAX_DIGITS};
    if (out->too_long) return true;
    if (!is_integer(s + at, n) || !is_beyond_64(s + at, n)) return false;
    bool beyond = n > MAX_REAL_DIGITS;
    out->keep = !beyond;
    out->text = !beyond ? "e0" : s[at] == '-' ? "-" LARGEST_REAL : LARGEST_REAL;
    return true;
}

static bool read_word(const char *s, size_t len, size_t at, odd_number *out) {
    static const struct {
        const char *word, *text;
    } words[] = {{"NaN", "null"}, {"Infinity", LARGEST_REAL}, {"-Infinity", "-" LARGEST_REAL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (len - at < n || memcmp(s + at, words[i].word, n) != 0) continue;
        *out = (odd_number){.begin = at, .end = at + n, .text = words[i].text};
        return true;
    }
    return false;
}

/* The next number from `at` on that jansson does not take; false: none. */
static bool next_odd(const char *s, size_t len, size_t at, odd_number *out) {
    while (at < len) {
        if (s[at] == '"') {
            at = string_end(s, len, at);
        } else if (read_word(s, len, at, out)) {
            return true;
        } else if (s[at] == '-' || (s[at] >= '0' && s[at] <= '9')) {
            size_t end = number_end(s, len, at);
            if (read_number(s, at, end, out)) return true;
            at = end;
        } else {
            at++;
        }
    }
    return false;
}

kt_status kt__json_numbers_plain(const char *text, size_t len, const char *path, char **out,
                                 size_t *out_len, kt_error *err) {
    kt__buf buf;
    odd_number odd;
    size_t done = 0;
    *out = NULL;
    *out_len = 0;
    kt__buf_init(&buf, 8 * len + 64);
    while (next_odd(text, len, done, &odd)) {
        if (odd.too_long) {
            kt__buf_free(&buf);
            return kt__fail_at(err, KT_E_LIMIT, path, odd.begin,
                               "a number of %zu digits; %d are the most", odd.end - odd.begin,
                               KT__JSON_MAX_DIGITS);
        }
        kt__buf_append(&buf, text + done, (odd.keep ? odd.end : odd.begin) - done);
        kt__buf_puts(&buf, odd.text);
        done = odd.end;
    }
    if (done == 0) return KT_OK;
    kt__buf_append(&buf, text + done, len - done);
    *out = buf.failed ? NULL : kt__buf_take(&buf, out_len);
    kt__buf_free(&buf);
    return *out ? KT_OK : kt__fail_nomem(err, path, len);
}

size_t kt__json_numbers_origin(const char *text, size_t len, size_t at) {
    odd_number odd;
    size_t done = 0, plain = 0; /* the same place in both */
    while (next_odd(text, len, done, &odd) && !odd.too_long) {
        size_t kept = (odd.keep ? odd.end : odd.begin) - done, added = strlen(odd.text);
        if (at < plain + kept) break;
        plain += kept + added;
        done = odd.end;
        if (at < plain) return odd.begin;
    }
    return done + (at - plain) < len ? done + (at - plain) : len;
}
