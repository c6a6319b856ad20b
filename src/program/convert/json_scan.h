/* JSON read where it lies, without a tree of it: for lists of hundreds of thousands.
 *
 * Owns: one pass over a text that it changes: a string is unescaped and ended with a NUL in its own
 * place, so that it lives as long as the text. What it takes is what jansson takes: valid UTF-8, no
 * control characters, no NUL. Knows nothing of what a file means. One thread. */
#ifndef KT_CONVERT_JSON_SCAN_H
#define KT_CONVERT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "gguf/gguf.h"

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
