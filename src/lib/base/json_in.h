/* JSON, read: the words of the language (RFC 8259), for readers that make values of their own.
 *
 * Owns: white space, strings with their escapes, numbers and names as they are written, strictly,
 * and what is wrong at which byte. Knows no values, no nesting, no memory. Any thread; one text,
 * one thread. */
#ifndef KT_BASE_JSON_IN_H
#define KT_BASE_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
