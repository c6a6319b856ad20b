/* Which texts a call may be.
 *
 * Owns: the description (grammar/grammar_impl.h) of an answer's calls in the format of a style: names of
 * the allowed tools, arguments by each tool's schema, as many calls as may be. What it takes, the
 * parser reads as calls. Any thread. */
#ifndef KT_CALLS_CONSTRAINT_H
#define KT_CALLS_CONSTRAINT_H

#include "calls/calls.h"

enum { KT__CALL_TRIGGER_BYTES = 128 };

typedef struct kt__call_constraint {
    /* Source of KT__GRAMMAR_PIECES; empty: nothing is to be enforced. */
    kt__buf text;
    /* "": the text is the whole answer. Else it is what follows this; free text may be before it
     * and after the calls, and so may further ones. */
    char trigger[KT__CALL_TRIGGER_BYTES];
    kt__buf notes; /* what is not enforced, a line each */
} kt__call_constraint;

typedef struct kt__call_rules {
    const kt__tools *tools;
    kt__tool_choice choice;
    bool one_call; /* parallel_tool_calls is false */
    /* as in kt__call_options: arguments between tags are held to the tool's parameters, too */
    bool any_spelling;
    /* as in kt__call_options: whether reasoning may come, or has begun */
    const char *prompt_tail;
    size_t prompt_tail_len;
} kt__call_rules;

/* With KT__TOOL_NONE it is any text without what opens a call. A tool whose schema cannot be
 * enforced takes any object, which notes say; if it is strict: KT_E_UNSUPPORTED with the place in
 * the list of tools. Released with kt__call_constraint_free in any case. */
kt_status KT_CHECKED kt__call_constraint_make(const kt__call_style *style,
                                              const kt__call_rules *rules, kt__call_constraint *out,
                                              kt_error *err);
void kt__call_constraint_free(kt__call_constraint *constraint);

#endif
