/* Constraints: which texts an answer may be.
 *
 * Owns: compiling a constraint (JSON Schema, a GBNF grammar, a regular expression, a list of texts,
 * any JSON object, a text of pieces: grammar_impl.h) and following a text through it byte by byte. A
 * state is plain data: copying it forks it, assigning an older copy takes bytes back. A constraint
 * owns tables that grow while it is used, up to what was reserved when it was compiled; nothing is
 * allocated afterwards.
 *
 * JSON texts: none has white space after its end. KT__LAYOUT_USUAL: at most one space after a colon
 * or a comma, and, where one is after the bracket that begins a container, before the one that ends
 * it; or a line for each part of a container, indented by the same step at each level, none, up to
 * eight spaces or a tab. KT__LAYOUT_ANY: at each place where white space may be, at most one space,
 * or one line end with at most 20 blanks. Members' names are unique, in any order, and at most 1024
 * bytes; numbers have at most 40 characters, 34 where something is asked of them, and, except with
 * KT__LAYOUT_ANY, no fraction where the schema asks for integers, else one of 15 digits, or as many
 * as their limits need; nesting is at most 128. Where the content of a string is limited, characters
 * that can mean themselves are not written as \u escapes.
 *
 * A constraint and its states have one user at a time. */
#ifndef KT_GRAMMAR_GRAMMAR_H
#define KT_GRAMMAR_GRAMMAR_H

#include "grammar/grammar_types.h"
#include "grammar/schema.h"

typedef struct kt__grammar_source {
    kt__grammar_kind kind;
    const char *text; /* of the first three, and of pieces */
    size_t len;
    const kt__gtext *texts; /* of KT__GRAMMAR_CHOICE */
    size_t n_texts;
    /* Bytes that are around it, any ones. A body that is no JSON text goes as far as it can before
     * `after` begins. */
    kt__gtext before, after;
    kt__glayout layout; /* of JSON */
    bool ordered;       /* of JSON: members in the order of the schema */
    /* Of JSON: objects have no members but declared ones where properties are given and nothing is
     * said of others; where no text fits that, or it is over a limit, they may have others. A schema
     * that no value fits is refused. */
    bool closed;
    kt__gmark mark; /* of KT__GRAMMAR_PIECES */
} kt__grammar_source;

/* KT_E_FORMAT: the source is malformed; KT_E_UNSUPPORTED: it cannot be enforced exactly;
 * KT_E_LIMIT: it is over a stated limit; KT_E_NOMEM. why (may be NULL) has the place within a
 * schema. */
kt_status KT_CHECKED kt__grammar_create(const kt__grammar_source *source, kt__grammar **out,
                                        kt__refusal *why, kt_error *err);
void kt__grammar_free(kt__grammar *grammar);
/* From now on it takes at most so many bytes more than it has by now, of those that are
 * reserved. */
void kt__grammar_limit(kt__grammar *grammar, size_t bytes);
size_t kt__grammar_room(const kt__grammar *grammar); /* what is left of them; 0: it has failed */
/* Bytes reserved for it, all in all; and written so far. */
size_t kt__grammar_bytes(const kt__grammar *grammar);
size_t kt__grammar_bytes_used(const kt__grammar *grammar);
/* What a schema says and does not limit anything by, a line each: unknown formats and such. */
const char *kt__grammar_notes(const kt__grammar *grammar);

void kt__grammar_start(kt__grammar *grammar, kt__gstate *state);
/* Of KT__GRAMMAR_PIECES: a text that begins with a value by schema n of the description, at most one
 * blank before it, in a line that is indented by so many blanks, and continues in any way. False:
 * there is no such schema. */
bool kt__grammar_start_value(kt__grammar *grammar, kt__gstate *state, uint32_t n, uint32_t indent);
/* The same of the description's later texts, after which anything may come. */
bool kt__grammar_start_later(kt__grammar *grammar, kt__gstate *state, uint32_t n);
/* That value is not whole yet. */
bool kt__grammar_in_value(const kt__gstate *state);
/* False: the text may not continue so; *n is then the number of bytes that it took. The state is of
 * no use any more. */
bool kt__grammar_feed(kt__grammar *grammar, kt__gstate *state, const char *bytes, size_t *n);
bool kt__grammar_accepts(kt__grammar *grammar, const kt__gstate *state); /* the text may end */
bool kt__grammar_ended(kt__grammar *grammar, const kt__gstate *state);   /* nothing may follow */
/* The bytes that most likely come next, as far as they fit out[cap]: those that every continuation
 * begins with, and between them blanks as the text's own layout has them; characters of a string are
 * taken to mean themselves. */
size_t kt__grammar_expected(kt__grammar *grammar, const kt__gstate *state, char *out, size_t cap);
/* Bytes after which the text may end: not always the fewest, but nothing that can be left out is
 * begun. False: none were found that fit out[cap]. */
bool kt__grammar_finish(kt__grammar *grammar, const kt__gstate *state, char *out, size_t cap,
                        size_t *n);
/* KT_E_LIMIT once the constraint ran out of its memory or steps: no text fits any more. */
kt_status kt__grammar_status(const kt__grammar *grammar);

#endif
