/* JSON, written into a buffer.
 *
 * Owns: the escaping of strings, and the members of an object. Knows nothing of their meaning. A
 * refused append shows in the buffer's `failed`. Any thread; one buffer, one thread. */
#ifndef KT_BASE_JSON_OUT_H
#define KT_BASE_JSON_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* How strings are written. KT__JSON_PLAIN is what JSON.stringify writes: quotes, backslashes and
 * controls below U+0020 are escaped, all else is kept. */
typedef enum kt__json_style {
    KT__JSON_PLAIN = 0,
    KT__JSON_ASCII = 1,   /* everything above U+007E escaped, beyond U+FFFF as a surrogate pair */
    KT__JSON_TERMINAL = 2 /* also what kt__utf8_steers_terminal names */
} kt__json_style;

/* The escape of one character, NUL-terminated, into out; its length, or 0 where the character is
 * for itself. */
size_t kt__json_escape(char out[16], uint32_t cp, kt__json_style style);

/* s[len] without quotes. A broken sequence becomes one U+FFFD for each maximal part of a character,
 * as the Unicode standard recommends (section 3.9). */
void kt__json_chars(kt__buf *out, const char *s, size_t len, kt__json_style style);
/* s[len] in quotes. */
void kt__json_string(kt__buf *out, const char *s, size_t len, kt__json_style style);
/* The C string s in quotes, KT__JSON_PLAIN; NULL is "". */
void kt__json_text(kt__buf *out, const char *s);

/* "key": with a comma before it unless it is the first of its object. */
void kt__json_key(kt__buf *out, const char *key);
/* "key":"text", with the same comma; NULL is "". */
void kt__json_member(kt__buf *out, const char *key, const char *text);

#endif
