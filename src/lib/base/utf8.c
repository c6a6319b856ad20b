#include "base/utf8.h"

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
