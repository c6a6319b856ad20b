/* Who may ask: Host and Origin headers, keys, content types.
 *
 * Owns: the decisions, as functions of texts. A page in a browser cannot use a local model: its
 * Origin is foreign, its Host is not on the list (DNS rebinding), and JSON needs a preflight that
 * is granted only to the origins of http.cors. Any thread. */
#ifndef KT_SERVICES_ACCESS_H
#define KT_SERVICES_ACCESS_H

#include "setup/config.h"
#include "services/keys.h"

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
