/* Where an answer is shown.
 *
 * Owns: the choice between a terminal, which gets rendered Markdown and nothing that could steer it,
 * and a file or a program, which gets the answer's own bytes. One answer at a time; one thread. */
#ifndef KT_TERM_SCREEN_H
#define KT_TERM_SCREEN_H

#include <kentang.h>

#include "term/markdown.h"

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
