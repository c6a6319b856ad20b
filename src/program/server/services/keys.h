/* API keys.
 *
 * Owns: the keys of a file or a list and their names, and the comparison, whose time depends on no key.
 * Constant once read; any thread. */
#ifndef KT_SERVICES_KEYS_H
#define KT_SERVICES_KEYS_H

#include <kentang.h>

typedef struct kt__keys kt__keys;

enum { KT__KEY_MAX = 256 };

/* path: a file of lines NAME:KEY or KEY, # comments; list: the same with commas between them; either may
 * be NULL, and *out is NULL where both are. Refuses a file that others may read or write, keys of fewer
 * than 16 characters, and a file or a list without keys. */
kt_status KT_CHECKED kt__keys_read(const char *path, const char *list, kt__keys **out,
                                   kt_error *err);
void kt__keys_free(kt__keys *keys);
/* The name of the key that is given[len], or NULL. Looks at every key to the end. */
const char *kt__keys_find(const kt__keys *keys, const char *given, size_t len);

#endif
