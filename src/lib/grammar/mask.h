/* Which tokens may follow a text, for a vocabulary that was prepared.
 *
 * Owns: the vocabulary in the form that masks need, and the set of tokens that a state of a constraint leaves. */
#ifndef KT_GRAMMAR_MASK_H
#define KT_GRAMMAR_MASK_H

#include "grammar/grammar_types.h"

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

/* A vocabulary, prepared: a trie of the tokens' bytes; which tokens a JSON string takes as they are; the tokens that
 * end a string, by what they have after the quote. Made once for a model, in some 200 ms for 150,000 tokens, and
 * about 65 bytes a token. Immutable then: any thread. */

/* The bytes a token puts into a text; *len = 0: none. They are read while the vocabulary is made
 * only. */
typedef struct kt__gvocab_source {
    const char *(*bytes)(void *ctx, int32_t id, size_t *len);
    void *ctx;
    int32_t n_vocab;
} kt__gvocab_source;

/* In depth-first order. */
typedef struct kt__gvnode {
    uint32_t end;        /* of the subtree */
    int32_t token;       /* that ends here, or -1; in a trie of suffixes: a list of tokens, or -1 */
    uint8_t byte, depth; /* of the root's children: 1 */
} kt__gvnode;

typedef struct kt__gvocab {
    int32_t n_vocab;
    uint32_t n_words; /* of 64 bits, of a set of tokens */
    char *bytes;      /* of all tokens */
    uint32_t *begin;  /* [n_vocab + 1] */
    kt__gvnode *nodes;
    uint32_t n_nodes;
    uint64_t *below; /* [n_nodes] kinds of bytes (kt__gvocab_kind) below a node */
    int32_t *same;   /* [n_vocab] the next token of equal bytes, or -1 */
    uint64_t
        *free_; /* tokens that a string without limits takes, up to the quote if there is one */
    uint64_t *quoted;                     /* of those: tokens with a quote that ends the string */
    uint8_t *n_chars;                     /* [n_vocab] characters begun before that, at most 255 */
    int32_t *by_chars, *quoted_by_chars;  /* tokens of free_ and quoted, ascending */
    uint32_t n_by[257], n_quoted_by[257]; /* those with fewer characters */
    kt__gvnode *suffixes;                 /* what comes after the quote */
    uint32_t n_suffixes;
    uint32_t *suffix_begin; /* [lists + 1] */
    int32_t *suffix_tokens;
    int32_t *
        hard; /* tokens of three quotes or of more bytes than a node's depth: tried by themselves */
    uint32_t n_hard;
    int32_t *long_; /* tokens of more than 32 bytes */
    uint32_t n_long;
} kt__gvocab;

kt_status KT_CHECKED kt__gvocab_create(const kt__gvocab_source *source, kt__gvocab **out,
                                       kt_error *err);
void kt__gvocab_free(kt__gvocab *vocab);
size_t kt__gvocab_bytes(const kt__gvocab *vocab);

/* Kinds of bytes: small letters, capitals, digits, every other ASCII character by itself; beyond
 * ASCII, the last bytes of white space and all others; what is not UTF-8. */
enum { KT__GV_CONTROL = 36, KT__GV_HIGH = 37, KT__GV_BLANK = 38, KT__GV_BROKEN = 39 };
static inline uint32_t kt__gvocab_kind(uint8_t b) {
    if (b >= 0x80) return KT__GV_HIGH;
    if (b >= 'a' && b <= 'z') return 0;
    if (b >= 'A' && b <= 'Z') return 1;
    if (b >= '0' && b <= '9') return 2;
    if (b < 0x20 || b == 0x7f) return KT__GV_CONTROL;
    return 3u + b - 0x20u - (b > 'z' ? 62u : b > 'Z' ? 36u : b > '9' ? 10u : 0u);
}

/* White space beyond ASCII, as patterns have it: by its UTF-8 in one word. */
static inline bool kt__gvocab_is_blank(uint32_t utf8) {
    return utf8 == 0xc2a0 || utf8 == 0xe19a80 || (utf8 >= 0xe28080 && utf8 <= 0xe2808a) ||
           utf8 == 0xe280a8 || utf8 == 0xe280a9 || utf8 == 0xe280af || utf8 == 0xe2819f ||
           utf8 == 0xe38080 || utf8 == 0xefbbbf;
}

static inline const char *kt__gvocab_token(const kt__gvocab *v, int32_t id, size_t *len) {
    *len = v->begin[id + 1] - v->begin[id];
    return v->bytes + v->begin[id];
}

/* Masks: the tokens that a state leaves are exactly those that kt__grammar_feed takes. The common states are quick:
 * within a string without limits the tokens are known beforehand but for those that end it; what strings of a pattern
 * take, and sets that took long, are kept in a small cache. As a constraint: one user at a time. */

/* Takes the memory that masks of this vocabulary need (about 32 sets of tokens); the vocabulary
 * outlives the constraint. Before the first mask. */
kt_status KT_CHECKED kt__gmask_attach(kt__grammar *grammar, const kt__gvocab *vocab, kt_error *err);
/* bits[vocab->n_words]: bit id % 64 of word id / 64 is set where the token may follow; of a
 * member's name of any text that comes near KT__GRAMMAR_NAME_BYTES only what ends it. KT_E_LIMIT: the
 * constraint is out of memory or steps. */
kt_status KT_CHECKED kt__gmask_fill(kt__grammar *grammar, const kt__gstate *state, uint64_t *bits,
                                    kt_error *err);

#endif
