/* Endless repetition: an answer that says the same over and over.
 *
 * Owns: how many tokens at the end of an answer repeat what stood one period before, for each
 * period up to KT__LOOP_PERIOD. By the tokens alone, so that it says the same of the same answer
 * however it was computed. Knows no text. One user at a time; no allocation. */
#ifndef KT_SAMPLE_LOOP_H
#define KT_SAMPLE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KT__LOOP_PERIOD = 256, /* tokens that repeat, at most */
    KT__LOOP_TIMES = 4,    /* that they are after each other, at least */
    KT__LOOP_LEAST = 16    /* the smallest limit that tells a loop from a list */
};

typedef struct kt__loop {
    int32_t
        limit;  /* tokens that the repetition fills, with its first time; 0: none is looked for */
    uint32_t n; /* tokens seen */
    int32_t last[KT__LOOP_PERIOD];     /* token i at i mod KT__LOOP_PERIOD */
    int32_t same[KT__LOOP_PERIOD + 1]; /* [p]: tokens at the end that equal those p before them */
} kt__loop;

void kt__loop_init(kt__loop *loop, int32_t limit);
/* The answer's next token; true: it is in a loop now. */
bool kt__loop_push(kt__loop *loop, int32_t id);

#endif
