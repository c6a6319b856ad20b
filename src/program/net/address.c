#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

static bool is_public4(uint32_t a) {
    static const struct {
        uint32_t base;
        int bits;
    } not_public[] = {{0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},
                      {0xa9fe0000, 16}, {0xac100000, 12}, {0xc0000000, 24}, {0xc0a80000, 16},
                      {0xc6120000, 15}, {0xe0000000, 4},  {0xf0000000, 4}};
    for (size_t i = 0; i < sizeof not_public / sizeof not_public[0]; i++) {
        if (a >> (32 - not_public[i].bits) == not_public[i].base >> (32 - not_public[i].bits))
            return false;
    }
    return true;
}

static uint32_t tail4(const struct in6_addr *a) {
    const uint8_t *b = a->s6_addr + 12;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Global unicast alone, and not what carries another address inside (6to4, Teredo, NAT64). */
static bool is_public6(const struct in6_addr *a) {
    const uint8_t *b = a->s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a)) return is_public4(tail4(a));
    bool carries = (b[0] == 0x20 && b[1] == 0x02) ||
                   (b[0] == 0x20 && b[1] == 0x01 && !b[2] && !b[3]);
    return (b[0] & 0xe0) == 0x20 && !carries;
}

static const struct in6_addr *six_of(const struct sockaddr *a) {
    return a->sa_family == AF_INET6 ? &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                                    : NULL;
}

static uint32_t four_of(const struct sockaddr *a) {
    return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
}

bool kt__address_is_public(const struct sockaddr *a) {
    const struct in6_addr *six = six_of(a);
    if (!six && a->sa_family != AF_INET) return false;
    return six ? is_public6(six) : is_public4(four_of(a));
}

bool kt__address_is_loopback(const struct sockaddr *a) {
    const struct in6_addr *six = six_of(a);
    if (!six && a->sa_family != AF_INET) return false;
    return six ? IN6_IS_ADDR_LOOPBACK(six) : four_of(a) >> 24 == 127;
}
