/* Texts: UTF-8, Base64, and how near two names are.
 *
 * Owns: UTF-8 by the Unicode standard's table 3-7 (no overlong forms, no surrogates, at most U+10FFFF): decoding,
 * encoding, the length of an incomplete tail, which characters a terminal obeys; Base64 (RFC 4648) to bytes; the
 * nearest known name to a mistyped one. Any thread. */
#ifndef KT_BASE_TEXT_H
#define KT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Decodes one character of s[len], len >= 1. Returns its length 1..4, or 0 where s does not begin a
 * valid character (invalid or incomplete). */
size_t kt__utf8_decode(const char *s, size_t len, uint32_t *cp);
/* Writes cp (valid) to out; returns 1..4. */
size_t kt__utf8_encode(uint32_t cp, char out[4]);
/* Bytes at the end of s[len] that begin a valid but incomplete character: 0..3. */
size_t kt__utf8_incomplete_tail(const char *s, size_t len);

/* What could move a terminal's cursor, change its colours or reorder its text: C0 and C1 controls,
 * DEL, line and paragraph separators, bidirectional controls, the byte order mark. */
bool kt__utf8_steers_terminal(uint32_t cp);

/* How a text ends.
 *
 * Owns: the comparison of a text's last bytes. Any thread. */

/* A text that is its end alone does, too. */
static inline bool kt__ends_with(const char *s, size_t len, const char *end) {
    size_t n = strlen(end);
    return len >= n && memcmp(s + len - n, end, n) == 0;
}

/* Texts whose ASCII letters may be large or small.
 *
 * Owns: strcasecmp and strncasecmp as the C locale has them, whatever the user's. Any thread. */

int kt__strcasecmp(const char *a, const char *b);
int kt__strncasecmp(const char *a, const char *b, size_t n);

/* text[len], with or without '=' at its end, into out[3 / 4 of its length + 3]; returns how many bytes. *bad: the first
 * character that is not base64, or SIZE_MAX. */
size_t kt__base64_decode(const char *text, size_t len, char *out, size_t *bad);

/* Edits (insert, delete, replace, swap of neighbours; Damerau-Levenshtein, optimal string
 * alignment, case ignored) between a[a_len] and b. Names over 63 bytes are cut. */
size_t kt__name_distance(const char *a, size_t a_len, const char *b);
/* The name of names[n] that name[len] was probably meant to be; NULL when none is close. */
const char *kt__nearest_name(const char *name, size_t len, const char *const *names, size_t n);

#endif
