/* API keys.
 *
 * Owns: the keys of a file and their names, and the comparison, whose time depends on no key.
 * Constant once read; any thread. */
#ifndef KT_SERVICES_KEYS_H
#define KT_SERVICES_KEYS_H

#include <kentang.h>

typedef struct kt__keys kt__keys;

enum { KT__KEY_MAX = 256 };

/* Lines NAME:KEY or KEY, # comments. Refuses a file that others may read or write, keys of fewer
 * than 16 characters, and a file without keys. */
kt_status KT_CHECKED kt__keys_read(const char *path, kt__keys **out, kt_error *err);
void kt__keys_free(kt__keys *keys);
/* The name of the key that is given[len], or NULL. Looks at every key to the end. */
const char *kt__keys_find(const kt__keys *keys, const char *given, size_t len);

#endif
