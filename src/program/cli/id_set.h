/* Ids that were seen, by their hash.
 *
 * Owns: a set of names that only grows; two names are taken for one with the probability of a
 * collision of 128 bits. Knows nothing of what they name. One thread. */
#ifndef KT_CLI_ID_SET_H
#define KT_CLI_ID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__id_set {
    uint64_t (*slots)[2]; /* [cap], zeros: free */
    size_t n, cap;
} kt__id_set;

bool kt__id_set_has(const kt__id_set *set, const char *id);
/* false: no memory. *was_there may be NULL. */
bool kt__id_set_add(kt__id_set *set, const char *id, bool *was_there);
void kt__id_set_free(kt__id_set *set);

#endif
