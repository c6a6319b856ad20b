/* One file of another server, into memory, within bounds.
 *
 * Owns: what a URL from a stranger may make this program do: http and https alone, few redirections, no proxy, so
 * many bytes and seconds, and addresses looked at when they are connected to; which addresses are for the whole
 * internet (RFC 6890), also those within others. Any thread. */
#ifndef KT_NET_GET_H
#define KT_NET_GET_H

#include "base/buf.h"

#include <kentang.h>
#include <stdbool.h>
#include <sys/socket.h>

typedef struct kt__get_params {
    const char *purpose; /* what needs it: the beginning of the message where there is no libcurl */
    size_t most_bytes;
    int most_s;
    bool private_net; /* addresses that are not public are allowed */
} kt__get_params;

/* *out is for kt__buf_free, also after failure. KT_E_ARG: no such URL; KT_E_LIMIT: too long; KT_E_DEADLINE;
 * KT_E_IO: it did not come. */
kt_status kt__net_get(const char *url, const kt__get_params *params, kt__buf *out,
                      kt_error *err) KT_CHECKED;

/* Of IPv4 and IPv6; false also of other kinds. */
bool kt__address_is_public(const struct sockaddr *address);
bool kt__address_is_loopback(const struct sockaddr *address);

#endif
