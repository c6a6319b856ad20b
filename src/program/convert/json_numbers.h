/* Numbers that Python's json reads and jansson does not: integers beyond 64 bits, NaN and Infinity.
 *
 * Owns: a JSON text with such numbers written so that jansson takes them, and which byte of the
 * original a byte of the new text was. Knows no key. Any thread. */
#ifndef KT_CONVERT_JSON_NUMBERS_H
#define KT_CONVERT_JSON_NUMBERS_H

#include <kentang.h>
#include <stddef.h>

/* Python refuses to make an integer of more digits; so does this for any number. */
enum { KT__JSON_MAX_DIGITS = 4300 };

/* Integers beyond 64 bits become reals, Infinity the largest real, NaN null. *out is NULL where the
 * text needs no change; else a heap string for kt__free. path is for messages. */
kt_status kt__json_numbers_plain(const char *text, size_t len, const char *path, char **out,
                                 size_t *out_len, kt_error *err) KT_CHECKED;
/* The byte of the original text that byte `at` of the plain one came from. */
size_t kt__json_numbers_origin(const char *text, size_t len, size_t at);

#endif
