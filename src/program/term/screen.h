/* Where an answer is shown: a terminal, which gets rendered Markdown, or a file or program, which gets its bytes.
 *
 * Owns: that choice (screen.c), and Markdown as a terminal shows it, while it is still being written (markdown.c).
 * One thread. */
#ifndef KT_TERM_SCREEN_H
#define KT_TERM_SCREEN_H

#include "base/buf.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

/* Markdown as a terminal shows it, while it is still being written.
 *
 * Which block a line is, emphasis and code within a line, wrapping at words by display width, tables, and that
 * nothing of the text reaches the terminal as a control: what could move the cursor, change colours or reorder text
 * is written out as an escape. Takes text in pieces of any size and gives out what is decided; a line's kind is
 * decided by its first characters, a word by the blank after it, a table by the line after it. Knows nothing of
 * files: output goes to a buffer. One thread; each renderer is independent. */

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

/* Where an answer is shown.
 *
 * The choice between a terminal, which gets rendered Markdown and nothing that could steer it, and a file or a
 * program, which gets the answer's own bytes. One answer at a time; one thread. */

/* What the model thinks before it answers. */
typedef enum kt__thoughts {
    KT__THOUGHTS_AUTO, /* shown on a terminal */
    KT__THOUGHTS_SHOW,
    KT__THOUGHTS_HIDE
} kt__thoughts;

typedef struct kt__screen {
    bool rendered; /* standard output is a terminal */
    bool plain;    /* there: as the model writes it, but for what steers */
    bool styled;   /* it can be dim */
    bool thoughts; /* are shown */
    bool thinking; /* the last that was shown is a thought */
    kt__markdown markdown;
    kt__buf out;
    char last; /* last byte of the answer so far; 0: none */
} kt__screen;

/* plain: no Markdown on a terminal either. */
void kt__screen_open(kt__screen *screen, bool plain, kt__thoughts thoughts);
void kt__screen_close(kt__screen *screen);
/* false: standard output takes no more. */
bool kt__screen_write(kt__screen *screen, const char *text, size_t len);
/* A piece of an answer: what is thought is dim, a blank line before the answer, or not shown. */
bool kt__screen_write_part(kt__screen *screen, const kt_part *part);
/* The answer ends; a terminal's last line, too. The next may begin. Returns the answer's last
 * byte. */
char kt__screen_end_answer(kt__screen *screen);

#endif
