/* The pieces of a vocabulary in byte order: a walk through a text narrows them byte by byte.
 *
 * Owns: the sorted list of the ids that whole-piece tokenizers (WordPiece, unigram) choose among.
 * Does not know scores or words; the pieces' bytes stay the vocabulary's. Immutable once built; any
 * thread. */
#ifndef KT_TOKENIZER_PIECE_INDEX_H
#define KT_TOKENIZER_PIECE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
