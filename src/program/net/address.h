/* Which addresses are for the whole internet.
 *
 * Owns: the ranges that are not (RFC 6890), and addresses that carry another one inside. Pure. Any thread. */
#ifndef KT_NET_ADDRESS_H
#define KT_NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Of IPv4 and IPv6; false also of other kinds. */
bool kt__address_is_public(const struct sockaddr *address);
bool kt__address_is_loopback(const struct sockaddr *address);

#endif
