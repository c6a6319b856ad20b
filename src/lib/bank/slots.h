/* Numbers by hash: an open table that only grows.
 *
 * Owns: its slots. One user at a time. */
#ifndef KT_BANK_SLOTS_H
#define KT_BANK_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__slot {
    uint64_t hash;
    uint32_t value; /* + 1; 0: free */
} kt__slot;

typedef struct kt__slots {
    kt__slot *slots; /* [n_slots], a power of two; NULL: empty */
    size_t n_slots, n;
} kt__slots;

void kt__slots_free(kt__slots *slots);
bool kt__slots_find(const kt__slots *slots, uint64_t hash, uint32_t *value);
/* Room for one more; false: no memory, and all is as it was. */
bool kt__slots_reserve(kt__slots *slots);
/* After kt__slots_reserve. A hash that is there gets the new value. */
void kt__slots_put(kt__slots *slots, uint64_t hash, uint32_t value);

#endif
