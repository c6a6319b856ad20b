/* Values as Python and the Gemma family write them, turned into JSON while they come.
 *
 * Owns: strings in either quote (also three of them, or in the format's own), numbers, True, False
 * and None as well as JSON's words, lists, tuples, dictionaries, and the arguments of a call. Where
 * models are known to be careless it is lenient: quotes inside a string that cannot be its end,
 * commas before an end. One user at a time. */
#ifndef KT_CALLS_LITERAL_H
#define KT_CALLS_LITERAL_H

#include "base/buf.h"
#include "calls/scan.h"

typedef enum kt__lit_mode {
    KT__LIT_VALUE, /* one value; ends with the text */
    KT__LIT_ARGS,  /* a=1, b="x" up to the closing parenthesis */
    KT__LIT_BODY   /* k:v, .. up to the closing brace */
} kt__lit_mode;

enum { KT__LIT_DEPTH = 64 };

typedef struct kt__literal {
    kt__lit_mode mode;
    const char *quote; /* the format's own quote, or NULL */
    uint8_t state, depth;
    bool is_key;                 /* the string that is being read is a key */
    char closers[KT__LIT_DEPTH]; /* of open containers */
    const char *delim;           /* of the string that is being read */
    bool raw;                    /* nothing is escaped in it */
} kt__literal;

void kt__literal_start(kt__literal *lit, kt__lit_mode mode, const char *quote, kt__buf *out);
/* Reads on from *at and appends JSON to out. YES: it is whole, *at is after it; MORE: as far as the
 * text goes; NO: it cannot continue at *at. */
kt__scan kt__literal_read(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out);

#endif
