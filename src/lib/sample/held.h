/* Answers under a constraint: which tokens may come next.
 *
 * Owns: a model's vocabulary prepared for that, a constraint with its forms compiled and its triggers ready to be
 * found, and the state of one answer. A constraint and all answers under it have one user at a time. */
#ifndef KT_SAMPLE_HELD_H
#define KT_SAMPLE_HELD_H

#include "base/buf.h"
#include "grammar/grammar_types.h"
#include "grammar/mask.h"
#include "sample/stops.h"

/* A model's vocabulary: the vocabulary for masks (grammar/mask.h) with control tokens in it, which tokens end an
 * answer, and control tokens' names in a text. Immutable once made: any thread. A control token writes nothing into
 * an answer, but forms see it: as the byte 0xff, which no text has, and its name. */

enum { KT__HELD_MARK = 0xff };

/* Used while the vocabulary is made only. */
typedef struct kt__held_vocab_source {
    /* what a token writes into a text; *len = 0: nothing */
    const char *(*bytes)(void *ctx, int32_t id, size_t *len);
    /* a control token's name; *len = 0: it is none */
    const char *(*name)(void *ctx, int32_t id, size_t *len);
    bool (*ends)(void *ctx, int32_t id); /* an answer */
    void *ctx;
    int32_t n_vocab;
} kt__held_vocab_source;

typedef struct kt__held_vocab {
    kt__gvocab *tokens;
    uint64_t *ends;      /* a set of tokens */
    int32_t *controls;   /* [n_controls] longer names first */
    uint32_t n_controls; /* with names */
} kt__held_vocab;

/* Takes some 200 ms for 150,000 tokens. */
kt_status KT_CHECKED kt__held_vocab_create(const kt__held_vocab_source *source,
                                           kt__held_vocab **out, kt_error *err);
void kt__held_vocab_free(kt__held_vocab *vocab);
size_t kt__held_vocab_bytes(const kt__held_vocab *vocab);
/* The text as forms see it: with 0xff before each name of a control token. */
void kt__held_vocab_mark(const kt__held_vocab *vocab, const char *text, kt__buf *out);

/* Tokens that write the bytes, each the longest that fits: at most cap into ids; the number of all of
 * them, or SIZE_MAX where some bytes have no token. *n_bytes: what those in ids write. */
size_t kt__held_vocab_cut(const kt__held_vocab *vocab, const char *bytes, size_t len, int32_t *ids,
                          size_t cap, size_t *n_bytes);

static inline bool kt__held_vocab_ends(const kt__held_vocab *vocab, int32_t id) {
    return vocab->ends[id / 64] >> id % 64 & 1;
}

/* A constraint: checking a kt_constraint, and what it becomes. */

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

/* The state of one answer. It begins with one of the constraint's forms or, where there are triggers, in free text:
 * any token may come until a trigger has been written, and then only what some form takes. The forms are read side by
 * side until one is left; at its end the answer is over, or continues as it began. The caller may also hold free text
 * to one value (kt__held_begin_value), after which it is free again. A token that reaches beyond a form's end is not
 * taken; one that ends a trigger and continues is, where a form takes the rest. No allocation once made. */

typedef struct kt__held kt__held;

/* The constraint outlives it. */
kt_status KT_CHECKED kt__held_create(kt__constraint *constraint, kt__held **out, kt_error *err);
void kt__held_free(kt__held *held);
bool kt__held_is_free(const kt__held *held); /* every token may come next */
bool kt__held_takes(kt__held *held, int32_t id);
/* masked[n_vocab]: the logit of a token that may come next, else -infinity. KT_E_LIMIT: the
 * constraint is out of memory or steps. */
kt_status KT_CHECKED kt__held_mask(kt__held *held, const float *logits, float *masked,
                                   kt_error *err);
/* A token has come that does not end the answer. */
void kt__held_push(kt__held *held, int32_t id);
/* Free text has come to a place where a value by schema n of the first form, a text of pieces, is
 * what follows, in a line with such an indent, or with `later` its later text n: it began with text[len].
 * Nothing happens where the text is not free, or does not fit. */
void kt__held_begin_value(kt__held *held, uint32_t n, bool later, uint32_t indent, const char *text,
                          size_t len);
bool kt__held_over(const kt__held *held); /* nothing may follow */
/* The bytes that most likely follow (kt__grammar_expected), as far as they fit out[cap] and are no control
 * token's. */
size_t kt__held_expected(kt__held *held, char *out, size_t cap);
/* Its longest tokens, one after the other, at most cap. */
size_t kt__held_cut(const kt__held *held, const char *text, size_t len, int32_t *ids, size_t cap);
/* Whether the tokens' bytes are what text[len] begins with. */
bool kt__held_spells(const kt__held *held, const int32_t *ids, size_t n, const char *text,
                     size_t len);
/* Tokens after which the answer may end, if `id` comes first (-1: from here): their number, and the
 * first cap in ids. SIZE_MAX: none were found. */
size_t kt__held_finish(kt__held *held, int32_t id, int32_t *ids, size_t cap);

#endif
