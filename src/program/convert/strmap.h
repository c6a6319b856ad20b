/* A map from strings to numbers.
 *
 * Owns: an open-addressing table over strings that lie elsewhere. Made for vocabularies: built
 * once, read often, never shrunk. One writer; readers of a finished map from any thread. */
#ifndef KT_CONVERT_STRMAP_H
#define KT_CONVERT_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

typedef struct kt__strmap_slot {
    const char *s; /* NULL: empty */
    uint32_t len, hash;
    int64_t value;
} kt__strmap_slot;

typedef struct kt__strmap {
    kt__strmap_slot *slots;
    size_t cap; /* a power of two, at least twice the keys */
    size_t n;
    uint64_t seed;
} kt__strmap;

/* Room for n_max keys; false: no memory. */
bool kt__strmap_init(kt__strmap *map, size_t n_max);
void kt__strmap_free(kt__strmap *map); /* also of a zeroed one */
/* The key's bytes, below 4 GiB, must outlive the map. At most n_max keys.
 * false: the key is there already (its value stays). */
bool kt__strmap_put(kt__strmap *map, kt__str key, int64_t value);
/* -1: absent. */
int64_t kt__strmap_get(const kt__strmap *map, kt__str key);

#endif
