/* Markdown as a terminal shows it, while it is still being written.
 *
 * Owns: which block a line is, emphasis and code within a line, wrapping at words by display width,
 * tables, and that nothing of the text reaches the terminal as a control: what could move the
 * cursor, change colours or reorder text is written out as an escape. Takes text in pieces of any
 * size and gives out what is decided; a line's kind is decided by its first characters, a word by
 * the blank after it, a table by the line after it. Knows nothing of files: output goes to a
 * buffer. One thread; each renderer is independent. */
#ifndef KT_TERM_MARKDOWN_H
#define KT_TERM_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef struct kt__markdown {
    int width;   /* cells in a row of the screen; may be changed between pieces */
    bool styled; /* bold, colours; else layout only */

    kt__buf pending; /* text that is not decided yet */
    size_t at;       /* in it: what is done */
    kt__buf table;   /* rows so far, each with its newline */
    int n_rows;
    int block; /* what the current line is */
    int column, indent, n_blanks;
    unsigned style, shown; /* wanted, and in force on the terminal */
    size_t code_ticks;     /* backticks that opened inline code; 0: none */
    char fence;            /* '`' or '~' within fenced code, else 0 */
    size_t fence_len;
    char before; /* last byte of the line so far, 0 at its start */
} kt__markdown;

void kt__markdown_init(kt__markdown *md, int width, bool styled);
void kt__markdown_free(kt__markdown *md);
/* Appends to out what text[len] decides. */
void kt__markdown_feed(kt__markdown *md, const char *text, size_t len, kt__buf *out);
/* The text ends: what was held back, and the end of its last line. Ready for another text. */
void kt__markdown_end(kt__markdown *md, kt__buf *out);

#endif
