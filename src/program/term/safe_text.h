/* Strings of unknown origin on a terminal.
 *
 * Owns: escaping of what could move the cursor, change colours or reorder text. One thread. */
#ifndef KT_TERM_SAFE_TEXT_H
#define KT_TERM_SAFE_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

/* Appends text[len]: valid printable UTF-8 as it is; control characters, DEL, C1, line and
 * paragraph separators and bidirectional controls as \n, \t, \xNN or \u{NNNN}; bytes that are no
 * UTF-8 as \xNN; a backslash doubled. After max bytes of the source (0: no limit) it stops at a
 * character's end and adds "...". */
void kt__safe_append(kt__buf *out, const char *text, size_t len, size_t max);
/* A line of our own with names of unknown origin in it: its backslashes stay as they are. */
void kt__safe_line(FILE *out, const char *line);
/* As kt__safe_append, to a stream. */
void kt__safe_print(FILE *out, const char *text, size_t len, size_t max);

/* Characters in the cells of a terminal.
 *
 * Owns: how many cells a character takes, and how one that could steer the terminal, or that is no
 * UTF-8, is written out instead. Any thread. */

/* Bytes of the first character of s[len], len >= 1; 1 where it is no UTF-8. */
size_t kt__cell_length(const char *s, size_t len);
/* Cells that text[len] takes, as kt__cells_append writes it. */
int kt__cells_width(const char *text, size_t len);
/* Appends text[len]; what steers a terminal (newlines and tabs, too) and what is no UTF-8 is written
 * out, as \n, \x1b or \u{202e}. */
void kt__cells_append(kt__buf *out, const char *text, size_t len);

#endif
