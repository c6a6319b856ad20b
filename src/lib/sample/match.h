/* Many byte patterns searched for at once in a stream (Aho and Corasick 1975).
 *
 * Owns: the automaton. Immutable once made, so any thread may step through it; the state, one
 * number, belongs to the caller and starts at 0. */
#ifndef KT_SAMPLE_MATCH_H
#define KT_SAMPLE_MATCH_H

#include <kentang.h>

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

#endif
