/* The state of a text that is to become one JSON object (RFC 8259), byte by byte.
 *
 * Owns: the automaton by which JSON answers are checked before a token is drawn. Plain data: a copy
 * tries what a token would do. Text outside the object is refused, except for a little white space;
 * runs of white space are bounded, so that an answer cannot idle. Any thread. */
#ifndef KT_SAMPLE_JSON_STATE_H
#define KT_SAMPLE_JSON_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KT__JSON_DEPTH = 64, KT__JSON_SPACES = 24 };

typedef struct kt__json_state {
    uint64_t is_array; /* bit d: the container at depth d + 1 is an array */
    uint8_t depth, where, count, spaces;
    uint8_t low, high; /* what the next byte of a character may be */
    const char *rest;  /* of a literal */
} kt__json_state;

void kt__json_state_init(kt__json_state *state);
/* The text may continue with bytes[n]; false: it may not, and the state must not be used any
 * more. */
bool kt__json_state_feed(kt__json_state *state, const char *bytes, size_t n);
bool kt__json_state_done(const kt__json_state *state); /* the object is closed */

typedef enum kt__json_place {
    KT__JSON_OUTSIDE,
    KT__JSON_IN_STRING, /* of a key or a value, between two characters */
    KT__JSON_IN_CHARACTER
} kt__json_place;
kt__json_place kt__json_state_place(const kt__json_state *state);

#endif
