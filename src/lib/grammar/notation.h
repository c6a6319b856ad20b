/* Notations for sets of texts, read as terms (term.h).
 *
 * Owns: character classes, regular expressions and GBNF grammars: reading them, and the refusal of what cannot be
 * expressed. One user at a time. */
#ifndef KT_GRAMMAR_NOTATION_H
#define KT_GRAMMAR_NOTATION_H

#include "grammar/term.h"

/* Sets of code points: what a character class of a pattern or grammar names. Union, complement and the classes that
 * patterns know by name; the term that reads one such character as UTF-8. A set is kept as ascending ranges with gaps
 * between them. */

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

/* Regular expressions in the dialect of ECMA-262: Unicode mode; groups, classes, properties by general category,
 * counted and lazy repetition, anchors, look-ahead. Refused: back-references, look-behind, word boundaries,
 * look-ahead inside an unbounded repetition. */

enum { KT__REGEX_MAX_BYTES = 65536, KT__REGEX_WHY = 120 };

/* The texts that pattern[len] (UTF-8) matches: as a whole, or anywhere in them. KT_E_FORMAT: it is
 * no pattern; KT_E_UNSUPPORTED: it cannot be expressed; KT_E_LIMIT: too long, or the pool is full;
 * why says what and at which byte. */
kt_status KT_CHECKED kt__regex_term(kt__terms *t, const char *pattern, size_t len, bool whole,
                                    kt__gid *out, char why[KT__REGEX_WHY]);

/* GBNF: literals, character classes, alternatives, groups, * + ? {n,m}, comments; the rule `root` is the whole.
 * Refused is what cannot be read from left to right: rules that are not defined, that begin with themselves or that
 * fit no text. */

enum { KT__GBNF_MAX_BYTES = 1 << 20, KT__GBNF_MAX_RULES = 10000, KT__GBNF_WHY = 160 };

/* Sets t's rules; t has none yet. *root: the term of `root`, which is rule 0. KT_E_FORMAT: it is no
 * grammar; KT_E_UNSUPPORTED: left recursion; KT_E_LIMIT; KT_E_NOMEM. why says what and where. */
kt_status KT_CHECKED kt__gbnf_read(kt__terms *t, const char *text, size_t len, kt__gid *root,
                                   char why[KT__GBNF_WHY]);

#endif
