/* Regular expressions in the dialect of ECMA-262, as terms.
 *
 * Owns: reading a pattern (Unicode mode; groups, classes, properties by general category, counted
 * and lazy repetition, anchors, look-ahead) and what in it cannot be expressed: back-references,
 * look-behind, word boundaries, look-ahead inside an unbounded repetition. One user at a time. */
#ifndef KT_GRAMMAR_REGEX_H
#define KT_GRAMMAR_REGEX_H

#include "grammar/term.h"

enum { KT__REGEX_MAX_BYTES = 65536, KT__REGEX_WHY = 120 };

/* The texts that pattern[len] (UTF-8) matches: as a whole, or anywhere in them. KT_E_FORMAT: it is
 * no pattern; KT_E_UNSUPPORTED: it cannot be expressed; KT_E_LIMIT: too long, or the pool is full;
 * why says what and at which byte. */
kt_status KT_CHECKED kt__regex_term(kt__terms *t, const char *pattern, size_t len, bool whole,
                                    kt__gid *out, char why[KT__REGEX_WHY]);

#endif
