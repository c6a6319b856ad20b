/* SentencePiece's compiled normalisation: prefixes of a text and what they are written as.
 *
 * Owns: the double-array trie of the key precompiled_charsmap, checked so far that no walk and no
 * replacement leaves it. Does not know pieces or spaces. Immutable once built; any thread. */
#ifndef KT_TOKENIZER_CHARSMAP_H
#define KT_TOKENIZER_CHARSMAP_H

#include <kentang.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

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
