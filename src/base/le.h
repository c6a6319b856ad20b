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

#endif
