/* Looking at text that has not all arrived.
 *
 * Owns: matching a literal whose blanks mean any white space, and following a JSON text byte by
 * byte to its end. Any thread. */
#ifndef KT_CALLS_SCAN_H
#define KT_CALLS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can be said of a text so far: KT__SCAN_MORE: it depends on what follows. */
typedef enum kt__scan { KT__SCAN_NO, KT__SCAN_MORE, KT__SCAN_YES } kt__scan;

/* The unread part of an answer; ended: nothing follows. */
typedef struct kt__span {
    const char *s;
    size_t n;
    bool ended;
} kt__span;

/* White space of JSON. */
static inline bool kt__is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
static inline size_t kt__blanks_at_start(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && kt__is_blank(s[i])) i++;
    return i;
}
static inline size_t kt__blanks_at_end(const char *s, size_t n) {
    size_t i = n;
    while (i > 0 && kt__is_blank(s[i - 1])) i--;
    return n - i;
}
/* literal (NULL: nothing) at *at, which is moved after it. */
kt__scan kt__scan_literal(const kt__span *span, const char *literal, size_t *at);
/* The same, byte for byte. */
kt__scan kt__scan_exact(const kt__span *span, const char *literal, size_t *at);
/* Moves *at over white space; MORE where the text ends in it. */
kt__scan kt__scan_blanks(const kt__span *span, size_t *at);

/* A JSON value, byte by byte. Nesting to 128. */
enum { KT__JSCAN_DEPTH = 128 };
typedef struct kt__jscan {
    uint8_t state, hex;
    uint16_t depth;
    uint64_t arrays[KT__JSCAN_DEPTH / 64]; /* bit d: the container at depth d is an array */
    char word[6];                          /* of a literal: what is still to come */
} kt__jscan;

void kt__jscan_start(kt__jscan *scan);
/* MORE: the byte belongs to the value. YES: the value is whole with it. NO: it may not be here;
 * for a number, the value may have been whole before it: kt__jscan_whole. */
kt__scan kt__jscan_byte(kt__jscan *scan, char c);
bool kt__jscan_whole(const kt__jscan *scan);
/* A whole value at *at, which is moved after it. */
kt__scan kt__jscan_value(const kt__span *span, size_t *at);

#endif
