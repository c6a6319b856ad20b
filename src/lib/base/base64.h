/* Base64 (RFC 4648) to bytes.
 *
 * Owns: that alone. Any thread. */
#ifndef KT_BASE_BASE64_H
#define KT_BASE_BASE64_H

#include <stddef.h>

/* text[len], with or without '=' at its end, into out[3 / 4 of its length + 3]; returns how many bytes. *bad: the first
 * character that is not base64, or SIZE_MAX. */
size_t kt__base64_decode(const char *text, size_t len, char *out, size_t *bad);

#endif
