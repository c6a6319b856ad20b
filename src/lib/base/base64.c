#include "base/base64.h"

#include <stdint.h>
#include <string.h>

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
