/* Arbitrary bytes in arbitrary pieces: the framer's lines are those that a plain split gives, or
 * are reported as too long. */
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LINE = 64 };

/* The next line of data[*at..size) and whether it is kept. */
static bool expected(const char *data, size_t size, size_t *at, const char **line, size_t *len) {
    const char *newline = memchr(data + *at, '\n', size - *at);
    *line = data + *at;
    *len = newline ? (size_t)(newline - *line) : size - *at;
    *at += *len + (newline ? 1 : 0);
    if (*len > MAX_LINE) return false;
    if (*len && (*line)[*len - 1] == '\r') --*len;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    kt__framer f;
    if (size < 1) return 0;
    size_t step = bytes[0] % 37u + 1, at = 0;
    const char *data = (const char *)bytes + 1, *line, *right;
    size_t len, right_len, used;
    size--;
    kt__framer_init(&f, MAX_LINE);
    for (size_t i = 0; i < size; i += step) {
        size_t n = size - i < step ? size - i : step;
        for (size_t k = 0; k < n; k += used) {
            kt__frame got = kt__framer_next(&f, data + i + k, n - k, &used, &line, &len);
            if (!used) __builtin_trap();
            if (got != KT__FRAME_LINE) continue;
            while (!expected(data, size, &at, &right, &right_len)) {
            }
            if (len != right_len || memcmp(line, right, len) != 0) __builtin_trap();
        }
    }
    (void)kt__framer_end(&f, &line, &len);
    kt__framer_free(&f);
    return 0;
}
