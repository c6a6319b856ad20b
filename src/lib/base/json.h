/* JSON, read: the one reader of the library (RFC 8259).
 *
 * Owns: the words of the language, for readers that make values of their own (the templates' values, the server's
 * subjects), and a tree with the way back from each value to its place in the text. Strict: what is wrong is said
 * with its byte; member names are unique; numbers keep their digits. Any thread; one text, one thread. */
#ifndef KT_BASE_JSON_H
#define KT_BASE_JSON_H

#include "base/alloc.h"
#include "base/buf.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words: white space, strings with their escapes, numbers and names as they are written. No values, no nesting, no
 * memory. */

/* After a call that returned false: at is the byte, fault says what is wrong there. */
typedef struct kt__json_in {
    const char *text;
    size_t len, at;
    const char *fault;
} kt__json_in;

/* A string as it is written, without its quotes: UTF-8, and every escape is known. */
typedef struct kt__json_raw {
    const char *s;
    size_t len;
    bool escaped;
} kt__json_raw;

void kt__json_in_blanks(kt__json_in *in);
/* The byte that comes; '\0' at the end. */
char kt__json_in_peek(const kt__json_in *in);
bool kt__json_in_take(kt__json_in *in, char c);
bool kt__json_in_word(kt__json_in *in, const char *word);
/* After the opening quote, past the closing one. */
bool kt__json_in_string(kt__json_in *in, kt__json_raw *out);
/* Past a number's digits, which begin where it began. */
bool kt__json_in_number(kt__json_in *in, bool *is_float);

/* The string's bytes into out[raw->len]; returns how many they are. */
size_t kt__json_unescape(const kt__json_raw *raw, char *out);

/* JSON, written into a buffer.
 *
 * Owns: the escaping of strings, and the members of an object. Knows nothing of their meaning. A
 * refused append shows in the buffer's `failed`. Any thread; one buffer, one thread. */

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

/* The tree: within stated limits, with members by name and JSON pointers both ways. Does not write JSON. */

enum { KT__JDOC_MAX_DEPTH = 128, KT__JDOC_MAX_BYTES = 4 << 20 };

typedef enum kt__json_type {
    KT__JSON_NULL,
    KT__JSON_FALSE,
    KT__JSON_TRUE,
    KT__JSON_NUMBER,
    KT__JSON_STRING,
    KT__JSON_ARRAY,
    KT__JSON_OBJECT
} kt__json_type;

typedef struct kt__json_node {
    kt__json_type type;
    uint32_t index;  /* among its siblings */
    uint32_t schema; /* of the compiler that reads it; 0 at first */
    uint32_t n;      /* kids; bytes of a string (decoded) or a number (as written) */
    const char *s;
    const char *key; /* NULL in an array */
    uint32_t key_len;
    struct kt__json_node *parent, *first, *next;
    struct kt__json_node **sorted; /* [n] an object's members by name */
} kt__json_node;

/* KT_E_FORMAT with the byte where it is not JSON; KT_E_LIMIT where it is too long or too deep. The
 * tree lies in the arena. */
kt_status KT_CHECKED kt__jdoc_parse(kt__arena *arena, const char *text, size_t len,
                                    kt__json_node **out, kt_error *err);
kt__json_node *kt__jdoc_member(const kt__json_node *object, const char *name,
                               size_t len); /* or NULL */
/* The value at a pointer's text below root ("/a/0"), percent signs decoded; NULL: none there. */
kt__json_node *kt__jdoc_at(kt__json_node *root, const char *pointer, size_t len);
/* The pointer of a node, cut to cap - 1 bytes. */
void kt__jdoc_pointer(const kt__json_node *node, char *out, size_t cap);
bool kt__jdoc_is(const kt__json_node *node, const char *text); /* a string of this text */

#endif
