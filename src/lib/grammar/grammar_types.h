/* Constraints and states, as those see them who only pass them on.
 *
 * Owns: the names and limits that grammar.h and mask.h share. No functions. */
#ifndef KT_GRAMMAR_GRAMMAR_TYPES_H
#define KT_GRAMMAR_GRAMMAR_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum {
    KT__GRAMMAR_DEPTH = 128,       /* of nested containers in a text */
    KT__GRAMMAR_NAME_BYTES = 1024, /* of a member's name */
    KT__GRAMMAR_NUMBER_CHARS = 40,
    KT__GRAMMAR_BLANKS = 20, /* after a line end, anywhere */
    KT__GRAMMAR_INDENT = 31  /* of the line that a value begins in: a longer one does not count */
};

typedef enum kt__grammar_kind {
    KT__GRAMMAR_SCHEMA,
    KT__GRAMMAR_GBNF,
    KT__GRAMMAR_REGEX,       /* the whole text matches */
    KT__GRAMMAR_CHOICE,      /* one of texts[n_texts] */
    KT__GRAMMAR_JSON_OBJECT, /* any */
    KT__GRAMMAR_PIECES       /* grammar_impl.h */
} kt__grammar_kind;

/* The white space between the parts of JSON. */
typedef enum kt__glayout {
    KT__LAYOUT_USUAL, /* as models write it: layout.c */
    KT__LAYOUT_NONE,
    KT__LAYOUT_ANY /* anywhere, bounded */
} kt__glayout;

typedef struct kt__grammar kt__grammar;

/* How a vocabulary's tokens spell a fixed text; put NULL: as it is. */
struct kt__buf;
typedef struct kt__gmark {
    void (*put)(void *ctx, const char *text, size_t len, struct kt__buf *out);
    void *ctx;
} kt__gmark;

/* Members are grammar's own business; equal bytes are equal states. */
typedef struct kt__gstate {
    uint64_t hash;
    uint8_t mode, lex, blanks, n_text;
    uint32_t value, term, frame, name, used, patterns, chunk, hex;
    /* Of a text of pieces: what follows the value that is being read; what may be in its place. */
    uint32_t rest, other;
    uint8_t text[20];
} kt__gstate;

#endif
