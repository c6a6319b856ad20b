/* Grammars in GBNF, as terms.
 *
 * Owns: reading rules (literals, character classes, alternatives, groups, * + ? {n,m}, comments;
 * the rule `root` is the whole), and the refusal of what cannot be read from left to right: rules
 * that are not defined, that begin with themselves or that fit no text. One user at a time. */
#ifndef KT_GRAMMAR_GBNF_H
#define KT_GRAMMAR_GBNF_H

#include "grammar/term.h"

enum { KT__GBNF_MAX_BYTES = 1 << 20, KT__GBNF_MAX_RULES = 10000, KT__GBNF_WHY = 160 };

/* Sets t's rules; t has none yet. *root: the term of `root`, which is rule 0. KT_E_FORMAT: it is no
 * grammar; KT_E_UNSUPPORTED: left recursion; KT_E_LIMIT; KT_E_NOMEM. why says what and where. */
kt_status KT_CHECKED kt__gbnf_read(kt__terms *t, const char *text, size_t len, kt__gid *root,
                                   char why[KT__GBNF_WHY]);

#endif
