/* What ends an answer besides the model, as its text and tokens come: stop strings and endless repetition.
 *
 * Owns: byte patterns searched for at once in a stream, what of a text is held back for them, and how many tokens at
 * the end of an answer repeat. One user at a time; no allocation after creation. */
#ifndef KT_SAMPLE_STOPS_H
#define KT_SAMPLE_STOPS_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

/* Many byte patterns searched for at once (Aho and Corasick 1975). The automaton is immutable once made, so any
 * thread may step through it; the state, one number, belongs to the caller and starts at 0. */

typedef struct kt__match kt__match;

enum { KT__MATCH_MAX_BYTES = 65536 }; /* all patterns together */

/* patterns[n]: none empty (the caller's error to report). n = 0 matches nothing. */
kt_status KT_CHECKED kt__match_create(const char *const *patterns, size_t n, kt__match **out,
                                      kt_error *err);
void kt__match_free(kt__match *match);

uint32_t kt__match_step(const kt__match *match, uint32_t state, uint8_t byte);
/* Length of the longest end of the input that begins some pattern. */
size_t kt__match_depth(const kt__match *match, uint32_t state);
/* The longest pattern that ends here: its index (the first of equal ones), or -1. */
int kt__match_found(const kt__match *match, uint32_t state);
size_t kt__match_found_len(const kt__match *match, uint32_t state); /* its length; 0 if none */
size_t kt__match_longest(const kt__match *match); /* length of the longest pattern */

/* Stop strings, across token boundaries. Text that could still become a stop string is held back, all other text is
 * released at once; a stop string itself is never released. The first stop to be complete ends the text; of several
 * that complete at the same byte, the longest. Fed with whole UTF-8 characters it releases whole characters. */

typedef struct kt__stops kt__stops;

/* Released text, in order: part[0], then part[1]; either may be empty. Valid until the next call,
 * part[1] as long as the bytes that were pushed. */
typedef struct kt__stops_text {
    const char *part[2];
    size_t len[2];
    int stop; /* index of the stop string that ended the text, or -1 */
} kt__stops_text;

enum { KT__STOPS_MAX = 1024 }; /* strings */

/* stop[n] is copied. KT_E_ARG for an empty one or one that is not UTF-8; KT_E_LIMIT for too many.
 */
kt_status KT_CHECKED kt__stops_create(const char *const *stop, size_t n, kt__stops **out,
                                      kt_error *err);
void kt__stops_free(kt__stops *stops);

/* After a stop was reported nothing more is released. */
kt__stops_text kt__stops_push(kt__stops *stops, const char *bytes, size_t len);
/* The end of the text: releases what was held back. */
kt__stops_text kt__stops_flush(kt__stops *stops);

/* Endless repetition: how many tokens at the end of an answer repeat those one period before, for each period up to
 * KT__LOOP_PERIOD. By the tokens alone, so that it says the same of the same answer however it was computed. */

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
