/* Texts found in texts: the tables that tokenizers walk along a text.
 *
 * Owns: the pieces of a vocabulary in byte order, a trie of special tokens, and SentencePiece's compiled
 * normalisation. Immutable once built; any thread. */
#ifndef KT_TOKENIZER_PIECE_INDEX_H
#define KT_TOKENIZER_PIECE_INDEX_H

#include "gguf/gguf.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pieces of a vocabulary in byte order: a walk through a text narrows them byte by byte. The sorted list has the
 * ids that whole-piece tokenizers (WordPiece, unigram) choose among. Does not know scores or words; the pieces' bytes
 * stay the vocabulary's. */

enum { KT__PIECE_MAX_BYTES = 1024 }; /* of a piece: bounds the work at each position of a text */

typedef struct kt__piece_index {
    const char *bytes;      /* of all tokens */
    const uint32_t *offset; /* token i has bytes offset[i] .. offset[i + 1] */
    uint32_t *ids;          /* [n], by bytes; of equal pieces the last. kt__free */
    size_t n;
    uint32_t first[257]; /* pieces that begin with byte b: first[b] .. first[b + 1] */
} kt__piece_index;

/* bytes, offset, and ids[n] of tokens that are not empty are set: puts them in order. */
void kt__piece_index_sort(kt__piece_index *index);

typedef struct kt__piece_walk {
    const kt__piece_index *index;
    size_t low, high, depth;
} kt__piece_walk;

/* False when no piece continues with this byte; the walk is over then. */
bool kt__piece_index_step(kt__piece_walk *walk, unsigned char byte);
/* The piece that is the bytes walked so far; -1: none is. */
int32_t kt__piece_index_at(const kt__piece_walk *walk);

/* Special tokens in text: the longest one at each position, leftmost first. Does not know what the ids mean beyond
 * one bit: whether a token is always recognised (user-defined) or only on request (control, unknown). */

typedef struct kt__special kt__special;

enum { KT__SPECIAL_MAX_BYTES = 1024 }; /* of a token's text: bounds the work at each position */

typedef struct kt__special_item {
    const char *s; /* copied; not empty */
    size_t len;    /* <= KT__SPECIAL_MAX_BYTES */
    int32_t id;
    bool always;    /* recognised without parse_special */
    uint8_t strips; /* passed on in matches */
} kt__special_item;

typedef struct kt__special_match {
    size_t begin, end;
    int32_t id;
    bool always;
    uint8_t strips;
} kt__special_match;

/* Of items with equal text the last counts. Reorders items. */
kt_status kt__special_new(kt__special_item *items, size_t n, kt__special **out,
                          kt_error *err) KT_CHECKED;
void kt__special_free(kt__special *special);

/* The first match in s[from..len). A token that is not `always` counts only where s[begin..end)
 * lies within one of the ranges [begin, end) of `ranges`, ascending and disjoint; *range is where
 * to start looking in them and is moved on. special may be NULL: no match. */
typedef struct kt__special_range {
    size_t begin, end;
} kt__special_range;
bool kt__special_find(const kt__special *special, const char *s, size_t len, size_t from,
                      const kt__special_range *ranges, size_t n_ranges, size_t *range,
                      kt__special_match *out);

/* SentencePiece's compiled normalisation: prefixes of a text and what they are written as. The double-array trie of
 * the key precompiled_charsmap is checked so far that no walk and no replacement leaves it. Does not know pieces or
 * spaces. */

typedef struct kt__charsmap {
    uint32_t *units; /* [n_units], then the replacements' bytes */
    size_t n_units;
    const char *texts; /* NUL-terminated, one after another */
    size_t texts_len;
} kt__charsmap;

/* data: a u32 with the trie's bytes, the trie, the replacements. Empty data makes a map that
 * changes nothing. */
kt_status kt__charsmap_init(kt__charsmap *map, kt__str data, const char *path,
                            kt_error *err) KT_CHECKED;
void kt__charsmap_free(kt__charsmap *map);
/* The longest prefix of s[len] that is replaced: its length, and what it becomes; 0: none is. */
size_t kt__charsmap_match(const kt__charsmap *map, const char *s, size_t len, kt__str *out);

#endif
