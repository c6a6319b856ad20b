/* The nearest known name to a mistyped one, for error messages. Owns: the distance. Any thread. */
#ifndef KT_BASE_NEAREST_H
#define KT_BASE_NEAREST_H

#include <stddef.h>

/* Edits (insert, delete, replace, swap of neighbours; Damerau-Levenshtein, optimal string
 * alignment, case ignored) between a[a_len] and b. Names over 63 bytes are cut. */
size_t kt__name_distance(const char *a, size_t a_len, const char *b);
/* The name of names[n] that name[len] was probably meant to be; NULL when none is close. */
const char *kt__nearest_name(const char *name, size_t len, const char *const *names, size_t n);

#endif
