/* An answer held to a constraint: where its text is, and which tokens may come next.
 *
 * Owns: the state of one answer. It begins with one of the constraint's forms, or, where there are
 * triggers, in free text: any token may come until a trigger has been written, and then only what
 * some form takes. The forms are read side by side until one is left; at its end the answer is
 * over, or continues as it began. Free text may also be held to one value, by the caller's word
 * (kt__held_begin_value), after which it is free again. A token that reaches beyond a form's end is not taken; one that
 * ends a trigger and continues is, where a form takes the rest.
 *
 * Answers under one constraint have one user at a time. No allocation once made. */
#ifndef KT_SAMPLE_HELD_H
#define KT_SAMPLE_HELD_H

#include "sample/constraint.h"

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
/* The bytes that must follow, as far as they fit out[cap] and are no control token's. */
size_t kt__held_forced(kt__held *held, char *out, size_t cap);
/* Tokens of these bytes, at most cap. */
size_t kt__held_forced_tokens(kt__held *held, int32_t *ids, size_t cap);
/* Tokens after which the answer may end, if `id` comes first (-1: from here): their number, and the
 * first cap in ids. SIZE_MAX: none were found. */
size_t kt__held_finish(kt__held *held, int32_t id, int32_t *ids, size_t cap);

#endif
