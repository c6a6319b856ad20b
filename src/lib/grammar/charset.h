/* Sets of code points: what a character class of a pattern or grammar names.
 *
 * Owns: union, complement and the classes that patterns know by name; the term that reads one such
 * character as UTF-8. A set is kept as ascending ranges with gaps between them. One user at a time.
 */
#ifndef KT_GRAMMAR_CHARSET_H
#define KT_GRAMMAR_CHARSET_H

#include "grammar/term.h"

enum { KT__CHARSET_MAX = 1500 }; /* ranges; the general categories of Unicode have at most 700 */

typedef struct kt__charset {
    uint32_t n;
    bool failed; /* more ranges than fit */
    uint32_t ranges[2 * KT__CHARSET_MAX];
} kt__charset;

void kt__charset_add(kt__charset *set, uint32_t low, uint32_t high); /* in any order */
void kt__charset_add_set(kt__charset *set, const kt__charset *other);
void kt__charset_invert(kt__charset *set);
/* Puts in order what was added; the others expect it so. */
void kt__charset_normalize(kt__charset *set);
/* d, w, s of ECMA-262, and D, W, S. */
bool kt__charset_add_escape(kt__charset *set, char name);
/* "L", "Lu", "Letter", "Script=..." is not known: false. */
bool kt__charset_add_property(kt__charset *set, const char *name, size_t len);
kt__gid kt__charset_term(kt__terms *t, const kt__charset *set);

#endif
