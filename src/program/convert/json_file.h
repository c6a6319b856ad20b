/* JSON files of a model folder.
 *
 * Owns: reading a small file whole, parsing it as Python does (json_file.h; of equal keys the
 * last counts), and the errors that name file and byte. Knows no key. Any thread; what it returns belongs to the caller
 * (json_decref, kt__free). */
#ifndef KT_CONVERT_JSON_FILE_H
#define KT_CONVERT_JSON_FILE_H

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

/* A link that leads out of its folder is refused, but for one into the blobs of the hub cache that the folder is a
 * snapshot of. */
kt_status kt__folder_check_link(const char *path, kt_error *err) KT_CHECKED;
/* A regular file of at most max bytes, NUL-terminated, for kt__free. An absent file that is not
 * required gives NULL and KT_OK. */
kt_status kt__folder_read_file(const char *path, size_t max, bool required, char **text,
                               size_t *len, kt_error *err) KT_CHECKED;
/* The file as a JSON object; *out is NULL where it is absent and not required. */
kt_status kt__folder_read_json(const char *path, size_t max, bool required, json_t **out,
                               kt_error *err) KT_CHECKED;
/* A JSON object from memory; path is for messages. */
kt_status kt__folder_parse_json(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err) KT_CHECKED;
/* The same, of at most max bytes and no more values than these may have. */
kt_status kt__folder_parse_bounded(const char *text, size_t len, size_t max, const char *path,
                                   json_t **out, kt_error *err) KT_CHECKED;
/* The file as a list of at most max_items modules; *out is NULL where it is absent. */
kt_status kt__folder_read_list(const char *path, size_t max, size_t max_items, json_t **out,
                               kt_error *err) KT_CHECKED;
/* "DIR/NAME" in a heap string for kt__free; NULL: no memory. */
char *kt__folder_path(const char *dir, const char *name);

/* Numbers that Python's json reads and jansson does not: integers beyond 64 bits, NaN and Infinity.
 *
 * Owns: a JSON text with such numbers written so that jansson takes them, and which byte of the
 * original a byte of the new text was. Knows no key. Any thread. */

/* Python refuses to make an integer of more digits; so does this for any number. */
enum { KT__JSON_MAX_DIGITS = 4300 };

/* Integers beyond 64 bits become reals, Infinity the largest real, NaN null. *out is NULL where the
 * text needs no change; else a heap string for kt__free. path is for messages. */
kt_status kt__json_numbers_plain(const char *text, size_t len, const char *path, char **out,
                                 size_t *out_len, kt_error *err) KT_CHECKED;
/* The byte of the original text that byte `at` of the plain one came from. */
size_t kt__json_numbers_origin(const char *text, size_t len, size_t at);

/* JSON read where it lies, without a tree of it: for lists of hundreds of thousands.
 *
 * Owns: one pass over a text that it changes: a string is unescaped and ended with a NUL in its own
 * place, so that it lives as long as the text. Strings and numbers are base/json.h's; what it takes
 * is what jansson takes: valid UTF-8, no control characters, no NUL. Knows nothing of what a file
 * means. One thread. */

typedef struct kt__json_scan {
    char *at, *end;    /* *end is NUL */
    const char *wrong; /* what is expected at `at`; NULL: nothing is wrong */
} kt__json_scan;

/* The next character that is no space; 0: the end. */
char kt__json_scan_peek(kt__json_scan *scan);
/* Past '{' or '['. Like all that follow: false, and `wrong`, where something else is there. */
bool kt__json_scan_enter(kt__json_scan *scan, char open);
/* Before each member: past the comma, and true; false: past the end `close`, or wrong. n: members
 * before. */
bool kt__json_scan_more(kt__json_scan *scan, char close, size_t n);
bool kt__json_scan_text(kt__json_scan *scan, kt__str *out);
/* A text and the colon after it. */
bool kt__json_scan_key(kt__json_scan *scan, kt__str *out);
/* whole: it is written as an integer. */
bool kt__json_scan_number(kt__json_scan *scan, double *out, bool *whole);
/* A whole number from 0 to 2^63 - 1. */
bool kt__json_scan_size(kt__json_scan *scan, uint64_t *out);
/* Past any value, of which only strings and brackets are looked at; nothing changes. */
bool kt__json_scan_skip(kt__json_scan *scan);
/* Valid UTF-8 without a NUL. */
bool kt__json_scan_is_text(kt__str text);

#endif
