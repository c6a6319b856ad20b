/* How a text ends.
 *
 * Owns: the comparison of a text's last bytes. Any thread. */
#ifndef KT_BASE_ENDING_H
#define KT_BASE_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A text that is its end alone does, too. */
static inline bool kt__ends_with(const char *s, size_t len, const char *end) {
    size_t n = strlen(end);
    return len >= n && memcmp(s + len - n, end, n) == 0;
}

#endif
