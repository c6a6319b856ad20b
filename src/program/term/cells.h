/* Characters in the cells of a terminal.
 *
 * Owns: how many cells a character takes, and how one that could steer the terminal, or that is no
 * UTF-8, is written out instead. Any thread. */
#ifndef KT_TERM_CELLS_H
#define KT_TERM_CELLS_H

#include <stddef.h>

#include "base/buf.h"

/* Bytes of the first character of s[len], len >= 1; 1 where it is no UTF-8. */
size_t kt__cell_length(const char *s, size_t len);
/* Cells that text[len] takes, as kt__cells_append writes it. */
int kt__cells_width(const char *text, size_t len);
/* Appends text[len]; what steers a terminal (newlines and tabs, too) and what is no UTF-8 is written
 * out, as \n, \x1b or \u{202e}. */
void kt__cells_append(kt__buf *out, const char *text, size_t len);

#endif
