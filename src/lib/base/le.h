/* Little-endian numbers in bytes, as files and hashes of kentang have them on every machine.
 *
 * Owns: stores and loads of 1 to 8 bytes, at any alignment. Any thread. */
#ifndef KT_BASE_LE_H
#define KT_BASE_LE_H

#include <stdint.h>

/* The low n_bytes of x. */
static inline void kt__le_put(uint8_t *out, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) out[i] = (uint8_t)(x >> 8 * i);
}

static inline uint64_t kt__le_get(const uint8_t *in, int n_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < n_bytes; i++) x |= (uint64_t)in[i] << 8 * i;
    return x;
}

/* The same at the two widths that are read most, written out so that they compile to one load. */
static inline uint32_t kt__le_get32(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline uint64_t kt__le_get64(const uint8_t *in) {
    return kt__le_get32(in) | (uint64_t)kt__le_get32(in + 4) << 32;
}

/* Hexadecimal digits.
 *
 * Owns: the value of one. Any thread. */

/* Of either case; -1: it is none. */
static inline int kt__hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
