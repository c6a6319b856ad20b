/* Where an answer is shown.
 *
 * Owns: the choice between a terminal, which gets rendered Markdown and nothing that could steer it,
 * and a file or a program, which gets the answer's own bytes. One answer at a time; one thread. */
#ifndef KT_CLI_SCREEN_H
#define KT_CLI_SCREEN_H

#include "cli/markdown.h"

typedef struct kt__screen {
    bool rendered; /* standard output is a terminal */
    bool plain;    /* there: as the model writes it, but for what steers */
    kt__markdown markdown;
    kt__buf out;
    char last; /* last byte of the answer so far; 0: none */
} kt__screen;

/* plain: no Markdown on a terminal either. */
void kt__screen_open(kt__screen *screen, bool plain);
void kt__screen_close(kt__screen *screen);
/* false: standard output takes no more. */
bool kt__screen_write(kt__screen *screen, const char *text, size_t len);
/* The answer ends; a terminal's last line, too. The next may begin. Returns the answer's last
 * byte. */
char kt__screen_end_answer(kt__screen *screen);

#endif
