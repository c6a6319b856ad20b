#include "base/text.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

/* ---- UTF-8 ---- */

/* Length of the character that `lead` begins and the range of its second byte; 0 for no valid lead.
 */
static size_t lead_info(unsigned char lead, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0;
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0) *low = 0xa0;
        if (lead == 0xed) *high = 0x9f;
        return 3;
    }
    if (lead > 0xf4) return 0;
    if (lead == 0xf0) *low = 0x90;
    if (lead == 0xf4) *high = 0x8f;
    return 4;
}

/* How many bytes of s[len] fit the character that s[0] begins, up to its length in *need. */
static size_t valid_prefix(const char *s, size_t len, size_t *need) {
    const unsigned char *u = (const unsigned char *)s;
    unsigned char low, high;
    size_t n = 1;
    *need = lead_info(u[0], &low, &high);
    while (n < *need && n < len && u[n] >= low && u[n] <= high) {
        low = 0x80;
        high = 0xbf;
        n++;
    }
    return n;
}

size_t kt__utf8_decode(const char *s, size_t len, uint32_t *cp) {
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *u = (const unsigned char *)s;
    size_t need;
    if (valid_prefix(s, len, &need) != need) return 0;
    uint32_t value = u[0] & mask[need];
    for (size_t i = 1; i < need; i++) value = value << 6 | (u[i] & 0x3fu);
    *cp = value;
    return need;
}

size_t kt__utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const unsigned lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80u | (cp & 0x3fu));
        cp >>= 6;
    }
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t kt__utf8_incomplete_tail(const char *s, size_t len) {
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)s[len - back];
        if (c < 0x80) return 0;
        if (c < 0xc0) continue;
        size_t need;
        size_t have = valid_prefix(s + len - back, back, &need);
        return need > back && have == back ? back : 0;
    }
    return 0;
}

bool kt__utf8_steers_terminal(uint32_t cp) {
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || cp == 0x200e ||
           cp == 0x200f || (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
           cp == 0x061c || cp == 0xfeff;
}

/* ---- Base64 ---- */

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t kt__base64_decode(const char *text, size_t len, char *out, size_t *bad) {
    size_t n = 0;
    uint32_t bits = 0;
    while (len && text[len - 1] == '=') len--;
    *bad = SIZE_MAX;
    for (size_t i = 0; i < len && *bad == SIZE_MAX; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0) *bad = i;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 0) out[n++] = (char)(bits >> (i % 4 == 1 ? 4 : i % 4 == 2 ? 2 : 0) & 0xff);
    }
    return n;
}

/* ---- the nearest name ---- */

enum { MAX_NAME = 63 };

static size_t min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static int lower_case(char c) {
    return tolower((unsigned char)c);
}

/* What a letter too many or too few costs: nothing where it only separates words. */
static size_t cost_of(char c) {
    return c != '-' && c != '_';
}

size_t kt__name_distance(const char *a, size_t a_len, const char *b) {
    size_t b_len = strlen(b);
    if (a_len > MAX_NAME) a_len = MAX_NAME;
    if (b_len > MAX_NAME) b_len = MAX_NAME;
    size_t rows[3][MAX_NAME + 1]; /* the row being filled, the last and the one before */
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    last[0] = 0;
    for (size_t j = 1; j <= b_len; j++) last[j] = last[j - 1] + cost_of(b[j - 1]);
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = last[0] + cost_of(a[i - 1]);
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = lower_case(a[i - 1]) != lower_case(b[j - 1]);
            row[j] = min3(last[j] + cost_of(a[i - 1]), row[j - 1] + cost_of(b[j - 1]),
                          last[j - 1] + replaced);
            if (i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                lower_case(a[i - 2]) == lower_case(b[j - 1]) && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        size_t *spare = before;
        before = last, last = row, row = spare;
    }
    return last[b_len];
}

const char *kt__nearest_name(const char *name, size_t len, const char *const *names, size_t n) {
    const char *best = NULL;
    size_t best_distance = len < 8 ? 1 : len / 4; /* more edits make another word of it */
    for (size_t i = 0; i < n; i++) {
        if (len >= 3 && strncmp(names[i], name, len) == 0) return names[i];
        size_t distance = kt__name_distance(name, len, names[i]);
        if (distance < best_distance || (!best && distance == best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

/* ---- large and small letters ---- */

static int small_letter(unsigned char c) {
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

int kt__strncasecmp(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int x = small_letter((unsigned char)a[i]), y = small_letter((unsigned char)b[i]);
        if (x != y || !x) return x - y;
    }
    return 0;
}

int kt__strcasecmp(const char *a, const char *b) {
    return kt__strncasecmp(a, b, SIZE_MAX);
}
