/* A constraint, made: its forms compiled, its triggers ready to be found.
 *
 * Owns: checking a kt_constraint and what it becomes. Following an answer through it is held.h's
 * matter. A constraint and all answers under it have one user at a time. */
#ifndef KT_SAMPLE_CONSTRAINT_H
#define KT_SAMPLE_CONSTRAINT_H

#include "grammar/grammar_types.h"
#include "sample/held_vocab.h"
#include "sample/match.h"

enum { KT__FORMS_MAX = 256, KT__TRIGGERS_MAX = 64 };

typedef struct kt__constraint {
    const kt__held_vocab *vocab;
    kt__grammar *forms[KT__FORMS_MAX];
    uint32_t n_forms;
    kt__match *triggers; /* NULL: there are none */
    bool repeat;
    int32_t *reaching; /* [n_reaching] tokens that end a trigger and continue after it */
    uint32_t n_reaching;
    uint64_t *set, *one; /* scratch of a mask: sets of tokens */
} kt__constraint;

/* Errors: kentang.h, kt_constraint. The vocabulary outlives it; the rest is copied. */
kt_status KT_CHECKED kt__constraint_create(const kt_constraint *what, const kt__held_vocab *vocab,
                                           kt__constraint **out, kt_error *err);
void kt__constraint_free(kt__constraint *constraint);
size_t kt__constraint_bytes(const kt__constraint *constraint); /* at most, ever */
/* Its memory is hardly used: it may serve others. */
bool kt__constraint_has_room(const kt__constraint *constraint);

#endif
