/* Who may ask: Host and Origin headers, keys, content types.
 *
 * Owns: the decisions, as functions of texts. A page in a browser cannot use a local model: its
 * Origin is foreign, its Host is not on the list (DNS rebinding), and JSON needs a preflight that
 * is granted only to the origins of http.cors. Any thread. */
#ifndef KT_SERVICES_ACCESS_H
#define KT_SERVICES_ACCESS_H

#include <kentang.h>

#include "setup/config.h"

/* API keys.
 *
 * Owns: the keys of a file or a list and their names, and the comparison, whose time depends on no key.
 * Constant once read; any thread. */

typedef struct kt__keys kt__keys;

enum { KT__KEY_LEAST = 16, KT__KEY_MAX = 256 }; /* characters; the least where others can listen */

/* path: a file of lines NAME:KEY or KEY, # comments; list: the same with commas between them; either may
 * be NULL, and *out is NULL where both are. Refuses a file that others may read or write, keys of fewer
 * than `least` characters, and a file or a list without keys. */
kt_status KT_CHECKED kt__keys_read(const char *path, const char *list, size_t least, kt__keys **out,
                                   kt_error *err);
/* How long keys must be for a server that listens at http.listen: of any length where only this machine
 * reaches it, since lines written for other servers have short ones, else KT__KEY_LEAST. */
size_t kt__keys_least(const char *listen_at);
bool kt__keys_are_short(
    const kt__keys *keys); /* one has fewer than KT__KEY_LEAST; keys may be NULL */
void kt__keys_free(kt__keys *keys);
/* The name of the key that is given[len], or NULL. Looks at every key to the end. */
const char *kt__keys_find(const kt__keys *keys, const char *given, size_t len);

/* "localhost:8000", "[::1]", "127.0.0.1" and what the configuration lists; address: that is
 * listened on, or NULL. */
bool kt__access_host(const kt__config *config, const char *address, const char *host);
/* "http://localhost:3000" */
bool kt__access_origin(const kt__config *config, const char *address, const char *origin);
/* The origin as http.cors lists it, or NULL: its pages may read answers. */
const char *kt__access_cors(const kt__config *config, const char *origin);
/* No type, or curl's for what it is not told about: no form of a page makes JSON of that type, and
 * its scripts come with an Origin. */
bool kt__access_is_untold(const char *content_type);
/* "application/json", with parameters or without */
bool kt__access_is_json(const char *content_type);
/* "Bearer KEY"; or api_key, as Anthropic's clients send it. NULL: refused; else the key's name. */
const char *kt__access_key(const kt__keys *keys, const char *authorization, const char *api_key);

#endif
